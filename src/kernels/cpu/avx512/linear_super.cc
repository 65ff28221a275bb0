// Linear kernels for codes in super-groups: products of a sub-group are added up as integers (vpdpbusd), these sums are
// multiplied by the sub-group's whole number and added up, and a super-group costs one multiplication by its scale and
// one addition. Sums of minima are products of pairs of 16 bits: sub-minima and the row's sums of sub-groups.

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/avx512/linear_codes.h"
#include "kernels/cpu/avx512/super_words.h"
#include "kernels/formats/super.h"

// Where a super-group is read: `words` are its parameters, `starts` what the first row gives to it.
struct Group {
  const uint8_t* w;
  const uint8_t* a;
  size_t a_stride;
  const uint16_t* words;
  const char* starts;

  __m512i start(int row, size_t i) const {
    return Set::broadcast(starts + static_cast<size_t>(row) * a_stride + i * sizeof(int32_t));
  }
};

// Sums of one sub-group.
template <typename Codes, int kRows, int kVectors>
inline void sum_sub(__m512i (&sum)[kRows][kVectors], const Group& g, size_t sub) {
#pragma GCC unroll 8
  for (int r = 0; r < kRows; ++r) {
    const __m512i start = Codes::kHasMinima ? _mm512_setzero_si512() : g.start(r, sub);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) sum[r][v] = start;
  }
  const uint8_t* w = g.w + sub * (Codes::kSub / Codes::kUnitValues * kPanel * Codes::kUnitBytes);
  const uint8_t* a = g.a + sub * Codes::kSub;
#pragma GCC unroll 4
  for (int i = 0; i < Codes::kSub; i += Codes::kUnitValues) {
    multiply_part<Codes, 0, kRows, kVectors>(sum, w, a, g.a_stride);
    w += kPanel * Codes::kUnitBytes;
    a += Codes::kUnitValues;
  }
}

// Sums of the minima of 16 outputs times those of a row's sub-groups.
inline __m512i minima_of(const Group& g, int row, int vector) {
  __m512i minima = _mm512_setzero_si512();
#pragma GCC unroll 4
  for (size_t pair = 0; pair < 4; ++pair) {
    minima = _mm512_add_epi32(
        minima, _mm512_madd_epi16(sub_minima_of(g.words + vector * 32, pair), g.start(row, pair)));
  }
  return minima;
}

// Asks for a unit, of two lines each. Units of several words are asked for line by line where one or two rows read
// them, which is up to a fifth faster; others every second line, which hardware completes as fast.
template <typename Codes, int kWide>
inline constexpr int kAsks =
    Codes::kUnitBytes == 4 ? 1 : Codes::kUnitBytes / 4 * (kWide == kVectors ? 2 : 1);

// A super-group of up to n inputs times kRows rows and kVectors vectors of outputs, into acc. Not inlined: g++ 12 makes
// a loop of it that is a tenth slower where memory bounds it.
template <typename Codes, int kRows, int kVectors>
[[gnu::noinline]] void add_group(const Group& g, size_t n, Ask ask, float* acc, bool first) {
  __m512i total[kRows][kVectors] = {};
  for (size_t sub = 0; sub * Codes::kSub < n; ++sub) {
#pragma GCC unroll 8
    for (int i = 0; i < Codes::kSub / Codes::kUnitValues * kAsks<Codes, kVectors>; ++i) ask.step();
    __m512i sum[kRows][kVectors];
    sum_sub<Codes, kRows, kVectors>(sum, g, sub);
#pragma GCC unroll 4
    for (int v = 0; v < kVectors; ++v) {
      const __m512i subs = subs_of<Codes>(g.words + v * 32, sub);
#pragma GCC unroll 8
      for (int r = 0; r < kRows; ++r)
        total[r][v] = _mm512_add_epi32(total[r][v], _mm512_mullo_epi32(sum[r][v], subs));
    }
  }
#pragma GCC unroll 4
  for (int v = 0; v < kVectors; ++v) {
    const __m512i scales = Set::load_words(g.words + v * 32);
    const __m512 scale = Set::widen_first(scales);
    const __m512 minimum = Set::widen_second(scales);
#pragma GCC unroll 8
    for (int r = 0; r < kRows; ++r) {
      float* const at = acc + r * kPanel + v * 16;
      __m512 out = first ? _mm512_setzero_ps() : _mm512_load_ps(at);
      out = _mm512_add_ps(out, _mm512_mul_ps(_mm512_cvtepi32_ps(total[r][v]), scale));
      if constexpr (Codes::kHasMinima)
        out = _mm512_sub_ps(out, _mm512_mul_ps(_mm512_cvtepi32_ps(minima_of(g, r, v)), minimum));
      _mm512_store_ps(at, out);
    }
  }
}

// The super-group at input k of a tile's range, times kWide vectors from `vector` on.
template <typename Codes, int kRows, int kWide>
inline void multiply_group(const TileArgs* t, size_t k, int vector) {
  constexpr size_t kStepBytes = size_t{kPanel} * Codes::kUnitBytes;
  const size_t n = kSuperInputs < t->k - k ? kSuperInputs : t->k - k;
  const size_t unit = k / Codes::kUnitValues;
  const size_t group = k / kSuperInputs;
  const Group g = {
      .w = static_cast<const uint8_t*>(t->w) + unit * kStepBytes + vector * 64,
      .a = static_cast<const uint8_t*>(t->a) + k,
      .a_stride = t->a_stride_bytes,
      .words = t->scales + group * kSuperWords * kSuperStep + vector * 32,
      .starts = reinterpret_cast<const char*>(t->a_starts + group * Codes::kStarts),
  };
  Ask ask = ask_of<Codes, kWide>(t, {unit, n / Codes::kUnitValues, vector}, kStepBytes);
  ask.bytes /= kAsks<Codes, kWide>;
  float* const acc = static_cast<float*>(t->acc) + vector * 16;
  add_group<Codes, kRows, kWide>(g, n, ask, acc, t->first && k == 0);
}

// One or two rows have registers for the whole panel; more take half of it, then the other half, which is in the
// first-level cache by then.
template <typename Codes, int kRows>
inline void run_super_rows(const TileArgs* t) {
  if (t->rows != kRows) {
    if constexpr (kRows > 1) run_super_rows<Codes, kRows - 1>(t);
    return;
  }
  for (size_t k = 0; k < t->k; k += kSuperInputs) {
    if constexpr (kRows <= 2) {
      multiply_group<Codes, kRows, kVectors>(t, k, 0);
    } else {
      multiply_group<Codes, kRows, kVectors / 2>(t, k, 0);
      multiply_group<Codes, kRows, kVectors / 2>(t, k, kVectors / 2);
    }
  }
}

template <typename Codes>
void super_tile(const TileArgs* t) {
  run_super_rows<Codes, kRowTile>(t);
}

}  // namespace

void fill_avx512_linear_super(SetOps* ops) {
  ops->linear[kFormSuper4] = codes_kernel<Super4>(convert_row<Super4>, super_tile<Super4>);
  ops->linear[kFormSuper6] = codes_kernel<Super6>(convert_row<Super6>, super_tile<Super6>);
}

}  // namespace coxswain::kernels
