#include "weights/gguf_blocks.h"

#include <algorithm>
#include <array>
#include <bit>
#include <utility>

#include "weights/gguf_bytes.h"

namespace coxswain::weights {
namespace {

constexpr std::size_t kSmall = 32;   // values of a block of the older types
constexpr std::size_t kSuper = 256;  // of the K types

// Codes of 4 bits in halves: byte i has value i and value i + n / 2.
std::uint32_t half_code(const std::byte* codes, std::size_t n, std::size_t i) {
  return i < n / 2 ? byte_at(codes, i) & 15U : byte_at(codes, i - n / 2) >> 4U;
}

void decode_f32(const std::byte* block, float* out) {
  std::memcpy(out, block, sizeof(float));
}
void decode_f16(const std::byte* block, float* out) {
  *out = f16_at(block);
}
void decode_bf16(const std::byte* block, float* out) {
  *out = tensor::bf16_to_float(static_cast<std::uint16_t>(u16_at(block)));
}

// scale, 16 bytes of codes
void decode_q4_0(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t i = 0; i < kSmall; ++i)
    out[i] = static_cast<float>(static_cast<int>(half_code(block + 2, kSmall, i)) - 8) * d;
}

// scale, minimum, 16 bytes of codes
void decode_q4_1(const std::byte* block, float* out) {
  const float d = f16_at(block);
  const float m = f16_at(block + 2);
  for (std::size_t i = 0; i < kSmall; ++i)
    out[i] = static_cast<float>(half_code(block + 4, kSmall, i)) * d + m;
}

// The fifth bits of all values stand together before the other four.
std::uint32_t five_bits(const std::byte* high, std::size_t i) {
  return half_code(high + 4, kSmall, i) | (u32_at(high) >> i & 1U) << 4U;
}

void decode_q5_0(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t i = 0; i < kSmall; ++i)
    out[i] = static_cast<float>(static_cast<int>(five_bits(block + 2, i)) - 16) * d;
}

void decode_q5_1(const std::byte* block, float* out) {
  const float d = f16_at(block);
  const float m = f16_at(block + 2);
  for (std::size_t i = 0; i < kSmall; ++i)
    out[i] = static_cast<float>(five_bits(block + 4, i)) * d + m;
}

void decode_q8_0(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t i = 0; i < kSmall; ++i) out[i] = static_cast<float>(int8_at(block + 2, i)) * d;
}

// 16 sub-scales and sub-minimums of 4 bits, 64 bytes of codes, scale, minimum
void decode_q2_k(const std::byte* block, float* out) {
  const float d = f16_at(block + 80);
  const float dmin = f16_at(block + 82);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::uint32_t sub = byte_at(block, i / 16);
    const float scale = d * static_cast<float>(sub & 15U);
    const float minimum = dmin * static_cast<float>(sub >> 4U);
    out[i] = scale * static_cast<float>(two_bits(block + 16, i)) - minimum;
  }
}

// 32 bytes of third bits, 64 of the other two, 16 sub-scales of 6 bits, scale
void decode_q3_k(const std::byte* block, float* out) {
  const std::byte* const scales = block + 96;
  const float d = f16_at(block + 108);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::size_t s = i / 16;
    const std::uint32_t low = byte_at(scales, s % 8) >> (s / 8 * 4) & 15U;
    const std::uint32_t high = byte_at(scales, 8 + s % 4) >> (s / 4 * 2) & 3U;
    const float scale = d * static_cast<float>(static_cast<int>(low | high << 4U) - 32);
    const std::uint32_t third = byte_at(block, i % 32) >> (i / 32) & 1U;
    const int code = static_cast<int>(two_bits(block + 32, i)) - (third != 0 ? 0 : 4);
    out[i] = scale * static_cast<float>(code);
  }
}

// scale, minimum, 12 bytes of sub-scales, 128 of codes
void decode_q4_k(const std::byte* block, float* out) {
  const float d = f16_at(block);
  const float dmin = f16_at(block + 2);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const SubScale sub = six_bit_pair(block + 4, i / 32);
    const float scale = d * static_cast<float>(sub.scale);
    const float minimum = dmin * static_cast<float>(sub.minimum);
    out[i] = scale * static_cast<float>(four_bits(block + 16, i)) - minimum;
  }
}

// as Q4_K, with 32 bytes of fifth bits before the codes
void decode_q5_k(const std::byte* block, float* out) {
  const float d = f16_at(block);
  const float dmin = f16_at(block + 2);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const SubScale sub = six_bit_pair(block + 4, i / 32);
    const float scale = d * static_cast<float>(sub.scale);
    const float minimum = dmin * static_cast<float>(sub.minimum);
    const std::uint32_t fifth = byte_at(block + 16, i % 32) >> (i / 32) & 1U;
    out[i] = scale * static_cast<float>(four_bits(block + 48, i) | fifth << 4U) - minimum;
  }
}

// 128 bytes of lower 4 bits, 64 of upper 2, 16 sub-scales of 8 bits, scale
void decode_q6_k(const std::byte* block, float* out) {
  const float d = f16_at(block + 208);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::size_t in_half = i % 128;
    const std::uint32_t low =
        byte_at(block, i / 128 * 64 + in_half % 64) >> (in_half / 64 * 4) & 15U;
    const std::uint32_t high = two_bits(block + 128, i);
    const float scale = d * static_cast<float>(int8_at(block + 192, i / 16));
    out[i] = scale * static_cast<float>(static_cast<int>(low | high << 4U) - 32);
  }
}

constexpr std::array<int, 16> kIq4Values{
    -127, -104, -83, -65, -49, -35, -22, -10, 1, 13, 25, 38, 53, 69, 89, 113};

void decode_iq4_nl(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t i = 0; i < kSmall; ++i)
    out[i] = d * static_cast<float>(kIq4Values[half_code(block + 2, kSmall, i)]);
}

// scale, 16 bits with the upper 2 of each sub-scale, 4 bytes with the lower 4, 8 times 16 bytes of codes
void decode_iq4_xs(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::size_t s = i / kSmall;
    const std::uint32_t sub = nibble_at(block + 4, s) | (u16_at(block + 2) >> (2 * s) & 3U) << 4U;
    const float scale = d * static_cast<float>(static_cast<int>(sub) - 32);
    const std::uint32_t code = half_code(block + 8 + s * 16, kSmall, i % kSmall);
    out[i] = scale * static_cast<float>(kIq4Values[code]);
  }
}

// A byte q holds five digits of base 3 as the fraction q / 256: the first is what a multiplication by 3 carries out.
float ternary(std::uint32_t byte, std::uint32_t power, float d) {
  const std::uint32_t rest = byte * power & 255U;
  return static_cast<float>(static_cast<int>(rest * 3 >> 8U) - 1) * d;
}

// 32 bytes of 5 digits, 16 of 5, 4 of 4; scale. Neighbouring values stand in neighbouring bytes.
void decode_tq1_0(const std::byte* block, float* out) {
  constexpr std::array<std::uint32_t, 5> kPowers{1, 3, 9, 27, 81};
  const float d = f16_at(block + 52);
  const auto digits = [&](std::size_t begin, std::size_t n_bytes, std::size_t n_digits) {
    for (std::size_t digit = 0; digit < n_digits; ++digit) {
      for (std::size_t i = 0; i < n_bytes; ++i)
        *out++ = ternary(byte_at(block, begin + i), kPowers[digit], d);
    }
  };
  digits(0, 32, 5);
  digits(32, 16, 5);
  digits(48, 4, 4);
}

void decode_tq2_0(const std::byte* block, float* out) {
  const float d = f16_at(block + 64);
  for (std::size_t i = 0; i < kSuper; ++i)
    out[i] = static_cast<float>(static_cast<int>(two_bits(block, i)) - 1) * d;
}

// Twice the values of e2m1, so that they are integers; scales are halved for it.
constexpr std::array<int, 16> kFp4Values{0, 1, 2, 3, 4, 6, 8, 12, 0, -1, -2, -3, -4, -6, -8, -12};

// 2^(exponent - 128), subnormal below 2.
float half_e8m0(std::uint32_t exponent) {
  return std::bit_cast<float>(exponent < 2 ? 0x00200000U << exponent : (exponent - 1) << 23U);
}

// exponent, 16 bytes of codes
void decode_mxfp4(const std::byte* block, float* out) {
  const float d = half_e8m0(byte_at(block, 0));
  for (std::size_t i = 0; i < kSmall; ++i)
    out[i] = static_cast<float>(kFp4Values[half_code(block + 1, kSmall, i)]) * d;
}

// Half of an unsigned e4m3; 0x7F, which would be NaN, counts as 0.
float half_ue4m3(std::uint32_t code) {
  const std::uint32_t exponent = code >> 3U & 15U;
  const auto mantissa = static_cast<float>(code & 7U);
  if (code == 0 || code == 0x7FU) return 0.0F;
  if (exponent == 0) return mantissa * 0x1p-10F;
  const float power = std::bit_cast<float>((exponent - 8 + 127) << 23U);
  return (1.0F + mantissa * 0.125F) * power;
}

// 4 scales, 4 times 8 bytes of codes
void decode_nvfp4(const std::byte* block, float* out) {
  constexpr std::size_t kGroup = 16;
  for (std::size_t i = 0; i < 4 * kGroup; ++i) {
    const std::size_t s = i / kGroup;
    const std::uint32_t code = half_code(block + 4 + s * 8, kGroup, i % kGroup);
    out[i] = half_ue4m3(byte_at(block, s)) * static_cast<float>(kFp4Values[code]);
  }
}

}  // namespace

DecodeBlock find_block_decoder(std::string_view type) {
  using namespace gguf_blocks;
  static constexpr std::array<std::pair<std::string_view, DecodeBlock>, 26> kDecoders{{
      {"F32", decode_f32},         {"F16", decode_f16},       {"BF16", decode_bf16},
      {"Q4_0", decode_q4_0},       {"Q4_1", decode_q4_1},     {"Q5_0", decode_q5_0},
      {"Q5_1", decode_q5_1},       {"Q8_0", decode_q8_0},     {"Q2_K", decode_q2_k},
      {"Q3_K", decode_q3_k},       {"Q4_K", decode_q4_k},     {"Q5_K", decode_q5_k},
      {"Q6_K", decode_q6_k},       {"IQ1_S", decode_iq1_s},   {"IQ1_M", decode_iq1_m},
      {"IQ2_XXS", decode_iq2_xxs}, {"IQ2_XS", decode_iq2_xs}, {"IQ2_S", decode_iq2_s},
      {"IQ3_XXS", decode_iq3_xxs}, {"IQ3_S", decode_iq3_s},   {"IQ4_NL", decode_iq4_nl},
      {"IQ4_XS", decode_iq4_xs},   {"TQ1_0", decode_tq1_0},   {"TQ2_0", decode_tq2_0},
      {"MXFP4", decode_mxfp4},     {"NVFP4", decode_nvfp4},
  }};
  const auto* const found =
      std::ranges::find(kDecoders, type, &std::pair<std::string_view, DecodeBlock>::first);
  return found == kDecoders.end() ? nullptr : found->second;
}

}  // namespace coxswain::weights
