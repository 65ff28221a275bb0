#ifndef COXSWAIN_KERNELS_CPU_AVX512_BYTES_H_
#define COXSWAIN_KERNELS_CPU_AVX512_BYTES_H_
// Bytes: vectors of codes as AVX-512 has them; a vector holds 4 bytes of each of 16 outputs. What each operation means
// is in the names; formats/<name>.h builds on them.
// Included inside an anonymous namespace of coxswain::kernels, after <immintrin.h>.

struct Set {
  using Bytes = __m512i;
  using Sums = __m512i;   // int32 of 16 outputs
  using Floats = __m512;  // of 16 outputs
  static constexpr size_t kOutputs = 16;

  static Bytes load(const uint8_t* p) { return _mm512_loadu_si512(p); }
  static __m512i load_words(const uint16_t* p) { return _mm512_loadu_si512(p); }
  static Bytes and_bytes(Bytes a, int mask) {
    return _mm512_and_si512(a, _mm512_set1_epi8(static_cast<char>(mask)));
  }
  // a | (b & mask)
  static Bytes or_masked(Bytes a, Bytes b, int mask) {
    return _mm512_ternarylogic_epi64(a, b, _mm512_set1_epi8(static_cast<char>(mask)), 0xF8);
  }
  // Bits from the byte above or below come in: mask them away. Negative: to the right.
  template <int kBits>
  static Bytes shift_left(Bytes a) {
    if constexpr (kBits < 0) {
      return shift_right<-kBits>(a);
    } else {
      return _mm512_slli_epi16(a, kBits);
    }
  }
  template <int kBits>
  static Bytes shift_right(Bytes a) {
    return _mm512_srli_epi16(a, kBits);
  }
  // The same four activations, or the same int32, for every output.
  static __m512i broadcast(const void* p) {
    int bits = 0;
    memcpy(&bits, p, 4);
    return _mm512_set1_epi32(bits);
  }
  // sum += 4 products of unsigned codes and signed activations. The accumulator is named as read and written: g++ 12
  // copies and spills it around the intrinsic.
  static void dot(Sums& sum, Bytes codes, __m512i activations) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(codes), "v"(activations));
  }
  static Floats widen_f16(const uint16_t* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
  // Pairs of words: the first of each, and the second, as float16.
  static Floats widen_first(__m512i pairs) { return _mm512_cvtph_ps(_mm512_cvtepi32_epi16(pairs)); }
  static Floats widen_second(__m512i pairs) { return widen_first(_mm512_srli_epi32(pairs, 16)); }
  static Floats all(float x) { return _mm512_set1_ps(x); }
  static Sums add(Sums a, Sums b) { return _mm512_add_epi32(a, b); }
  static int32_t sum(Sums a) { return _mm512_reduce_add_epi32(a); }
  // Integers in [-128, 127], a byte each.
  static void store_bytes(int8_t* p, Sums a) {
    _mm_storeu_si128(reinterpret_cast<__m128i*>(p), _mm512_cvtepi32_epi8(a));
  }
};

#endif  // COXSWAIN_KERNELS_CPU_AVX512_BYTES_H_
