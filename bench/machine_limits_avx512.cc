#include <immintrin.h>

#include "machine_limits_simd.h"

// Twelve independent chains: more than the latency of any of these instructions.
#define COXSWAIN_BENCH_CHAINS(instruction)                                                      \
  asm volatile(instruction                                                                      \
               " %%zmm0, %%zmm0, %%zmm1\n" instruction " %%zmm0, %%zmm0, %%zmm2\n" instruction  \
               " %%zmm0, %%zmm0, %%zmm3\n" instruction " %%zmm0, %%zmm0, %%zmm4\n" instruction  \
               " %%zmm0, %%zmm0, %%zmm5\n" instruction " %%zmm0, %%zmm0, %%zmm6\n" instruction  \
               " %%zmm0, %%zmm0, %%zmm7\n" instruction " %%zmm0, %%zmm0, %%zmm8\n" instruction  \
               " %%zmm0, %%zmm0, %%zmm9\n" instruction " %%zmm0, %%zmm0, %%zmm10\n" instruction \
               " %%zmm0, %%zmm0, %%zmm11\n" instruction " %%zmm0, %%zmm0, %%zmm12\n" ::         \
                   : "xmm0",                                                                    \
                     "xmm1",                                                                    \
                     "xmm2",                                                                    \
                     "xmm3",                                                                    \
                     "xmm4",                                                                    \
                     "xmm5",                                                                    \
                     "xmm6",                                                                    \
                     "xmm7",                                                                    \
                     "xmm8",                                                                    \
                     "xmm9",                                                                    \
                     "xmm10",                                                                   \
                     "xmm11",                                                                   \
                     "xmm12")

namespace coxswain::bench {

double spin_f32_avx512(size_t rounds) {
  for (size_t i = 0; i < rounds; ++i) COXSWAIN_BENCH_CHAINS("vfmadd231ps");
  return static_cast<double>(rounds) * 12 * 16 * 2;
}

double spin_int8_avx512(size_t rounds) {
  for (size_t i = 0; i < rounds; ++i) COXSWAIN_BENCH_CHAINS("vpdpbusd");
  return static_cast<double>(rounds) * 12 * 64 * 2;
}

double spin_bf16_avx512(size_t rounds) {
  for (size_t i = 0; i < rounds; ++i) COXSWAIN_BENCH_CHAINS("vdpbf16ps");
  return static_cast<double>(rounds) * 12 * 32 * 2;
}

unsigned long long read_avx512(const void* p, size_t bytes) {
  const char* at = static_cast<const char*>(p);
  __m512i sum[4] = {_mm512_setzero_si512(),
                    _mm512_setzero_si512(),
                    _mm512_setzero_si512(),
                    _mm512_setzero_si512()};
  for (size_t i = 0; i < bytes; i += 256) {
    for (size_t j = 0; j < 4; ++j)
      sum[j] = _mm512_add_epi64(sum[j], _mm512_load_si512(at + i + j * 64));
  }
  unsigned long long lanes[8];
  _mm512_storeu_si512(
      lanes, _mm512_add_epi64(_mm512_add_epi64(sum[0], sum[1]), _mm512_add_epi64(sum[2], sum[3])));
  unsigned long long all = 0;
  for (const unsigned long long lane : lanes) all += lane;
  return all;
}

}  // namespace coxswain::bench
