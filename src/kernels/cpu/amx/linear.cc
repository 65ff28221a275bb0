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
// Bytes of weights that are asked for ahead: of a panel that is read once, of each of two, of one for many rows.
constexpr size_t kStreamAhead = 8192;
constexpr size_t kPairAhead = 3072;
constexpr size_t kShareAhead = 24576;

// What a step asks memory for. Of a panel that is read once: the bytes that follow.
struct Stream {
  const char* next;

  void step() {
    for (size_t i = 0; i < kStepBytes; i += 64) _mm_prefetch(next + i, _MM_HINT_T0);
    next += kStepBytes;
  }
};
// Of a panel for many rows: its share of a block to come, which the second-level cache keeps until then.
struct Share {
  const char* next;
  size_t bytes;

  void step() {
    for (size_t i = 0; i < bytes; i += 64) _mm_prefetch(next + i, _MM_HINT_T1);
    next += bytes;
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
    ahead.step();
    Rows::template load<4>(tiles, a, t->a_stride_bytes);
    tiles.load<6>(w, kPanelRowBytes);
    Math::template dot<0, 4, 6>(tiles);
    tiles.load<7>(w + 64, kPanelRowBytes);
    Math::template dot<1, 4, 7>(tiles);
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
    ahead.step();
    Rows::template load<4>(tiles, a, t->a_stride_bytes);
    tiles.load<6>(w, kPanelRowBytes);
    Math::template dot<0, 4, 6>(tiles);
    tiles.load<7>(w + 64, kPanelRowBytes);
    Math::template dot<1, 4, 7>(tiles);
    Rows::template load<5>(tiles, a_low, t->a_stride_bytes);
    Math::template dot<2, 5, 6>(tiles);
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
inline void multiply_pair(const TileArgs* t) {
  const size_t n = t->rows;
  const TileConfig config = config_of({n, n, n, n, n, kTileRows, kTileRows, kTileRows});
  Tiles tiles(config);
  tiles.zero<0>();
  tiles.zero<1>();
  tiles.zero<2>();
  tiles.zero<3>();
  const char* a = static_cast<const char*>(t->a);
  const char* w = static_cast<const char*>(t->w);
  const char* low = w + t->next_panel;
  Stream stream{w + kPairAhead};
  Stream low_stream{low + kPairAhead};
  for (size_t k = 0; k < t->k; k += Math::kStepValues, a += kTileBytes) {
    stream.step();
    low_stream.step();
    tiles.load<4>(a, t->a_stride_bytes);
    tiles.load<5>(w, kPanelRowBytes);
    Math::template dot<0, 4, 5>(tiles);
    tiles.load<6>(w + 64, kPanelRowBytes);
    Math::template dot<1, 4, 6>(tiles);
    tiles.load<7>(low, kPanelRowBytes);
    Math::template dot<2, 4, 7>(tiles);
    tiles.load<5>(low + 64, kPanelRowBytes);
    Math::template dot<3, 4, 5>(tiles);
    w += kStepBytes;
    low += kStepBytes;
  }
  char* acc = static_cast<char*>(t->acc);
  char* acc_low = acc + t->next_acc;
  tiles.store<0>(acc, kTileBytes);
  tiles.store<1>(acc + kSumBytes, kTileBytes);
  tiles.store<2>(acc_low, kTileBytes);
  tiles.store<3>(acc_low + kSumBytes, kTileBytes);
}

template <typename Math>
inline void multiply_few(const TileArgs* t) {
  const TileConfig config = config_for(t->rows);
  Tiles tiles(config);
  Stream stream{static_cast<const char*>(t->w) + kStreamAhead};
  if (t->rows > kTileRows) {
    multiply_32<Math, Kept>(tiles, t, stream);
  } else {
    multiply_16<Math, Kept>(tiles, t, stream);
  }
}

// More than 32 rows by a panel. A block of it, 32 KiB, stays in the first-level cache while all rows pass; their sums
// go through memory to the next block. Those of up to kNearRows rows fit beside blocks of 16 KiB: a fifth faster.
template <typename Math>
inline void multiply_many(const TileArgs* all) {
  constexpr size_t kRows = 2 * kTileRows;
  constexpr size_t kNearRows = 256;
  const bool is_near = Math::kNearFrom <= all->rows && all->rows <= kNearRows;
  const size_t n_steps = is_near ? 8 : 16;
  const size_t block = n_steps * Math::kStepValues;
  const size_t whole = all->rows / kRows * kRows;
  const size_t rest = all->rows - whole;
  const TileConfig of_whole = config_for(kRows);
  const TileConfig of_rest = config_for(rest);
  const size_t n_tiles = (all->rows + kRows - 1) / kRows;
  Share share{static_cast<const char*>(all->w) + kShareAhead,
              (kStepBytes / n_tiles + 63) / 64 * 64};
  Tiles tiles(of_whole);
  TileArgs t = *all;
  for (size_t k = 0; k < all->k; k += block) {
    t.k = all->k - k < block ? all->k - k : block;
    t.first = k == 0;
    t.a = static_cast<const char*>(all->a) + k / Math::kStepValues * kTileBytes;
    t.acc = all->acc;
    if (rest != 0 && k != 0) tiles.configure(of_whole);
    for (size_t row = 0; row < whole; row += kRows) {
      multiply_32<Math, Once>(tiles, &t, share);
      t.a = static_cast<const char*>(t.a) + kRows * t.a_stride_bytes;
      t.acc = static_cast<char*>(t.acc) + 4 * kSumBytes;
    }
    if (rest != 0) {
      tiles.configure(of_rest);
      if (rest > kTileRows) {
        multiply_32<Math, Once>(tiles, &t, share);
      } else {
        multiply_16<Math, Once>(tiles, &t, share);
      }
    }
    t.w = static_cast<const char*>(t.w) + n_steps * kStepBytes;
  }
}

template <typename Math>
void chunk(const TileArgs* t) {
  if (t->rows > 2 * kTileRows) {
    multiply_many<Math>(t);
  } else if (t->next_panel != 0) {
    multiply_pair<Math>(t);
  } else {
    multiply_few<Math>(t);
  }
}

struct Bf16 {
  static constexpr size_t kStepValues = 32;
  // What rows of a chunk may take of the 2 MiB of the second-level cache: 256 rows where k is 2,048, measured.
  static constexpr uint32_t kChunkBytes = 1600000;
  // Rows from which blocks of 16 KiB are the faster ones.
  static constexpr size_t kNearFrom = 97;
  template <int kSum, int kA, int kB>
  static void dot(Tiles& tiles) {
    tiles.dot_bf16<kSum, kA, kB>();
  }
};

struct Int8 {
  static constexpr size_t kStepValues = 64;
  static constexpr uint32_t kChunkBytes = 1060000;
  static constexpr size_t kNearFrom = 33;
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
  kernel->row_tile = 32;
  kernel->chunk_bytes = Math::kChunkBytes;
  kernel->tile = nullptr;
  kernel->chunk = chunk<Math>;
  kernel->pair_rows = kTileRows;
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
