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

#endif  // COXSWAIN_KERNELS_CPU_AMX_CODE_TILES_H_
