// Element-wise kernels and attention with AVX2, FMA and F16C.

#include <immintrin.h>
#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

// Each builds on the one before.
// clang-format off
#include "kernels/cpu/avx2/vec.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/generic/angles.h"
#include "kernels/cpu/generic/elementwise.h"
#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/attention_widened.h"
// clang-format on

}  // namespace

void fill_avx2_vector(SetOps* ops) {
  ops->vector = {attention,
                 attention,
                 store_row,
                 store_codes,
                 rms_norm,
                 layer_norm,
                 rope,
                 activation,
                 clamped_swiglu,
                 add,
                 sigmoid,
                 clip,
                 soft_cap,
                 softmax,
                 load_row,
                 combine,
                 angles};
}

}  // namespace coxswain::kernels
