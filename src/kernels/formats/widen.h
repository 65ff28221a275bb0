#pragma once
// Stored floats to float32.

#include <cassert>
#include <cstddef>
#include <cstring>

#include "tensor/dtype.h"

namespace coxswain::kernels {

// n values of `type` (kF32, kBf16 or kF16) at any address.
inline void widen(const std::byte* from, tensor::DType type, std::size_t n, float* out) {
  assert(type != tensor::DType::kI8);
  if (type == tensor::DType::kF32) {
    std::memcpy(out, from, n * sizeof(float));
    return;
  }
  const bool bf16 = type == tensor::DType::kBf16;
  for (std::size_t i = 0; i < n; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, from + i * 2, 2);
    out[i] = bf16 ? tensor::bf16_to_float(bits) : tensor::f16_to_float(bits);
  }
}

}  // namespace coxswain::kernels
