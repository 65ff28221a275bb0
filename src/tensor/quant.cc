#include "tensor/quant.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstring>
#include <limits>
#include <string>

#include "tensor/dtype.h"

namespace coxswain::tensor {
namespace {

float scale_at(ScaleType type, std::span<const std::byte> scales, std::size_t i) {
  const std::byte* const at = scales.data() + i * size_of(type);
  if (type == ScaleType::kF32) {
    float value = 0.0F;
    std::memcpy(&value, at, sizeof value);
    return value;
  }
  if (type == ScaleType::kE8M0) {
    const auto exponent = std::to_integer<std::uint32_t>(*at);
    if (exponent == 255) return std::numeric_limits<float>::quiet_NaN();
    // 2^-127 is the one that is no normal number.
    return std::bit_cast<float>(exponent == 0 ? 0x00400000U : exponent << 23);
  }
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof bits);
  return type == ScaleType::kF16 ? f16_to_float(bits) : bf16_to_float(bits);
}

float code_value(const QuantScheme& scheme, std::uint8_t code) {
  switch (scheme.codes) {
    case Codes::kUnsigned:
      return static_cast<float>(code);
    case Codes::kSigned:
      return static_cast<float>(static_cast<int>(code) - (1 << (scheme.bits - 1)));
    case Codes::kTable:
      return scheme.table[code];
  }
  return 0.0F;
}

Status wrong(const char* what) {
  return invalid_argument(std::string("quantised rows: ") + what);
}

std::size_t offset_bytes(const QuantScheme& scheme) {
  if (scheme.offset == Offset::kNone) return 0;
  return scheme.offset == Offset::kZeroPoint ? 1 : size_of(scheme.scale);
}

// Sets of sub-scales: kSubMinimum has its own after the others.
std::size_t sub_scale_parts(const QuantScheme& scheme) {
  return scheme.offset == Offset::kSubMinimum ? 2 : 1;
}

std::size_t n_parameters(const QuantScheme& scheme, std::size_t n_rows, std::size_t k) {
  return (n_rows + scheme.group_rows - 1) / scheme.group_rows * scheme.n_groups(k);
}

}  // namespace

bool QuantScheme::operator==(const QuantScheme& other) const {
  return bits == other.bits && codes == other.codes && offset == other.offset &&
         scale == other.scale && group == other.group && sub_group == other.sub_group &&
         group_rows == other.group_rows && std::ranges::equal(table, other.table);
}

void CodeRows::resize(const QuantScheme& of, std::size_t rows, std::size_t inputs) {
  scheme = of;
  n_rows = rows;
  k = inputs;
  const std::size_t n_params = n_parameters(of, rows, inputs);
  codes.resize(rows * inputs);
  scales.resize(n_params * size_of(of.scale));
  offsets.resize(n_params * offset_bytes(of));
  sub_scales.resize(rows * of.n_sub_groups(inputs) * sub_scale_parts(of));
}

QuantRows CodeRows::view() const {
  return {scheme, n_rows, k, codes, scales, offsets, sub_scales, input_order};
}

Status check(const QuantRows& rows) {
  const QuantScheme& s = rows.scheme;
  if (s.bits < 1 || s.bits > 8) return wrong("codes have 1 to 8 bits");
  if (s.group_rows == 0) return wrong("group_rows is at least 1");
  if (s.codes == Codes::kTable && s.table.size() != std::size_t{1} << s.bits)
    return wrong("the table has a value for each code");
  if (s.sub_group != 0 && s.group % s.sub_group != 0)
    return wrong("a group is made of whole sub-groups");
  if ((s.offset == Offset::kSubMinimum) && s.sub_group == 0)
    return wrong("sub-minimums need sub-groups");
  if (rows.codes.size() != rows.n_rows * rows.k) return wrong("codes do not fill the rows");
  const auto limit = (std::uint32_t{1} << s.bits) - 1;
  if (std::ranges::any_of(rows.codes, [&](std::uint8_t code) { return code > limit; }))
    return wrong("a code has more bits than the scheme");
  const std::size_t n_params = n_parameters(s, rows.n_rows, rows.k);
  if (rows.scales.size() != n_params * size_of(s.scale)) return wrong("scales do not fit the rows");
  if (rows.offsets.size() != n_params * offset_bytes(s))
    return wrong("offsets do not fit the rows");
  if (rows.sub_scales.size() != rows.n_rows * s.n_sub_groups(rows.k) * sub_scale_parts(s))
    return wrong("sub-scales do not fit the rows");
  if (!rows.input_order.empty()) {
    if (rows.input_order.size() != rows.k) return wrong("input_order does not fit the inputs");
    if (std::ranges::any_of(rows.input_order, [&](std::uint32_t at) { return at >= rows.k; }))
      return wrong("input_order names an input that is not there");
  }
  return {};
}

void decode_row(const QuantRows& rows, std::size_t row, float* out) {
  const QuantScheme& s = rows.scheme;
  assert(row < rows.n_rows);
  const std::uint8_t* const codes = rows.codes.data() + row * rows.k;
  const std::size_t params = row / s.group_rows * s.n_groups(rows.k);
  const std::size_t subs = row * s.n_sub_groups(rows.k);
  const std::size_t sub_minimums = rows.n_rows * s.n_sub_groups(rows.k);
  for (std::size_t i = 0; i < rows.k; ++i) {
    const std::size_t at = rows.input_order.empty() ? i : rows.input_order[i];
    const std::size_t group = params + (s.group == 0 ? 0 : at / s.group);
    const float scale = scale_at(s.scale, rows.scales, group);
    float code = code_value(s, codes[at]);
    if (s.sub_group != 0) {
      const std::uint8_t sub = rows.sub_scales[subs + at / s.sub_group];
      code *= s.codes == Codes::kSigned ? static_cast<float>(static_cast<std::int8_t>(sub))
                                        : static_cast<float>(sub);
    }
    switch (s.offset) {
      case Offset::kNone:
        out[i] = scale * code;
        break;
      case Offset::kZeroPoint:
        out[i] = scale * (code - code_value(s, std::to_integer<std::uint8_t>(rows.offsets[group])));
        break;
      case Offset::kMinimum:
        out[i] = scale * code + scale_at(s.scale, rows.offsets, group);
        break;
      case Offset::kSubMinimum: {
        const auto minimum =
            static_cast<float>(rows.sub_scales[sub_minimums + subs + at / s.sub_group]);
        out[i] = scale * code - scale_at(s.scale, rows.offsets, group) * minimum;
        break;
      }
    }
  }
}

}  // namespace coxswain::tensor
