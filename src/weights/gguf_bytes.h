#pragma once
// Reading little-endian parts of a block.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <cstring>

#include "tensor/dtype.h"

namespace coxswain::weights {

inline std::uint32_t byte_at(const std::byte* from, std::size_t i) {
  return std::to_integer<std::uint32_t>(from[i]);
}
inline int int8_at(const std::byte* from, std::size_t i) {
  return static_cast<std::int8_t>(byte_at(from, i));
}
inline std::uint32_t u16_at(const std::byte* from) {
  return byte_at(from, 0) | byte_at(from, 1) << 8U;
}
inline std::uint32_t u32_at(const std::byte* from) {
  return u16_at(from) | u16_at(from + 2) << 16U;
}
inline float f16_at(const std::byte* from) {
  return tensor::f16_to_float(static_cast<std::uint16_t>(u16_at(from)));
}
// 4 bits, the low ones of a byte for an even place.
inline std::uint32_t nibble_at(const std::byte* from, std::size_t i) {
  return byte_at(from, i / 2) >> (4 * (i % 2)) & 15U;
}

}  // namespace coxswain::weights
