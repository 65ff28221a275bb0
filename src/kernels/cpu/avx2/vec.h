#ifndef COXSWAIN_KERNELS_CPU_AVX2_VEC_H_
#define COXSWAIN_KERNELS_CPU_AVX2_VEC_H_
// Vec of eight lanes; scalar/vec.h says what each operation means. Tails are masked, so they
// compute what a body computes. Included inside an anonymous namespace of coxswain::kernels, after
// <immintrin.h> and <string.h>.

struct Vec {
  using Reg = __m256;
  static constexpr size_t kLanes = 8;
  static constexpr int kScoreVectors = 2;
  static constexpr int kTileRows = 6;

  static __m256i lane_numbers() { return _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7); }
  static __m256i first_n(size_t n) {
    return _mm256_cmpgt_epi32(_mm256_set1_epi32(static_cast<int>(n)), lane_numbers());
  }

  static Reg zero() { return _mm256_setzero_ps(); }
  static Reg set1(float value) { return _mm256_set1_ps(value); }
  static Reg load(const float* p) { return _mm256_loadu_ps(p); }
  static void store(float* p, Reg a) { _mm256_storeu_ps(p, a); }
  static Reg load_n(const float* p, size_t n) {
    return n == kLanes ? load(p) : _mm256_maskload_ps(p, first_n(n));
  }
  static void store_n(float* p, Reg a, size_t n) {
    if (n == kLanes) {
      store(p, a);
    } else {
      _mm256_maskstore_ps(p, first_n(n), a);
    }
  }
  static Reg select(Reg a, Reg b, size_t begin, size_t end) {
    return _mm256_blendv_ps(
        b, a, _mm256_castsi256_ps(_mm256_andnot_si256(first_n(begin), first_n(end))));
  }
  static Reg add(Reg a, Reg b) { return _mm256_add_ps(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm256_sub_ps(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm256_mul_ps(a, b); }
  static Reg div(Reg a, Reg b) { return _mm256_div_ps(a, b); }
  static Reg fmadd(Reg a, Reg b, Reg c) { return _mm256_fmadd_ps(a, b, c); }
  static Reg max(Reg a, Reg b) { return _mm256_max_ps(a, b); }
  static Reg min(Reg a, Reg b) { return _mm256_min_ps(a, b); }
  static Reg round(Reg a) {
    return _mm256_round_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Reg pow2(Reg a) {
    const __m256i exponent = _mm256_add_epi32(_mm256_cvtps_epi32(a), _mm256_set1_epi32(127));
    return _mm256_castsi256_ps(_mm256_slli_epi32(exponent, 23));
  }
  static Reg if_less(Reg a, Reg b, Reg c, Reg d) {
    return _mm256_blendv_ps(d, c, _mm256_cmp_ps(a, b, _CMP_LT_OQ));
  }
  static Reg iota() { return _mm256_cvtepi32_ps(lane_numbers()); }
  static float sum(Reg a) {
    const __m128 four = _mm_add_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_add_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_add_ss(two, _mm_movehdup_ps(two)));
  }
  static float highest(Reg a) {
    const __m128 four = _mm_max_ps(_mm256_castps256_ps128(a), _mm256_extractf128_ps(a, 1));
    const __m128 two = _mm_max_ps(four, _mm_movehl_ps(four, four));
    return _mm_cvtss_f32(_mm_max_ss(two, _mm_movehdup_ps(two)));
  }

  static __m128i load_16bit_n(const uint16_t* p, size_t n) {
    if (n == kLanes) return _mm_loadu_si128(reinterpret_cast<const __m128i*>(p));
    uint16_t lanes[kLanes] = {};
    memcpy(lanes, p, n * sizeof(uint16_t));
    return _mm_loadu_si128(reinterpret_cast<const __m128i*>(lanes));
  }
  static void store_16bit_n(uint16_t* p, __m128i a, size_t n) {
    if (n == kLanes) return _mm_storeu_si128(reinterpret_cast<__m128i*>(p), a);
    uint16_t lanes[kLanes];
    _mm_storeu_si128(reinterpret_cast<__m128i*>(lanes), a);
    memcpy(p, lanes, n * sizeof(uint16_t));
  }
  static Reg load_bf16_n(const uint16_t* p, size_t n) {
    return _mm256_castsi256_ps(_mm256_slli_epi32(_mm256_cvtepu16_epi32(load_16bit_n(p, n)), 16));
  }
  static Reg load_f16_n(const uint16_t* p, size_t n) { return _mm256_cvtph_ps(load_16bit_n(p, n)); }
  static void store_bf16_n(uint16_t* p, Reg a, size_t n) {
    const __m256i bits = _mm256_castps_si256(a);
    const __m256i odd = _mm256_and_si256(_mm256_srli_epi32(bits, 16), _mm256_set1_epi32(1));
    const __m256i rounded =
        _mm256_add_epi32(_mm256_add_epi32(bits, _mm256_set1_epi32(0x7FFF)), odd);
    const __m256i quiet = _mm256_or_si256(bits, _mm256_set1_epi32(0x400000));
    const __m256 is_nan = _mm256_cmp_ps(a, a, _CMP_UNORD_Q);
    const __m256 value =
        _mm256_blendv_ps(_mm256_castsi256_ps(rounded), _mm256_castsi256_ps(quiet), is_nan);
    const __m256i high = _mm256_srli_epi32(_mm256_castps_si256(value), 16);
    store_16bit_n(
        p, _mm_packus_epi32(_mm256_castsi256_si128(high), _mm256_extracti128_si256(high, 1)), n);
  }
  static void store_f16_n(uint16_t* p, Reg a, size_t n) {
    store_16bit_n(p, _mm256_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC), n);
  }

  static __m128i load_8bit_n(const uint8_t* p, size_t n) {
    if (n == kLanes) return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(p));
    uint8_t lanes[kLanes] = {};
    memcpy(lanes, p, n);
    return _mm_loadl_epi64(reinterpret_cast<const __m128i*>(lanes));
  }
  static Reg load_u8_n(const uint8_t* p, size_t n) {
    return _mm256_cvtepi32_ps(_mm256_cvtepu8_epi32(load_8bit_n(p, n)));
  }
  static Reg load_e5m2_n(const uint8_t* p, size_t n) {
    return _mm256_cvtph_ps(_mm_slli_epi16(_mm_cvtepu8_epi16(load_8bit_n(p, n)), 8));
  }
  static Reg load_e4m3_n(const uint8_t* p, size_t n) {
    const __m128i half = _mm_slli_epi16(_mm_cvtepi8_epi16(load_8bit_n(p, n)), 7);
    const Reg value = _mm256_mul_ps(
        _mm256_cvtph_ps(_mm_and_si128(half, _mm_set1_epi16(static_cast<int16_t>(0xBFFF)))),
        set1(256.0F));
    return if_less(set1(448.0F), max(value, sub(zero(), value)), set1(NAN), value);
  }
  static Reg load_cache_n(const void* src, CacheType type, size_t at, size_t n) {
    if (type == kCacheBf16) return load_bf16_n(static_cast<const uint16_t*>(src) + at, n);
    if (type == kCacheF16) return load_f16_n(static_cast<const uint16_t*>(src) + at, n);
    if (type == kCacheF32) return load_n(static_cast<const float*>(src) + at, n);
    const uint8_t* const bytes = static_cast<const uint8_t*>(src) + at;
    if (type == kCacheU8) return load_u8_n(bytes, n);
    return type == kCacheE4M3 ? load_e4m3_n(bytes, n) : load_e5m2_n(bytes, n);
  }

  // In place: rows[i] lane j becomes rows[j] lane i.
  static void transpose(Reg (&rows)[8]) {
    Reg t[8];
#pragma GCC unroll 4
    for (int i = 0; i < 8; i += 2) {
      t[i] = _mm256_unpacklo_ps(rows[i], rows[i + 1]);
      t[i + 1] = _mm256_unpackhi_ps(rows[i], rows[i + 1]);
    }
    Reg u[8];  // u[4 g + c]: column c of each 4 x 4 block of rows 4 g ..
#pragma GCC unroll 2
    for (int g = 0; g < 8; g += 4) {
      u[g] = _mm256_shuffle_ps(t[g], t[g + 2], 0x44);
      u[g + 1] = _mm256_shuffle_ps(t[g], t[g + 2], 0xEE);
      u[g + 2] = _mm256_shuffle_ps(t[g + 1], t[g + 3], 0x44);
      u[g + 3] = _mm256_shuffle_ps(t[g + 1], t[g + 3], 0xEE);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      rows[c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x20);
      rows[4 + c] = _mm256_permute2f128_ps(u[c], u[4 + c], 0x31);
    }
  }

  static void transpose_16(
      float* dst, size_t ld, const void* src, CacheType type, size_t dim, size_t n) {
    for (size_t j = 0; j < n; j += 8) {
      const size_t height = n - j < 8 ? n - j : 8;
      for (size_t d = 0; d < dim; d += 8) {
        const size_t width = dim - d < 8 ? dim - d : 8;
        Reg rows[8];
#pragma GCC unroll 8
        for (size_t i = 0; i < 8; ++i)
          rows[i] = i < height ? load_cache_n(src, type, (j + i) * dim + d, width) : zero();
        transpose(rows);
#pragma GCC unroll 8
        for (size_t i = 0; i < 8; ++i) {
          if (i < width) store_n(dst + (d + i) * ld + j, rows[i], height);
        }
      }
    }
  }
};

#endif  // COXSWAIN_KERNELS_CPU_AVX2_VEC_H_
