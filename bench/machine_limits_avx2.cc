#include <immintrin.h>

#include "machine_limits_simd.h"

namespace coxswain::bench {

double spin_f32_avx2(size_t rounds) {
  for (size_t i = 0; i < rounds; ++i) {
    asm volatile(
        "vfmadd231ps %%ymm0, %%ymm0, %%ymm1\n vfmadd231ps %%ymm0, %%ymm0, %%ymm2\n"
        "vfmadd231ps %%ymm0, %%ymm0, %%ymm3\n vfmadd231ps %%ymm0, %%ymm0, %%ymm4\n"
        "vfmadd231ps %%ymm0, %%ymm0, %%ymm5\n vfmadd231ps %%ymm0, %%ymm0, %%ymm6\n"
        "vfmadd231ps %%ymm0, %%ymm0, %%ymm7\n vfmadd231ps %%ymm0, %%ymm0, %%ymm8\n"
        "vfmadd231ps %%ymm0, %%ymm0, %%ymm9\n vfmadd231ps %%ymm0, %%ymm0, %%ymm10\n"
        "vfmadd231ps %%ymm0, %%ymm0, %%ymm11\n vfmadd231ps %%ymm0, %%ymm0, %%ymm12\n" ::
            : "xmm0",
              "xmm1",
              "xmm2",
              "xmm3",
              "xmm4",
              "xmm5",
              "xmm6",
              "xmm7",
              "xmm8",
              "xmm9",
              "xmm10",
              "xmm11",
              "xmm12");
  }
  return static_cast<double>(rounds) * 12 * 8 * 2;
}

unsigned long long read_avx2(const void* p, size_t bytes) {
  const char* at = static_cast<const char*>(p);
  __m256i sum[4] = {};
  for (size_t i = 0; i < bytes; i += 128) {
    for (size_t j = 0; j < 4; ++j) {
      sum[j] = _mm256_add_epi64(
          sum[j], _mm256_load_si256(reinterpret_cast<const __m256i*>(at + i + j * 32)));
    }
  }
  const __m256i all =
      _mm256_add_epi64(_mm256_add_epi64(sum[0], sum[1]), _mm256_add_epi64(sum[2], sum[3]));
  return static_cast<unsigned long long>(
      _mm256_extract_epi64(all, 0) ^ _mm256_extract_epi64(all, 1) ^ _mm256_extract_epi64(all, 2) ^
      _mm256_extract_epi64(all, 3));
}

}  // namespace coxswain::bench
