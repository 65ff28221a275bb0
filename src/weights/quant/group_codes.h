#pragma once
// Readers whose rows are integer codes with a scale and a zero point for each group of inputs, as tensor::CodeRows.
// What they offer:
//
//   n(), k(), n_groups()      extents
//   group_size()              inputs of a group, 0 = all
//   bits()                    of a code
//   group_of(k)               of an input
//   code(row, k), zero(row, group), scale(row, group)
//
// Thread rule: pure functions.

#include <cstring>

#include "tensor/dtype.h"
#include "tensor/quant.h"

namespace coxswain::weights::quant {

// Bits are 0 where groups are not in order (act-order), or where a scale has more bits than a float16.
template <typename Reader>
tensor::QuantScheme scheme_of_groups(const Reader& reader) {
  const std::uint64_t group_size = reader.group_size();
  for (std::uint64_t k = 0; k < reader.k(); ++k) {
    if (reader.group_of(k) != (group_size == 0 ? 0 : k / group_size)) return {};
  }
  const std::uint32_t middle = 1U << (reader.bits() - 1);
  bool is_symmetric = true;
  for (std::uint64_t row = 0; row < reader.n(); ++row) {
    for (std::uint64_t g = 0; g < reader.n_groups(); ++g) {
      const float scale = reader.scale(row, g);
      if (tensor::f16_to_float(tensor::float_to_f16(scale)) != scale) return {};
      is_symmetric = is_symmetric && reader.zero(row, g) == middle;
    }
  }
  tensor::QuantScheme out;
  out.bits = static_cast<std::uint8_t>(reader.bits());
  out.codes = is_symmetric ? tensor::Codes::kSigned : tensor::Codes::kUnsigned;
  out.offset = is_symmetric ? tensor::Offset::kNone : tensor::Offset::kZeroPoint;
  out.scale = tensor::ScaleType::kF16;
  // A group of all inputs may be said to be larger than they are.
  out.group = group_size >= reader.k() ? 0 : static_cast<std::uint32_t>(group_size);
  return out;
}

// Rows [first, first + n).
template <typename Reader>
void fill_codes(const Reader& reader,
                const tensor::QuantScheme& scheme,
                std::uint64_t first,
                std::uint64_t n,
                tensor::CodeRows& out) {
  out.resize(scheme, n, reader.k());
  std::uint8_t* codes = out.codes.data();
  std::size_t at = 0;
  for (std::uint64_t row = first; row < first + n; ++row) {
    for (std::uint64_t k = 0; k < reader.k(); ++k)
      *codes++ = static_cast<std::uint8_t>(reader.code(row, k));
    for (std::uint64_t g = 0; g < reader.n_groups(); ++g, ++at) {
      const std::uint16_t scale = tensor::float_to_f16(reader.scale(row, g));
      std::memcpy(out.scales.data() + at * sizeof(scale), &scale, sizeof(scale));
      if (!out.offsets.empty()) out.offsets[at] = static_cast<std::byte>(reader.zero(row, g));
    }
  }
}

}  // namespace coxswain::weights::quant
