#include "quantize/matrix.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "tensor/dtype.h"

namespace coxswain::quantize {
namespace {

constexpr float kFloat8Max = 448.0F;

// Scales that are tried: the largest value is reached by the first, and cut to 3/5 of itself by the last.
constexpr int kScaleSteps = 20;
constexpr float kScaleStep = 0.02F;

float as_float16(float value) {
  return tensor::f16_to_float(tensor::float_to_f16(value));
}

int middle_of(NumberKind kind) {
  return 1 << (bits_of(kind) - 1);
}

double weighted_error(NumberKind kind,
                      std::span<const float> values,
                      std::span<const float> weights,
                      float scale) {
  double out = 0;
  for (std::size_t i = 0; i < values.size(); ++i) {
    const double off = values[i] - value_of(kind, code_of(kind, values[i], scale), scale);
    out += off * off * (weights.empty() ? 1.0 : static_cast<double>(weights[i]));
  }
  return out;
}

}  // namespace

float float8_value(std::uint8_t code) {
  const int exponent = code >> 3 & 15;
  const int fraction = code & 7;
  if (exponent == 15 && fraction == 7) return std::numeric_limits<float>::quiet_NaN();
  const float magnitude = exponent == 0
                              ? std::ldexp(static_cast<float>(fraction), -9)
                              : std::ldexp(static_cast<float>(8 + fraction), exponent - 10);
  return (code & 0x80) != 0 ? -magnitude : magnitude;
}

std::uint8_t float8_code(float value) {
  constexpr std::uint8_t kLargest = 0x7E;
  const float magnitude = std::abs(value);
  const auto sign = static_cast<std::uint8_t>(std::signbit(value) ? 0x80 : 0);
  if (!(magnitude < kFloat8Max)) return sign | kLargest;
  // Codes ascend with the values: the last that is not above, or the next.
  std::uint8_t low = 0;
  std::uint8_t high = kLargest;
  while (high - low > 1) {
    const auto middle = static_cast<std::uint8_t>((low + high) / 2);
    (float8_value(middle) <= magnitude ? low : high) = middle;
  }
  const float below = magnitude - float8_value(low);
  const float above = float8_value(high) - magnitude;
  const bool goes_up = above < below || (above == below && low % 2 != 0);
  return sign | (goes_up ? high : low);
}

float value_of(NumberKind kind, std::uint8_t code, float scale) {
  if (kind == NumberKind::kFloat8) return float8_value(code) * scale;
  return static_cast<float>(static_cast<int>(code) - middle_of(kind)) * scale;
}

std::uint8_t code_of(NumberKind kind, float value, float scale) {
  if (kind == NumberKind::kFloat8) return scale == 0.0F ? 0 : float8_code(value / scale);
  const int middle = middle_of(kind);
  const float steps = scale == 0.0F ? 0.0F : std::nearbyint(value / scale);
  const float bounded =
      std::clamp(steps, static_cast<float>(-middle), static_cast<float>(middle - 1));
  return static_cast<std::uint8_t>(static_cast<int>(bounded) + middle);
}

float choose_scale(NumberKind kind, std::span<const float> values, std::span<const float> weights) {
  float largest = 0.0F;
  for (const float value : values) largest = std::max(largest, std::abs(value));
  if (largest == 0.0F) return 0.0F;
  if (kind == NumberKind::kFloat8) return largest / kFloat8Max;
  const float reaching = largest / static_cast<float>(middle_of(kind) - 1);
  float best = as_float16(reaching);
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i <= kScaleSteps; ++i) {
    const float scale = as_float16(reaching * (1.0F - kScaleStep * static_cast<float>(i)));
    const double error = weighted_error(kind, values, weights, scale);
    if (error >= least) continue;
    least = error;
    best = scale;
  }
  return best;
}

float QuantisedMatrix::value(std::uint64_t row, std::uint64_t input) const {
  return value_of(kind, code(row, input), scale(row, groups[input]));
}

QuantisedMatrix QuantisedMatrix::of(NumberKind kind,
                                    std::uint64_t n,
                                    std::uint64_t k,
                                    std::uint64_t group_size) {
  QuantisedMatrix out;
  out.kind = kind;
  out.n = n;
  out.k = k;
  out.group_size = group_size >= k ? 0 : group_size;
  out.codes.resize(n * k);
  out.scales.resize(n * out.n_groups());
  out.groups.resize(k);
  for (std::uint64_t i = 0; i < k; ++i)
    out.groups[i] = static_cast<std::uint32_t>(out.group_size == 0 ? 0 : i / out.group_size);
  return out;
}

void round_row(std::span<const float> values, std::uint64_t row, QuantisedMatrix& out) {
  const std::uint64_t width = out.group_size == 0 ? out.k : out.group_size;
  for (std::uint64_t first = 0; first < out.k; first += width) {
    const auto group = values.subspan(first, std::min(width, out.k - first));
    const float scale = choose_scale(out.kind, group, {});
    out.scale(row, first / width) = scale;
    for (std::uint64_t i = 0; i < group.size(); ++i)
      out.codes[row * out.k + first + i] = code_of(out.kind, group[i], scale);
  }
}

}  // namespace coxswain::quantize
