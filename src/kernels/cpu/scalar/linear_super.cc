// Linear kernels for codes in super-groups in plain C++: the reference of every other set.

#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/scalar/float16.h"
#include "kernels/cpu/scalar/linear.h"
#include "kernels/formats/int4.h"
#include "kernels/formats/super.h"

// The parameters of one output: word `i` of them.
uint32_t word_of(const uint16_t* words, size_t i, size_t output) {
  uint32_t word = 0;
  memcpy(&word, words + (i * kPanel + output) * 2, sizeof(word));
  return word;
}

template <typename Codes>
int32_t sub_of(const uint16_t* words, size_t sub, size_t output) {
  if (Codes::kHasMinima)
    return static_cast<int32_t>(word_of(words, 1 + sub / 2, output) >> (sub % 2 * 16) & 0xFFU);
  return static_cast<int8_t>(word_of(words, 1 + sub / 4, output) >> (sub % 4 * 8) & 0xFFU);
}

// One row, one output, one super-group of up to n inputs.
template <typename Codes>
void add_group(
    const uint8_t* w, const int8_t* a, size_t n, const uint16_t* words, size_t output, float* acc) {
  int32_t total = 0;
  int32_t minima = 0;
  for (size_t begin = 0; begin < n; begin += Codes::kSub) {
    int32_t sum = 0;
    int32_t all = 0;
    for (size_t k = begin; k < begin + Codes::kSub && k < n; ++k) {
      uint8_t unit[Codes::kUnitBytes];
      for (size_t i = 0; i < Codes::kUnitBytes; i += 4)
        memcpy(unit + i,
               w + k / Codes::kUnitValues * kPanel * Codes::kUnitBytes + i * kPanel + output * 4,
               4);
      const int32_t x = widen_int8(a[k]);
      sum += x * (Codes::code(unit, static_cast<int>(k % Codes::kUnitValues)) - Codes::kZero);
      all += x;
    }
    const size_t sub = begin / Codes::kSub;
    total += sum * sub_of<Codes>(words, sub, output);
    if (Codes::kHasMinima)
      minima += all * static_cast<int32_t>(
                          word_of(words, 1 + sub / 2, output) >> (sub % 2 * 16 + 8) & 0xFFU);
  }
  const uint32_t scales = word_of(words, 0, output);
  *acc += static_cast<float>(total) * widen_f16(static_cast<uint16_t>(scales & 0xFFFFU));
  if (Codes::kHasMinima)
    *acc -= static_cast<float>(minima) * widen_f16(static_cast<uint16_t>(scales >> 16));
}

template <typename Codes>
void tile(const TileArgs* t) {
  const uint8_t* w = static_cast<const uint8_t*>(t->w);
  const uint16_t* words = t->scales;
  float* acc = static_cast<float*>(t->acc);
  if (t->first) memset(acc, 0, t->rows * kPanel * sizeof(float));
  for (size_t begin = 0; begin < t->k; begin += kSuperInputs) {
    const size_t left = t->k - begin;
    const size_t n = left < kSuperInputs ? left : kSuperInputs;
    for (size_t r = 0; r < t->rows; ++r) {
      const int8_t* a = static_cast<const int8_t*>(t->a) + r * t->a_stride_bytes + begin;
      for (size_t j = 0; j < kPanel; ++j) add_group<Codes>(w, a, n, words, j, acc + r * kPanel + j);
    }
    w += n / Codes::kUnitValues * kPanel * Codes::kUnitBytes;
    words += kSuperWords * kPanel * 2;
  }
}

}  // namespace

// Rows without starts: this set adds up what these are for product by product.
void fill_scalar_linear_super(SetOps* ops) {
  ops->linear[kFormSuper4] = codes_kernel<Super4>(convert_row<int8_t>, tile<Super4>);
  ops->linear[kFormSuper6] = codes_kernel<Super6>(convert_row<int8_t>, tile<Super6>);
}

}  // namespace coxswain::kernels
