#ifndef COXSWAIN_KERNELS_CPU_AVX2_LINEAR_H_
#define COXSWAIN_KERNELS_CPU_AVX2_LINEAR_H_
// What the linear kernels of AVX2 share. Included inside an anonymous namespace of coxswain::kernels, after
// <immintrin.h> and "kernels/cpu/ops.h".

constexpr int kPanel = 32;
constexpr int kPanelVectors = 4;

inline __m256i lanes_of(size_t n, size_t first) {
  const int count = n > first + 8 ? 8 : n > first ? static_cast<int>(n - first) : 0;
  return _mm256_cmpgt_epi32(_mm256_set1_epi32(count), _mm256_setr_epi32(0, 1, 2, 3, 4, 5, 6, 7));
}

// y = value (+ bias) (+ y), in that order.
inline void put(const FinishArgs* f, size_t row, size_t column, __m256i lanes, __m256 value) {
  float* y = f->y + row * f->y_stride + column;
  if (f->bias != nullptr) value = _mm256_add_ps(value, _mm256_maskload_ps(f->bias + column, lanes));
  if (f->accumulate) value = _mm256_add_ps(_mm256_maskload_ps(y, lanes), value);
  _mm256_maskstore_ps(y, lanes, value);
}

inline __m256 load_n(const float* x, size_t k, size_t i) {
  return _mm256_maskload_ps(x + i, lanes_of(k, i));
}

// The highest magnitude; as bits, so that a NaN is above everything and makes the whole row NaN.
inline float absmax_of(const float* x, size_t k) {
  __m256i highest = _mm256_setzero_si256();
  for (size_t i = 0; i < k; i += 8) {
    const __m256i bits = _mm256_castps_si256(load_n(x, k, i));
    highest = _mm256_max_epi32(highest, _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF)));
  }
  __m128i top =
      _mm_max_epi32(_mm256_castsi256_si128(highest), _mm256_extracti128_si256(highest, 1));
  top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0x4E));
  top = _mm_max_epi32(top, _mm_shuffle_epi32(top, 0xB1));
  return _mm_cvtss_f32(_mm_castsi128_ps(top));
}

// Values [first, first + 8) of a row as integers in [-127, 127].
inline __m256i quantised(const ConvertArgs& c, size_t first, __m256 inverse) {
  return _mm256_cvtps_epi32(_mm256_mul_ps(load_n(c.x, c.k, first), inverse));
}

inline __m128i packed16(__m256i values) {
  return _mm_packs_epi32(_mm256_castsi256_si128(values), _mm256_extracti128_si256(values, 1));
}

#endif  // COXSWAIN_KERNELS_CPU_AVX2_LINEAR_H_
