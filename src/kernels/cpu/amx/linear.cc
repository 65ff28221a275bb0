// Linear kernels on AMX tiles.
//
// Weights lie in panels of 32 outputs: a step of 64 bytes of k is 16 rows of 128 bytes, of which a tile takes 64. Up to
// 32 rows by 32 outputs are worked on at once: two tiles of activations, two of weights, four of sums, one load for
// each product. An output is one chain of tile products, ascending in k; its row's place in a tile changes nothing.

#include <immintrin.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/amx/tile_config.h"
#include "kernels/cpu/amx/tiles.h"

constexpr size_t kPanelRowBytes = 128;              // one step of k_group values of 32 outputs
constexpr size_t kStepBytes = 16 * kPanelRowBytes;  // of a panel, for 64 bytes of k
constexpr size_t kSumBytes = 1024;                  // of a tile
constexpr size_t kBlockSteps = 8;                   // of k, for many rows: 32 KiB of a panel
// Bytes of weights that are asked for ahead: of a panel that is read once, of each of two.
constexpr size_t kStreamAhead = 2048;
constexpr size_t kPairAhead = 3072;

// What a step asks memory for, in four parts between its tiles. Of a panel that is read once: the bytes that follow.
struct Stream {
  const char* next;

  template <int kPart>
  void ask() {
#pragma GCC unroll 8
    for (size_t i = 0; i < kStepBytes / 4; i += 64)
      _mm_prefetch(next + kPart * (kStepBytes / 4) + i, _MM_HINT_T1);
    if constexpr (kPart == 3) next += kStepBytes;
  }
};
// Of a panel for many rows: its share of a block to come, which the second-level cache keeps until then.
struct Share {
  const char* next;
  size_t lines;

  template <int kPart>
  void ask() {
    for (size_t n = lines * (kPart + 1) / 4 - lines * kPart / 4; n != 0; --n, next += 64)
      _mm_prefetch(next, _MM_HINT_T1);
  }
};

// Sums in tiles 0 to 3, rows in 4 and 5, weights in 6 and 7; 0, 1, 4, 6 and 7 are all that up to 16 rows need.
inline TileConfig config_for(size_t n_rows) {
  const size_t high = n_rows < kTileRows ? n_rows : kTileRows;
  const size_t low = n_rows - high;
  return config_of({high, high, low, low, high, low, kTileRows, kTileRows});
}

// How activations are read: through the first-level cache, or past it where many rows share the weights that lie there.
struct Kept {
  template <int kTile>
  static void load(Tiles& tiles, const char* a, size_t stride) {
    tiles.load<kTile>(a, stride);
  }
};
struct Once {
  template <int kTile>
  static void load(Tiles& tiles, const char* a, size_t stride) {
    tiles.load_once<kTile>(a, stride);
  }
};

template <int kTile>
inline void start_sum(Tiles& tiles, const TileArgs* t, const char* acc) {
  if (t->first) {
    tiles.zero<kTile>();
  } else {
    tiles.load<kTile>(acc + kTile * kSumBytes, kTileBytes);
  }
}

// Up to 16 rows: sums in tiles 0 and 1, activations in 4, weights in 6 and 7.
template <typename Math, typename Rows, typename Ahead>
inline void multiply_16(Tiles& tiles, const TileArgs* t, Ahead& ahead) {
  char* acc = static_cast<char*>(t->acc);
  start_sum<0>(tiles, t, acc);
  start_sum<1>(tiles, t, acc);
  const char* a = static_cast<const char*>(t->a);
  const char* w = static_cast<const char*>(t->w);
  for (size_t k = 0; k < t->k; k += Math::kStepValues, a += kTileBytes, w += kStepBytes) {
    ahead.template ask<0>();
    Rows::template load<4>(tiles, a, t->a_stride_bytes);
    ahead.template ask<1>();
    tiles.load<6>(w, kPanelRowBytes);
    Math::template dot<0, 4, 6>(tiles);
    ahead.template ask<2>();
    tiles.load<7>(w + 64, kPanelRowBytes);
    Math::template dot<1, 4, 7>(tiles);
    ahead.template ask<3>();
  }
  tiles.store<0>(acc, kTileBytes);
  tiles.store<1>(acc + kSumBytes, kTileBytes);
}

// 17 to 32 rows: sums in tiles 0 to 3, activations in 4 and 5, weights in 6 and 7.
template <typename Math, typename Rows, typename Ahead>
inline void multiply_32(Tiles& tiles, const TileArgs* t, Ahead& ahead) {
  char* acc = static_cast<char*>(t->acc);
  start_sum<0>(tiles, t, acc);
  start_sum<1>(tiles, t, acc);
  start_sum<2>(tiles, t, acc);
  start_sum<3>(tiles, t, acc);
  const char* a = static_cast<const char*>(t->a);
  const char* a_low = a + kTileRows * t->a_stride_bytes;
  const char* w = static_cast<const char*>(t->w);
  for (size_t k = 0; k < t->k;
       k += Math::kStepValues, a += kTileBytes, a_low += kTileBytes, w += kStepBytes) {
    ahead.template ask<0>();
    Rows::template load<4>(tiles, a, t->a_stride_bytes);
    tiles.load<6>(w, kPanelRowBytes);
    Math::template dot<0, 4, 6>(tiles);
    ahead.template ask<1>();
    tiles.load<7>(w + 64, kPanelRowBytes);
    Math::template dot<1, 4, 7>(tiles);
    ahead.template ask<2>();
    Rows::template load<5>(tiles, a_low, t->a_stride_bytes);
    Math::template dot<2, 5, 6>(tiles);
    ahead.template ask<3>();
    Math::template dot<3, 5, 7>(tiles);
  }
  tiles.store<0>(acc, kTileBytes);
  tiles.store<1>(acc + kSumBytes, kTileBytes);
  tiles.store<2>(acc + 2 * kSumBytes, kTileBytes);
  tiles.store<3>(acc + 3 * kSumBytes, kTileBytes);
}

// Up to 16 rows by two panels, which share the loads of activations: sums in tiles 0 to 3, activations in 4, weights in
// 5 to 7. With one panel at a time these loads take what the stream of weights needs to arrive.
template <typename Math>
inline void multiply_pair(Tiles& tiles, const TileArgs* t) {
  tiles.zero<0>();
  tiles.zero<1>();
  tiles.zero<2>();
  tiles.zero<3>();
  const char* a = static_cast<const char*>(t->a);
  const char* w = static_cast<const char*>(t->w);
  const char* low = w + t->panel_bytes;
  Stream stream{w + kPairAhead};
  Stream low_stream{low + kPairAhead};
  for (size_t k = 0; k < t->k; k += Math::kStepValues, a += kTileBytes) {
    stream.ask<0>();
    stream.ask<1>();
    tiles.load<4>(a, t->a_stride_bytes);
    tiles.load<5>(w, kPanelRowBytes);
    Math::template dot<0, 4, 5>(tiles);
    stream.ask<2>();
    stream.ask<3>();
    tiles.load<6>(w + 64, kPanelRowBytes);
    Math::template dot<1, 4, 6>(tiles);
    low_stream.ask<0>();
    low_stream.ask<1>();
    tiles.load<7>(low, kPanelRowBytes);
    Math::template dot<2, 4, 7>(tiles);
    low_stream.ask<2>();
    low_stream.ask<3>();
    tiles.load<5>(low + 64, kPanelRowBytes);
    Math::template dot<3, 4, 5>(tiles);
    w += kStepBytes;
    low += kStepBytes;
  }
  char* acc = static_cast<char*>(t->acc);
  char* acc_low = acc + t->acc_bytes;
  tiles.store<0>(acc, kTileBytes);
  tiles.store<1>(acc + kSumBytes, kTileBytes);
  tiles.store<2>(acc_low, kTileBytes);
  tiles.store<3>(acc_low + kSumBytes, kTileBytes);
}

// Up to 16 rows by all panels, two at a time.
template <typename Math>
inline void multiply_few(const TileArgs* all) {
  const size_t n = all->rows;
  const TileConfig config = config_of({n, n, n, n, n, kTileRows, kTileRows, kTileRows});
  Tiles tiles(config);
  TileArgs t = *all;
  for (size_t left = all->n_panels; left >= 2; left -= 2) {
    multiply_pair<Math>(tiles, &t);
    t.w = static_cast<const char*>(t.w) + 2 * t.panel_bytes;
    t.acc = static_cast<char*>(t.acc) + 2 * t.acc_bytes;
  }
  if (all->n_panels % 2 == 0) return;
  Stream stream{static_cast<const char*>(t.w) + kStreamAhead};
  multiply_16<Math, Kept>(tiles, &t, stream);
}

// 17 to 32 rows by all panels.
template <typename Math>
inline void multiply_some(const TileArgs* all) {
  const TileConfig config = config_for(all->rows);
  Tiles tiles(config);
  TileArgs t = *all;
  for (size_t i = 0; i < all->n_panels; ++i) {
    Stream stream{static_cast<const char*>(t.w) + kStreamAhead};
    multiply_32<Math, Kept>(tiles, &t, stream);
    t.w = static_cast<const char*>(t.w) + t.panel_bytes;
    t.acc = static_cast<char*>(t.acc) + t.acc_bytes;
  }
}

// More than 32 rows by a block of a panel, 32 KiB, which stays in the first-level cache while all rows pass; their sums
// go through memory to the next block. Each tile asks for its share of the block that comes next.
template <typename Math>
inline void multiply_many(const TileArgs* all) {
  constexpr size_t kRows = 2 * kTileRows;
  const size_t whole = all->rows / kRows * kRows;
  const size_t rest = all->rows - whole;
  const size_t n_tiles = (all->rows + kRows - 1) / kRows;
  Share share{all->prefetch, (kStepBytes / n_tiles + 63) / 64};
  const TileConfig of_whole = config_for(kRows);
  Tiles tiles(of_whole);
  TileArgs t = *all;
  for (size_t row = 0; row < whole; row += kRows) {
    multiply_32<Math, Once>(tiles, &t, share);
    t.a = static_cast<const char*>(t.a) + kRows * t.a_stride_bytes;
    t.acc = static_cast<char*>(t.acc) + 4 * kSumBytes;
  }
  if (rest == 0) return;
  const TileConfig of_rest = config_for(rest);
  tiles.configure(of_rest);
  if (rest > kTileRows) {
    multiply_32<Math, Once>(tiles, &t, share);
  } else {
    multiply_16<Math, Once>(tiles, &t, share);
  }
}

template <typename Math>
void chunk(const TileArgs* t) {
  if (t->rows > 2 * kTileRows) {
    multiply_many<Math>(t);
  } else if (t->rows > kTileRows) {
    multiply_some<Math>(t);
  } else {
    multiply_few<Math>(t);
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
  kernel->panel = 32;
  kernel->unit_values = static_cast<uint32_t>(Math::kStepValues / 16);
  kernel->k_multiple = static_cast<uint32_t>(Math::kStepValues);
  kernel->unit_bytes = 4;
  kernel->row_tile = 2 * kTileRows;
  kernel->k_block = static_cast<uint32_t>(kBlockSteps * Math::kStepValues);
  kernel->chunk_rows = 512;
  kernel->tile = nullptr;
  kernel->chunk = chunk<Math>;
  kernel->tiled = true;
}

}  // namespace

void fill_amx_linear(SetOps* ops) {
  // Activations and results are those of AVX-512. bf16 sums in another order, so every number of
  // rows goes through tiles.
  ops->linear[kFormBfloat16].layout_id = 0x403;
  use_tiles<Bf16>(&ops->linear[kFormBfloat16]);
  ops->linear[kFormInt8].layout_id = 0x405;
  use_tiles<Int8>(&ops->linear[kFormInt8]);
}

}  // namespace coxswain::kernels
