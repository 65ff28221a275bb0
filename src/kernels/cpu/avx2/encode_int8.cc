// Rows of stored floats as int8, eight values at a time: the bits that formats/int8.cc defines.

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx2/vec.h"

// Values [i, i + n) of the row, zero beyond.
template <CacheType kType>
__m256 load_n(const EncodeArgs& row, size_t i, size_t n) {
  if constexpr (kType == kCacheF32) return Vec::load_n(static_cast<const float*>(row.x) + i, n);
  const uint16_t* x = static_cast<const uint16_t*>(row.x) + i;
  return kType == kCacheBf16 ? Vec::load_bf16_n(x, n) : Vec::load_f16_n(x, n);
}

size_t lanes_at(const EncodeArgs& row, size_t i) {
  return row.k - i < 8 ? row.k - i : 8;
}

__m128i folded(__m256i a, __m128i (*join)(__m128i, __m128i)) {
  __m128i out = join(_mm256_castsi256_si128(a), _mm256_extracti128_si256(a, 1));
  out = join(out, _mm_shuffle_epi32(out, 0x4E));
  return join(out, _mm_shuffle_epi32(out, 0xB1));
}
__m128i larger(__m128i a, __m128i b) {
  return _mm_max_epi32(a, b);
}
__m128i together(__m128i a, __m128i b) {
  return _mm_add_epi32(a, b);
}

template <CacheType kType>
void encode(const EncodeArgs& row) {
  __m256i highest = _mm256_setzero_si256();
  for (size_t i = 0; i < row.k; i += 8) {
    const __m256i bits = _mm256_castps_si256(load_n<kType>(row, i, lanes_at(row, i)));
    highest = _mm256_max_epi32(highest, _mm256_and_si256(bits, _mm256_set1_epi32(0x7FFFFFFF)));
  }
  const float absmax = _mm_cvtss_f32(_mm_castsi128_ps(folded(highest, larger)));
  *row.scale = absmax / 127.0F;
  *row.sum = 0;
  const float inverse = 127.0F / absmax;
  if (!is_number(absmax) || !is_number(inverse)) {
    memset(row.values, 0, row.k);
    return;
  }
  const __m256 factor = _mm256_set1_ps(inverse);
  __m256i sum = _mm256_setzero_si256();
  for (size_t i = 0; i < row.k; i += 8) {
    const size_t n = lanes_at(row, i);
    const __m256i codes = _mm256_cvtps_epi32(_mm256_mul_ps(load_n<kType>(row, i, n), factor));
    sum = _mm256_add_epi32(sum, codes);
    const __m128i words =
        _mm_packs_epi32(_mm256_castsi256_si128(codes), _mm256_extracti128_si256(codes, 1));
    const int64_t bytes = _mm_cvtsi128_si64(_mm_packs_epi16(words, words));
    memcpy(row.values + i, &bytes, n);
  }
  *row.sum = _mm_cvtsi128_si32(folded(sum, together));
}

void encode_row(const EncodeArgs* args) {
  const EncodeArgs row = *args;
  if (row.type == kCacheBf16) return encode<kCacheBf16>(row);
  if (row.type == kCacheF16) return encode<kCacheF16>(row);
  encode<kCacheF32>(row);
}

}  // namespace

void fill_avx2_encode(SetOps* ops) {
  ops->linear[kFormInt8].encode_row = encode_row;
}

}  // namespace coxswain::kernels
