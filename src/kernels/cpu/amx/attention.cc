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

// A matrix in scratch: rows of floats, or of pairs. A stride of zero makes all rows the same one.
struct Rows {
  float* data;
  size_t stride;  // floats

  float* at(size_t row, size_t column) const { return data + row * stride + column; }
};

// Tiles 0 to 3 hold sums and 4 rows of pairs, for n_rows query rows; 5 a matrix. 6 holds queries and 7 scores where
// keys are the rows.
inline TileConfig config_for(size_t n_rows) {
  return config_of({n_rows, n_rows, n_rows, n_rows, n_rows, kTileRows, kTileRows, kTileRows});
}

// c = a * b for kWidth times 16 columns.
template <int kWidth>
inline void multiply_columns(TileUnit tiles, Rows a, Rows b, Rows c, size_t n_steps) {
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
    each([&]<int kColumn>() __attribute__((always_inline)) {
      tiles.load<5>(from + kColumn * 16, b.stride * sizeof(float));
      tiles.dot_bf16<kColumn, 4, 5>();
    });
  }
  each([&]<int kColumn>() __attribute__((always_inline)) {
    tiles.store<kColumn>(c.at(0, kColumn * 16), c.stride * sizeof(float));
  });
}

// c[rows, n] = a[rows, n_steps * 32 values] * b, n a multiple of 16.
inline void multiply(TileUnit tiles, Rows a, Rows b, Rows c, size_t n_steps, size_t n) {
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

// 2^x for x up to about 0, to about 1 unit in the last place: 2^floor(x) times a polynomial in the rest, fitted to
// the least relative error on [0, 1] with 1 at 0. Zero below -126, where the result would be subnormal; NaN stays NaN.
inline Vec::Reg exp2_of(Vec::Reg x) {
  const Vec::Reg r = _mm512_reduce_ps(x, _MM_FROUND_TO_NEG_INF | _MM_FROUND_NO_EXC);
  Vec::Reg p = Vec::set1(1.86713005e-3F);
  p = Vec::fmadd(p, r, Vec::set1(9.01703071e-3F));
  p = Vec::fmadd(p, r, Vec::set1(5.57999127e-2F));
  p = Vec::fmadd(p, r, Vec::set1(2.40164444e-1F));
  p = Vec::fmadd(p, r, Vec::set1(6.93151295e-1F));
  p = Vec::fmadd(p, r, Vec::set1(1.0F));
  const __mmask16 normal = _mm512_cmp_ps_mask(x, Vec::set1(-126.0F), _CMP_NLT_UQ);
  return _mm512_maskz_scalef_ps(normal, p, x);
}

// Lane r: `kOp` over all lanes of rows[r].
template <Vec::Reg (*kOp)(Vec::Reg, Vec::Reg)>
inline Vec::Reg fold_rows(const float (&rows)[kTileRows][Vec::kLanes]) {
  Vec::Reg v[kTileRows];
#pragma GCC unroll 16
  for (size_t r = 0; r < kTileRows; ++r) v[r] = Vec::load(rows[r]);
  Vec::transpose(v);
#pragma GCC unroll 4
  for (size_t step = 8; step > 0; step /= 2) {
#pragma GCC unroll 8
    for (size_t r = 0; r < step; ++r) v[r] = kOp(v[r], v[r + step]);
  }
  return v[0];
}

// What up to 16 query rows see of a partition.
struct RowsSeen {
  size_t q;  // the first of them
  size_t n;
  Visible visible[kTileRows];
  size_t lowest = kPositionsMax;
  size_t highest = 0;  // 0: nothing

  bool any(size_t r) const { return visible[r].begin != visible[r].end; }
  size_t begin() const { return lowest / kSpan * kSpan; }
  size_t end() const { return (highest + kSpan - 1) / kSpan * kSpan; }
};

inline RowsSeen rows_seen(const AttentionWork& w, size_t q, size_t partition_begin) {
  RowsSeen rows{};
  rows.q = q;
  rows.n = lesser(w.n_q - q, kTileRows);
  for (size_t r = 0; r < rows.n; ++r) {
    rows.visible[r] = visible_of(w, q + r, partition_begin);
    if (!rows.any(r)) continue;
    rows.lowest = lesser(rows.lowest, rows.visible[r].begin);
    rows.highest = greater(rows.highest, rows.visible[r].end);
  }
  return rows;
}

// Softmax of up to 16 query rows over a partition. Scores become weights in place, as bf16, zero where a row sees
// nothing. Powers are of 2; what a row's are relative to is its highest score of the partition.
class RowsSoftmax {
 public:
  RowsSoftmax(const AttentionWork& w, const RowsSeen& rows, size_t partition_begin)
      : w_(w), rows_(rows) {
    const AttentionShape& shape = *w.shape;
    float scale = shape.scale;
    if (shape.soft_cap != 0.0F || shape.alibi_slopes != nullptr || scale <= 0.0F) {
      finish_scores(partition_begin);
      scale = 1.0F;
    }
    find_highest(scale);
    weigh(scale);
  }

  // Takes the parts in: out and total of what came before and of the partition, relative to the higher score.
  void merge() const {
    const AttentionScratch& s = w_.s;
    const __mmask16 lanes = Vec::first_n(rows_.n);
    const Vec::Reg before = _mm512_mask_loadu_ps(Vec::set1(-INFINITY), lanes, s.highest + rows_.q);
    const Vec::Reg fresh = Vec::load(highest_);
    const Vec::Reg top = Vec::max(before, fresh);
    const Vec::Reg shift = shift_of_lanes(top);
    const Vec::Reg keep = exp_of(Vec::sub(before, shift));
    const Vec::Reg take = exp_of(Vec::sub(fresh, shift));
    const Vec::Reg total = _mm512_maskz_loadu_ps(lanes, s.total + rows_.q);
    const Vec::Reg sum = Vec::fmadd(total, keep, Vec::mul(fold_rows<Vec::add>(sums_), take));
    _mm512_mask_storeu_ps(s.highest + rows_.q, lanes, top);
    _mm512_mask_storeu_ps(s.total + rows_.q, lanes, sum);
    float keeps[kTileRows];
    float takes[kTileRows];
    Vec::store(keeps, keep);
    Vec::store(takes, take);
    for (size_t r = 0; r < rows_.n; ++r) {
      if (rows_.any(r)) merge_part(r, Vec::set1(keeps[r]), Vec::set1(takes[r]));
    }
  }

 private:
  static constexpr float kLog2E = 1.44269504F;

  static Vec::Reg shift_of_lanes(Vec::Reg top) {
    return Vec::if_less(Vec::set1(-INFINITY), top, top, nan_or_zero(top));
  }
  // Of what is not above -infinity: zero for that itself, NaN for NaN.
  static Vec::Reg nan_or_zero(Vec::Reg top) {
    return _mm512_maskz_mov_ps(_mm512_cmp_ps_mask(top, top, _CMP_UNORD_Q), top);
  }

  float* scores(size_t r) const { return w_.s.scores + r * kKeyStride; }
  static size_t begin_of(Visible v) { return v.begin / kSpan * kSpan; }
  static size_t end_of(Visible v) { return (v.end + kSpan - 1) / kSpan * kSpan; }

  // What is not the product alone.
  void finish_scores(size_t partition_begin) const {
    const AttentionShape& shape = *w_.shape;
    for (size_t r = 0; r < rows_.n; ++r) {
      const size_t head = w_.task->head + (rows_.q + r) % w_.task->n_heads;
      const float slope = shape.alibi_slopes != nullptr ? shape.alibi_slopes[head] : 0.0F;
      const Visible v = rows_.visible[r];
      for (size_t j = v.begin / 16 * 16; j < v.end; j += 16)
        Vec::store(scores(r) + j,
                   score_of(shape, Vec::load(scores(r) + j), slope, partition_begin + j));
    }
  }

  void find_highest(float scale) {
    float lanes[kTileRows][Vec::kLanes];
    for (size_t r = 0; r < kTileRows; ++r) {
      Vec::Reg top = Vec::set1(-INFINITY);
      if (r < rows_.n && rows_.any(r)) {
        const Visible v = rows_.visible[r];
        hide_others(scores(r), v);
        Vec::Reg odd = top;
        for (size_t j = begin_of(v); j < end_of(v); j += kSpan) {
          top = Vec::max(top, Vec::load(scores(r) + j));
          odd = Vec::max(odd, Vec::load(scores(r) + j + 16));
        }
        top = Vec::max(top, odd);
      }
      Vec::store(lanes[r], top);
    }
    const Vec::Reg top = fold_rows<Vec::max>(lanes);
    Vec::store(highest_, Vec::mul(top, Vec::set1(scale)));
    Vec::store(shifts_, Vec::mul(shift_of_lanes(top), Vec::set1(-scale * kLog2E)));
  }

  // -infinity beside the positions that a row sees, within its spans.
  static void hide_others(float* scores, Visible v) {
    const Vec::Reg nothing = Vec::set1(-INFINITY);
    for (size_t j = begin_of(v); j < v.begin; j += 16)
      Vec::store_n(scores + j, nothing, lesser(v.begin - j, 16));
    for (size_t j = v.end / 16 * 16; j < end_of(v); j += 16) {
      const __mmask16 seen = Vec::first_n(v.end > j ? v.end - j : 0);
      _mm512_mask_storeu_ps(scores + j, _knot_mask16(seen), nothing);
    }
  }

  void weigh(float scale) {
    const Vec::Reg factor = Vec::set1(scale * kLog2E);
    for (size_t r = 0; r < kTileRows; ++r) {
      Vec::Reg sum = Vec::zero();
      if (r < rows_.n) {
        uint16_t* const out = reinterpret_cast<uint16_t*>(scores(r));
        const Visible v = rows_.visible[r];
        const size_t begin = rows_.any(r) ? begin_of(v) : rows_.end();
        const size_t end = rows_.any(r) ? end_of(v) : rows_.end();
        sum = weights_of(scores(r), begin, end, factor, Vec::set1(shifts_[r]));
        for (size_t j = rows_.begin(); j < begin; j += kSpan)
          _mm512_storeu_si512(out + j, _mm512_setzero_si512());
        for (size_t j = end; j < rows_.end(); j += kSpan)
          _mm512_storeu_si512(out + j, _mm512_setzero_si512());
      }
      Vec::store(sums_[r], sum);
    }
  }

  // In place: a span is read before its half is written. Returns the sums of lanes.
  static Vec::Reg weights_of(
      float* scores, size_t begin, size_t end, Vec::Reg factor, Vec::Reg shift) {
    Vec::Reg even = Vec::zero();
    Vec::Reg odd = Vec::zero();
    uint16_t* const out = reinterpret_cast<uint16_t*>(scores);
    for (size_t j = begin; j < end; j += kSpan) {
      const Vec::Reg a = exp2_of(Vec::fmadd(Vec::load(scores + j), factor, shift));
      const Vec::Reg b = exp2_of(Vec::fmadd(Vec::load(scores + j + 16), factor, shift));
      even = Vec::add(even, a);
      odd = Vec::add(odd, b);
      const __m512bh rounded = _mm512_cvtne2ps_pbh(b, a);
      memcpy(out + j, &rounded, sizeof rounded);
    }
    return Vec::add(even, odd);
  }

  void merge_part(size_t r, Vec::Reg keep, Vec::Reg take) const {
    float* const out = w_.s.out + (rows_.q + r) * w_.dv_padded;
    const float* const part = w_.s.part + r * w_.dv_padded;
    for (size_t d = 0; d < w_.dv_padded; d += Vec::kLanes)
      Vec::store(out + d,
                 Vec::fmadd(Vec::load(out + d), keep, Vec::mul(Vec::load(part + d), take)));
  }

  const AttentionWork& w_;
  const RowsSeen& rows_;
  alignas(64) float highest_[kTileRows];  // scores, -infinity where a row sees nothing
  alignas(64) float shifts_[kTileRows];   // of exponents
  alignas(64) float sums_[kTileRows][Vec::kLanes];
};

struct TilePairs : PairsLayout {
  static constexpr size_t kPositionsAhead = 32;
  static size_t key_rows(size_t steps) { return steps; }
  static void ask_ahead(const AttentionWork& w, size_t position, size_t count) {
    prefetch_positions(w, position, count);
  }
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
      multiply(TileUnit(),
               {w.s.q + q * w.q_stride, w.q_stride},
               {w.s.keys + first, kKeyStride},
               {w.s.scores + first, kKeyStride},
               w.dk / kSpan,
               round_up_16(rows.highest) - first);
      finish(w, rows, partition_begin);
    }
  }

  // Scores to what the rows have of the partition.
  static void finish(const AttentionWork& w, const RowsSeen& rows, size_t partition_begin) {
    const RowsSoftmax softmax(w, rows, partition_begin);
    add_values(w, rows.begin(), rows.end());
    if (!are_numbers(w, rows.n)) {
      // A zero times what is no number is none either: each row sees its own positions alone.
      for (size_t r = 0; r < rows.n; ++r) add_values_of(w, r, rows.visible[r]);
    }
    softmax.merge();
  }

 private:
  // Positions [begin, end) of values in pairs.
  static void clear_values(float* values, size_t stride, size_t begin, size_t end) {
    for (size_t j = begin; j < end; ++j) {
      uint16_t* row = reinterpret_cast<uint16_t*>(values + j / 2 * stride) + j % 2;
      for (size_t d = 0; d < stride; ++d) row[2 * d] = 0;
    }
  }

  // The parts of all rows over positions [begin, end).
  static void add_values(const AttentionWork& w, size_t begin, size_t end) {
    multiply(TileUnit(),
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
    multiply(TileUnit(),
             {w.s.scores + r * kKeyStride + begin / 2, 0},
             {copy, stride},
             {w.s.part + r * stride, 0},
             (end - begin) / kSpan,
             stride);
  }
};

// At most 16 query rows, as where sequences decode: laying keys out would take longer than the products. Keys are the
// rows of products where they lie in the cache, queries the matrix, so scores come by position. Each is the same chain.
struct FewTilePairs : TilePairs {
  static size_t key_rows(size_t) { return 0; }
  static constexpr size_t kPositionsAhead = 32;

  static bool takes(const AttentionShape& shape, const AttentionTask& task) {
    return task.n_rows * task.n_heads <= kTileRows && shape.block_tokens % kTileRows == 0;
  }

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

  static void ask_ahead(const AttentionWork&, size_t, size_t) {}

  // What is asked for ahead is asked for in between: all of it at once would hold everything up.
  static void put_stretch(const AttentionWork& w, const Stretch& s) {
    multiply_keys(w, s);
    if (s.count == kTileRows && s.position + kPositionsAhead < w.end) {
      put_all_values(w, s);
    } else {
      prefetch_positions(w, s.position + kPositionsAhead, s.count);
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

  // 16 positions. Keys and values further on are in one block as well.
  static void put_all_values(const AttentionWork& w, const Stretch& s) {
    const size_t dv = w.shape->v_head_dim;
    const size_t key_bytes = w.dk * sizeof(uint16_t);
    const size_t value_bytes = dv * sizeof(uint16_t);
    const size_t ahead = s.position + kPositionsAhead;
    const BlockHead from = block_head(w, ahead);
    const size_t slot = ahead % w.shape->block_tokens;
    const char* k = from.k + slot * key_bytes;
    const char* v = from.v + slot * value_bytes;
    for (size_t i = 0; i < kTileRows; i += 2, k += 2 * key_bytes, v += 2 * value_bytes) {
      prefetch_bytes(k, 2 * key_bytes);
      put_values(w, s.begin + i, reinterpret_cast<const uint16_t*>(s.v) + i * dv);
      prefetch_bytes(v, 2 * value_bytes);
    }
  }

  static void put_scores(const AttentionWork& w, size_t first) {
    const float* const from = scores_by_position(w);
    float* const out = w.s.scores + first;
    if (w.n_q <= 4) return put_scores_of_4(w.n_q, from, out);
    Vec::Reg rows[kTileRows];
#pragma GCC unroll 16
    for (size_t j = 0; j < kTileRows; ++j) rows[j] = Vec::load(from + j * kTileRows);
    Vec::transpose(rows);
#pragma GCC unroll 16
    for (size_t r = 0; r < kTileRows; ++r) {
      if (r < w.n_q) Vec::store(out + r * kKeyStride, rows[r]);
    }
  }

  static void put_scores_of_4(size_t n, const float* from, float* out) {
    Vec::Reg v[4];  // v[i]: positions i, 4 + i, 8 + i and 12 + i
#pragma GCC unroll 4
    for (size_t i = 0; i < 4; ++i) {
      const auto row = [&](size_t j) { return _mm_loadu_ps(from + j * kTileRows); };
      v[i] = _mm512_castps128_ps512(row(i));
      v[i] = _mm512_insertf32x4(v[i], row(4 + i), 1);
      v[i] = _mm512_insertf32x4(v[i], row(8 + i), 2);
      v[i] = _mm512_insertf32x4(v[i], row(12 + i), 3);
    }
    const auto pair = [](Vec::Reg a, Vec::Reg b, bool high) {
      const __m512d x = _mm512_castps_pd(a);
      const __m512d y = _mm512_castps_pd(b);
      return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(x, y) : _mm512_unpacklo_pd(x, y));
    };
    const Vec::Reg low[2] = {_mm512_unpacklo_ps(v[0], v[1]), _mm512_unpacklo_ps(v[2], v[3])};
    const Vec::Reg high[2] = {_mm512_unpackhi_ps(v[0], v[1]), _mm512_unpackhi_ps(v[2], v[3])};
    Vec::store(out, pair(low[0], low[1], false));
    if (n > 1) Vec::store(out + kKeyStride, pair(low[0], low[1], true));
    if (n > 2) Vec::store(out + 2 * kKeyStride, pair(high[0], high[1], false));
    if (n > 3) Vec::store(out + 3 * kKeyStride, pair(high[0], high[1], true));
  }
};

void attention_tiles(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  if (TilePairs::takes(*shape)) {
    const bool few = FewTilePairs::takes(*shape, *task);
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
