// Blocks of GGUF tensors as codes and scales, for kernels that multiply by these. The layouts are in gguf_blocks.cc.

#include <algorithm>
#include <array>
#include <cstdint>
#include <cstring>
#include <utility>

#include "weights/gguf_blocks.h"
#include "weights/gguf_bytes.h"

namespace coxswain::weights {
namespace {

using tensor::QuantScheme;

constexpr std::size_t kSmall = 32;   // values of a block of the older types
constexpr std::size_t kSuper = 256;  // of the others

constexpr QuantScheme signed_codes(std::uint8_t bits, std::uint32_t group) {
  QuantScheme out;
  out.bits = bits;
  out.codes = tensor::Codes::kSigned;
  out.scale = tensor::ScaleType::kF16;
  out.group = group;
  return out;
}

// Byte i has value i in its low half and value i + 16 in its high half.
void split_halves(const std::byte* codes, std::uint8_t* out) {
  for (std::size_t i = 0; i < kSmall / 2; ++i) {
    const std::uint32_t both = byte_at(codes, i);
    out[i] = static_cast<std::uint8_t>(both & 15U);
    out[i + kSmall / 2] = static_cast<std::uint8_t>(both >> 4U);
  }
}

void split_q4_0(const std::byte* block, const BlockParts& out) {
  std::memcpy(out.scale, block, 2);
  split_halves(block + 2, out.codes);
}

void split_q4_1(const std::byte* block, const BlockParts& out) {
  std::memcpy(out.scale, block, 2);
  std::memcpy(out.offset, block + 2, 2);
  split_halves(block + 4, out.codes);
}

void split_q8_0(const std::byte* block, const BlockParts& out) {
  std::memcpy(out.scale, block, 2);
  for (std::size_t i = 0; i < kSmall; ++i)
    out.codes[i] = static_cast<std::uint8_t>(byte_at(block + 2, i) ^ 0x80U);
}

// A type whose values are whole numbers times the scale: with a scale of 1 its decoder gives these.
template <std::size_t kValues, std::size_t kBytes, std::size_t kScaleAt, int kZero>
void split_decoded(DecodeBlock decode, const std::byte* block, const BlockParts& out) {
  constexpr std::uint16_t kOne = 0x3C00;
  std::array<std::byte, kBytes> of_one;
  std::memcpy(of_one.data(), block, kBytes);
  std::memcpy(of_one.data() + kScaleAt, &kOne, sizeof(kOne));
  std::array<float, kValues> values{};
  decode(of_one.data(), values.data());
  std::memcpy(out.scale, block + kScaleAt, 2);
  for (std::size_t i = 0; i < kValues; ++i)
    out.codes[i] = static_cast<std::uint8_t>(static_cast<int>(values[i]) + kZero);
}

void split_q5_0(const std::byte* block, const BlockParts& out) {
  static const DecodeBlock decode = find_block_decoder("Q5_0");
  split_decoded<kSmall, 22, 0, 128>(decode, block, out);
}
void split_iq4_nl(const std::byte* block, const BlockParts& out) {
  static const DecodeBlock decode = find_block_decoder("IQ4_NL");
  split_decoded<kSmall, 18, 0, 128>(decode, block, out);
}
void split_tq1_0(const std::byte* block, const BlockParts& out) {
  static const DecodeBlock decode = find_block_decoder("TQ1_0");
  split_decoded<kSuper, 54, 52, 8>(decode, block, out);
}
void split_tq2_0(const std::byte* block, const BlockParts& out) {
  static const DecodeBlock decode = find_block_decoder("TQ2_0");
  split_decoded<kSuper, 66, 64, 8>(decode, block, out);
}

void split_q4_k(const std::byte* block, const BlockParts& out) {
  std::memcpy(out.scale, block, 2);
  std::memcpy(out.offset, block + 2, 2);
  for (std::size_t s = 0; s < kSuper / 32; ++s) {
    const SubScale sub = six_bit_pair(block + 4, s);
    out.sub_scales[s] = static_cast<std::uint8_t>(sub.scale);
    out.sub_minimums[s] = static_cast<std::uint8_t>(sub.minimum);
  }
  for (std::size_t i = 0; i < kSuper; ++i)
    out.codes[i] = static_cast<std::uint8_t>(four_bits(block + 16, i));
}

// Codes of 6 bits less 32.
void split_q6_k(const std::byte* block, const BlockParts& out) {
  std::memcpy(out.scale, block + 208, 2);
  std::memcpy(out.sub_scales, block + 192, 16);
  for (std::size_t i = 0; i < kSuper; ++i) {
    const std::size_t in_half = i % 128;
    const std::uint32_t low =
        byte_at(block, i / 128 * 64 + in_half % 64) >> (in_half / 64 * 4) & 15U;
    out.codes[i] = static_cast<std::uint8_t>(low | two_bits(block + 128, i) << 4U);
  }
}

constexpr QuantScheme with_minimum() {
  QuantScheme out = signed_codes(4, kSmall);
  out.codes = tensor::Codes::kUnsigned;
  out.offset = tensor::Offset::kMinimum;
  return out;
}

constexpr QuantScheme in_sub_groups(QuantScheme scheme, std::uint32_t sub_group) {
  scheme.group = kSuper;
  scheme.sub_group = sub_group;
  if (scheme.offset == tensor::Offset::kMinimum) scheme.offset = tensor::Offset::kSubMinimum;
  return scheme;
}

}  // namespace

const BlockCodes* find_block_codes(std::string_view type) {
  static constexpr std::array<std::pair<std::string_view, BlockCodes>, 9> kTypes{{
      {"Q4_0", {signed_codes(4, kSmall), split_q4_0}},
      {"Q4_1", {with_minimum(), split_q4_1}},
      {"Q8_0", {signed_codes(8, kSmall), split_q8_0}},
      // Held in more bits than the file has.
      {"Q5_0", {signed_codes(8, kSmall), split_q5_0}},
      {"IQ4_NL", {signed_codes(8, kSmall), split_iq4_nl}},
      {"TQ1_0", {signed_codes(4, kSuper), split_tq1_0}},
      {"TQ2_0", {signed_codes(4, kSuper), split_tq2_0}},
      {"Q4_K", {in_sub_groups(with_minimum(), 32), split_q4_k}},
      {"Q6_K", {in_sub_groups(signed_codes(6, kSuper), 16), split_q6_k}},
  }};
  const auto* const found =
      std::ranges::find(kTypes, type, &std::pair<std::string_view, BlockCodes>::first);
  return found == kTypes.end() ? nullptr : &found->second;
}

}  // namespace coxswain::weights
