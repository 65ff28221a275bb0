// Linear kernels for codes in groups in plain C++: the reference of every other set. Integer sums inside a group, one
// multiplication and one addition for each group, ascending.

#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/scalar/float16.h"
#include "kernels/cpu/scalar/linear.h"
#include "kernels/formats/int4.h"

// One unit of every output times the rows: a is at the unit's first input.
template <typename Codes>
void multiply_unit(const TileArgs* t,
                   const uint8_t* w,
                   const int8_t* a,
                   int32_t (&sum)[kRowTile][kPanel]) {
  for (int i = 0; i < Codes::kUnitValues; ++i) {
    int32_t weights[kPanel];
    for (size_t j = 0; j < kPanel; ++j)
      weights[j] = Codes::code(w + j * Codes::kUnitBytes, i) - Codes::kZero;
    for (size_t r = 0; r < t->rows; ++r) {
      const int32_t x = widen_int8(a[r * t->a_stride_bytes + static_cast<size_t>(i)]);
      for (size_t j = 0; j < kPanel; ++j) sum[r][j] += x * weights[j];
    }
  }
}

template <typename Codes>
void tile(const TileArgs* t) {
  const uint8_t* w = static_cast<const uint8_t*>(t->w);
  const int8_t* a = static_cast<const int8_t*>(t->a);
  const uint16_t* scales = t->scales;
  const char* starts = reinterpret_cast<const char*>(t->a_starts);
  float* acc = static_cast<float*>(t->acc);
  if (t->first) memset(acc, 0, t->rows * kPanel * sizeof(float));
  for (size_t begin = 0; begin < t->k; begin += Codes::kGroup, scales += kPanel * Codes::kWords) {
    const size_t end = begin + Codes::kGroup < t->k ? begin + Codes::kGroup : t->k;
    int32_t sum[kRowTile][kPanel] = {};
    for (size_t k = begin; k < end; k += Codes::kUnitValues, w += kPanel * Codes::kUnitBytes)
      multiply_unit<Codes>(t, w, a + k, sum);
    for (size_t r = 0; r < t->rows; ++r) {
      int32_t start = 0;
      memcpy(&start, starts + r * t->a_stride_bytes, sizeof(start));
      for (size_t j = 0; j < kPanel; ++j) {
        const uint16_t* const words = scales + j * Codes::kWords;
        if (Codes::kOffset == GroupOffset::kZero) sum[r][j] -= words[1] * start;
        float* const out = acc + r * kPanel + j;
        *out += static_cast<float>(sum[r][j]) * widen_f16(words[0]);
        if (Codes::kOffset == GroupOffset::kMinimum)
          *out += static_cast<float>(start) * widen_f16(words[1]);
      }
    }
    starts += sizeof(int32_t);
  }
}

// This set takes a zero that all groups have away product by product; starts are the sums of groups.
template <typename Codes>
void convert_groups(const ConvertArgs* args) {
  convert_row<int8_t>(args);
  const ConvertArgs c = *args;
  memset(c.starts, 0, (c.k_padded + Codes::kGroup - 1) / Codes::kGroup * sizeof(int32_t));
  const int8_t* values = static_cast<const int8_t*>(c.values);
  for (size_t i = 0; i < c.k; ++i) c.starts[i / Codes::kGroup] += widen_int8(values[i]);
}

}  // namespace

void fill_scalar_linear_groups(SetOps* ops) {
#define COXSWAIN_PLAIN_FORMAT(name)
#define COXSWAIN_GROUP_FORMAT(name, codes) \
  ops->linear[kForm##name] = codes_kernel<codes>(convert_groups<codes>, tile<codes>);
#define COXSWAIN_SUPER_FORMAT(name)
#include "kernels/formats/list.inc"
#undef COXSWAIN_PLAIN_FORMAT
#undef COXSWAIN_GROUP_FORMAT
#undef COXSWAIN_SUPER_FORMAT
}

}  // namespace coxswain::kernels
