#ifndef COXSWAIN_KERNELS_CPU_AVX512_VEC_H_
#define COXSWAIN_KERNELS_CPU_AVX512_VEC_H_
// Vec of sixteen lanes; scalar/vec.h says what each operation means. Tails are masked, so they compute what a body
// computes. Included inside an anonymous namespace of coxswain::kernels, after <immintrin.h>.

struct Vec {
  using Reg = __m512;
  static constexpr size_t kLanes = 16;
  static constexpr int kScoreVectors = 4;
  static constexpr int kTileRows = 6;

  static __mmask16 first_n(size_t n) { return static_cast<__mmask16>((1U << n) - 1U); }

  static Reg zero() { return _mm512_setzero_ps(); }
  static Reg set1(float value) { return _mm512_set1_ps(value); }
  static Reg load(const float* p) { return _mm512_loadu_ps(p); }
  static void store(float* p, Reg a) { _mm512_storeu_ps(p, a); }
  static Reg load_n(const float* p, size_t n) { return _mm512_maskz_loadu_ps(first_n(n), p); }
  static void store_n(float* p, Reg a, size_t n) { _mm512_mask_storeu_ps(p, first_n(n), a); }
  static Reg select(Reg a, Reg b, size_t begin, size_t end) {
    return _mm512_mask_blend_ps(static_cast<__mmask16>(first_n(end) & ~first_n(begin)), b, a);
  }
  static Reg add(Reg a, Reg b) { return _mm512_add_ps(a, b); }
  static Reg sub(Reg a, Reg b) { return _mm512_sub_ps(a, b); }
  static Reg mul(Reg a, Reg b) { return _mm512_mul_ps(a, b); }
  static Reg div(Reg a, Reg b) { return _mm512_div_ps(a, b); }
  static Reg fmadd(Reg a, Reg b, Reg c) { return _mm512_fmadd_ps(a, b, c); }
  static Reg max(Reg a, Reg b) { return _mm512_max_ps(a, b); }
  static Reg min(Reg a, Reg b) { return _mm512_min_ps(a, b); }
  static Reg round(Reg a) {
    return _mm512_roundscale_ps(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC);
  }
  static Reg pow2(Reg a) { return _mm512_scalef_ps(_mm512_set1_ps(1.0F), a); }
  static Reg if_less(Reg a, Reg b, Reg c, Reg d) {
    return _mm512_mask_blend_ps(_mm512_cmp_ps_mask(a, b, _CMP_LT_OQ), d, c);
  }
  static Reg iota() { return _mm512_setr_ps(0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15); }
  static float sum(Reg a) { return _mm512_reduce_add_ps(a); }
  static float highest(Reg a) { return _mm512_reduce_max_ps(a); }

  static Reg widen_bf16(__m256i bits) {
    return _mm512_castsi512_ps(_mm512_slli_epi32(_mm512_cvtepu16_epi32(bits), 16));
  }
  static Reg load_bf16_n(const uint16_t* p, size_t n) {
    return widen_bf16(_mm256_maskz_loadu_epi16(first_n(n), p));
  }
  static Reg load_f16_n(const uint16_t* p, size_t n) {
    return _mm512_cvtph_ps(_mm256_maskz_loadu_epi16(first_n(n), p));
  }
  static void store_bf16_n(uint16_t* p, Reg a, size_t n) {
    const __m512i bits = _mm512_castps_si512(a);
    const __m512i odd = _mm512_and_si512(_mm512_srli_epi32(bits, 16), _mm512_set1_epi32(1));
    const __m512i rounded =
        _mm512_add_epi32(_mm512_add_epi32(bits, _mm512_set1_epi32(0x7FFF)), odd);
    const __m512i quiet = _mm512_or_si512(bits, _mm512_set1_epi32(0x400000));
    const __m512i value =
        _mm512_mask_blend_epi32(_mm512_cmp_ps_mask(a, a, _CMP_UNORD_Q), rounded, quiet);
    _mm256_mask_storeu_epi16(p, first_n(n), _mm512_cvtepi32_epi16(_mm512_srli_epi32(value, 16)));
  }
  static void store_f16_n(uint16_t* p, Reg a, size_t n) {
    _mm256_mask_storeu_epi16(
        p, first_n(n), _mm512_cvtps_ph(a, _MM_FROUND_TO_NEAREST_INT | _MM_FROUND_NO_EXC));
  }

  static __m128i load_8bit_n(const uint8_t* p, size_t n) {
    return _mm_maskz_loadu_epi8(first_n(n), p);
  }
  static Reg load_u8_n(const uint8_t* p, size_t n) {
    return _mm512_cvtepi32_ps(_mm512_cvtepu8_epi32(load_8bit_n(p, n)));
  }
  static Reg load_e5m2_n(const uint8_t* p, size_t n) {
    return _mm512_cvtph_ps(_mm256_slli_epi16(_mm256_cvtepu8_epi16(load_8bit_n(p, n)), 8));
  }
  static Reg load_e4m3_n(const uint8_t* p, size_t n) {
    const __m256i half = _mm256_slli_epi16(_mm256_cvtepi8_epi16(load_8bit_n(p, n)), 7);
    const Reg value = _mm512_mul_ps(
        _mm512_cvtph_ps(_mm256_and_si256(half, _mm256_set1_epi16(static_cast<int16_t>(0xBFFF)))),
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
  static void transpose(Reg (&rows)[16]) {
    Reg t[16];
#pragma GCC unroll 8
    for (int i = 0; i < 16; i += 2) {
      t[i] = _mm512_unpacklo_ps(rows[i], rows[i + 1]);
      t[i + 1] = _mm512_unpackhi_ps(rows[i], rows[i + 1]);
    }
    const auto pair = [](Reg a, Reg b, bool high) {
      const __m512d x = _mm512_castps_pd(a);
      const __m512d y = _mm512_castps_pd(b);
      return _mm512_castpd_ps(high ? _mm512_unpackhi_pd(x, y) : _mm512_unpacklo_pd(x, y));
    };
    Reg u[16];  // u[4 g + c]: column c of each 4 x 4 block of rows 4 g ..
#pragma GCC unroll 4
    for (int g = 0; g < 4; ++g) {
      u[4 * g] = pair(t[4 * g], t[4 * g + 2], false);
      u[4 * g + 1] = pair(t[4 * g], t[4 * g + 2], true);
      u[4 * g + 2] = pair(t[4 * g + 1], t[4 * g + 3], false);
      u[4 * g + 3] = pair(t[4 * g + 1], t[4 * g + 3], true);
    }
#pragma GCC unroll 4
    for (int c = 0; c < 4; ++c) {
      const Reg a = _mm512_shuffle_f32x4(u[c], u[4 + c], 0x88);
      const Reg b = _mm512_shuffle_f32x4(u[c], u[4 + c], 0xDD);
      const Reg d = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0x88);
      const Reg e = _mm512_shuffle_f32x4(u[8 + c], u[12 + c], 0xDD);
      rows[c] = _mm512_shuffle_f32x4(a, d, 0x88);
      rows[8 + c] = _mm512_shuffle_f32x4(a, d, 0xDD);
      rows[4 + c] = _mm512_shuffle_f32x4(b, e, 0x88);
      rows[12 + c] = _mm512_shuffle_f32x4(b, e, 0xDD);
    }
  }

  template <CacheType kType>
  static void transpose_one_by_one(float* dst, size_t ld, const void* src, size_t dim, size_t n) {
    for (size_t d = 0; d < dim; d += 16) {
      const size_t width = dim - d < 16 ? dim - d : 16;
      Reg rows[16];
#pragma GCC unroll 16
      for (size_t j = 0; j < 16; ++j)
        rows[j] = j < n ? load_cache_n(src, kType, j * dim + d, width) : zero();
      transpose(rows);
#pragma GCC unroll 16
      for (size_t i = 0; i < 16; ++i) {
        if (i < width) store_n(dst + (d + i) * ld, rows[i], n);
      }
    }
  }

  // Sixteen vectors of bf16, dim a multiple of 32: pairs of values travel together and part at the end.
  static void transpose_bf16_pairs(float* dst, size_t ld, const uint16_t* src, size_t dim) {
    const __m512i high = _mm512_set1_epi32(static_cast<int>(0xFFFF0000U));
    for (size_t d = 0; d < dim; d += 32) {
      Reg rows[16];
#pragma GCC unroll 16
      for (size_t j = 0; j < 16; ++j) rows[j] = _mm512_loadu_ps(src + j * dim + d);
      transpose(rows);
      float* out = dst + d * ld;
#pragma GCC unroll 16
      for (size_t i = 0; i < 16; ++i) {
        const __m512i pair = _mm512_castps_si512(rows[i]);
        store(out + 2 * i * ld, _mm512_castsi512_ps(_mm512_slli_epi32(pair, 16)));
        store(out + (2 * i + 1) * ld, _mm512_castsi512_ps(_mm512_and_si512(pair, high)));
      }
    }
  }

  static void transpose_16(
      float* dst, size_t ld, const void* src, CacheType type, size_t dim, size_t n) {
    if (type == kCacheF32) {
      transpose_one_by_one<kCacheF32>(dst, ld, src, dim, n);
    } else if (type == kCacheF16) {
      transpose_one_by_one<kCacheF16>(dst, ld, src, dim, n);
    } else if (type == kCacheE4M3) {
      transpose_one_by_one<kCacheE4M3>(dst, ld, src, dim, n);
    } else if (type == kCacheE5M2) {
      transpose_one_by_one<kCacheE5M2>(dst, ld, src, dim, n);
    } else if (type == kCacheU8) {
      transpose_one_by_one<kCacheU8>(dst, ld, src, dim, n);
    } else if (n == 16 && dim % 32 == 0) {
      transpose_bf16_pairs(dst, ld, static_cast<const uint16_t*>(src), dim);
    } else {
      transpose_one_by_one<kCacheBf16>(dst, ld, src, dim, n);
    }
  }
};

#endif  // COXSWAIN_KERNELS_CPU_AVX512_VEC_H_
