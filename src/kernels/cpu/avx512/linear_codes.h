#ifndef COXSWAIN_KERNELS_CPU_AVX512_LINEAR_CODES_H_
#define COXSWAIN_KERNELS_CPU_AVX512_LINEAR_CODES_H_
// What the kernels of AVX-512 for codes in groups and in super-groups share. Included inside an anonymous namespace of
// coxswain::kernels, after <immintrin.h>, <string.h> and "kernels/cpu/ops.h".

#include "kernels/cpu/avx512/bytes.h"
#include "kernels/cpu/avx512/linear.h"
#include "kernels/cpu/generic/codes_row.h"
#include "kernels/formats/int4.h"

// What generic/codes_kernel.h asks for: layout ids, before the format's; k_block.
constexpr uint32_t kCodeLayouts = 0x3000;
template <typename Codes>
inline constexpr uint32_t kBlockValues =
    kBlockBytes / (kPanel * Codes::kUnitBytes) * Codes::kUnitValues;

// One unit of kVectors vectors times kRows rows.
template <typename Codes, int kPart, int kRows, int kVectors>
inline void multiply_part(Set::Sums (&sum)[kRows][kVectors],
                          const uint8_t* w,
                          const uint8_t* a,
                          size_t a_stride) {
  Set::Bytes codes[kVectors];
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v)
    codes[v] = Codes::template codes<Set, kPart>(Set::load(w + v * 64));
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512i x = Set::broadcast(a + static_cast<size_t>(r) * a_stride + kPart * 4);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) Set::dot(sum[r][v], codes[v], x);
  }
  if constexpr (kPart + 1 < Codes::kParts)
    multiply_part<Codes, kPart + 1, kRows, kVectors>(sum, w, a, a_stride);
}

inline void finish_rows(const FinishArgs* f) {
  for (size_t r = 0; r < f->rows; ++r) {
    const float* acc = static_cast<const float*>(f->acc) + r * kPanel;
    const __m512 scale = _mm512_set1_ps(f->row_scales[r]);
    for (size_t j = 0; j < f->n; j += 16)
      put(f, r, j, _mm512_mul_ps(_mm512_load_ps(acc + j), scale));
  }
}

#include "kernels/cpu/generic/codes_kernel.h"

#endif  // COXSWAIN_KERNELS_CPU_AVX512_LINEAR_CODES_H_
