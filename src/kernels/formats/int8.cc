// int8: 8-bit codes, one float32 scale for each output: absmax / 127; a weight is x * (127 /
// absmax), rounded to nearest even.

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstring>

#include "kernels/formats/all.h"

namespace coxswain::kernels {
namespace {

// Largest magnitude; NaN if there is one. As integers, so that the loop has no order to keep.
float largest_magnitude(const float* x, std::size_t k) {
  std::uint32_t largest = 0;
  for (std::size_t i = 0; i < k; ++i)
    largest = std::max(largest, std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU);
  return std::bit_cast<float>(largest);
}

void encode(const float* x, std::size_t k, const EncodedRow& out) {
  // Adding and subtracting this rounds to a whole number, ties to even.
  constexpr float kRound = 12582912.0F;  // 1.5 * 2^23
  const float absmax = largest_magnitude(x, k);
  const float scale = absmax / 127.0F;
  std::memcpy(out.scales, &scale, sizeof scale);
  *out.sum = 0;
  const float inverse = 127.0F / absmax;
  // A scale that is not finite makes every output of a broken row NaN; a row of values too small to have a reciprocal
  // counts as zero.
  if (!std::isfinite(absmax) || !std::isfinite(inverse)) {
    std::memset(out.values, 0, k);
    return;
  }
  // Stores of bytes may alias anything: what the loop reads lies in variables of its own.
  auto* const values = reinterpret_cast<std::int8_t*>(out.values);
  std::int32_t sum = 0;
  for (std::size_t i = 0; i < k; ++i) {
    const float scaled = std::clamp(x[i] * inverse, -127.0F, 127.0F);
    const auto value = static_cast<std::int32_t>((scaled + kRound) - kRound);
    sum += value;
    values[i] = static_cast<std::int8_t>(value);
  }
  *out.sum = sum;
}

void encode_codes(const tensor::QuantRows& rows, std::size_t row, const EncodedRow& out) {
  std::memcpy(out.scales, rows.scales.data() + row * sizeof(float), sizeof(float));
  *out.sum = 0;
  for (std::size_t i = 0; i < rows.k; ++i) {
    const auto value =
        static_cast<std::int8_t>(static_cast<int>(rows.codes[row * rows.k + i]) - 128);
    *out.sum += value;
    out.values[i] = static_cast<std::byte>(value);
  }
}

void decode(const EncodedRow& in, std::size_t count, float* out) {
  float scale = 0.0F;
  std::memcpy(&scale, in.scales, sizeof scale);
  for (std::size_t i = 0; i < count; ++i)
    out[i] = scale * static_cast<float>(static_cast<std::int8_t>(in.values[i]));
}

constexpr WeightFormat make_format() {
  WeightFormat out;
  out.id = 4;
  out.name = "int8";
  out.bits = 8;
  out.scheme.bits = 8;
  out.scheme.codes = tensor::Codes::kSigned;
  out.plain = tensor::DType::kI8;
  out.scale_bytes = 4;
  out.has_sums = true;
  out.inputs_max = 0x7FFFFFFF / (127 * 127);
  out.encode = encode;
  out.encode_codes = encode_codes;
  out.decode = decode;
  return out;
}

}  // namespace

constinit const WeightFormat formats::kInt8 = make_format();

}  // namespace coxswain::kernels
