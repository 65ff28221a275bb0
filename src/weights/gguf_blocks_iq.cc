// Types whose codes are entries of a code book: rows of 4 or 8 small integers, with signs beside them.

#include <array>
#include <bit>

#include "weights/gguf_blocks.h"
#include "weights/gguf_bytes.h"

namespace coxswain::weights::gguf_blocks {
namespace {

#include "weights/gguf_codebooks.inc"

constexpr std::array<int, 4> kIq2Values{8, 25, 43, 0};
constexpr std::array<int, 8> kIq3XxsValues{4, 12, 20, 28, 36, 44, 52, 62};

// Value i of an entry, before its sign.
int iq2_value(std::uint32_t entry, std::size_t i) {
  return kIq2Values[entry >> (2 * i) & 3U];
}
int iq3_xxs_value(std::uint32_t entry, std::size_t i) {
  return kIq3XxsValues[entry >> (4 * i) & 7U];
}
int iq3_s_value(std::uint32_t entry, std::size_t i) {
  return 2 * static_cast<int>(entry >> (4 * i) & 7U) + 1;
}
int iq1_value(std::uint32_t entry, std::size_t i) {
  return static_cast<int>(entry >> (2 * i) & 3U) - 1;
}

// Eight signs in 7 bits: an even number of them is negative, which gives the last one.
std::uint32_t signs_of(std::uint32_t seven) {
  return seven | (static_cast<std::uint32_t>(std::popcount(seven)) & 1U) << 7U;
}

// n values of one entry.
template <typename ValueAt>
void put(std::size_t n,
         float scale,
         std::uint32_t entry,
         std::uint32_t signs,
         ValueAt value,
         float* out) {
  for (std::size_t i = 0; i < n; ++i) {
    const float magnitude = scale * static_cast<float>(value(entry, i));
    out[i] = (signs >> i & 1U) != 0 ? -magnitude : magnitude;
  }
}

constexpr float kIq1Delta = 0.125F;

void put_iq1(float scale, std::uint32_t entry, bool below, float* out) {
  const float delta = below ? -kIq1Delta : kIq1Delta;
  for (std::size_t i = 0; i < 8; ++i)
    out[i] = scale * (static_cast<float>(iq1_value(entry, i)) + delta);
}

}  // namespace

// scale, 8 times: 4 entries of 8 bits, then 4 signs of 7 bits and a sub-scale of 4
void decode_iq2_xxs(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t s = 0; s < 8; ++s) {
    const std::byte* const part = block + 2 + s * 8;
    const std::uint32_t rest = u32_at(part + 4);
    const float scale = d * (0.5F + static_cast<float>(rest >> 28U)) * 0.25F;
    for (std::size_t j = 0; j < 4; ++j) {
      const std::uint32_t entry = kIq2Xxs[byte_at(part, j)];
      put(8, scale, entry, signs_of(rest >> (7 * j) & 127U), iq2_value, out + s * 32 + j * 8);
    }
  }
}

// scale, 32 times 9 bits of entry and 7 of signs, 16 sub-scales of 4 bits
void decode_iq2_xs(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t j = 0; j < 32; ++j) {
    const std::uint32_t code = u16_at(block + 2 + j * 2);
    const float sub = static_cast<float>(nibble_at(block + 66, j / 2));
    const float scale = d * (0.5F + sub) * 0.25F;
    put(8, scale, kIq2Xs[code & 511U], signs_of(code >> 9U), iq2_value, out + j * 8);
  }
}

// scale, 32 bytes of entries, 32 of signs, 8 with the upper 2 bits of entries, 16 sub-scales of 4 bits
void decode_iq2_s(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t j = 0; j < 32; ++j) {
    const std::uint32_t high = byte_at(block + 66, j / 4) >> (j % 4 * 2) & 3U;
    const float sub = static_cast<float>(nibble_at(block + 74, j / 2));
    const float scale = d * (0.5F + sub) * 0.25F;
    const std::uint32_t entry = kIq2S[byte_at(block + 2, j) | high << 8U];
    put(8, scale, entry, byte_at(block + 34, j), iq2_value, out + j * 8);
  }
}

// scale, 64 bytes of entries, 8 times 4 signs of 7 bits and a sub-scale of 4
void decode_iq3_xxs(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t j = 0; j < 64; ++j) {
    const std::uint32_t rest = u32_at(block + 66 + j / 8 * 4);
    const float scale = d * (0.5F + static_cast<float>(rest >> 28U)) * 0.5F;
    const std::uint32_t signs = signs_of(rest >> (j % 8 / 2 * 7) & 127U) >> (j % 2 * 4);
    put(4, scale, kIq3Xxs[byte_at(block + 2, j)], signs, iq3_xxs_value, out + j * 4);
  }
}

// scale, 64 bytes of entries, 8 with their ninth bits, 32 of signs, 8 sub-scales of 4 bits
void decode_iq3_s(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t j = 0; j < 64; ++j) {
    const std::uint32_t ninth = byte_at(block + 66, j / 8) >> (j % 8) & 1U;
    const float scale = d * static_cast<float>(1 + 2 * nibble_at(block + 106, j / 8));
    const std::uint32_t entry = kIq3S[byte_at(block + 2, j) | ninth << 8U];
    const std::uint32_t signs = byte_at(block + 74, j / 2) >> (j % 2 * 4);
    put(4, scale, entry, signs, iq3_s_value, out + j * 4);
  }
}

// scale, 32 bytes of entries, 8 times 4 * 3 upper bits of entries, 3 of a sub-scale, 1 of the delta's sign
void decode_iq1_s(const std::byte* block, float* out) {
  const float d = f16_at(block);
  for (std::size_t j = 0; j < 32; ++j) {
    const std::uint32_t rest = u16_at(block + 34 + j / 4 * 2);
    const float scale = d * static_cast<float>(2 * (rest >> 12U & 7U) + 1);
    const std::uint32_t high = rest >> (j % 4 * 3) & 7U;
    put_iq1(scale, kIq1[byte_at(block + 2, j) | high << 8U], (rest & 0x8000U) != 0, out + j * 8);
  }
}

// 32 bytes of entries, 32 times 3 upper bits and the delta's sign, 4 times 4 sub-scales of 3 bits and 4 of the scale
void decode_iq1_m(const std::byte* block, float* out) {
  const std::byte* const scales = block + 48;
  std::uint32_t bits = 0;
  for (std::size_t i = 0; i < 4; ++i) bits |= u16_at(scales + i * 2) >> 12U << (4 * i);
  const float d = tensor::f16_to_float(static_cast<std::uint16_t>(bits));
  for (std::size_t j = 0; j < 32; ++j) {
    const std::uint32_t sub = u16_at(scales + j / 8 * 2) >> (j % 8 / 2 * 3) & 7U;
    const std::uint32_t rest = nibble_at(block + 32, j);
    const std::uint32_t entry = kIq1[byte_at(block, j) | (rest & 7U) << 8U];
    put_iq1(d * static_cast<float>(2 * sub + 1), entry, (rest & 8U) != 0, out + j * 8);
  }
}

}  // namespace coxswain::weights::gguf_blocks
