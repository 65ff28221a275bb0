// int8 weights times activations quantised per row, four products a lane and instruction
// (vpdpbusd). The instruction takes unsigned activations: 128 is added to them, and 128 times the
// sum of an output's weights taken away at the end. Sums are exact.

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx512/finish.h"
#include "kernels/cpu/avx512/linear.h"

struct Int8 {
  static constexpr int kStepValues = 4;
  static constexpr int kValueBytes = 1;
  static constexpr int kWeightBytes = 1;
  using Sum = __m512i;
  using Weights = __m512i;
  static Sum zero() { return _mm512_setzero_si512(); }
  static Sum load(const char* p) { return _mm512_load_si512(p); }
  static void store(char* p, Sum sum) { _mm512_store_si512(p, sum); }
  static Weights weights(const char* p) { return _mm512_loadu_si512(p); }
  static __m512i broadcast(const char* p) {
    return _mm512_set1_epi32(*reinterpret_cast<const int*>(p));
  }
  // Assembly for the reason that linear_bf16.cc has.
  static void dot(Sum& sum, Weights weights, __m512i x) {
    asm("vpdpbusd %2, %1, %0" : "+v"(sum) : "v"(x), "v"(weights));
  }
};

void convert_row(const ConvertArgs* args) {
  const ConvertArgs c = *args;
  uint8_t* out = static_cast<uint8_t*>(c.values);
  const float inverse = inverse_of(absmax_of(c.x, c.k), c.scale);
  if (inverse == 0.0F) {
    memset(out, 128, c.k_padded);
    return;
  }
  const __m512 factor = _mm512_set1_ps(inverse);
  const __m512i offset = _mm512_set1_epi32(128);
  for (size_t i = 0; i < c.k_padded; i += 16) {
    _mm_prefetch(c.x + c.k + i, _MM_HINT_T0);
    const __m512i shifted = _mm512_add_epi32(quantised(c, i, factor), offset);
    _mm_storeu_si128(reinterpret_cast<__m128i*>(out + i), _mm512_cvtepi32_epi8(shifted));
  }
}

// Whole sums, less what the offset of the activations gave, times the scales of the output and of the row.
struct Int8Outputs {
  Int8Outputs(const FinishArgs* f, size_t column, __mmask16 lanes)
      : correction(_mm512_mullo_epi32(_mm512_set1_epi32(f->activation_offset),
                                      _mm512_maskz_loadu_epi32(lanes, f->column_sums + column))),
        scale(_mm512_maskz_loadu_ps(lanes, f->scales + column)),
        row_scales(f->row_scales) {}
  __m512 of(const char* sums, size_t row) const {
    const __m512i sum = _mm512_sub_epi32(_mm512_load_si512(sums), correction);
    return _mm512_mul_ps(_mm512_mul_ps(_mm512_cvtepi32_ps(sum), scale),
                         _mm512_set1_ps(row_scales[row]));
  }
  __m512i correction;
  __m512 scale;
  const float* row_scales;
};

}  // namespace

void fill_avx512_linear_int8(SetOps* ops) {
  LinearKernel kernel = kernel_of<Int8>(0x304);
  kernel.k_multiple = 64;
  kernel.form = kActivationU8;
  kernel.convert_row = convert_row;
  use_finish<Int8Outputs>(&kernel);
  ops->linear[kFormInt8] = kernel;
}

}  // namespace coxswain::kernels
