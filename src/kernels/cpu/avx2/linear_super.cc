// Linear kernels for codes in super-groups: pairs of products in 16 bits (vpmaddubsw) within a sub-group, widened and
// multiplied by the sub-group's whole number; a super-group costs one multiplication by its scale and one addition.

#include <immintrin.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx2/linear_codes.h"
#include "kernels/formats/super.h"

// Whole numbers of sub-group `sub` of 8 outputs; `words` are the parameters of these.
template <typename Codes>
inline __m256i subs_of(const uint16_t* words, size_t sub) {
  constexpr size_t kOfWord = Codes::kHasMinima ? 2 : 4;
  const __m256i word = Set::load_words(words + (1 + sub / kOfWord) * kPanel * 2);
  const int place = static_cast<int>(sub % kOfWord * (32 / kOfWord));
  if constexpr (Codes::kHasMinima)
    return _mm256_and_si256(_mm256_srl_epi32(word, _mm_cvtsi32_si128(place)),
                            _mm256_set1_epi32(0xFF));
  return _mm256_srai_epi32(_mm256_sll_epi32(word, _mm_cvtsi32_si128(24 - place)), 24);
}

// Where a super-group is read: `words` are its parameters, `starts` what the first row gives to it.
struct Group {
  const uint8_t* w;
  const uint8_t* a;
  size_t a_stride;
  const uint16_t* words;
  const char* starts;

  __m256i start(int row, size_t i) const {
    return Set::broadcast(starts + static_cast<size_t>(row) * a_stride + i * sizeof(int32_t));
  }
};

// Sums of one sub-group in 32 bits, beside what is there.
template <typename Codes, int kRows, int kVectors>
inline void sum_sub(__m256i (&sum)[kRows][kVectors], const Group& g, size_t sub) {
  const uint8_t* w = g.w + sub * (Codes::kSub / Codes::kUnitValues * kPanel * Codes::kUnitBytes);
  const uint8_t* a = g.a + sub * Codes::kSub;
  if constexpr (Codes::kSub == Codes::kUnitValues) {
    static_assert(Codes::kParts == 4 && parts_in_16_bits<Codes>() >= 2);
    __m256i first[kRows][kVectors] = {};
    multiply_part<Codes, 0, kRows, kVectors, 2>(first, w, a, g.a_stride);
    add_parts(sum, first);
    __m256i second[kRows][kVectors] = {};
    multiply_part<Codes, 2, kRows, kVectors>(second, w, a, g.a_stride);
    add_parts(sum, second);
    return;
  }
  constexpr int kBlock = static_cast<int>(units_in_16_bits<Codes>()) * Codes::kUnitValues;
  for (int block = 0; block < Codes::kSub; block += kBlock) {
    __m256i part[kRows][kVectors] = {};
    for (int i = 0; i < kBlock; i += Codes::kUnitValues) {
      multiply_part<Codes, 0, kRows, kVectors>(part, w, a, g.a_stride);
      w += kPanel * Codes::kUnitBytes;
      a += Codes::kUnitValues;
    }
    add_parts(sum, part);
  }
}

// Sums of the minima of 8 outputs times those of a row's sub-groups.
inline __m256i minima_of(const Group& g, int row, int vector) {
  __m256i minima = _mm256_setzero_si256();
  for (size_t pair = 0; pair < 4; ++pair) {
    const __m256i words = Set::load_words(g.words + (1 + pair) * kPanel * 2 + vector * 16);
    minima = _mm256_add_epi32(minima,
                              _mm256_madd_epi16(_mm256_srli_epi16(words, 8), g.start(row, pair)));
  }
  return minima;
}

// A super-group of up to n inputs times kRows rows and kVectors vectors of outputs, into acc.
template <typename Codes, int kRows, int kVectors>
inline void add_group(const Group& g, size_t n, float* acc, bool first) {
  __m256i total[kRows][kVectors] = {};
  for (size_t sub = 0; sub * Codes::kSub < n; ++sub) {
    __m256i sum[kRows][kVectors];
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      const __m256i start = Codes::kHasMinima ? _mm256_setzero_si256() : g.start(r, sub);
#pragma GCC unroll 4
      for (int v = 0; v < kVectors; ++v) sum[r][v] = start;
    }
    sum_sub<Codes, kRows, kVectors>(sum, g, sub);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m256i subs = subs_of<Codes>(g.words + v * 16, sub);
#pragma GCC unroll 4
      for (int r = 0; r < kRows; ++r)
        total[r][v] = _mm256_add_epi32(total[r][v], _mm256_mullo_epi32(sum[r][v], subs));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m256i scales = Set::load_words(g.words + v * 16);
    const __m256 scale = Set::widen_first(scales);
    const __m256 minimum = Set::widen_second(scales);
#pragma GCC unroll 4
    for (int r = 0; r < kRows; ++r) {
      float* const at = acc + r * kPanel + v * 8;
      __m256 out = first ? _mm256_setzero_ps() : _mm256_load_ps(at);
      out = _mm256_add_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(total[r][v]), scale));
      if constexpr (Codes::kHasMinima)
        out = _mm256_sub_ps(out, _mm256_mul_ps(_mm256_cvtepi32_ps(minima_of(g, r, v)), minimum));
      _mm256_store_ps(at, out);
    }
  }
}

template <typename Codes, int kRows, int kVectors>
inline void multiply_groups(const TileArgs* t, int vector) {
  constexpr size_t kStepBytes = size_t{kPanel} * Codes::kUnitBytes;
  Group g = {.w = static_cast<const uint8_t*>(t->w) + vector * 32,
             .a = static_cast<const uint8_t*>(t->a),
             .a_stride = t->a_stride_bytes,
             .words = t->scales + vector * 16,
             .starts = reinterpret_cast<const char*>(t->a_starts)};
  float* const acc = static_cast<float*>(t->acc) + vector * 8;
  for (size_t k = 0; k < t->k; k += kSuperInputs) {
    const size_t n = kSuperInputs < t->k - k ? kSuperInputs : t->k - k;
    add_group<Codes, kRows, kVectors>(g, n, acc, t->first && k == 0);
    g.w += n / Codes::kUnitValues * kStepBytes;
    g.a += n;
    g.words += kSuperWords * kPanel * 2;
    g.starts += Codes::kStarts * sizeof(int32_t);
  }
}

template <typename Codes, int kRows>
inline void run_super_rows(const TileArgs* t) {
  if (t->rows != kRows) {
    if constexpr (kRows > 1) run_super_rows<Codes, kRows - 1>(t);
    return;
  }
  if constexpr (kRows == 1) {
    multiply_groups<Codes, kRows, kPanelVectors>(t, 0);
  } else {
    multiply_groups<Codes, kRows, kPanelVectors / 2>(t, 0);
    multiply_groups<Codes, kRows, kPanelVectors / 2>(t, kPanelVectors / 2);
  }
}

template <typename Codes>
void super_tile(const TileArgs* t) {
  run_super_rows<Codes, kRowTile>(t);
}

}  // namespace

void fill_avx2_linear_super(SetOps* ops) {
  ops->linear[kFormSuper4] = codes_kernel<Super4>(convert_row<Super4>, super_tile<Super4>);
  ops->linear[kFormSuper6] = codes_kernel<Super6>(convert_row<Super6>, super_tile<Super6>);
}

}  // namespace coxswain::kernels
