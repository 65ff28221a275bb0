#ifndef COXSWAIN_KERNELS_CPU_AVX2_BYTES_H_
#define COXSWAIN_KERNELS_CPU_AVX2_BYTES_H_
// Vectors of codes as AVX2 has them: 4 bytes of each of 8 outputs (cpu/avx512/bytes.h).
// Included inside an anonymous namespace of coxswain::kernels, after <immintrin.h> and "kernels/cpu/ops.h".

#include "kernels/cpu/avx2/linear.h"

struct Set {
  using Bytes = __m256i;
  using Sums = __m256i;   // int32 of 8 outputs
  using Floats = __m256;  // of 8 outputs
  static constexpr size_t kOutputs = 8;

  static Bytes load(const uint8_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  static Bytes and_bytes(Bytes a, int mask) {
    return _mm256_and_si256(a, _mm256_set1_epi8(static_cast<char>(mask)));
  }
  // a | (b & mask)
  static Bytes or_masked(Bytes a, Bytes b, int mask) {
    return _mm256_or_si256(a, and_bytes(b, mask));
  }
  // Bits from the byte above or below come in: mask them away. Negative: to the right.
  template <int kBits>
  static Bytes shift_left(Bytes a) {
    if constexpr (kBits < 0) {
      return shift_right<-kBits>(a);
    } else {
      return _mm256_slli_epi16(a, kBits);
    }
  }
  template <int kBits>
  static Bytes shift_right(Bytes a) {
    return _mm256_srli_epi16(a, kBits);
  }
  // The same four activations, or the same int32, for every output.
  static __m256i broadcast(const void* p) {
    int bits = 0;
    memcpy(&bits, p, 4);
    return _mm256_set1_epi32(bits);
  }
  // Two sums of 2 products of unsigned codes and signed activations for each output, in 16 bits.
  static __m256i products(Bytes codes, __m256i activations) {
    return _mm256_maddubs_epi16(codes, activations);
  }
  // The same of signed codes from -128 on, for activations from -127 to 127: magnitudes times activations that have
  // taken over the signs stay within 16 bits.
  static __m256i signed_products(Bytes codes, __m256i activations) {
    return _mm256_maddubs_epi16(_mm256_abs_epi8(codes), _mm256_sign_epi8(activations, codes));
  }
  static __m256i load_words(const uint16_t* p) {
    return _mm256_loadu_si256(reinterpret_cast<const __m256i*>(p));
  }
  // Pairs of words: the first of each, and the second, as float16.
  static __m256 widen_first(__m256i pairs) { return widen_second(_mm256_slli_epi32(pairs, 16)); }
  static __m256 widen_second(__m256i pairs) {
    const __m256i words = _mm256_srli_epi32(pairs, 16);
    return _mm256_cvtph_ps(
        _mm_packus_epi32(_mm256_castsi256_si128(words), _mm256_extracti128_si256(words, 1)));
  }
  static __m256 widen_f16(const uint16_t* p) {
    return _mm256_cvtph_ps(_mm_loadu_si128(reinterpret_cast<const __m128i*>(p)));
  }
  static Floats all(float x) { return _mm256_set1_ps(x); }
  static Sums add(Sums a, Sums b) { return _mm256_add_epi32(a, b); }
  static int32_t sum(Sums a) {
    __m128i out = _mm_add_epi32(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
    out = _mm_add_epi32(out, _mm_shuffle_epi32(out, 0x4E));
    out = _mm_add_epi32(out, _mm_shuffle_epi32(out, 0xB1));
    return _mm_cvtsi128_si32(out);
  }
  // Integers in [-128, 127], a byte each.
  static void store_bytes(int8_t* p, Sums a) {
    const __m128i words = packed16(a);
    _mm_storel_epi64(reinterpret_cast<__m128i*>(p), _mm_packs_epi16(words, words));
  }
};

#endif  // COXSWAIN_KERNELS_CPU_AVX2_BYTES_H_
