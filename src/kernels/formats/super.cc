// Super4 and Super6 (super.h): how rows become codes. Of floats only plainly, each sub-group with 1: nobody asks for it
// but probes and tests.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/formats/all.h"

namespace coxswain::kernels {
namespace {

#include "kernels/formats/int4.h"
#include "kernels/formats/super.h"

using tensor::f16_to_float;
using tensor::float_to_f16;

constexpr std::size_t kParameterBytes = kSuperWords * 4;

// Of one super-group of one output.
struct Parameters {
  std::uint16_t scale = 0;
  std::uint16_t minimum = 0;
  std::array<std::uint8_t, 16> subs{};  // in the order of the words

  // Of what lies there.
  explicit Parameters(const std::byte* at) {
    std::memcpy(&scale, at, 2);
    std::memcpy(&minimum, at + 2, 2);
    std::memcpy(subs.data(), at + 4, subs.size());
  }
  Parameters() = default;
  void put(std::byte* at) const {
    std::memcpy(at, &scale, 2);
    std::memcpy(at + 2, &minimum, 2);
    std::memcpy(at + 4, subs.data(), subs.size());
  }
};

template <typename Codes>
void put_codes(const std::uint8_t* codes, std::size_t n, std::byte* units) {
  for (std::size_t i = 0; i < n; ++i) {
    std::byte* const unit = units + i / Codes::kUnitValues * Codes::kUnitBytes;
    const std::size_t j = i % Codes::kUnitValues;
    const unsigned lower = codes[i] & 15U;
    unit[j / 8 * 4 + j % 4] |= static_cast<std::byte>(j % 8 < 4 ? lower : lower << 4);
    if constexpr (Codes::kHighest > 15)
      unit[8 + j % 4] |= static_cast<std::byte>(codes[i] >> 4 << (j / 4 * 2));
  }
}

template <typename Codes>
void encode(const float* x, std::size_t k, const EncodedRow& out) {
  std::memset(out.values, 0, (k + Codes::kUnitValues - 1) / Codes::kUnitValues * Codes::kUnitBytes);
  std::array<std::uint8_t, kSuperInputs> codes{};
  for (std::size_t i = 0; i < k; i += kSuperInputs) {
    const std::size_t n = std::min<std::size_t>(kSuperInputs, k - i);
    float least = 0.0F;
    float most = 0.0F;
    bool is_finite = true;
    for (std::size_t j = i; j < i + n; ++j) {
      is_finite = is_finite && std::isfinite(x[j]);
      least = std::min(least, x[j]);
      most = std::max(most, x[j]);
    }
    const float range = Codes::kHasMinima ? (most - least) / Codes::kHighest
                                          : std::max(most, -least) / (Codes::kZero - 1);
    Parameters parameters;
    parameters.subs.fill(1);
    parameters.scale = float_to_f16(is_finite ? range : std::numeric_limits<float>::quiet_NaN());
    const float scale = f16_to_float(parameters.scale);
    const bool counts = std::isfinite(scale) && scale != 0.0F;
    if (Codes::kHasMinima && counts) parameters.minimum = float_to_f16(-least);
    const float above = Codes::kHasMinima ? f16_to_float(parameters.minimum) : 0.0F;
    for (std::size_t j = 0; j < n; ++j) {
      const float code = counts ? std::nearbyint((x[i + j] + above) / scale) : 0.0F;
      codes[j] = static_cast<std::uint8_t>(
          std::clamp(code + static_cast<float>(Codes::kZero), 0.0F, 1.0F * Codes::kHighest));
    }
    put_codes<Codes>(codes.data(), n, out.values + i / Codes::kUnitValues * Codes::kUnitBytes);
    parameters.put(out.scales + i / kSuperInputs * kParameterBytes);
  }
}

template <typename Codes>
void encode_codes(const tensor::QuantRows& rows, std::size_t row, const EncodedRow& out) {
  const std::size_t n_groups = rows.scheme.n_groups(rows.k);
  const std::size_t n_subs = rows.scheme.n_sub_groups(rows.k);
  const std::uint8_t* const subs = rows.sub_scales.data() + row * n_subs;
  const std::uint8_t* const minima = subs + rows.n_rows * n_subs;
  constexpr std::size_t kSubs = kSuperInputs / Codes::kSub;
  for (std::size_t g = 0; g < n_groups; ++g) {
    const std::size_t at = (row * n_groups + g) * 2;
    Parameters parameters;
    std::memcpy(&parameters.scale, rows.scales.data() + at, 2);
    if (Codes::kHasMinima) std::memcpy(&parameters.minimum, rows.offsets.data() + at, 2);
    for (std::size_t s = 0; s < std::min(kSubs, n_subs - g * kSubs); ++s) {
      parameters.subs[Codes::kHasMinima ? 2 * s : s] = subs[g * kSubs + s];
      if (Codes::kHasMinima) parameters.subs[2 * s + 1] = minima[g * kSubs + s];
    }
    parameters.put(out.scales + g * kParameterBytes);
  }
  put_codes<Codes>(rows.codes.data() + row * rows.k, rows.k, out.values);
}

template <typename Codes>
void decode(const EncodedRow& in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const Parameters parameters(in.scales + i / kSuperInputs * kParameterBytes);
    const auto* const unit = reinterpret_cast<const std::uint8_t*>(in.values) +
                             i / Codes::kUnitValues * Codes::kUnitBytes;
    const int code = Codes::code(unit, static_cast<int>(i % Codes::kUnitValues)) - Codes::kZero;
    const std::size_t sub = i % kSuperInputs / Codes::kSub;
    const float scale = f16_to_float(parameters.scale);
    if constexpr (Codes::kHasMinima) {
      const float product = scale * static_cast<float>(code * parameters.subs[2 * sub]);
      const float least =
          f16_to_float(parameters.minimum) * static_cast<float>(parameters.subs[2 * sub + 1]);
      out[i] = product - least;
    } else {
      out[i] = scale * static_cast<float>(code * static_cast<std::int8_t>(parameters.subs[sub]));
    }
  }
}

template <typename Codes>
constexpr WeightFormat make_format(std::string_view name) {
  WeightFormat out;
  out.id = Codes::kId;
  out.name = name;
  out.bits = Codes::kUnitBytes * 8 / Codes::kUnitValues;
  out.scheme.bits = static_cast<std::uint8_t>(out.bits);
  out.scheme.codes = Codes::kHasMinima ? tensor::Codes::kUnsigned : tensor::Codes::kSigned;
  out.scheme.offset = Codes::kHasMinima ? tensor::Offset::kSubMinimum : tensor::Offset::kNone;
  out.scheme.scale = tensor::ScaleType::kF16;
  out.scheme.group = kSuperInputs;
  out.scheme.sub_group = Codes::kSub;
  out.plain = tensor::DType::kI8;
  out.scale_bytes = kParameterBytes;
  out.is_option = false;
  out.encode = encode<Codes>;
  out.encode_codes = encode_codes<Codes>;
  out.decode = decode<Codes>;
  return out;
}

}  // namespace

constinit const WeightFormat formats::kSuper4 = make_format<Super4>("int4-super");
constinit const WeightFormat formats::kSuper6 = make_format<Super6>("int6-super");

}  // namespace coxswain::kernels
