// TDPBF16PS in AVX-512 with the control word that the tile unit always has: rounding to nearest
// even, subnormal inputs and results count as zero, no exceptions. For each output two chains of
// fused multiply-adds over ascending k, one of the lower and one of the upper values of the pairs;
// then their sum; then that added to the output.
//
// Compiled with flags of its own: intrinsics and C headers only.

#include <immintrin.h>

#include "kernels/testing/tile_unit.h"

namespace coxswain::kernels::testing {
namespace {

constexpr unsigned kTileControl = 0x9FC0;  // MXCSR: flush, all masked, nearest, denormals are zero

inline __m512 lower(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_slli_epi32(pairs, 16));
}
inline __m512 upper(__m512i pairs) {
  return _mm512_castsi512_ps(_mm512_and_si512(pairs, _mm512_set1_epi32(-65536)));
}

// Not inlined, so that nothing of it moves out from between the changes of the control word.
__attribute__((noinline)) void dot_rows(std::uint8_t* c,
                                        const std::uint8_t* a,
                                        const std::uint8_t* b,
                                        std::size_t rows,
                                        std::size_t pairs,
                                        __mmask16 outputs) {
  for (std::size_t m = 0; m < rows; ++m, a += 64, c += 64) {
    __m512 even = _mm512_setzero_ps();
    __m512 odd = _mm512_setzero_ps();
    for (std::size_t k = 0; k < pairs; ++k) {
      const __m512i x = _mm512_set1_epi32(*reinterpret_cast<const int*>(a + 4 * k));
      const __m512i y = _mm512_load_si512(b + 64 * k);
      even = _mm512_fmadd_ps(lower(x), lower(y), even);
      odd = _mm512_fmadd_ps(upper(x), upper(y), odd);
    }
    const __m512 sum = _mm512_add_ps(_mm512_load_ps(c), _mm512_add_ps(even, odd));
    _mm512_mask_store_ps(c, outputs, sum);
  }
}

}  // namespace

void tile_dot_bf16(std::uint8_t* c,
                   const std::uint8_t* a,
                   const std::uint8_t* b,
                   std::size_t rows,
                   std::size_t pairs,
                   std::size_t outputs) {
  const unsigned control = _mm_getcsr();
  _mm_setcsr(kTileControl);
  dot_rows(c, a, b, rows, pairs, static_cast<__mmask16>((1U << outputs) - 1U));
  _mm_setcsr(control);
}

}  // namespace coxswain::kernels::testing
