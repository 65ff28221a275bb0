#ifndef COXSWAIN_KERNELS_CPU_AMX_CODE_TILES_H_
#define COXSWAIN_KERNELS_CPU_AMX_CODE_TILES_H_
// What the kernels for codes on tiles share. Included inside an anonymous namespace of coxswain::kernels, as
// tiles.h is, after "kernels/cpu/ops.h".

#include "kernels/cpu/amx/tile_config.h"

constexpr size_t kPanel = 64;
constexpr size_t kVectors = 4;
constexpr size_t kAccStride = kPanel * sizeof(float);
// Codes become bytes once for all rows of a call, a third of the work of 64 rows. So chunks are of as many rows
// as there may be, even where they leave the second-level cache: with fewer 8,192 inputs are a fifth slower.
constexpr uint32_t kRowTile = 512;

// Layout, activations and results are those of AVX-512, as is the way of up to few_rows rows, which vpdpbusd multiplies
// in less time than it takes to make bytes for tiles.
inline void use_code_tiles(LinearKernel* kernel, void (*tile)(const TileArgs*), uint32_t few_rows) {
  kernel->tile_few = kernel->tile;
  kernel->few_rows = few_rows;
  kernel->few_tile = kernel->row_tile;
  kernel->row_tile = kRowTile;
  kernel->row_unit = kTileRows;
  kernel->k_block = 2048;
  kernel->chunk_rows = kRowTile;
  kernel->tile = tile;
}

// Codes to come, which are asked for a few lines at a time while tiles have others: all at once they would wait for
// memory. A tile call has all rows that share the panel, so what comes next is what lies behind.
struct CodesAhead {
  const uint8_t* next;
  const uint8_t* end;
  size_t lines;  // an ask

  // `bytes` from `from` on, in n_asks parts.
  CodesAhead(const uint8_t* from, size_t bytes, size_t n_asks)
      : next(from), end(from + bytes), lines((bytes / 64 + n_asks - 1) / n_asks) {}

  void ask() {
    for (size_t n = lines; n != 0 && next < end; --n, next += 64) _mm_prefetch(next, _MM_HINT_T1);
  }
};

#endif  // COXSWAIN_KERNELS_CPU_AMX_CODE_TILES_H_
