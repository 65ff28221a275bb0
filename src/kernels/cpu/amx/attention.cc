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
#include "kernels/cpu/amx/attention_rows.h"
// clang-format on

static_assert(kSpan == kTileBytes / sizeof(uint16_t));

struct Bf16Product {
  template <int kColumn>
  static void add(TileUnit tiles) {
    tiles.dot_bf16<kColumn, 4, 5>();
  }
};

struct TilePairs : PairsLayout, AsksAtOnce {
  static constexpr size_t kPositionsAhead = 32;
  static size_t key_rows(size_t steps) { return steps; }
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
    for (size_t q = 0; q < w.n_q; q += kTileRows) {
      const RowsSeen rows = rows_seen(w, q, partition_begin);
      if (rows.highest == 0) continue;
      const size_t first = rows.lowest / 16 * 16;
      multiply<Bf16Product>({w.s.q + q * w.q_stride, w.q_stride},
                            {w.s.keys + first, kKeyStride},
                            {w.s.scores + first, kKeyStride},
                            w.dk / kSpan,
                            round_up_16(rows.highest) - first);
      finish(w, rows, partition_begin);
    }
  }

  // Scores to what the rows have of the partition. They become weights in place, as bf16.
  static void finish(const AttentionWork& w, const RowsSeen& rows, size_t partition_begin) {
    RowsSoftmax softmax(w, rows, partition_begin);
    softmax.weigh([&](size_t r, size_t begin, size_t end, const Power& power) __attribute__((
        always_inline)) { return put_weights(w.s.scores + r * kKeyStride, begin, end, power); });
    for (size_t r = 0; r < rows.n; ++r) {
      uint16_t* const weights = reinterpret_cast<uint16_t*>(w.s.scores + r * kKeyStride);
      rows.for_unseen_spans(
          r, [&](size_t j) __attribute__((always_inline)) {
            _mm512_storeu_si512(weights + j, _mm512_setzero_si512());
          });
    }
    add_values(w, rows.begin(), rows.end());
    if (!are_numbers(w, rows.n)) {
      // A zero times what is no number is none either: each row sees its own positions alone.
      for (size_t r = 0; r < rows.n; ++r) add_values_of(w, r, rows.visible[r]);
    }
    softmax.merge([&](size_t r, size_t d) __attribute__((always_inline)) {
      return Vec::load(w.s.part + r * w.dv_padded + d);
    });
  }

 private:
  // In place: a span is read before its half is written. Returns the sums of lanes.
  static Vec::Reg put_weights(float* scores, size_t begin, size_t end, const Power& power) {
    Vec::Reg even = Vec::zero();
    Vec::Reg odd = Vec::zero();
    uint16_t* const out = reinterpret_cast<uint16_t*>(scores);
    for (size_t j = begin; j < end; j += kSpan) {
      const Vec::Reg a = power.of(Vec::load(scores + j));
      const Vec::Reg b = power.of(Vec::load(scores + j + 16));
      even = Vec::add(even, a);
      odd = Vec::add(odd, b);
      const __m512bh rounded = _mm512_cvtne2ps_pbh(b, a);
      memcpy(out + j, &rounded, sizeof rounded);
    }
    return Vec::add(even, odd);
  }

  // Positions [begin, end) of values in pairs.
  static void clear_values(float* values, size_t stride, size_t begin, size_t end) {
    for (size_t j = begin; j < end; ++j) {
      uint16_t* row = reinterpret_cast<uint16_t*>(values + j / 2 * stride) + j % 2;
      for (size_t d = 0; d < stride; ++d) row[2 * d] = 0;
    }
  }

  // The parts of all rows over positions [begin, end).
  static void add_values(const AttentionWork& w, size_t begin, size_t end) {
    multiply<Bf16Product>({w.s.scores + begin / 2, kKeyStride},
                          {w.s.values + begin / 2 * w.dv_padded, w.dv_padded},
                          {w.s.part, w.dv_padded},
                          (end - begin) / kSpan,
                          w.dv_padded);
  }

  static bool are_numbers(const AttentionWork& w, size_t n) {
    Vec::Reg broken = Vec::zero();  // NaN where a value is no number
    for (size_t i = 0; i < n * w.dv_padded; i += Vec::kLanes)
      broken = Vec::fmadd(Vec::load(w.s.part + i), Vec::zero(), broken);
    return _mm512_cmp_ps_mask(broken, broken, _CMP_UNORD_Q) == 0;
  }

  // One row's part, over a copy of the values in which what it does not see is zero.
  static void add_values_of(const AttentionWork& w, size_t r, Visible visible) {
    if (visible.begin == visible.end) return;
    const size_t begin = visible.begin / kSpan * kSpan;
    const size_t end = (visible.end + kSpan - 1) / kSpan * kSpan;
    const size_t stride = w.dv_padded;
    float* copy = w.s.values + kPositionsMax / 2 * stride;  // pairs take but half of the room
    memcpy(copy, w.s.values + begin / 2 * stride, (end - begin) / 2 * stride * sizeof(float));
    clear_values(copy, stride, 0, visible.begin - begin);
    clear_values(copy, stride, visible.end - begin, end - begin);
    multiply<Bf16Product>({w.s.scores + r * kKeyStride + begin / 2, 0},
                          {copy, stride},
                          {w.s.part + r * stride, 0},
                          (end - begin) / kSpan,
                          stride);
  }
};

// Where query rows are few. Each score is the same chain of products.
struct FewTilePairs : TilePairs {
  static size_t key_rows(size_t) { return 0; }
  static void ask_ahead(const AttentionWork&, Share, size_t) {}

  static void start_partition(const AttentionWork& w, size_t begin, size_t end) {
    TilePairs::start_partition(w, begin, end);
    for (size_t i = 0; i < w.steps; i += kTileRows) {
      Vec::Reg rows[kTileRows];
#pragma GCC unroll 16
      for (size_t r = 0; r < kTileRows; ++r)
        rows[r] = r < w.n_q ? Vec::load(w.s.q + r * w.q_stride + i) : Vec::zero();
      Vec::transpose(rows);
#pragma GCC unroll 16
      for (size_t r = 0; r < kTileRows; ++r) Vec::store(queries(w, i) + r * kTileRows, rows[r]);
    }
  }

  static void put_stretch(const AttentionWork& w, const Stretch& s) {
    multiply_keys(w, s);
    const Share next = share_ahead(w, s.position, kPositionsAhead);
    if (s.count == kTileRows && next.position < w.end) {
      const Ahead ahead(w, next, kTileRows / 2);
      const uint16_t* v = reinterpret_cast<const uint16_t*>(s.v);
      for (size_t i = 0; i < kTileRows; i += 2, v += 2 * w.shape->v_head_dim) {
        ahead.ask(i / 2);
        put_values(w, s.begin + i, v);
      }
    } else {
      prefetch_positions(w, next, s.count);
      put_values_of(w, s);
    }
    put_scores(w, s.begin / kTileRows * kTileRows);
  }

  static void attend(const AttentionWork& w, size_t partition_begin) {
    const RowsSeen rows = rows_seen(w, 0, partition_begin);
    if (rows.highest != 0) finish(w, rows, partition_begin);
  }

 private:
  // The room of keys holds pairs of queries, [step][16 query rows], and scores of 16 positions.
  static float* queries(const AttentionWork& w, size_t step) { return w.s.keys + step * kTileRows; }

  static float* scores_by_position(const AttentionWork& w) { return queries(w, w.steps); }

  // Scores of the 16 positions that the stretch is of: they lie in one block.
  static void multiply_keys(const AttentionWork& w, const Stretch& s) {
    const TileUnit tiles;
    const size_t key_bytes = w.dk * sizeof(uint16_t);
    const char* const keys = s.k - s.begin % kTileRows * key_bytes;
    tiles.zero<7>();
    for (size_t i = 0; i < w.steps; i += kTileRows) {
      tiles.load<5>(keys + i * sizeof(float), key_bytes);
      tiles.load<6>(queries(w, i), kTileBytes);
      tiles.dot_bf16<7, 5, 6>();
    }
    tiles.store<7>(scores_by_position(w), kTileBytes);
  }

  static void put_scores(const AttentionWork& w, size_t first) {
    const float* const from = scores_by_position(w);
    if (w.n_q <= 4) {
      Vec::Reg v[4];
#pragma GCC unroll 4
      for (size_t i = 0; i < 4; ++i) v[i] = _mm512_castsi512_ps(first_4(from, i));
      return turn_scores_of_4(v, w.n_q, w.s.scores + first);
    }
    Vec::Reg rows[kTileRows];
#pragma GCC unroll 16
    for (size_t j = 0; j < kTileRows; ++j) rows[j] = Vec::load(from + j * kTileRows);
    turn_scores(rows, w.n_q, w.s.scores + first);
  }
};

void attention_tiles(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  if (TilePairs::takes(*shape)) {
    const bool few = are_few(*shape, *task);
    const Tiles tiles(config_for(few ? task->n_rows * task->n_heads : kTileRows));
    if (few) {
      attention_over<FewTilePairs>(shape, task, scratch);
    } else {
      attention_over<TilePairs>(shape, task, scratch);
    }
  } else {
    attention(shape, task, scratch);
  }
}

}  // namespace

void fill_amx_attention(SetOps* ops) {
  ops->vector.attention = attention_tiles;
}

}  // namespace coxswain::kernels
