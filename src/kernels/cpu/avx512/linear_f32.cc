// Linear kernels with float32 arithmetic: f32, f16 and bf16 weights, widened as they are loaded.
// One fused multiply-add per product.

#include <immintrin.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx512/linear.h"

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

template <typename Weight, int kRows, bool kStream>
inline void multiply(const TileArgs* t) {
  constexpr size_t kStepBytes = size_t{kPanel} * Weight::kBytes;
  __m512 sum[kRows][kVectors];
  float* acc = static_cast<float*>(t->acc);
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v)
      sum[r][v] = t->first ? _mm512_setzero_ps() : _mm512_load_ps(acc + r * kPanel + v * 16);
  }
  const char* w = static_cast<const char*>(t->w);
  const char* a = static_cast<const char*>(t->a);
  const char* next = t->prefetch;
  for (size_t k = 0; k < t->k; ++k, w += kStepBytes, a += sizeof(float)) {
    if (kStream) {
      prefetch_stream(w, kStepBytes, t->prefetch_step);
    } else {
      prefetch_share(next, t->prefetch_step);
      next += t->prefetch_step;
    }
    __m512 weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) weights[v] = Weight::load(w + v * 16 * Weight::kBytes);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512 x = _mm512_set1_ps(
          *reinterpret_cast<const float*>(a + static_cast<size_t>(r) * t->a_stride_bytes));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = _mm512_fmadd_ps(x, weights[v], sum[r][v]);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(acc + r * kPanel + v * 16, sum[r][v]);
  }
}

template <typename Weight>
struct For {
  template <int kRows>
  struct Tile {
    static void run(const TileArgs* t) {
      t->prefetch != nullptr ? multiply<Weight, kRows, false>(t) : multiply<Weight, kRows, true>(t);
    }
  };
};

template <typename Weight>
LinearKernel kernel_of(uint32_t layout_id) {
  LinearKernel kernel{};
  kernel.layout_id = layout_id;
  kernel.panel = kPanel;
  kernel.k_group = 1;
  kernel.k_multiple = 1;
  kernel.weight_bytes = Weight::kBytes;
  kernel.row_tile = kRowTile;
  kernel.k_block = 131072 / (kPanel * Weight::kBytes);
  kernel.form = kActivationF32;
  kernel.tile = run_tile<For<Weight>::template Tile>;
  kernel.finish = finish_f32;
  return kernel;
}

}  // namespace

void fill_avx512_linear_f32(SetOps* ops) {
  ops->linear[0] = kernel_of<F32>(0x301);
  ops->linear[1] = kernel_of<Bf16>(0x302);
  ops->linear[2] = kernel_of<F16>(0x303);
}

}  // namespace coxswain::kernels
