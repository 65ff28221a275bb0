// bf16 weights times activations rounded to bf16, two products a lane and instruction (vdpbf16ps).
// Each output is one chain of instructions over pairs of k, ascending.

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx512/finish.h"
#include "kernels/cpu/avx512/linear.h"

struct Bf16 {
  static constexpr int kStepValues = 2;
  static constexpr int kValueBytes = 2;
  static constexpr int kWeightBytes = 2;
  using Sum = __m512;
  using Weights = __m512i;
  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum load(const char* p) { return _mm512_load_ps(p); }
  static void store(char* p, Sum sum) { _mm512_store_ps(p, sum); }
  static Weights weights(const char* p) { return _mm512_loadu_si512(p); }
  static __m512i broadcast(const char* p) {
    return _mm512_set1_epi32(*reinterpret_cast<const int*>(p));
  }
  // The accumulator is named as read and written: g++ 12 copies and spills it around the intrinsic.
  static void dot(Sum& sum, Weights weights, __m512i x) {
    asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(x));
  }
};

void convert_row(const ConvertArgs* args) {
  const ConvertArgs c = *args;
  uint16_t* out = static_cast<uint16_t*>(c.values);
  for (size_t i = 0; i < c.k_padded; i += 16) {
    const __m512 value = _mm512_maskz_loadu_ps(lanes_of(c.k, i), c.x + i);
    const __m256bh rounded = _mm512_cvtneps_pbh(value);
    __m256i bits;
    memcpy(&bits, &rounded, sizeof bits);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bits);
  }
}

}  // namespace

void fill_avx512_linear_bf16(SetOps* ops) {
  LinearKernel kernel = kernel_of<Bf16>(0x312);
  kernel.k_multiple = 32;
  kernel.form = kActivationBf16;
  kernel.convert_row = convert_row;
  use_finish<PlainOutputs>(&kernel);
  ops->linear[kFormBfloat16] = kernel;
}

}  // namespace coxswain::kernels
