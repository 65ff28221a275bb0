#include <immintrin.h>
#include <stdint.h>
#include <string.h>

#include "machine_limits_simd.h"

namespace coxswain::bench {
namespace {

// Intel SDM volume 1, chapter 18: palette 1, eight tiles of 16 rows of 64 bytes.
struct alignas(64) TileConfig {
  uint8_t palette;
  uint8_t start_row;
  uint8_t reserved[14];
  uint16_t row_bytes[16];
  uint8_t rows[16];
};

void configure() {
  TileConfig config;
  memset(&config, 0, sizeof config);
  config.palette = 1;
  for (int i = 0; i < 8; ++i) {
    config.row_bytes[i] = 64;
    config.rows[i] = 16;
  }
  asm volatile("" ::: "memory");  // g++ 12 thinks the next instruction reads 8 bytes
  _tile_loadconfig(&config);
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
