// Formats that hold what files store: 8-bit codes with a float16 scale for each 32 inputs, and 4-bit codes with a scale
// and a zero point or a minimum. They can be made of floats, too, plainly: nobody asks for it but probes and tests.

#include <algorithm>
#include <array>
#include <cmath>
#include <cstring>
#include <limits>

#include "kernels/formats/all.h"

namespace coxswain::kernels {
namespace {

#include "kernels/formats/int4.h"

using tensor::f16_to_float;
using tensor::float_to_f16;

std::uint16_t word_at(const std::byte* at) {
  std::uint16_t bits = 0;
  std::memcpy(&bits, at, sizeof(bits));
  return bits;
}

void put_words(std::byte* to, std::uint16_t first, std::uint16_t second) {
  std::memcpy(to, &first, 2);
  std::memcpy(to + 2, &second, 2);
}

// [n] codes into whole units; inputs that are not there have code `zero`.
template <typename Codes>
void put_codes(const std::uint8_t* codes, std::size_t n, std::byte* units) {
  if constexpr (Codes::kUnitValues == 4) {
    for (std::size_t i = 0; i < (n + 3) / 4 * 4; ++i)
      units[i] = static_cast<std::byte>(i < n ? codes[i] : Codes::kZero);
  } else {
    for (std::size_t i = 0; i < n; i += 8) {
      std::array<std::uint8_t, 8> unit;
      unit.fill(Codes::kZero);
      std::copy_n(codes + i, std::min<std::size_t>(8, n - i), unit.begin());
      for (std::size_t j = 0; j < 4; ++j)
        units[i / 2 + j] = static_cast<std::byte>(unit[j] | (unit[j + 4] << 4));
    }
  }
}

// A group's parameters, and what a value is multiplied with and then lies above the least code by.
struct Fit {
  std::uint16_t scale = 0;
  std::uint16_t second = 0;
  float inverse = 0.0F;
  float above = 0.0F;
};

template <typename Codes>
Fit fit_of(const float* x, std::size_t n) {
  float least = 0.0F;
  float most = 0.0F;
  bool is_finite = true;
  for (std::size_t i = 0; i < n; ++i) {
    is_finite = is_finite && std::isfinite(x[i]);
    least = std::min(least, x[i]);
    most = std::max(most, x[i]);
  }
  constexpr auto kNone = Codes::kOffset == GroupOffset::kNone;
  const float range = kNone ? std::max(-least, most) / 127.0F : (most - least) / Codes::kHighest;
  Fit out;
  out.scale = float_to_f16(is_finite ? range : std::numeric_limits<float>::quiet_NaN());
  const float scale = f16_to_float(out.scale);
  if (scale == 0.0F || !std::isfinite(scale)) {
    out.above = Codes::kZero;
    return out;
  }
  out.inverse = 1.0F / scale;
  if constexpr (kNone) {
    out.above = Codes::kZero;
  } else if constexpr (Codes::kOffset == GroupOffset::kZero) {
    out.above = std::clamp(std::nearbyint(-least / scale), 0.0F, 15.0F);
    out.second = static_cast<std::uint16_t>(out.above);
  } else {
    out.second = float_to_f16(least);
    out.above = -f16_to_float(out.second) * out.inverse;
  }
  return out;
}

template <typename Codes>
void encode(const float* x, std::size_t k, const EncodedRow& out) {
  std::array<std::uint8_t, Codes::kGroup> codes{};
  for (std::size_t i = 0; i < k; i += Codes::kGroup) {
    const std::size_t n = std::min<std::size_t>(Codes::kGroup, k - i);
    const Fit fit = fit_of<Codes>(x + i, n);
    std::byte* const words = out.scales + i / Codes::kGroup * Codes::kWords * 2;
    std::memcpy(words, &fit.scale, 2);
    if constexpr (Codes::kWords == 2) put_words(words, fit.scale, fit.second);
    for (std::size_t j = 0; j < n; ++j) {
      const float code = fit.inverse == 0.0F ? 0.0F : x[i + j] * fit.inverse;
      codes[j] = static_cast<std::uint8_t>(
          std::clamp(std::nearbyint(code + fit.above), 0.0F, static_cast<float>(Codes::kHighest)));
    }
    put_codes<Codes>(codes.data(), n, out.values + i / Codes::kUnitValues * Codes::kUnitBytes);
  }
}

template <typename Codes>
void encode_codes(const tensor::QuantRows& rows, std::size_t row, const EncodedRow& out) {
  const std::size_t n_groups = rows.scheme.n_groups(rows.k);
  for (std::size_t g = 0; g < n_groups; ++g) {
    const std::size_t at = row * n_groups + g;
    const std::uint16_t scale = word_at(rows.scales.data() + at * 2);
    std::byte* const words = out.scales + g * Codes::kWords * 2;
    std::memcpy(words, &scale, 2);
    if constexpr (Codes::kOffset == GroupOffset::kZero)
      put_words(words, scale, std::to_integer<std::uint16_t>(rows.offsets[at]));
    if constexpr (Codes::kOffset == GroupOffset::kMinimum)
      put_words(words, scale, word_at(rows.offsets.data() + at * 2));
  }
  put_codes<Codes>(rows.codes.data() + row * rows.k, rows.k, out.values);
}

template <typename Codes>
void decode(const EncodedRow& in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    const std::byte* const words = in.scales + i / Codes::kGroup * Codes::kWords * 2;
    const float scale = f16_to_float(word_at(words));
    const auto* const unit = reinterpret_cast<const std::uint8_t*>(in.values) +
                             i / Codes::kUnitValues * Codes::kUnitBytes;
    const int code = Codes::code(unit, static_cast<int>(i % Codes::kUnitValues));
    if constexpr (Codes::kOffset == GroupOffset::kMinimum) {
      const float product = scale * static_cast<float>(code);
      out[i] = product + f16_to_float(word_at(words + 2));
    } else {
      const int zero = Codes::kOffset == GroupOffset::kZero ? static_cast<int>(word_at(words + 2))
                                                            : Codes::kZero;
      out[i] = scale * static_cast<float>(code - zero);
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
  out.scheme.codes =
      Codes::kOffset == GroupOffset::kNone ? tensor::Codes::kSigned : tensor::Codes::kUnsigned;
  out.scheme.offset = Codes::kOffset == GroupOffset::kNone   ? tensor::Offset::kNone
                      : Codes::kOffset == GroupOffset::kZero ? tensor::Offset::kZeroPoint
                                                             : tensor::Offset::kMinimum;
  out.scheme.scale = tensor::ScaleType::kF16;
  out.scheme.group = Codes::kGroup;
  out.plain = tensor::DType::kI8;
  out.scale_bytes = Codes::kWords * 2;
  out.is_option = false;
  out.encode = encode<Codes>;
  out.encode_codes = encode_codes<Codes>;
  out.decode = decode<Codes>;
  return out;
}

}  // namespace

constinit const WeightFormat formats::kInt8G32 = make_format<Int8<32>>("int8-g32");
constinit const WeightFormat formats::kInt4Zero = make_format<Int4Zero<32>>("int4-zero");
constinit const WeightFormat formats::kInt4ZeroG128 = make_format<Int4Zero<128>>("int4-zero-g128");
constinit const WeightFormat formats::kInt4Minimum = make_format<Int4Minimum<32>>("int4-minimum");

}  // namespace coxswain::kernels
