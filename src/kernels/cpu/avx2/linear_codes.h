#ifndef COXSWAIN_KERNELS_CPU_AVX2_LINEAR_CODES_H_
#define COXSWAIN_KERNELS_CPU_AVX2_LINEAR_CODES_H_
// What the kernels of AVX2 for codes in groups and in super-groups share. Included inside an anonymous namespace of
// coxswain::kernels, after <immintrin.h>, <string.h> and "kernels/cpu/ops.h".

#include "kernels/cpu/avx2/bytes.h"
#include "kernels/cpu/avx2/linear.h"
#include "kernels/cpu/generic/codes_row.h"
#include "kernels/formats/int4.h"

constexpr int kRowTile = 4;
// What generic/codes_kernel.h asks for: layout ids, before the format's; k_block.
constexpr uint32_t kCodeLayouts = 0x2000;
template <typename Codes>
inline constexpr uint32_t kBlockValues = 4096;

// Codes of 8 bits leave 16 bits when two products of unsigned ones are added; as signed ones they do not.
template <typename Codes>
inline constexpr bool kAsSigned = Codes::kHighest > 127;

// Parts whose products may be added up in 16 bits: each lane takes 2 products of each.
template <typename Codes>
constexpr int parts_in_16_bits() {
  constexpr int kMagnitude = kAsSigned<Codes> ? 128 : Codes::kHighest;
  return 32767 / (2 * 127 * kMagnitude);
}
template <typename Codes>
constexpr size_t units_in_16_bits() {
  return static_cast<size_t>(parts_in_16_bits<Codes>()) / Codes::kParts;
}

// Parts [kPart, kEnd) of a unit.
template <typename Codes, int kPart, int kRows, int kVectors, int kEnd = Codes::kParts>
inline void multiply_part(__m256i (&sum)[kRows][kVectors],
                          const uint8_t* w,
                          const uint8_t* a,
                          size_t a_stride) {
  __m256i codes[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    codes[v] = codes_at<Codes, kPart, kPanel>(w + v * 32);
    if constexpr (kAsSigned<Codes>)
      codes[v] = _mm256_xor_si256(codes[v], _mm256_set1_epi8(static_cast<char>(0x80)));
  }
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
    const __m256i x = Set::broadcast(a + static_cast<size_t>(r) * a_stride + kPart * 4);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256i products =
          kAsSigned<Codes> ? Set::signed_products(codes[v], x) : Set::products(codes[v], x);
      sum[r][v] = _mm256_add_epi16(sum[r][v], products);
    }
  }
  if constexpr (kPart + 1 < kEnd)
    multiply_part<Codes, kPart + 1, kRows, kVectors, kEnd>(sum, w, a, a_stride);
}

// Widens sums of 16 bits and adds them up.
template <int kRows, int kVectors>
inline void add_parts(__m256i (&sum)[kRows][kVectors], const __m256i (&part)[kRows][kVectors]) {
#pragma GCC unroll 4
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = _mm256_add_epi32(sum[r][v], _mm256_madd_epi16(part[r][v], _mm256_set1_epi16(1)));
  }
}

inline void finish_rows(const FinishArgs* f) {
  for (size_t j = 0; j < f->n; j += 8) {
    const __m256i lanes = lanes_of(f->n, j);
    for (size_t r = 0; r < f->rows; ++r) {
      const float* acc = static_cast<const float*>(f->acc) + r * kPanel + j;
      put(f, r, j, lanes, _mm256_mul_ps(_mm256_load_ps(acc), _mm256_set1_ps(f->row_scales[r])));
    }
  }
}

constexpr auto kFinish = finish_rows;
constexpr void (*kFinishGate)(const GateArgs*) = nullptr;

#include "kernels/cpu/generic/codes_kernel.h"

#endif  // COXSWAIN_KERNELS_CPU_AVX2_LINEAR_CODES_H_
