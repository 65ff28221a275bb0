// Rows of stored floats as int8, sixteen values at a time: the bits that formats/int8.cc defines.

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx512/vec.h"

// Values [i, i + 16) of the row, zero from k on.
template <CacheType kType>
__m512 load_n(const EncodeArgs& row, size_t i) {
  const size_t n = row.k - i < 16 ? row.k - i : 16;
  if constexpr (kType == kCacheF32) return Vec::load_n(static_cast<const float*>(row.x) + i, n);
  const uint16_t* x = static_cast<const uint16_t*>(row.x) + i;
  return kType == kCacheBf16 ? Vec::load_bf16_n(x, n) : Vec::load_f16_n(x, n);
}

template <CacheType kType>
void encode(const EncodeArgs& row) {
  __m512i highest = _mm512_setzero_si512();
  for (size_t i = 0; i < row.k; i += 16) {
    const __m512i bits = _mm512_castps_si512(load_n<kType>(row, i));
    highest = _mm512_max_epi32(highest, _mm512_and_si512(bits, _mm512_set1_epi32(0x7FFFFFFF)));
  }
  const int top = _mm512_reduce_max_epi32(highest);
  float absmax;
  memcpy(&absmax, &top, sizeof(absmax));
  *row.scale = absmax / 127.0F;
  *row.sum = 0;
  const float inverse = 127.0F / absmax;
  if (!is_number(absmax) || !is_number(inverse)) {
    memset(row.values, 0, row.k);
    return;
  }
  const __m512 factor = _mm512_set1_ps(inverse);
  __m512i sum = _mm512_setzero_si512();
  for (size_t i = 0; i < row.k; i += 16) {
    const __m512i codes = _mm512_cvtps_epi32(_mm512_mul_ps(load_n<kType>(row, i), factor));
    sum = _mm512_add_epi32(sum, codes);
    const size_t n = row.k - i < 16 ? row.k - i : 16;
    _mm512_mask_cvtepi32_storeu_epi8(row.values + i, Vec::first_n(n), codes);
  }
  *row.sum = _mm512_reduce_add_epi32(sum);
}

void encode_row(const EncodeArgs* args) {
  const EncodeArgs row = *args;
  if (row.type == kCacheBf16) return encode<kCacheBf16>(row);
  if (row.type == kCacheF16) return encode<kCacheF16>(row);
  encode<kCacheF32>(row);
}

}  // namespace

void fill_avx512_encode(SetOps* ops) {
  ops->linear[kFormInt8].encode_row = encode_row;
}

}  // namespace coxswain::kernels
