#ifndef COXSWAIN_KERNELS_CPU_AVX512_CODE_ROWS_H_
#define COXSWAIN_KERNELS_CPU_AVX512_CODE_ROWS_H_
// How keys and values of a cache of codes of 8 or 4 bits lie for products of bytes, four to a step, and how queries and
// weights become integers of 16 bits in two bytes. Included inside an anonymous namespace of coxswain::kernels, after
// attention.h of generic.

constexpr float kGreatest = 32512.0F;  // 127 * 256

inline __mmask64 bytes_of(size_t n, size_t first) {
  if (n >= first + 64) return ~__mmask64{0};
  return n > first ? (__mmask64{1} << (n - first)) - 1U : 0U;
}

// What makes integers of values up to `absmax`; their unit. None of them counts where it is too small or no number.
inline float inverse_of_greatest(float absmax, float* unit) {
  *unit = absmax / kGreatest;
  return counts(absmax) ? kGreatest / absmax : 0.0F;
}

// The same of a row of values.
inline float inverse_of_row(const float* x, size_t n_values, float* unit) {
  Vec::Reg absmax = Vec::zero();
  Vec::Reg broken = Vec::zero();  // NaN where a value is no number
  for_vectors(n_values, [&](size_t i, size_t n) {
    const Vec::Reg value = Vec::load_n(x + i, n);
    absmax = Vec::max(absmax, _mm512_abs_ps(value));
    broken = Vec::fmadd(value, Vec::zero(), broken);
  });
  return inverse_of_greatest(Vec::highest(absmax) + Vec::sum(broken), unit);
}

// upper * 256 + lower
inline Vec::Reg joined(__m512i upper, __m512i lower) {
  return Vec::fmadd(_mm512_cvtepi32_ps(upper), Vec::set1(256.0F), _mm512_cvtepi32_ps(lower));
}

// A step is four values of a head, or four positions: a byte each.
template <CacheType kType>
struct CodesLayout {
  static constexpr size_t kStep = 4;
  static constexpr size_t kParameterRows = 4;

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

  static void put_stretch(const AttentionWork& w, const Stretch& s) {
    put_parameters(w, s);
    put_keys(w, s);
    put_values_of(w, s);
  }

  static void put_values_of(const AttentionWork& w, const Stretch& s) {
    size_t i = 0;
    for (; i < s.count && (s.begin + i) % 4 != 0; ++i) put_value(w, s, i);
    for (; i + 4 <= s.count; i += 4) put_values(w, s, i);
    for (; i < s.count; ++i) put_value(w, s, i);
  }

  static void put_parameters(const AttentionWork& w, const Stretch& s) {
    const size_t zeros = w.shape->block_tokens * sizeof(float);
    float* rows = parameters(w) + s.begin;
    const char* const from[] = {s.k_scales, s.k_scales + zeros, s.v_scales, s.v_scales + zeros};
    for (size_t i = 0; i < kParameterRows; ++i) {
      Vec::store_n(
          rows + i * kKeyStride, _mm512_maskz_loadu_ps(Vec::first_n(s.count), from[i]), s.count);
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

 private:
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

#endif  // COXSWAIN_KERNELS_CPU_AVX512_CODE_ROWS_H_
