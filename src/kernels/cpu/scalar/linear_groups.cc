// Linear kernels for codes in groups in plain C++: the reference of every other set. Integer sums inside a group, one
// multiplication and one addition for each group, ascending.

#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/scalar/float16.h"
#include "kernels/formats/int4.h"

constexpr size_t kPanel = 16;
constexpr size_t kRowTile = 4;
constexpr uint32_t kMultiple = 32;

int32_t widen_int8(int8_t value) {
  return value;
}

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

void finish(const FinishArgs* f) {
  for (size_t r = 0; r < f->rows; ++r) {
    const float* acc = static_cast<const float*>(f->acc) + r * f->panel;
    float* y = f->y + r * f->y_stride;
    for (size_t j = 0; j < f->n; ++j) {
      float value = acc[j] * f->row_scales[r];
      if (f->bias != nullptr) value += f->bias[j];
      y[j] = f->accumulate ? y[j] + value : value;
    }
  }
}

// This set takes a zero that all groups have away product by product; starts are the sums of groups.
template <typename Codes>
void convert_row(const ConvertArgs* args) {
  const ConvertArgs c = *args;
  int8_t* out = static_cast<int8_t*>(c.values);
  uint32_t highest = 0;  // as bits, so that a NaN is above everything and makes the whole row NaN
  for (size_t i = 0; i < c.k; ++i) {
    uint32_t bits = 0;
    memcpy(&bits, c.x + i, 4);
    bits &= 0x7FFFFFFFU;
    highest = highest > bits ? highest : bits;
  }
  float absmax = 0.0F;
  memcpy(&absmax, &highest, 4);
  *c.scale = absmax / 127.0F;
  memset(out, 0, c.k_padded);
  memset(c.starts, 0, (c.k_padded + Codes::kGroup - 1) / Codes::kGroup * sizeof(int32_t));
  if (!counts(absmax)) return;
  const float inverse = 127.0F / absmax;
  for (size_t i = 0; i < c.k; ++i) {
    out[i] = static_cast<int8_t>(lrintf(c.x[i] * inverse));
    c.starts[i / Codes::kGroup] += widen_int8(out[i]);
  }
}

template <typename Codes>
LinearKernel kernel_of(uint32_t layout_id) {
  LinearKernel kernel{};
  kernel.layout_id = layout_id;
  kernel.panel = kPanel;
  kernel.unit_values = Codes::kUnitValues;
  kernel.unit_bytes = Codes::kUnitBytes;
  kernel.k_multiple = kMultiple;
  kernel.group = Codes::kGroup;
  kernel.row_tile = kRowTile;
  kernel.k_block = 4096;
  kernel.form = kActivationS8;
  kernel.convert_row = convert_row<Codes>;
  kernel.tile = tile<Codes>;
  kernel.finish = finish;
  return kernel;
}

}  // namespace

void fill_scalar_linear_groups(SetOps* ops) {
#define COXSWAIN_PLAIN_FORMAT(name)
#define COXSWAIN_GROUP_FORMAT(name, codes) \
  ops->linear[kForm##name] = kernel_of<codes>(0x1000 + codes::kId);
#define COXSWAIN_SUPER_FORMAT(name)
#include "kernels/formats/list.inc"
#undef COXSWAIN_PLAIN_FORMAT
#undef COXSWAIN_GROUP_FORMAT
#undef COXSWAIN_SUPER_FORMAT
}

}  // namespace coxswain::kernels
