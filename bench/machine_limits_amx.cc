#include <immintrin.h>
#include <stddef.h>
#include <stdint.h>

#include "machine_limits_simd.h"

namespace coxswain::bench {
namespace {

#include "kernels/cpu/amx/tile_config.h"

// All tiles as large as they can be, and zero.
void configure() {
  TileConfig config;
  for (size_t i = 0; i < kTiles; ++i) {
    config.row_bytes[i] = kTileBytes;
    config.rows[i] = kTileRows;
  }
  load_tile_config(config);
  _tile_zero(0);
  _tile_zero(1);
  _tile_zero(2);
  _tile_zero(3);
  _tile_zero(4);
  _tile_zero(5);
  _tile_zero(6);
  _tile_zero(7);
}

}  // namespace

double spin_int8_amx(size_t rounds) {
  configure();
  for (size_t i = 0; i < rounds; ++i) {
    _tile_dpbusd(0, 4, 6);
    _tile_dpbusd(1, 4, 7);
    _tile_dpbusd(2, 5, 6);
    _tile_dpbusd(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 64 * 2;
}

double spin_bf16_amx(size_t rounds) {
  configure();
  for (size_t i = 0; i < rounds; ++i) {
    _tile_dpbf16ps(0, 4, 6);
    _tile_dpbf16ps(1, 4, 7);
    _tile_dpbf16ps(2, 5, 6);
    _tile_dpbf16ps(3, 5, 7);
  }
  _tile_release();
  return static_cast<double>(rounds) * 4 * 16 * 16 * 32 * 2;
}

}  // namespace coxswain::bench
