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
// clang-format on

constexpr float kGreatest = 32512.0F;  // 127 * 256

inline __mmask64 bytes_of(size_t n, size_t first) {
  if (n >= first + 64) return ~__mmask64{0};
  return n > first ? (__mmask64{1} << (n - first)) - 1U : 0U;
}

// The upper bytes of four integers in [-32512, 32512], then their lower, rounded: upper * 256 + lower.
inline __m256i split(__m512 value) {
  const __m256i order = _mm256_broadcastsi128_si256(
      _mm_setr_epi8(1, 3, 5, 7, 0, 2, 4, 6, 9, 11, 13, 15, 8, 10, 12, 14));
  const __m512i raised = _mm512_add_epi32(_mm512_cvtps_epi32(value), _mm512_set1_epi32(128));
  const __m256i bytes = _mm256_xor_si256(_mm512_cvtepi32_epi16(raised), _mm256_set1_epi16(0x80));
  return _mm256_shuffle_epi8(bytes, order);
}

// What makes integers of values up to `absmax`; their unit. None of them counts where it is too small or no number.
inline float inverse_of_greatest(float absmax, float* unit) {
  *unit = absmax / kGreatest;
  return counts(absmax) ? kGreatest / absmax : 0.0F;
}

// A step is four values of a head, or four positions: a byte each.
template <CacheType kType>
struct Codes {
  static constexpr size_t kStep = 4;
  static constexpr size_t kParameterRows = 4;
  static size_t key_rows(size_t steps) { return steps + kParameterRows; }
  static void ask_ahead(const AttentionWork& w, size_t position, size_t count) {
    prefetch_positions(w, position, count);
  }
  // A partition, so that the next one arrives while this one is multiplied.
  static constexpr size_t kPositionsAhead = kPositionsMax;

  static void start_partition(const AttentionWork&, size_t, size_t) {}
  static void attend(const AttentionWork& w, size_t partition_begin) {
    attend_in_registers<Codes>(w, partition_begin);
  }

  // A query row is its unit, the sum of its integers, then for each step the upper bytes of four and the lower.
  static size_t query_floats(size_t steps) { return 2 + 2 * steps; }

  static void put_query(float* dst, const float* x, size_t dk) {
    Vec::Reg absmax = Vec::zero();
    Vec::Reg broken = Vec::zero();  // NaN where a value is no number
    for_vectors(dk, [&](size_t i, size_t n) {
      const Vec::Reg value = Vec::load_n(x + i, n);
      absmax = Vec::max(absmax, _mm512_abs_ps(value));
      broken = Vec::fmadd(value, Vec::zero(), broken);
    });
    const float inverse = inverse_of_greatest(Vec::highest(absmax) + Vec::sum(broken), dst);
    __m512i sum = _mm512_setzero_si512();
    for_vectors(dk, [&](size_t i, size_t n) {
      const Vec::Reg value = Vec::mul(Vec::load_n(x + i, n), Vec::set1(inverse));
      sum = _mm512_add_epi32(sum, _mm512_cvtps_epi32(value));
      _mm256_mask_storeu_epi32(
          dst + 2 + i / 2, static_cast<__mmask8>(Vec::first_n((n + 3) / 4 * 2)), split(value));
    });
    dst[1] = static_cast<float>(_mm512_reduce_add_epi32(sum));
  }

  static void put_stretch(const AttentionWork& w, const Stretch& s) {
    const size_t zeros = w.shape->block_tokens * sizeof(float);
    float* rows = parameters(w) + s.begin;
    const char* const from[] = {s.k_scales, s.k_scales + zeros, s.v_scales, s.v_scales + zeros};
    for (size_t i = 0; i < kParameterRows; ++i) {
      Vec::store_n(
          rows + i * kKeyStride, _mm512_maskz_loadu_ps(Vec::first_n(s.count), from[i]), s.count);
    }
    put_keys(w, s);
    size_t i = 0;
    for (; i < s.count && (s.begin + i) % 4 != 0; ++i) put_value(w, s, i);
    for (; i + 4 <= s.count; i += 4) put_values(w, s, i);
    for (; i < s.count; ++i) put_value(w, s, i);
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

  // [position]: scales and zeros of keys, then of values.
  static float* parameters(const AttentionWork& w) { return w.s.keys + w.steps * kKeyStride; }

  // Bytes d to d + 63 of a vector of n codes, zero behind its end.
  static __m512i codes_of(const char* vector, size_t d, size_t n) {
    if constexpr (kType == kCacheU8) return _mm512_maskz_loadu_epi8(bytes_of(n, d), vector + d);
    const size_t half = (lesser(n - d, 64) + 1) / 2;
    const __m256i low_bits = _mm256_set1_epi8(15);
    const __m256i pairs =
        _mm256_maskz_loadu_epi8(static_cast<__mmask32>((uint64_t{1} << half) - 1), vector + d / 2);
    const __m256i lower = _mm256_and_si256(pairs, low_bits);
    const __m256i upper = _mm256_and_si256(_mm256_srli_epi16(pairs, 4), low_bits);
    if (half == 32) return _mm512_inserti64x4(_mm512_castsi256_si512(lower), upper, 1);
    char codes[64] = {};
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes), lower);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(codes + half), upper);
    return _mm512_loadu_si512(codes);
  }

  // The accumulator is named as read and written: g++ 12 copies and spills it around the intrinsic.
  static void dot(__m512i& sum, __m512i codes, __m512i factors) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(factors));
  }
  static __m512i repeat(const float* four) {
    int bytes = 0;
    memcpy(&bytes, four, sizeof bytes);
    return _mm512_set1_epi32(bytes);
  }
  // upper * 256 + lower
  static Vec::Reg joined(__m512i upper, __m512i lower) {
    return Vec::fmadd(_mm512_cvtepi32_ps(upper), Vec::set1(256.0F), _mm512_cvtepi32_ps(lower));
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
      const float* parameter = parameters(w) + j + static_cast<size_t>(v) * 16;
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
    const float* scales = parameters(w) + 2 * kKeyStride;
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

  static void put_keys(const AttentionWork& w, const Stretch& s) {
    const size_t bytes = vector_bytes(kType, w.dk);
    for (size_t d = 0; d < w.dk; d += 64) {
      Vec::Reg rows[16];
#pragma GCC unroll 16
      for (size_t j = 0; j < 16; ++j) {
        rows[j] =
            j < s.count ? _mm512_castsi512_ps(codes_of(s.k + j * bytes, d, w.dk)) : Vec::zero();
      }
      Vec::transpose(rows);
      float* out = w.s.keys + d / 4 * kKeyStride + s.begin;
#pragma GCC unroll 16
      for (size_t i = 0; i < 16; ++i) {
        if (d / 4 + i < w.steps) Vec::store_n(out + i * kKeyStride, rows[i], s.count);
      }
    }
  }

  // Positions i to i + 3 of the stretch, a whole step.
  static void put_values(const AttentionWork& w, const Stretch& s, size_t i) {
    // Fours of values, so that those of a quarter of 16 stand in the same place of each quarter.
    const __m512i order = _mm512_setr_epi32(0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    const size_t dv = w.shape->v_head_dim;
    const size_t bytes = vector_bytes(kType, dv);
    const char* from = s.v + i * bytes;
    float* out = w.s.values + (s.begin + i) / 4 * w.dv_padded;
    for (size_t d = 0; d < dv; d += 64) {
      __m512i rows[4];
#pragma GCC unroll 4
      for (size_t j = 0; j < 4; ++j)
        rows[j] = _mm512_permutexvar_epi32(order, codes_of(from + j * bytes, d, dv));
      const __m512i even = _mm512_unpacklo_epi8(rows[0], rows[1]);
      const __m512i odd = _mm512_unpacklo_epi8(rows[2], rows[3]);
      const __m512i even_high = _mm512_unpackhi_epi8(rows[0], rows[1]);
      const __m512i odd_high = _mm512_unpackhi_epi8(rows[2], rows[3]);
      const __m512i quarters[4] = {_mm512_unpacklo_epi16(even, odd),
                                   _mm512_unpackhi_epi16(even, odd),
                                   _mm512_unpacklo_epi16(even_high, odd_high),
                                   _mm512_unpackhi_epi16(even_high, odd_high)};
#pragma GCC unroll 4
      for (size_t part = 0; part < 4; ++part) {
        if (d + part * 16 < w.dv_padded) _mm512_storeu_si512(out + d + part * 16, quarters[part]);
      }
    }
  }

  // Position i of the stretch alone; its neighbours' bytes stay as they are.
  static void put_value(const AttentionWork& w, const Stretch& s, size_t i) {
    const size_t dv = w.shape->v_head_dim;
    const size_t j = s.begin + i;
    char* out = reinterpret_cast<char*>(w.s.values + j / 4 * w.dv_padded) + j % 4;
    for (size_t d = 0; d < dv; d += 64) {
      char codes[64];
      _mm512_storeu_si512(codes, codes_of(s.v + i * vector_bytes(kType, dv), d, dv));
      for (size_t k = 0; k < lesser(dv - d, 64); ++k) out[4 * (d + k)] = codes[k];
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
