// Linear kernels with float32 arithmetic: f32, f16 and bf16 weights, widened as they are loaded.
// One fused multiply-add per product.

#include <immintrin.h>
#include <math.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx512/finish.h"
#include "kernels/cpu/avx512/linear.h"

// Weights of kBytes each, widened by load().
struct F32 {
  static constexpr int kBytes = 4;
  static __m512 load(const char* p) { return _mm512_loadu_ps(p); }
};

struct F16 {
  static constexpr int kBytes = 2;
  static __m512 load(const char* p) {
    return _mm512_cvtph_ps(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
  }
};

struct Bf16 {
  static constexpr int kBytes = 2;
  static __m512 load(const char* p) {
    const __m512i wide =
        _mm512_cvtepu16_epi32(_mm256_loadu_si256(reinterpret_cast<const __m256i*>(p)));
    return _mm512_castsi512_ps(_mm512_slli_epi32(wide, 16));
  }
};

template <typename Weight>
struct MultiplyAdd {
  static constexpr int kStepValues = 1;
  static constexpr int kValueBytes = 4;
  static constexpr int kWeightBytes = Weight::kBytes;
  using Sum = __m512;
  using Weights = __m512;
  static Sum zero() { return _mm512_setzero_ps(); }
  static Sum load(const char* p) { return _mm512_load_ps(p); }
  static void store(char* p, Sum sum) { _mm512_store_ps(p, sum); }
  static Weights weights(const char* p) { return Weight::load(p); }
  static __m512 broadcast(const char* p) {
    return _mm512_set1_ps(*reinterpret_cast<const float*>(p));
  }
  static void dot(Sum& sum, Weights weights, __m512 x) { sum = _mm512_fmadd_ps(x, weights, sum); }
};

template <typename Weight>
LinearKernel widened(uint32_t layout_id) {
  LinearKernel kernel = kernel_of<MultiplyAdd<Weight>>(layout_id);
  kernel.k_multiple = 1;
  kernel.form = kActivationF32;
  use_finish<PlainOutputs>(&kernel);
  return kernel;
}

}  // namespace

void fill_avx512_linear_f32(SetOps* ops) {
  ops->linear[kFormFloat32] = widened<F32>(0x301);
  ops->linear[kFormBfloat16] = widened<Bf16>(0x302);
  ops->linear[kFormFloat16] = widened<F16>(0x303);
}

}  // namespace coxswain::kernels
