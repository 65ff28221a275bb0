// int4 and int4-g128: how rows become 4-bit codes.
//
// A group's scale is one of three candidates, its value of largest magnitude (with its sign) over -7.4, -8.2 or -9.2:
// whichever leaves the least sum of squares. Against the usual one (over -8) this takes the error of normally
// distributed weights from 8.6 to 8.4 % of their size in groups of 32, and from 10.3 to 9.8 % in groups of 128.

#include <algorithm>
#include <array>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstring>

#include "kernels/formats/all.h"

namespace coxswain::kernels {
namespace {

#include "kernels/formats/int4.h"

constexpr std::array kCandidates{-7.4F, -8.2F, -9.2F};
// Adding and subtracting this rounds to a whole number, ties to even.
constexpr float kRound = 12582912.0F;  // 1.5 * 2^23
// Groups of smaller values have no finite reciprocal of their scale and count as zero.
constexpr float kScaleLeast = 0x1p-24F;  // the least float16

float code_of(float x, float inverse) {
  return std::clamp((x * inverse + kRound) - kRound, -8.0F, 7.0F);
}

float squares_left(const float* x, std::size_t n, float scale) {
  const float inverse = 1.0F / scale;
  float sum = 0.0F;
  for (std::size_t i = 0; i < n; ++i) {
    const float rest = x[i] - code_of(x[i], inverse) * scale;
    sum += rest * rest;
  }
  return sum;
}

// The value of largest magnitude; NaN if there is one.
float largest(const float* x, std::size_t n) {
  std::uint32_t magnitude = 0;
  float value = 0.0F;
  for (std::size_t i = 0; i < n; ++i) {
    const std::uint32_t bits = std::bit_cast<std::uint32_t>(x[i]) & 0x7FFFFFFFU;
    if (bits > magnitude) {
      magnitude = bits;
      value = x[i];
    }
  }
  return value;
}

// As float16 bits; 0 for a group that counts as zero.
std::uint16_t scale_of(const float* x, std::size_t n) {
  const float top = largest(x, n);
  std::uint16_t best = tensor::float_to_f16(top / kCandidates[0]);
  if (!std::isfinite(tensor::f16_to_float(best))) return best;
  float least = INFINITY;
  std::uint16_t chosen = 0;
  for (const float candidate : kCandidates) {
    const std::uint16_t bits = tensor::float_to_f16(top / candidate);
    const float scale = tensor::f16_to_float(bits);
    if (std::fabs(scale) < kScaleLeast) continue;
    const float left = squares_left(x, n, scale);
    if (left < least) {
      least = left;
      chosen = bits;
    }
  }
  return chosen;
}

// Codes of up to one group into whole units.
void put_codes(const std::uint8_t* codes, std::size_t n, std::byte* units) {
  for (std::size_t i = 0; i < n; i += 8) {
    std::array<std::uint8_t, 8> unit{8, 8, 8, 8, 8, 8, 8, 8};
    std::copy_n(codes + i, std::min<std::size_t>(8, n - i), unit.begin());
    for (std::size_t j = 0; j < 4; ++j)
      units[i / 2 + j] = static_cast<std::byte>(unit[j] | (unit[j + 4] << 4));
  }
}

template <std::size_t kGroup>
void encode(const float* x, std::size_t k, const EncodedRow& out) {
  std::array<std::uint8_t, kGroup> codes{};
  for (std::size_t i = 0; i < k; i += kGroup) {
    const std::size_t n = std::min(kGroup, k - i);
    const std::uint16_t bits = scale_of(x + i, n);
    std::memcpy(out.scales + i / kGroup * 2, &bits, 2);
    const float scale = tensor::f16_to_float(bits);
    const bool counts = std::isfinite(scale) && scale != 0.0F;
    const float inverse = counts ? 1.0F / scale : 0.0F;
    for (std::size_t j = 0; j < n; ++j) {
      codes[j] = counts
                     ? static_cast<std::uint8_t>(static_cast<int>(code_of(x[i + j], inverse)) + 8)
                     : std::uint8_t{8};
    }
    put_codes(codes.data(), n, out.values + i / 2);
  }
}

template <std::size_t kGroup>
void encode_codes(const tensor::QuantRows& rows, std::size_t row, const EncodedRow& out) {
  const std::size_t scale_bytes = rows.scheme.n_groups(rows.k) * 2;
  std::memcpy(out.scales, rows.scales.data() + row * scale_bytes, scale_bytes);
  put_codes(rows.codes.data() + row * rows.k, rows.k, out.values);
}

template <std::size_t kGroup>
void decode(const EncodedRow& in, std::size_t count, float* out) {
  for (std::size_t i = 0; i < count; ++i) {
    std::uint16_t bits = 0;
    std::memcpy(&bits, in.scales + i / kGroup * 2, 2);
    const auto* unit = reinterpret_cast<const std::uint8_t*>(in.values) + i / 8 * 4;
    out[i] = tensor::f16_to_float(bits) *
             static_cast<float>(Int4<kGroup>::code(unit, static_cast<int>(i % 8)) - 8);
  }
}

template <std::size_t kGroup>
constexpr WeightFormat make_format(std::string_view name) {
  WeightFormat out;
  out.id = Int4<kGroup>::kId;
  out.name = name;
  out.bits = 4;
  out.scheme.bits = 4;
  out.scheme.codes = tensor::Codes::kSigned;
  out.scheme.scale = tensor::ScaleType::kF16;
  out.scheme.group = kGroup;
  out.plain = tensor::DType::kI8;
  out.scale_bytes = 2;
  out.encode = encode<kGroup>;
  out.encode_codes = encode_codes<kGroup>;
  out.decode = decode<kGroup>;
  return out;
}

}  // namespace

constinit const WeightFormat formats::kInt4 = make_format<32>("int4");
constinit const WeightFormat formats::kInt4G128 = make_format<128>("int4-g128");

}  // namespace coxswain::kernels
