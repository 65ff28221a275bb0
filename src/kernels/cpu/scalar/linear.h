#ifndef COXSWAIN_KERNELS_CPU_SCALAR_LINEAR_H_
#define COXSWAIN_KERNELS_CPU_SCALAR_LINEAR_H_
// What the linear kernels in plain C++ share. Included inside an anonymous namespace of coxswain::kernels, after
// <math.h>, <string.h> and "kernels/cpu/ops.h".

constexpr size_t kPanel = 16;
constexpr size_t kRowTile = 4;
// What generic/codes_kernel.h asks for: layout ids, before the format's; k_block.
constexpr uint32_t kCodeLayouts = 0x1000;
template <typename Codes>
inline constexpr uint32_t kBlockValues = 4096;

inline int32_t widen_int8(int8_t value) {
  return value;
}

// y = value (+ bias) (+ y), in that order.
inline void put(const FinishArgs* f, size_t row, size_t column, float value) {
  float* y = f->y + row * f->y_stride + column;
  if (f->bias != nullptr) value += f->bias[column];
  *y = f->accumulate ? *y + value : value;
}

inline void finish_rows(const FinishArgs* f) {
  for (size_t r = 0; r < f->rows; ++r) {
    const float* acc = static_cast<const float*>(f->acc) + r * f->panel;
    for (size_t j = 0; j < f->n; ++j) put(f, r, j, acc[j] * f->row_scales[r]);
  }
}

// The highest magnitude; as bits, so that a NaN is above everything and makes the whole row NaN.
inline float absmax_of(const float* x, size_t k) {
  uint32_t highest = 0;
  for (size_t i = 0; i < k; ++i) {
    uint32_t bits = 0;
    memcpy(&bits, x + i, 4);
    bits &= 0x7FFFFFFFU;
    highest = highest > bits ? highest : bits;
  }
  float absmax = 0.0F;
  memcpy(&absmax, &highest, 4);
  return absmax;
}

// Quantises a row.
template <typename Value>
void convert_row(const ConvertArgs* args) {
  const ConvertArgs c = *args;
  Value* out = static_cast<Value*>(c.values);
  memset(out, 0, c.k_padded * sizeof(Value));
  const float inverse = inverse_of(absmax_of(c.x, c.k), c.scale);
  if (inverse == 0.0F) return;
  for (size_t i = 0; i < c.k; ++i) out[i] = static_cast<Value>(lrintf(c.x[i] * inverse));
}

constexpr auto kFinish = finish_rows;
constexpr void (*kFinishGate)(const GateArgs*) = nullptr;

#include "kernels/cpu/generic/codes_kernel.h"

#endif  // COXSWAIN_KERNELS_CPU_SCALAR_LINEAR_H_
