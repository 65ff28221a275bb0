// Linear kernels in plain C++: the reference that every other set is compared with, and what runs
// where there is nothing better. Sums are float multiply, then add. The loops over a panel are
// written so that the compiler can use the baseline's vectors.

#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

#include "kernels/cpu/scalar/float16.h"
#include "kernels/cpu/scalar/linear.h"

float widen_f32(float value) {
  return value;
}

float widen_bf16(uint16_t bits) {
  const uint32_t wide = static_cast<uint32_t>(bits) << 16;
  float value = 0.0F;
  memcpy(&value, &wide, 4);
  return value;
}

template <typename Acc>
void load_acc(Acc (&sum)[kRowTile][kPanel], const TileArgs* t) {
  const Acc* acc = static_cast<const Acc*>(t->acc);
  for (size_t r = 0; r < kRowTile; ++r) {
    for (size_t j = 0; j < kPanel; ++j)
      sum[r][j] = t->first || r >= t->rows ? Acc{0} : acc[r * kPanel + j];
  }
}

template <typename Acc>
void store_acc(const Acc (&sum)[kRowTile][kPanel], const TileArgs* t) {
  Acc* acc = static_cast<Acc*>(t->acc);
  for (size_t r = 0; r < t->rows; ++r) {
    for (size_t j = 0; j < kPanel; ++j) acc[r * kPanel + j] = sum[r][j];
  }
}

template <typename W, typename A, typename Acc, Acc (*widen)(W)>
void tile(const TileArgs* t) {
  Acc sum[kRowTile][kPanel];
  load_acc(sum, t);
  const W* w = static_cast<const W*>(t->w);
  for (size_t k = 0; k < t->k; ++k, w += kPanel) {
    Acc wide[kPanel];
    for (size_t j = 0; j < kPanel; ++j) wide[j] = widen(w[j]);
    for (size_t r = 0; r < t->rows; ++r) {
      const A* a =
          reinterpret_cast<const A*>(static_cast<const char*>(t->a) + r * t->a_stride_bytes);
      const Acc x = a[k];
      for (size_t j = 0; j < kPanel; ++j) sum[r][j] += x * wide[j];
    }
  }
  store_acc(sum, t);
}

void finish_f32(const FinishArgs* f) {
  for (size_t r = 0; r < f->rows; ++r) {
    const float* acc = static_cast<const float*>(f->acc) + r * f->panel;
    for (size_t j = 0; j < f->n; ++j) put(f, r, j, acc[j]);
  }
}

void finish_int8(const FinishArgs* f) {
  for (size_t r = 0; r < f->rows; ++r) {
    const int32_t* acc = static_cast<const int32_t*>(f->acc) + r * f->panel;
    for (size_t j = 0; j < f->n; ++j) {
      // Unsigned: the offset's share may pass 2^31 on its way; the difference fits.
      const uint32_t exact =
          static_cast<uint32_t>(acc[j]) -
          static_cast<uint32_t>(f->activation_offset) * static_cast<uint32_t>(f->column_sums[j]);
      const float value = static_cast<float>(static_cast<int32_t>(exact)) * f->scales[j];
      put(f, r, j, value * f->row_scales[r]);
    }
  }
}

LinearKernel base(uint32_t layout_id, uint32_t weight_bytes) {
  LinearKernel kernel{};
  kernel.layout_id = layout_id;
  kernel.panel = kPanel;
  kernel.unit_values = 1;
  kernel.k_multiple = 1;
  kernel.unit_bytes = weight_bytes;
  kernel.row_tile = kRowTile;
  kernel.k_block = 4096;
  kernel.form = kActivationF32;
  kernel.finish = finish_f32;
  return kernel;
}

}  // namespace

void fill_scalar_linear(SetOps* ops) {
  ops->linear[kFormFloat32] = base(0x101, 4);
  ops->linear[kFormFloat32].tile = tile<float, float, float, widen_f32>;
  ops->linear[kFormBfloat16] = base(0x102, 2);
  ops->linear[kFormBfloat16].tile = tile<uint16_t, float, float, widen_bf16>;
  ops->linear[kFormFloat16] = base(0x103, 2);
  ops->linear[kFormFloat16].tile = tile<uint16_t, float, float, widen_f16>;
  ops->linear[kFormInt8] = base(0x104, 1);
  ops->linear[kFormInt8].tile = tile<int8_t, int16_t, int32_t, widen_int8>;
  ops->linear[kFormInt8].form = kActivationS16;
  ops->linear[kFormInt8].convert_row = convert_row<int16_t>;
  ops->linear[kFormInt8].finish = finish_int8;
}

}  // namespace coxswain::kernels
