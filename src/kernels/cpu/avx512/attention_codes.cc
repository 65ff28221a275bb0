// Attention over a cache of codes of 8 or 4 bits with vpdpbusd: four products a lane and instruction, exact.
//
// Queries, and weights times the scales of their values, become integers of 16 bits in two bytes: the greatest of a
// row, and of a row and partition, is 32512. So the sum over codes c of a key with scale s and zero z is
//
//   q.k = unit * (s * sum(u c) + z * sum(u))     with q = unit * u
//
// and that over the values of a partition likewise, with the zeros beside it. Sums of integers depend on no order, and
// what a row does not see has the weight 0.

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

// Each builds on the one before.
// clang-format off
#include "kernels/cpu/avx512/vec.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/elementwise.h"
#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/avx512/code_rows.h"
// clang-format on

// The upper bytes of four integers in [-32512, 32512], then their lower, rounded: upper * 256 + lower.
inline __m256i split(__m512 value) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(1, 3, 5, 7, 0, 2, 4, 6, 9, 11, 13, 15, 8, 10, 12, 14));
  const __m512i raised = _mm512_add_epi32(_mm512_cvtps_epi32(value), _mm512_set1_epi32(128));
  const __m256i bytes = _mm256_xor_si256(_mm512_cvtepi32_epi16(raised), _mm256_set1_epi16(0x80));
  return _mm256_shuffle_epi8(bytes, order);
}

// A step is four values of a head, or four positions: a byte each.
template <CacheType kType>
struct Codes : CodesLayout<kType>, AsksAtOnce {
  using Layout = CodesLayout<kType>;
  static size_t key_rows(size_t steps) { return steps + Layout::kParameterRows; }
  // A partition, so that the next one arrives while this one is multiplied.
  static constexpr size_t kPositionsAhead = kPositionsMax;

  static void start_partition(const AttentionWork&, size_t, size_t) {}
  static void attend(const AttentionWork& w, size_t partition_begin) {
    attend_in_registers<Codes>(w, partition_begin);
  }

  // A query row is its unit, the sum of its integers, then for each step the upper bytes of four and the lower.
  static size_t query_floats(size_t steps) { return 2 + 2 * steps; }

  static void put_query(float* dst, const float* x, size_t dk) {
    const float inverse = inverse_of_row(x, dk, dst);
    __m512i sum = _mm512_setzero_si512();
    for_vectors(dk, [&](size_t i, size_t n) {
      const Vec::Reg value = Vec::mul(Vec::load_n(x + i, n), Vec::set1(inverse));
      sum = _mm512_add_epi32(sum, _mm512_cvtps_epi32(value));
      _mm256_mask_storeu_epi32(
          dst + 2 + i / 2, static_cast<__mmask8>(Vec::first_n((n + 3) / 4 * 2)), split(value));
    });
    dst[1] = static_cast<float>(_mm512_reduce_add_epi32(sum));
  }

  template <int kRows>
  static void score_rows(const AttentionWork& w, const float* q, size_t begin, size_t end) {
    size_t j = begin / 16 * 16;
    for (; j + 32 <= round_up_16(end); j += 32) score_tile<kRows, 2>(w, q, j);
    for (; j < end; j += 16) score_tile<kRows, 1>(w, q, j);
  }

  template <int kRows>
  static void add_values(const AttentionWork& w,
                         const Visible (&visible)[kRows],
                         size_t begin,
                         size_t end) {
    Weights weights[kRows];
    for (size_t r = 0; r < kRows; ++r)
      weights[r] = put_weights(w, w.s.scores + r * kKeyStride, visible[r], begin, end);
    size_t d = 0;
    for (; d + 32 <= w.dv_padded; d += 32) value_tile<kRows, 2>(w, weights, d, begin, end);
    for (; d < w.dv_padded; d += 16) value_tile<kRows, 1>(w, weights, d, begin, end);
  }

 private:
  // Of a row and partition: what an integer stands for, and the zeros of values by their weights.
  struct Weights {
    float unit;
    float zeros;
  };

  // The accumulator is named as read and written: g++ 12 copies and spills it around the intrinsic.
  static void dot(__m512i& sum, __m512i codes, __m512i factors) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(factors));
  }
  static __m512i repeat(const float* four) {
    int bytes = 0;
    memcpy(&bytes, four, sizeof bytes);
    return _mm512_set1_epi32(bytes);
  }
  template <int kRows, int kVectors>
  static void score_tile(const AttentionWork& w, const float* q, size_t j) {
    __m512i upper[kRows][kVectors];
    __m512i lower[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) upper[r][v] = lower[r][v] = _mm512_setzero_si512();
    }
    const float* keys = w.s.keys + j;
    for (size_t step = 0; step < w.steps; ++step, keys += kKeyStride) {
      __m512i key[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) key[v] = _mm512_loadu_si512(keys + v * 16);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float* factors = q + static_cast<size_t>(r) * w.q_stride + 2 + 2 * step;
        const __m512i high = repeat(factors);
        const __m512i low = repeat(factors + 1);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          dot(upper[r][v], key[v], high);
          dot(lower[r][v], key[v], low);
        }
      }
    }
#pragma GCC unroll 8
    for (int v = 0; v < kVectors; ++v) {
      const float* parameter = Layout::parameters(w) + j + static_cast<size_t>(v) * 16;
      const Vec::Reg scale = Vec::load(parameter);
      const Vec::Reg zero = Vec::load(parameter + kKeyStride);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float* row = q + static_cast<size_t>(r) * w.q_stride;
        // The unit last: it may be huge.
        const Vec::Reg zeros = Vec::mul(zero, Vec::set1(row[1]));
        const Vec::Reg sum = Vec::fmadd(scale, joined(upper[r][v], lower[r][v]), zeros);
        Vec::store(
            w.s.scores + static_cast<size_t>(r) * kKeyStride + j + static_cast<size_t>(v) * 16,
            Vec::mul(sum, Vec::set1(row[0])));
      }
    }
  }

  // Takes a row's e^(score - highest) to integers of the steps of [begin, end), in place: a vector is read before a
  // half of it is written.
  static Weights put_weights(
      const AttentionWork& w, float* scores, Visible visible, size_t begin, size_t end) {
    const float* scales = Layout::parameters(w) + 2 * kKeyStride;
    const float* zeros = scales + kKeyStride;
    Vec::Reg greatest = Vec::zero();
    Vec::Reg sum = Vec::zero();
    const size_t first = begin / 16 * 16;
    for (size_t j = first; j < end; j += 16) {
      if (j >= visible.begin && j + 16 <= visible.end) {
        const Vec::Reg weight = Vec::load(scores + j);
        const Vec::Reg scaled = Vec::mul(weight, Vec::load(scales + j));
        sum = Vec::fmadd(weight, Vec::load(zeros + j), sum);
        greatest = Vec::max(greatest, scaled);
        Vec::store(scores + j, scaled);
        continue;
      }
      const size_t from = lesser(greater(visible.begin, j) - j, 16);
      const size_t to = lesser(greater(visible.end, j) - j, 16);
      if (from >= to) {
        Vec::store(scores + j, Vec::zero());
        continue;
      }
      const Vec::Reg weight = Vec::load(scores + j);
      const Vec::Reg scaled =
          Vec::select(Vec::mul(weight, Vec::load(scales + j)), Vec::zero(), from, to);
      const Vec::Reg zero = Vec::select(Vec::load(zeros + j), Vec::zero(), from, to);
      sum = Vec::fmadd(weight, zero, sum);
      greatest = Vec::max(greatest, scaled);
      Vec::store(scores + j, scaled);
    }
    Weights out{};
    const float inverse = inverse_of_greatest(Vec::highest(greatest), &out.unit);
    out.zeros = Vec::sum(sum);
    for (size_t j = first; j < end; j += 16)
      _mm256_storeu_si256(reinterpret_cast<__m256i*>(scores + j / 2),
                          split(Vec::mul(Vec::load(scores + j), Vec::set1(inverse))));
    return out;
  }

  template <int kRows, int kVectors>
  static void value_tile(
      const AttentionWork& w, const Weights (&weights)[kRows], size_t d, size_t begin, size_t end) {
    __m512i upper[kRows][kVectors];
    __m512i lower[kRows][kVectors];
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) upper[r][v] = lower[r][v] = _mm512_setzero_si512();
    }
    for (size_t step = begin / 4; step < (end + 3) / 4; ++step) {
      const float* values = w.s.values + step * w.dv_padded + d;
      __m512i value[kVectors];
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v) value[v] = _mm512_loadu_si512(values + v * 16);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r) {
        const float* factors = w.s.scores + static_cast<size_t>(r) * kKeyStride + 2 * step;
        const __m512i high = repeat(factors);
        const __m512i low = repeat(factors + 1);
#pragma GCC unroll 8
        for (int v = 0; v < kVectors; ++v) {
          dot(upper[r][v], value[v], high);
          dot(lower[r][v], value[v], low);
        }
      }
    }
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const Vec::Reg unit = Vec::set1(weights[r].unit);
      const Vec::Reg zeros = Vec::set1(weights[r].zeros);
#pragma GCC unroll 8
      for (int v = 0; v < kVectors; ++v)
        Vec::store(
            w.s.part + static_cast<size_t>(r) * w.dv_padded + d + static_cast<size_t>(v) * 16,
            Vec::fmadd(unit, joined(upper[r][v], lower[r][v]), zeros));
    }
  }
};

void attention_codes(const AttentionShape* shape, const AttentionTask* task, float* scratch) {
  if (shape->type == kCacheU8) {
    attention_over<Codes<kCacheU8>>(shape, task, scratch);
  } else {
    attention_over<Codes<kCacheU4>>(shape, task, scratch);
  }
}

}  // namespace

void fill_avx512_attention_codes(SetOps* ops) {
  ops->vector.attention_codes = attention_codes;
}

}  // namespace coxswain::kernels
