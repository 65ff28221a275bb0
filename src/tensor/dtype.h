#pragma once
// Element types and conversions between them. bfloat16 and float16 are carried as their 16 bits.

#include <bit>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string_view>

namespace coxswain::tensor {

enum class DType : std::uint8_t { kF32, kBf16, kF16, kI8, kF8E4M3, kF8E5M2, kI4 };

constexpr std::size_t size_of(DType type) {
  switch (type) {
    case DType::kF32:
      return 4;
    case DType::kBf16:
    case DType::kF16:
      return 2;
    case DType::kI8:
    case DType::kF8E4M3:
    case DType::kF8E5M2:
      return 1;
    case DType::kI4:
      break;
  }
  return 0;  // less than a byte: kernels::kv_vector_bytes()
}

// "float32", "bfloat16", "float16", "int8", "fp8_e4m3fn", "fp8_e5m2", "int4"
constexpr std::string_view name_of(DType type) {
  switch (type) {
    case DType::kF32:
      return "float32";
    case DType::kBf16:
      return "bfloat16";
    case DType::kF16:
      return "float16";
    case DType::kI8:
      return "int8";
    case DType::kF8E4M3:
      return "fp8_e4m3fn";
    case DType::kF8E5M2:
      return "fp8_e5m2";
    case DType::kI4:
      return "int4";
  }
  return "";
}

// The types that keys and values can be kept as.
inline constexpr DType kCacheTypes[] = {
    DType::kF32, DType::kBf16, DType::kF16, DType::kI8, DType::kF8E4M3, DType::kF8E5M2, DType::kI4};

constexpr float bf16_to_float(std::uint16_t bits) {
  return std::bit_cast<float>(static_cast<std::uint32_t>(bits) << 16);
}

// Round to nearest, ties to even; NaN stays NaN.
constexpr std::uint16_t float_to_bf16(float value) {
  const auto bits = std::bit_cast<std::uint32_t>(value);
  if ((bits & 0x7FFFFFFFu) > 0x7F800000u) return static_cast<std::uint16_t>((bits >> 16) | 0x0040u);
  return static_cast<std::uint16_t>((bits + 0x7FFFu + ((bits >> 16) & 1u)) >> 16);
}

// IEEE 754 binary16, subnormals included.
float f16_to_float(std::uint16_t bits);
std::uint16_t float_to_f16(float value);  // round to nearest even; overflow gives infinity

}  // namespace coxswain::tensor
