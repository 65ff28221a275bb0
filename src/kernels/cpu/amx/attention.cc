// Attention over a bf16 cache on AMX tiles, for heads of whole tiles. Other heads, and caches of other types, are
// multiplied in float32.
//
// Scores and weighted sums are both products of rows of pairs with a matrix whose rows hold a pair of each column, as
// keys and values lie in scratch anyway. 16 query rows are worked on at once. A score is one chain of tile products
// over 32 values of the head each, ascending; a part of an output one over 32 positions each, at multiples of 32 of the
// partition, where a position that the row does not see has the weight zero.

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

// Each builds on the one before.
// clang-format off
#include "kernels/cpu/amx/tile_config.h"
#include "kernels/cpu/amx/tiles.h"
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/elementwise.h"
#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/attention_widened.h"
#include "kernels/cpu/avx512/bf16_pairs.h"
// clang-format on

static_assert(kTileRows == kScoreRows);
constexpr size_t kSpan = 32;  // bf16 values of a row of a tile

// Sums in tiles 0 to 3, rows of pairs in 4, matrices in 6 and 7.
inline TileConfig config_for(size_t n_rows) {
  return config_of({n_rows, n_rows, n_rows, n_rows, n_rows, 0, kTileRows, kTileRows});
}

// A matrix in scratch: rows of floats, or of pairs.
struct Rows {
  float* data;
  size_t stride;  // floats

  float* at(size_t row, size_t column) const { return data + row * stride + column; }
};

// c = a * b for kWidth times 16 columns and the rows that the tiles are configured for.
template <int kWidth>
inline void multiply_columns(Tiles& tiles, Rows a, Rows b, Rows c, size_t n_steps) {
  const auto step = [&]<int kColumn>(const float* from) __attribute__((always_inline)) {
    tiles.load<6 + kColumn % 2>(from + kColumn * 16, b.stride * sizeof(float));
    tiles.dot_bf16<kColumn, 4, 6 + kColumn % 2>();
  };
  const auto each = [&](auto&& body) __attribute__((always_inline)) {
    body.template operator()<0>();
    if constexpr (kWidth > 1) body.template operator()<1>();
    if constexpr (kWidth > 2) body.template operator()<2>();
    if constexpr (kWidth > 3) body.template operator()<3>();
  };
  each([&]<int kColumn>() __attribute__((always_inline)) { tiles.zero<kColumn>(); });
  for (size_t i = 0; i < n_steps; ++i) {
    tiles.load<4>(a.at(0, i * 16), a.stride * sizeof(float));
    const float* from = b.at(i * 16, 0);
    each([&]<int kColumn>()
             __attribute__((always_inline)) { step.template operator()<kColumn>(from); });
  }
  each([&]<int kColumn>() __attribute__((always_inline)) {
    tiles.store<kColumn>(c.at(0, kColumn * 16), c.stride * sizeof(float));
  });
}

// c[rows, n] = a[rows, n_steps * 32 values] * b, n a multiple of 16.
inline void multiply(Tiles& tiles, Rows a, Rows b, Rows c, size_t n_steps, size_t n) {
  for (size_t column = 0; column < n;) {
    if (n - column >= 64) {
      multiply_columns<4>(tiles, a, b, c, n_steps);
      column += 64, b.data += 64, c.data += 64;
    } else {
      multiply_columns<1>(tiles, a, b, c, n_steps);
      column += 16, b.data += 16, c.data += 16;
    }
  }
}

struct TilePairs : PairsLayout {
  static constexpr size_t kPositionsAhead = 32;
  static constexpr size_t kParameterRows = 0;
  static size_t query_floats(size_t steps) { return steps; }

  static bool takes(const AttentionShape& shape) {
    return shape.type == kCacheBf16 && shape.k_head_dim % kSpan == 0 && shape.v_head_dim % 16 == 0;
  }

  // Values beside the positions in the same span are multiplied by zero.
  static void start_partition(const AttentionWork& w, size_t begin, size_t end) {
    clear_values(w.s.values, w.dv_padded, begin / kSpan * kSpan, begin);
    clear_values(w.s.values, w.dv_padded, end, (end + kSpan - 1) / kSpan * kSpan);
  }

  static void attend(const AttentionWork& w, size_t partition_begin) {
    for (size_t q = 0; q < w.n_q; q += kTileRows)
      attend_rows(w, q, lesser(w.n_q - q, kTileRows), partition_begin);
  }

 private:
  // Positions [begin, end) of values in pairs.
  static void clear_values(float* values, size_t stride, size_t begin, size_t end) {
    for (size_t j = begin; j < end; ++j) {
      uint16_t* row = reinterpret_cast<uint16_t*>(values + j / 2 * stride) + j % 2;
      for (size_t d = 0; d < stride; ++d) row[2 * d] = 0;
    }
  }

  // A row's weights as bf16 in [begin, end), multiples of a span: zero where it sees nothing.
  static void put_row(float* scores, Visible visible, size_t begin, size_t end) {
    uint16_t* out = reinterpret_cast<uint16_t*>(scores);
    if (visible.begin == visible.end) {
      memset(out + begin, 0, (end - begin) * sizeof *out);
      return;
    }
    const size_t first = visible.begin / 16 * 16;
    memset(out + begin, 0, (first - begin) * sizeof *out);
    put_weights(scores, visible);
    const size_t last = round_up_16(visible.end);
    memset(out + last, 0, (end - last) * sizeof *out);
  }

  static void attend_rows(const AttentionWork& w, size_t q, size_t n, size_t partition_begin) {
    Visible visible[kTileRows];
    size_t lowest = kPositionsMax;
    size_t highest = 0;
    for (size_t r = 0; r < n; ++r) {
      visible[r] = visible_of(w, q + r, partition_begin);
      if (visible[r].begin == visible[r].end) continue;
      lowest = lesser(lowest, visible[r].begin);
      highest = greater(highest, visible[r].end);
    }
    if (highest == 0) return;
    Softmax softmax[kTileRows];
    {
      Tiles tiles(config_for(n));
      const size_t first = lowest / 16 * 16;
      multiply(tiles,
               {w.s.q + q * w.q_stride, w.q_stride},
               {w.s.keys + first, kKeyStride},
               {w.s.scores + first, kKeyStride},
               w.dk / kSpan,
               round_up_16(highest) - first);
      const size_t begin = lowest / kSpan * kSpan;
      const size_t end = (highest + kSpan - 1) / kSpan * kSpan;
      for (size_t r = 0; r < n; ++r) {
        float* scores = w.s.scores + r * kKeyStride;
        if (visible[r].begin != visible[r].end)
          softmax[r] = softmax_row(w, q + r, scores, visible[r], partition_begin);
        put_row(scores, visible[r], begin, end);
      }
      add_values(tiles, w, begin, end);
    }
    if (!are_numbers(w, n)) {
      // A zero times what is no number is none either: each row sees its own positions alone.
      for (size_t r = 0; r < n; ++r) add_values_of(w, r, visible[r]);
    }
    for (size_t r = 0; r < n; ++r) {
      if (visible[r].begin != visible[r].end)
        merge_row(w, q + r, w.s.part + r * w.dv_padded, softmax[r]);
    }
  }

  // The parts of all rows over positions [begin, end).
  static void add_values(Tiles& tiles, const AttentionWork& w, size_t begin, size_t end) {
    multiply(tiles,
             {w.s.scores + begin / 2, kKeyStride},
             {w.s.values + begin / 2 * w.dv_padded, w.dv_padded},
             {w.s.part, w.dv_padded},
             (end - begin) / kSpan,
             w.dv_padded);
  }

  static bool are_numbers(const AttentionWork& w, size_t n) {
    Vec::Reg broken = Vec::zero();  // NaN where a value is no number
    for (size_t i = 0; i < n * w.dv_padded; i += Vec::kLanes)
      broken = Vec::fmadd(Vec::load(w.s.part + i), Vec::zero(), broken);
    const float sum = Vec::sum(broken);
    return sum == sum;
  }

  // One row's part, over a copy of the values in which what it does not see is zero.
  static void add_values_of(const AttentionWork& w, size_t r, Visible visible) {
    if (visible.begin == visible.end) return;
    Tiles tiles(config_for(1));
    const size_t begin = visible.begin / kSpan * kSpan;
    const size_t end = (visible.end + kSpan - 1) / kSpan * kSpan;
    const size_t stride = w.dv_padded;
    float* copy = w.s.values + kPositionsMax / 2 * stride;  // pairs take but half of the room
    memcpy(copy, w.s.values + begin / 2 * stride, (end - begin) / 2 * stride * sizeof(float));
    clear_values(copy, stride, 0, visible.begin - begin);
    clear_values(copy, stride, visible.end - begin, end - begin);
    multiply(tiles,
             {w.s.scores + r * kKeyStride + begin / 2, kKeyStride},
             {copy, stride},
             {w.s.part + r * stride, stride},
             (end - begin) / kSpan,
             stride);
  }
};

void attention_tiles(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  if (TilePairs::takes(*shape)) {
    attention_over<TilePairs>(shape, task, scratch);
  } else {
    attention(shape, task, scratch);
  }
}

}  // namespace

void fill_amx_attention(SetOps* ops) {
  ops->vector.attention = attention_tiles;
}

}  // namespace coxswain::kernels
