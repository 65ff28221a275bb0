// Attention over a cache of codes of 8 or 4 bits on AMX tiles, four products a lane, exact.
//
// Queries, and weights times the scales of their values, are integers of 16 bits in two bytes, as in
// avx512/attention_codes.cc, and so are the sums of products of them: one matrix of upper and one of lower bytes, or
// both in one where rows are few.

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
#include "kernels/cpu/avx512/code_rows.h"
#include "kernels/cpu/amx/attention_rows.h"
// clang-format on

constexpr size_t kCodesSpan = kTileBytes;  // codes of a row of a tile
constexpr size_t kPlanes = 2;              // of bytes, the upper and the lower
constexpr size_t kSpanFloats = kTileBytes / sizeof(float);

// Lower bytes are stored so that upper * 256 + lower is the integer, both with sign.
inline void put_bytes(uint8_t* upper, uint8_t* lower, Vec::Reg value, __mmask16 lanes) {
  const __m512i integer = _mm512_cvtps_epi32(value);
  const __m512i raised = _mm512_add_epi32(integer, _mm512_set1_epi32(128));
  _mm512_mask_cvtepi32_storeu_epi8(upper, lanes, _mm512_srai_epi32(raised, 8));
  _mm512_mask_cvtepi32_storeu_epi8(lower, lanes, integer);
}

struct CodesProduct {
  template <int kColumn>
  static void add(TileUnit tiles) {
    tiles.dot_s8u8<kColumn, 4, 5>();
  }
};

template <CacheType kType>
struct CodeTiles : CodesLayout<kType>, AsksAtOnce {
  using Layout = CodesLayout<kType>;
  static constexpr size_t kPositionsAhead = 64;

  static size_t key_rows(size_t) { return 0; }
  static void start_partition(const AttentionWork&, size_t, size_t) {}

  static size_t spans(size_t n) { return (n + kCodesSpan - 1) / kCodesSpan; }
  // A query row is its upper bytes and its lower, each whole rows of a tile, then its unit and the sum of its integers.
  static size_t plane_floats(size_t dk) { return kSpanFloats * spans(dk); }
  static size_t query_floats(size_t steps) {
    return kPlanes * plane_floats(steps * Layout::kStep) + kSpanFloats;
  }

  static void put_query(float* dst, const float* x, size_t dk) {
    float* const unit = dst + kPlanes * plane_floats(dk);
    const float inverse = inverse_of_row(x, dk, unit);
    uint8_t* const upper = reinterpret_cast<uint8_t*>(dst);
    uint8_t* const lower = upper + spans(dk) * kCodesSpan;
    memset(upper, 0, kPlanes * spans(dk) * kCodesSpan);
    __m512i sum = _mm512_setzero_si512();
    for_vectors(dk, [&](size_t i, size_t n) {
      const Vec::Reg value = Vec::mul(Vec::load_n(x + i, n), Vec::set1(inverse));
      sum = _mm512_add_epi32(sum, _mm512_cvtps_epi32(value));
      put_bytes(upper + i, lower + i, value, Vec::first_n(n));
    });
    unit[1] = static_cast<float>(_mm512_reduce_add_epi32(sum));
  }

  static void attend(const AttentionWork& w, size_t partition_begin) {
    for (size_t q = 0; q < w.n_q; q += kTileRows) {
      const RowsSeen rows = rows_seen(w, q, partition_begin);
      if (rows.highest == 0) continue;
      multiply_queries(w, rows);
      finish(
          w, rows, partition_begin, [&](size_t r, size_t j) __attribute__((always_inline)) {
            const float* const upper = w.s.scores + r * kKeyStride + j;
            return joined(_mm512_loadu_si512(upper), _mm512_loadu_si512(low_scores(w, r) + j));
          });
    }
  }

 protected:
  // Upper and lower bytes of all query rows fill one tile at most. Weights are its rows in turn then, as they lie in
  // memory, and so are their sums.
  static bool in_one_tile(size_t n_q) { return kPlanes * n_q <= kTileRows; }

  static const float* query(const AttentionWork& w, size_t q) { return w.s.q + q * w.q_stride; }

  // `sums`(r, j): the products of row r with 16 positions from j on.
  template <typename Sums>
  static void finish(const AttentionWork& w,
                     const RowsSeen& rows,
                     size_t partition_begin,
                     const Sums& sums) {
    const float* const scales = Layout::parameters(w);
    RowsSoftmax softmax(
        w, rows, partition_begin, [&](size_t r, size_t j) __attribute__((always_inline)) {
          const float* const unit = query(w, rows.q + r) + kPlanes * plane_floats(w.dk);
          // The unit last: it may be huge.
          const Vec::Reg zeros = Vec::mul(Vec::load(scales + kKeyStride + j), Vec::set1(unit[1]));
          const Vec::Reg sum = Vec::fmadd(Vec::load(scales + j), sums(r, j), zeros);
          return Vec::mul(sum, Vec::set1(unit[0]));
        });
    Weights weights(w, rows);
    softmax.weigh([&](size_t r, size_t begin, size_t end, const Power& power) __attribute__((
        always_inline)) { return weights.scale(r, begin, end, power); });
    weights.round();
    multiply_values(w, rows);
    softmax.merge([&](size_t r, size_t d) __attribute__((always_inline)) {
      const Parts parts = parts_of(w);
      const size_t i = r * parts.stride + d;
      return weights.value(
          r, joined(_mm512_loadu_si512(parts.upper + i), _mm512_loadu_si512(parts.lower + i)));
    });
  }

 private:
  // Of positions, for steps of values of whole rows of a tile.
  static size_t first_of(const RowsSeen& rows) { return rows.lowest / kCodesSpan * kCodesSpan; }
  static size_t last_of(const RowsSeen& rows) { return spans(rows.highest) * kCodesSpan; }

  // Sums of lower bytes beside those of upper ones, which lie where scores and parts will.
  static float* low_scores(const AttentionWork& w, size_t r) { return w.s.spare + r * kKeyStride; }
  // Sums of weights times codes; floats from one row to the next.
  struct Parts {
    float* upper;
    float* lower;
    size_t stride;
  };
  static Parts parts_of(const AttentionWork& w) {
    if (in_one_tile(w.n_q)) return {w.s.part, w.s.part + w.dv_padded, kPlanes * w.dv_padded};
    // Codes take but a quarter of the room of values.
    return {w.s.part, w.s.values + kPositionsMax / Layout::kStep * w.dv_padded, w.dv_padded};
  }
  // Weights as bytes of each row: the upper of all positions, then the lower.
  static constexpr size_t kWeightsStride = kPlanes * kPositionsMax;
  static uint8_t* weight_bytes(const AttentionWork& w, size_t r) {
    return reinterpret_cast<uint8_t*>(w.s.spare + kScoreRows * kKeyStride) + r * kWeightsStride;
  }

  // A row's e^(score - highest) times the scales of values, as integers of a unit, and times their zeros as one sum.
  class Weights {
   public:
    Weights(const AttentionWork& w, const RowsSeen& rows) : w_(w), rows_(rows) {}

    // Puts them in place of scores, not rounded yet. Returns the sums of weights by lanes.
    Vec::Reg scale(size_t r, size_t begin, size_t end, const Power& power) {
      const Visible seen = rows_.visible[r];
      Vec::Reg sum = Vec::zero();
      Vec::Reg zeros = Vec::zero();
      Vec::Reg greatest = Vec::zero();
      float* const scores = w_.s.scores + r * kKeyStride;
      const float* const scales = Layout::parameters(w_) + 2 * kKeyStride;
      const auto put = [&](size_t j, __mmask16 lanes) __attribute__((always_inline)) {
        const Vec::Reg weight = power.of(Vec::load(scores + j));
        const Vec::Reg scaled = _mm512_maskz_mul_ps(lanes, weight, Vec::load(scales + j));
        sum = Vec::add(sum, weight);
        zeros = _mm512_mask3_fmadd_ps(weight, Vec::load(scales + kKeyStride + j), zeros, lanes);
        greatest = Vec::max(greatest, scaled);
        Vec::store(scores + j, scaled);
      };
      for (size_t j = begin; j < end; j += 16) {
        if (j >= seen.begin && j + 16 <= seen.end) {
          put(j, 0xFFFF);
        } else {
          const size_t from = lesser(greater(seen.begin, j) - j, 16);
          const size_t to = lesser(greater(seen.end, j) - j, 16);
          put(j, static_cast<__mmask16>(Vec::first_n(to) & ~Vec::first_n(from)));
        }
      }
      Vec::store(zeros_[r], zeros);
      Vec::store(greatest_[r], greatest);
      return sum;
    }

    // To bytes. Rows that see nothing have none that count.
    void round() {
      for (size_t r = 0; r < rows_.n; ++r) {
        if (rows_.any(r)) continue;
        Vec::store(zeros_[r], Vec::zero());
        Vec::store(greatest_[r], Vec::zero());
      }
      Vec::store(zero_, fold_rows<Sum>(zeros_, rows_.n));
      float greatest[kTileRows];
      Vec::store(greatest, fold_rows<Greatest>(greatest_, rows_.n));
      for (size_t r = 0; r < rows_.n; ++r) {
        const float inverse = inverse_of_greatest(greatest[r], &unit_[r]);
        round_row(r, Vec::set1(inverse));
      }
    }

    Vec::Reg value(size_t r, Vec::Reg sum) const {
      return Vec::fmadd(Vec::set1(unit_[r]), sum, Vec::set1(zero_[r]));
    }

   private:
    void round_row(size_t r, Vec::Reg inverse) {
      const float* const scores = w_.s.scores + r * kKeyStride;
      uint8_t* const bytes = weight_bytes(w_, r);
      const Visible seen =
          rows_.any(r) ? rows_.visible[r] : Visible{last_of(rows_), last_of(rows_)};
      const size_t begin = seen.begin / kSpan * kSpan;
      const size_t end = lesser((seen.end + kSpan - 1) / kSpan * kSpan, last_of(rows_));
      const size_t first = first_of(rows_);
      const size_t last = last_of(rows_);
      memset(bytes + first, 0, begin - first);
      memset(bytes + kPositionsMax + first, 0, begin - first);
      for (size_t j = begin; j < end; j += 16)
        put_bytes(
            bytes + j, bytes + kPositionsMax + j, Vec::mul(Vec::load(scores + j), inverse), 0xFFFF);
      memset(bytes + end, 0, last - end);
      memset(bytes + kPositionsMax + end, 0, last - end);
    }

    const AttentionWork& w_;
    const RowsSeen& rows_;
    alignas(64) LanesOfRows zeros_;
    alignas(64) LanesOfRows greatest_;
    alignas(64) float zero_[kTileRows];
    float unit_[kTileRows];
  };

  // Rows of bytes, and the integer sums of products of them, in two planes.
  struct Bytes {
    const uint8_t* upper;
    const uint8_t* lower;
    size_t stride;  // bytes
  };
  struct Sums {
    float* upper;
    float* lower;
  };
  // Steps of codes, and sums: floats from one row to the next.
  struct Strides {
    size_t codes;
    size_t sums;
  };

  // kWidth times 16 columns.
  template <int kWidth>
  static void multiply_planes_of(
      const Bytes& rows, const float* codes, const Sums& sums, Strides strides, size_t n_spans) {
    const TileUnit tiles;
    const size_t codes_bytes = strides.codes * sizeof(float);
    const size_t sums_bytes = strides.sums * sizeof(float);
    tiles.zero<0>();
    tiles.zero<1>();
    tiles.zero<2>();
    tiles.zero<3>();
    for (size_t i = 0; i < n_spans; ++i, codes += kTileRows * strides.codes) {
      tiles.load<4>(rows.upper + i * kCodesSpan, rows.stride);
      tiles.load<5>(codes, codes_bytes);
      tiles.dot_s8u8<0, 4, 5>();
      if constexpr (kWidth > 1) {
        tiles.load<6>(codes + 16, codes_bytes);
        tiles.dot_s8u8<1, 4, 6>();
      }
      tiles.load<4>(rows.lower + i * kCodesSpan, rows.stride);
      tiles.dot_s8u8<2, 4, 5>();
      if constexpr (kWidth > 1) tiles.dot_s8u8<3, 4, 6>();
    }
    tiles.store<0>(sums.upper, sums_bytes);
    tiles.store<2>(sums.lower, sums_bytes);
    if constexpr (kWidth > 1) {
      tiles.store<1>(sums.upper + 16, sums_bytes);
      tiles.store<3>(sums.lower + 16, sums_bytes);
    }
  }

  // n columns, a multiple of 16.
  static void multiply_planes(const Bytes& rows,
                              const float* codes,
                              const Sums& sums,
                              Strides strides,
                              size_t n_spans,
                              size_t n) {
    size_t i = 0;
    for (; i + 32 <= n; i += 32)
      multiply_planes_of<2>(rows, codes + i, {sums.upper + i, sums.lower + i}, strides, n_spans);
    for (; i < n; i += 16)
      multiply_planes_of<1>(rows, codes + i, {sums.upper + i, sums.lower + i}, strides, n_spans);
  }

  static void multiply_queries(const AttentionWork& w, const RowsSeen& rows) {
    const auto* const upper = reinterpret_cast<const uint8_t*>(query(w, rows.q));
    const size_t first = rows.lowest / 16 * 16;
    multiply_planes({upper, upper + spans(w.dk) * kCodesSpan, w.q_stride * sizeof(float)},
                    w.s.keys + first,
                    {w.s.scores + first, low_scores(w, 0) + first},
                    {kKeyStride, kKeyStride},
                    spans(w.dk),
                    round_up_16(rows.highest) - first);
  }

  static void multiply_values(const AttentionWork& w, const RowsSeen& rows) {
    const size_t first = first_of(rows);
    uint8_t* const upper = weight_bytes(w, 0) + first;
    float* const values = w.s.values + first / Layout::kStep * w.dv_padded;
    const size_t n_spans = (last_of(rows) - first) / kCodesSpan;
    const Parts parts = parts_of(w);
    if (in_one_tile(w.n_q)) {
      return multiply<CodesProduct>(
          {reinterpret_cast<float*>(upper), kWeightsStride / kPlanes / sizeof(float)},
          {values, w.dv_padded},
          {parts.upper, w.dv_padded},
          n_spans,
          w.dv_padded);
    }
    multiply_planes({upper, upper + kPositionsMax, kWeightsStride},
                    values,
                    {parts.upper, parts.lower},
                    {w.dv_padded, w.dv_padded},
                    n_spans,
                    w.dv_padded);
  }
};

// Where query rows are few.
template <CacheType kType>
struct FewCodeTiles : CodeTiles<kType> {
  using Base = CodeTiles<kType>;
  using Layout = CodesLayout<kType>;

  static bool takes(const AttentionShape& shape, const AttentionTask& task) {
    return are_few(shape, task) && shape.k_head_dim <= kHeadMax;
  }
  // Rows of the tiles of query rows.
  static size_t tile_rows(size_t n_q) { return Base::in_one_tile(n_q) ? kPlanes * n_q : n_q; }
  static void ask_ahead(const AttentionWork&, Share, size_t) {}

  static void start_partition(const AttentionWork& w, size_t, size_t) {
    const size_t n_spans = Base::spans(w.dk);
    const size_t n = planes(w) * n_spans;
    for (size_t i = 0; i < n; ++i) {
      Vec::Reg rows[kTileRows];
#pragma GCC unroll 16
      for (size_t r = 0; r < kTileRows; ++r) {
        const bool lower = Base::in_one_tile(w.n_q) && r >= kLowerColumn;
        const size_t q = lower ? r - kLowerColumn : r;
        const size_t from = lower ? n_spans + i : i;
        rows[r] = q < w.n_q ? Vec::load(Base::query(w, q) + from * kSpanFloats) : Vec::zero();
      }
      Vec::transpose(rows);
#pragma GCC unroll 16
      for (size_t r = 0; r < kTileRows; ++r) Vec::store(queries(w, i) + r * kTileRows, rows[r]);
    }
    if (n == 1) TileUnit().load<6>(queries(w, 0), kTileBytes);
  }

  static void put_stretch(const AttentionWork& w, const Stretch& s) {
    Layout::put_parameters(w, s);
    multiply_keys(w, s);
    const Share next = share_ahead(w, s.position, Base::kPositionsAhead);
    if (s.count == kTileRows && next.position < w.end) {
      const Ahead ahead(w, next, kTileRows / Layout::kStep);
      ahead.ask_parameters(w);
      for (size_t i = 0; i < kTileRows; i += Layout::kStep) {
        ahead.ask(i / Layout::kStep);
        Layout::put_values(w, s, i);
      }
    } else {
      prefetch_positions(w, next, s.count);
      Layout::put_values_of(w, s);
    }
    put_sums(w, s.begin / kTileRows * kTileRows);
  }

  static void attend(const AttentionWork& w, size_t partition_begin) {
    const RowsSeen rows = rows_seen(w, 0, partition_begin);
    if (rows.highest == 0) return;
    Base::finish(
        w, rows, partition_begin, [&](size_t r, size_t j) __attribute__((always_inline)) {
          return Vec::load(w.s.scores + r * kKeyStride + j);
        });
  }

 private:
  static constexpr size_t kHeadMax = 256;
  static constexpr size_t kTileFloats = kTileRows * kSpanFloats;
  static constexpr size_t kLowerColumn = kTileRows / 2;  // of queries in one tile

  // Products of keys with queries, and sums of them.
  static size_t planes(const AttentionWork& w) { return Base::in_one_tile(w.n_q) ? 1 : kPlanes; }

  // The room of lower sums: bytes of queries by span [plane][span][step][16 query rows], sums of 16 positions of both
  // planes, and codes of 16 keys.
  static float* queries(const AttentionWork& w, size_t i) { return w.s.spare + i * kTileFloats; }
  static float* sums(const AttentionWork& w, size_t plane) {
    return queries(w, kPlanes * (kHeadMax / kCodesSpan) + plane);
  }
  static uint8_t* unpacked(const AttentionWork& w) {
    return reinterpret_cast<uint8_t*>(sums(w, kPlanes));
  }
  static_assert((kPlanes * (kHeadMax / kCodesSpan) + kPlanes + kHeadMax / kCodesSpan) *
                    kTileFloats <=
                kScoreRows * kKeyStride);

  // Sums of the 16 positions that the stretch is of: they lie in one block.
  static void multiply_keys(const AttentionWork& w, const Stretch& s) {
    const TileUnit tiles;
    const size_t vector = vector_bytes(kType, w.dk);
    const size_t n_spans = Base::spans(w.dk);
    const char* keys = s.k - s.begin % kTileRows * vector;
    size_t stride = vector;
    if (kType == kCacheU4) {
      stride = n_spans * kCodesSpan;
      uint8_t* const to = unpacked(w);
      for (size_t j = 0; j < kTileRows; ++j) {
        for (size_t d = 0; d < w.dk; d += kCodesSpan)
          _mm512_storeu_si512(to + j * stride + d, Layout::codes_of(keys + j * vector, d, w.dk));
      }
      keys = reinterpret_cast<const char*>(to);
    }
    tiles.load<5>(keys, stride);
    const size_t n = planes(w) * n_spans;
    for (size_t plane = 0; plane < planes(w); ++plane) {
      tiles.zero<7>();
      for (size_t i = 0; i < n_spans; ++i) {
        if (n_spans > 1) tiles.load<5>(keys + i * kCodesSpan, stride);
        if (n > 1) tiles.load<6>(queries(w, plane * n_spans + i), kTileBytes);
        tiles.dot_u8s8<7, 5, 6>();
      }
      tiles.store<7>(sums(w, plane), kTileBytes);
    }
  }

  static void put_sums(const AttentionWork& w, size_t first) {
    const float* const upper = sums(w, 0);
    const float* const lower = Base::in_one_tile(w.n_q) ? upper + kLowerColumn : sums(w, 1);
    if (w.n_q <= 4) {
      Vec::Reg v[4];
#pragma GCC unroll 4
      for (size_t i = 0; i < 4; ++i) v[i] = joined(first_4(upper, i), first_4(lower, i));
      return turn_scores_of_4(v, w.n_q, w.s.scores + first);
    }
    Vec::Reg rows[kTileRows];
#pragma GCC unroll 16
    for (size_t j = 0; j < kTileRows; ++j) {
      rows[j] = joined(_mm512_loadu_si512(upper + j * kTileRows),
                       _mm512_loadu_si512(lower + j * kTileRows));
    }
    turn_scores(rows, w.n_q, w.s.scores + first);
  }
};

template <CacheType kType>
void attention_of(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  const bool few = FewCodeTiles<kType>::takes(*shape, *task);
  const Tiles tiles(
      config_for(few ? FewCodeTiles<kType>::tile_rows(task->n_rows * task->n_heads) : kTileRows));
  if (few) {
    attention_over<FewCodeTiles<kType>>(shape, task, scratch);
  } else {
    attention_over<CodeTiles<kType>>(shape, task, scratch);
  }
}

void attention_codes(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  if (shape->type == kCacheU8) {
    attention_of<kCacheU8>(shape, task, scratch);
  } else {
    attention_of<kCacheU4>(shape, task, scratch);
  }
}

}  // namespace

void fill_amx_attention_codes(SetOps* ops) {
  ops->vector.attention_codes = attention_codes;
}

}  // namespace coxswain::kernels
