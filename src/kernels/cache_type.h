#pragma once
// Names of stored floats for what one thread of a set does (cpu/ops.h knows no tensor).
//
// Thread rule: a pure function.

#include <cassert>

#include "kernels/cpu/ops.h"
#include "tensor/dtype.h"

namespace coxswain::kernels {

// kF32, kBf16 or kF16.
constexpr CacheType cache_type(tensor::DType type) {
  assert(type != tensor::DType::kI8);
  if (type == tensor::DType::kBf16) return kCacheBf16;
  if (type == tensor::DType::kF16) return kCacheF16;
  return kCacheF32;
}

}  // namespace coxswain::kernels
