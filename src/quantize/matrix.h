#pragma once
// QuantisedMatrix: what a quantiser has decided about the weights of one linear layer, apart from any file: a code for
// every weight, a scale for every group of inputs of every output. Writers store exactly this.
//
//   value = (code - 2^(bits - 1)) * scale     integers
//   value = e4m3(code) * scale                floats of 8 bits
//
// Scales of integers are float16 values, those of floats float32.
//
// Thread rule: values and pure functions.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

namespace coxswain::quantize {

enum class NumberKind : std::uint8_t { kInt4, kInt8, kFloat8 };

constexpr std::uint32_t bits_of(NumberKind kind) {
  return kind == NumberKind::kInt4 ? 4 : 8;
}

// Weights as they are read, [n, k].
struct Weights {
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::vector<float> values;

  std::span<const float> row(std::uint64_t i) const { return std::span(values).subspan(i * k, k); }
  std::span<float> row(std::uint64_t i) { return std::span(values).subspan(i * k, k); }
};

struct QuantisedMatrix {
  NumberKind kind = NumberKind::kInt4;
  std::uint64_t n = 0;
  std::uint64_t k = 0;
  std::uint64_t group_size = 0;  // inputs that share a scale, 0: all of an output
  std::vector<std::uint8_t> codes;
  std::vector<float> scales;          // [n, n_groups]
  std::vector<std::uint32_t> groups;  // [k]: the group of each input

  // Sizes all parts; inputs are in groups as they stand, the last may be short.
  static QuantisedMatrix of(NumberKind kind,
                            std::uint64_t n,
                            std::uint64_t k,
                            std::uint64_t group_size);

  std::uint64_t n_groups() const { return group_size == 0 ? 1 : (k + group_size - 1) / group_size; }
  float& scale(std::uint64_t row, std::uint64_t group) { return scales[row * n_groups() + group]; }
  float scale(std::uint64_t row, std::uint64_t group) const {
    return scales[row * n_groups() + group];
  }
  std::uint8_t code(std::uint64_t row, std::uint64_t input) const { return codes[row * k + input]; }
  float value(std::uint64_t row, std::uint64_t input) const;
};

// e4m3fn: no infinities, 0x7f and 0xff are NaN. To the nearest, ties to the even code, beyond 448 to 448.
float float8_value(std::uint8_t code);
std::uint8_t float8_code(float value);

float value_of(NumberKind kind, std::uint8_t code, float scale);
// The code of the nearest value. A scale of 0 gives the code of 0.
std::uint8_t code_of(NumberKind kind, float value, float scale);

// The scale that makes the sum of weighted squared differences of `values` least, of some that let the largest one be
// cut by up to two fifths (integers), or the one that reaches the largest (floats). `weights` may be empty: all count
// alike. 0 for zeros.
float choose_scale(NumberKind kind, std::span<const float> values, std::span<const float> weights);

// Round to nearest: each row alone.
void round_row(std::span<const float> values, std::uint64_t row, QuantisedMatrix& out);

}  // namespace coxswain::quantize
