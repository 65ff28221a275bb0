// bf16 weights times activations rounded to bf16, two products a lane and instruction (vdpbf16ps).
// Each output is one chain of instructions over pairs of k, ascending.

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx512/linear.h"

// The accumulator is named as read and written: g++ 12 copies and spills it around the intrinsic.
inline void dot(__m512& sum, __m512i weights, __m512i x) {
  asm("vdpbf16ps %2, %1, %0" : "+v"(sum) : "v"(weights), "v"(x));
}

template <int kRows, bool kStream>
inline void multiply(const TileArgs* t) {
  constexpr size_t kStepBytes = size_t{kPanel} * 4;
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
  for (size_t k = 0; k < t->k; k += 2, w += kStepBytes, a += 4) {
    if (kStream) {
      prefetch_stream(w, kStepBytes, t->prefetch_step);
    } else {
      prefetch_share(next, t->prefetch_step);
      next += t->prefetch_step;
    }
    __m512i weights[kVectors];
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) weights[v] = _mm512_loadu_si512(w + v * 64);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      const __m512i x = _mm512_set1_epi32(
          *reinterpret_cast<const int*>(a + static_cast<size_t>(r) * t->a_stride_bytes));
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) dot(sum[r][v], weights[v], x);
    }
  }
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) _mm512_store_ps(acc + r * kPanel + v * 16, sum[r][v]);
  }
}

template <int kRows>
struct Tile {
  static void run(const TileArgs* t) {
    t->prefetch != nullptr ? multiply<kRows, false>(t) : multiply<kRows, true>(t);
  }
};

void convert_row(void* dst, const float* x, size_t k, size_t k_padded, float*) {
  uint16_t* out = static_cast<uint16_t*>(dst);
  for (size_t i = 0; i < k_padded; i += 16) {
    const __m512 value = _mm512_maskz_loadu_ps(lanes_of(k, i), x + i);
    const __m256bh rounded = _mm512_cvtneps_pbh(value);
    __m256i bits;
    memcpy(&bits, &rounded, sizeof bits);
    _mm256_storeu_si256(reinterpret_cast<__m256i*>(out + i), bits);
  }
}

}  // namespace

void fill_avx512_linear_bf16(SetOps* ops) {
  LinearKernel kernel{};
  kernel.layout_id = 0x312;
  kernel.panel = kPanel;
  kernel.k_group = 2;
  kernel.k_multiple = 32;
  kernel.weight_bytes = 2;
  kernel.row_tile = kRowTile;
  kernel.k_block = 1024;
  kernel.form = kActivationBf16;
  kernel.convert_row = convert_row;
  kernel.tile = run_tile<Tile>;
  kernel.finish = finish_f32;
  ops->linear[1] = kernel;
}

}  // namespace coxswain::kernels
