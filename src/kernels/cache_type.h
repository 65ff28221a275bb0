#pragma once
// Names of stored floats for what one thread of a set does (cpu/ops.h knows no tensor).
//
// Thread rule: a pure function.

#include "kernels/cpu/ops.h"
#include "tensor/dtype.h"

namespace coxswain::kernels {

constexpr CacheType cache_type(tensor::DType type) {
  switch (type) {
    case tensor::DType::kF32:
      return kCacheF32;
    case tensor::DType::kBf16:
      return kCacheBf16;
    case tensor::DType::kF16:
      return kCacheF16;
    case tensor::DType::kI8:
      return kCacheU8;
    case tensor::DType::kF8E4M3:
      return kCacheE4M3;
    case tensor::DType::kF8E5M2:
      return kCacheE5M2;
    case tensor::DType::kI4:
      return kCacheU4;
  }
  return kCacheF32;
}

}  // namespace coxswain::kernels
