#pragma once
// What a quantised row of weights IS, apart from any file and any kernel: integer codes, and the
// parameters that turn each code into a number. decode_row() is the definition that readers of
// checkpoints and kernels are tested against.
//
//   value = scale * code                                    Offset::kNone
//   value = scale * (code - zero)                           Offset::kZeroPoint
//   value = scale * code + minimum                          Offset::kMinimum
//   value = scale * (sub_scale * code)
//           - minimum * sub_minimum                         Offset::kSubMinimum
//
// Each product and sum is one rounding in float32, in the order written; sub_scale * code and
// code - zero are exact. All spans are row-major and owned by somebody else.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::tensor {

// What a stored code c of `bits` bits stands for.
enum class Codes : std::uint8_t {
  kUnsigned,  // c
  kSigned,    // c - 2^(bits - 1): codes are stored with that offset, so 0 is the least value
  kTable,     // table[c], a float: nf4, MXFP4's fp4, fp8
};

enum class Offset : std::uint8_t { kNone, kZeroPoint, kMinimum, kSubMinimum };

// Parameters stay as the file has them, so none is rounded twice.
enum class ScaleType : std::uint8_t {
  kF32,
  kF16,
  kBf16,
  kE8M0,  // 2^(bits - 127), 255 is NaN
};

constexpr std::size_t size_of(ScaleType type) {
  return type == ScaleType::kF32 ? 4 : type == ScaleType::kE8M0 ? 1 : 2;
}

// Two schemes are equal where the same kernels serve them.
struct QuantScheme {
  std::uint8_t bits = 0;  // of a code, 1 .. 8; 0: not quantised
  Codes codes = Codes::kUnsigned;
  Offset offset = Offset::kNone;
  ScaleType scale = ScaleType::kF32;
  // Inputs that share a scale, 0: the whole row. The last group may be short.
  std::uint32_t group = 0;
  // Inputs that share an integer sub-scale, a divisor of group; 0: none.
  std::uint32_t sub_group = 0;
  // Outputs that share scales: more than 1 in blocks of fp8.
  std::uint32_t group_rows = 1;
  // 2^bits values where codes are kTable.
  std::span<const float> table = {};

  std::size_t n_groups(std::size_t k) const { return group == 0 ? 1 : (k + group - 1) / group; }
  std::size_t n_sub_groups(std::size_t k) const {
    return sub_group == 0 ? 0 : (k + sub_group - 1) / sub_group;
  }
  // A table counts by its values.
  bool operator==(const QuantScheme& other) const;
};

// Rows [0, n_rows) of one matrix or of a slice of it. With group_rows > 1 the first row starts a
// group of rows.
struct QuantRows {
  QuantScheme scheme;
  std::size_t n_rows = 0;
  std::size_t k = 0;
  std::span<const std::uint8_t> codes;  // [n_rows, k], a byte each

  // [ceil(n_rows / group_rows), n_groups(k)] of scheme.scale. Values count from little-endian bytes
  // at any address.
  std::span<const std::byte> scales;
  // Laid out as the scales. kZeroPoint: a byte each, a code. kMinimum and kSubMinimum: of
  // scheme.scale. Otherwise empty.
  std::span<const std::byte> offsets;
  // [n_rows, n_sub_groups(k)]: a byte each, signed where codes are; then, for kSubMinimum, the sub-minimums likewise.
  std::span<const std::uint8_t> sub_scales;
  // Input i of the layer is place input_order[i] of the codes, scales included (act-order). Empty:
  // as they lie.
  std::span<const std::uint32_t> input_order;
};

// Rows that own their memory: what readers of files fill.
struct CodeRows {
  QuantScheme scheme;
  std::size_t n_rows = 0;
  std::size_t k = 0;
  std::vector<std::uint8_t> codes;
  std::vector<std::byte> scales;
  std::vector<std::byte> offsets;
  std::vector<std::uint8_t> sub_scales;
  std::vector<std::uint32_t> input_order;

  // Gives every member but input_order the size that `of` asks for; what they hold then is not said.
  void resize(const QuantScheme& of, std::size_t rows, std::size_t inputs);
  QuantRows view() const;
};

// Whether every span has the size that scheme, n_rows and k ask for, and every place of input_order
// exists. Errors: kInvalidArgument naming the span.
Status check(const QuantRows& rows);

// Row `row` as numbers, out [k]. REQUIRES: check(rows) is ok.
void decode_row(const QuantRows& rows, std::size_t row, float* out);

}  // namespace coxswain::tensor
