// Element-wise kernels and attention, one value at a time.

#include <math.h>
#include <string.h>

#include "kernels/cpu/ops.h"

namespace coxswain::kernels {
namespace {

// clang-format off: each builds on the one before
#include "kernels/cpu/generic/attention.h"
#include "kernels/cpu/generic/elementwise.h"
#include "kernels/cpu/generic/math.h"
#include "kernels/cpu/scalar/vec.h"
// clang-format on

}  // namespace

void fill_scalar_vector(SetOps* ops) {
  ops->vector = {attention, store_row, rms_norm, layer_norm, rope, activation, add};
}

}  // namespace coxswain::kernels
