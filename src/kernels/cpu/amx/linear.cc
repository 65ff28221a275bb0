// Linear kernels on AMX tiles.
//
// The weights lie as for AVX-512: a step of 64 bytes of k is 16 rows of 256 bytes, of which a tile
// takes 64. Up to 32 rows by 32 outputs are worked on at once (two tiles of activations, two of
// weights, four of sums: one load for each product), or up to 16 rows by 64 outputs. An output is
// one chain of tile products, ascending in k; its row's place in a tile changes nothing.

#include <immintrin.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/amx/tile_config.h"
#include "kernels/cpu/amx/tiles.h"

constexpr size_t kPanelRowBytes = 256;              // one step of k_group values of 64 outputs
constexpr size_t kStepBytes = 16 * kPanelRowBytes;  // of a panel, for 64 bytes of k
constexpr size_t kAccStride = 256;                  // bytes between rows of accumulators
// Of the 2 MiB of second-level cache; a block of weights is 256 KiB.
constexpr uint32_t kChunkBytes = 1U << 20;
constexpr size_t kStreamAhead = 8192;  // bytes ahead of a stream of weights that are asked for

// Asks for this step's share of the next block, which the second-level cache keeps until then; or
// for the bytes that follow in the stream.
struct Ahead {
  const char* next;
  size_t bytes;  // per step
  bool stream;

  explicit Ahead(const TileArgs* t)
      : next(t->prefetch != nullptr ? t->prefetch : static_cast<const char*>(t->w) + kStreamAhead),
        bytes(t->prefetch != nullptr ? 16 * t->prefetch_step : kStepBytes),
        stream(t->prefetch == nullptr) {}
  void step() {
    if (stream) {
      for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(next + i, _MM_HINT_T0);
    } else {
      for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(next + i, _MM_HINT_T1);
    }
    next += bytes;
  }
};

template <int kTile>
inline void start_sum(Tiles& tiles, const TileArgs* t, const char* acc) {
  if (t->first) {
    tiles.zero<kTile>();
  } else {
    tiles.load<kTile>(acc, kAccStride);
  }
}

// Up to 16 rows by the whole panel: sums in tiles 0 to 3, activations in 4, weights in 5 and 6.
template <typename Math>
inline void multiply_16(const TileArgs* t) {
  const size_t rows[kTiles] = {
      t->rows, t->rows, t->rows, t->rows, t->rows, kTileRows, kTileRows, 0};
  const TileConfig config = config_of(rows);
  Tiles tiles(config);
  char* acc = static_cast<char*>(t->acc);
  start_sum<0>(tiles, t, acc);
  start_sum<1>(tiles, t, acc + 64);
  start_sum<2>(tiles, t, acc + 128);
  start_sum<3>(tiles, t, acc + 192);
  const char* a = static_cast<const char*>(t->a);
  const char* w = static_cast<const char*>(t->w);
  Ahead ahead(t);
  for (size_t k = 0; k < t->k; k += Math::kStepValues, a += kTileBytes, w += kStepBytes) {
    ahead.step();
    tiles.load<4>(a, t->a_stride_bytes);
    tiles.load<5>(w, kPanelRowBytes);
    Math::template dot<0, 4, 5>(tiles);
    tiles.load<6>(w + 64, kPanelRowBytes);
    Math::template dot<1, 4, 6>(tiles);
    tiles.load<5>(w + 128, kPanelRowBytes);
    Math::template dot<2, 4, 5>(tiles);
    tiles.load<6>(w + 192, kPanelRowBytes);
    Math::template dot<3, 4, 6>(tiles);
  }
  tiles.store<0>(acc, kAccStride);
  tiles.store<1>(acc + 64, kAccStride);
  tiles.store<2>(acc + 128, kAccStride);
  tiles.store<3>(acc + 192, kAccStride);
}

// 17 to 32 rows by half a panel: sums in tiles 0 to 3, activations in 4 and 5, weights in 6 and 7.
template <typename Math>
inline void multiply_half(Tiles& tiles, const TileArgs* t, size_t half, Ahead* ahead) {
  char* acc = static_cast<char*>(t->acc) + half * 128;
  char* acc_low = acc + kTileRows * kAccStride;
  start_sum<0>(tiles, t, acc);
  start_sum<1>(tiles, t, acc + 64);
  start_sum<2>(tiles, t, acc_low);
  start_sum<3>(tiles, t, acc_low + 64);
  const char* a = static_cast<const char*>(t->a);
  const char* a_low = a + kTileRows * t->a_stride_bytes;
  const char* w = static_cast<const char*>(t->w) + half * 128;
  for (size_t k = 0; k < t->k;
       k += Math::kStepValues, a += kTileBytes, a_low += kTileBytes, w += kStepBytes) {
    if (ahead != nullptr) ahead->step();
    tiles.load<4>(a, t->a_stride_bytes);
    tiles.load<6>(w, kPanelRowBytes);
    Math::template dot<0, 4, 6>(tiles);
    tiles.load<7>(w + 64, kPanelRowBytes);
    Math::template dot<1, 4, 7>(tiles);
    tiles.load<5>(a_low, t->a_stride_bytes);
    Math::template dot<2, 5, 6>(tiles);
    Math::template dot<3, 5, 7>(tiles);
  }
  tiles.store<0>(acc, kAccStride);
  tiles.store<1>(acc + 64, kAccStride);
  tiles.store<2>(acc_low, kAccStride);
  tiles.store<3>(acc_low + 64, kAccStride);
}

template <typename Math>
inline void multiply_32(const TileArgs* t) {
  const size_t low = t->rows - kTileRows;
  const size_t rows[kTiles] = {
      kTileRows, kTileRows, low, low, kTileRows, low, kTileRows, kTileRows};
  const TileConfig config = config_of(rows);
  Tiles tiles(config);
  Ahead ahead(t);
  multiply_half<Math>(tiles, t, 0, &ahead);
  multiply_half<Math>(tiles, t, 1, nullptr);
}

template <typename Math>
inline void tile(const TileArgs* t) {
  if (t->rows > kTileRows) {
    multiply_32<Math>(t);
  } else {
    multiply_16<Math>(t);
  }
}

struct Bf16 {
  static constexpr size_t kStepValues = 32;
  template <int kSum, int kA, int kB>
  static void dot(Tiles& tiles) {
    tiles.dot_bf16<kSum, kA, kB>();
  }
};

struct Int8 {
  static constexpr size_t kStepValues = 64;
  template <int kSum, int kA, int kB>
  static void dot(Tiles& tiles) {
    tiles.dot_u8s8<kSum, kA, kB>();
  }
};

// Sets the fields that say how the tiles want their weights and rows.
template <typename Math>
inline void use_tiles(LinearKernel* kernel) {
  kernel->panel = 64;
  kernel->unit_values = static_cast<uint32_t>(Math::kStepValues / 16);
  kernel->k_multiple = static_cast<uint32_t>(Math::kStepValues);
  kernel->unit_bytes = 4;
  kernel->row_tile = 32;
  kernel->row_unit = 16;
  kernel->k_block = static_cast<uint32_t>(Math::kStepValues * 64);
  kernel->chunk_bytes = kChunkBytes;
  kernel->tile = tile<Math>;
}

}  // namespace

void fill_amx_linear(SetOps* ops) {
  // Activations and results are those of AVX-512. bf16 sums in another order, so every number of
  // rows goes through tiles.
  ops->linear[kFormBfloat16].layout_id = 0x402;
  use_tiles<Bf16>(&ops->linear[kFormBfloat16]);
  // int8 is exact: for a few rows vpdpbusd gives the same bits and reads weights as fast as memory brings them.
  LinearKernel* int8 = &ops->linear[kFormInt8];
  int8->layout_id = 0x404;
  int8->tile_few = int8->tile;
  int8->few_rows = int8->row_tile;
  int8->stream_ahead = 4096;  // gains on the CPUs that have tiles; without them it costs some 7 %
  use_tiles<Int8>(int8);
}

}  // namespace coxswain::kernels
