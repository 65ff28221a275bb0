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

// Codes of 2 bits: each stretch of 32 bytes has 128 values, 32 of them in each pair of bits.
inline std::uint32_t two_bits(const std::byte* codes, std::size_t i) {
  return byte_at(codes, i / 128 * 32 + i % 32) >> (i % 128 / 32 * 2) & 3U;
}

struct SubScale {
  std::uint32_t scale = 0;
  std::uint32_t minimum = 0;
};

// 8 scales and 8 minimums of 6 bits in 12 bytes: 4 of each whole, the upper bits of the others above them.
inline SubScale six_bit_pair(const std::byte* packed, std::size_t j) {
  if (j < 4) return {byte_at(packed, j) & 63U, byte_at(packed, j + 4) & 63U};
  const std::uint32_t low = byte_at(packed, j + 4);
  return {(low & 15U) | byte_at(packed, j - 4) >> 6U << 4U,
          low >> 4U | byte_at(packed, j) >> 6U << 4U};
}

// Codes of 4 bits: each stretch of 32 bytes has 64 values, 32 in each half.
inline std::uint32_t four_bits(const std::byte* codes, std::size_t i) {
  return byte_at(codes, i / 64 * 32 + i % 32) >> (i % 64 / 32 * 4) & 15U;
}

}  // namespace coxswain::weights
