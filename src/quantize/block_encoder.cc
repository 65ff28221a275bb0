#include "quantize/block_encoder.h"

#include <algorithm>
#include <array>
#include <cmath>
#include <cstdint>
#include <cstring>
#include <limits>
#include <span>
#include <utility>

#include "tensor/dtype.h"

namespace coxswain::quantize {
namespace {

constexpr std::size_t kSmall = 32;   // values of a block of the older types
constexpr std::size_t kSuper = 256;  // of the K types
constexpr int kSubMax = 63;          // sub-scales and sub-minimums have 6 bits

void put_float16(std::byte* to, float value) {
  const std::uint16_t bits = tensor::float_to_f16(value);
  std::memcpy(to, &bits, sizeof(bits));
}
float as_float16(float value) {
  return tensor::f16_to_float(tensor::float_to_f16(value));
}
void add_bits(std::byte& to, int bits, std::size_t shift) {
  to |= static_cast<std::byte>(static_cast<unsigned>(bits) << shift);
}

// The nearest of [-half, half - 1] steps.
int steps_of(float value, float scale, int half) {
  if (scale == 0.0F) return 0;
  const float steps = std::nearbyint(value / scale);
  return static_cast<int>(
      std::clamp(steps, static_cast<float>(-half), static_cast<float>(half - 1)));
}

// A scale of either sign, since one end has a step more; rounded as it is stored where `stored` is a float16.
float signed_scale(std::span<const float> values, int half, bool stored) {
  float extreme = 0.0F;
  for (const float value : values) {
    if (std::abs(value) > std::abs(extreme)) extreme = value;
  }
  if (extreme == 0.0F) return 0.0F;
  constexpr int kTries = 12;
  float best = 0.0F;
  double least = std::numeric_limits<double>::infinity();
  for (int i = -2; i <= kTries; ++i) {
    // From a step short of the end to well beyond it, which cuts the extreme.
    const float reach = static_cast<float>(half) * (1.0F + 0.03F * static_cast<float>(i));
    float scale = -extreme / reach;
    if (stored) scale = as_float16(scale);
    double error = 0;
    for (const float value : values) {
      const double off = value - static_cast<float>(steps_of(value, scale, half)) * scale;
      error += off * off;
    }
    if (error >= least) continue;
    least = error;
    best = scale;
  }
  return best;
}

void encode_f32(const float* values, std::byte* block) {
  std::memcpy(block, values, sizeof(float));
}
void encode_f16(const float* values, std::byte* block) {
  put_float16(block, *values);
}

void encode_bf16(const float* values, std::byte* block) {
  const std::uint16_t bits = tensor::float_to_bf16(*values);
  std::memcpy(block, &bits, sizeof(bits));
}

void encode_q4_0(const float* values, std::byte* block) {
  const float scale = signed_scale({values, kSmall}, 8, true);
  std::fill_n(block, 18, std::byte{});
  put_float16(block, scale);
  for (std::size_t i = 0; i < kSmall; ++i)
    add_bits(block[2 + i % 16], steps_of(values[i], scale, 8) + 8, i / 16 * 4);
}

void encode_q5_0(const float* values, std::byte* block) {
  const float scale = signed_scale({values, kSmall}, 16, true);
  std::fill_n(block, 22, std::byte{});
  put_float16(block, scale);
  for (std::size_t i = 0; i < kSmall; ++i) {
    const int code = steps_of(values[i], scale, 16) + 16;
    add_bits(block[2 + i / 8], code >> 4, i % 8);
    add_bits(block[6 + i % 16], code & 15, i / 16 * 4);
  }
}

void encode_q8_0(const float* values, std::byte* block) {
  const float scale = signed_scale({values, kSmall}, 128, true);
  put_float16(block, scale);
  for (std::size_t i = 0; i < kSmall; ++i)
    block[2 + i] = static_cast<std::byte>(steps_of(values[i], scale, 128));
}

void encode_q6_k(const float* values, std::byte* block) {
  constexpr std::size_t kSub = 16;
  std::array<float, kSuper / kSub> scales{};
  float largest = 0.0F;
  for (std::size_t s = 0; s < scales.size(); ++s) {
    scales[s] = signed_scale({values + s * kSub, kSub}, 32, false);
    largest = std::max(largest, std::abs(scales[s]));
  }
  std::fill_n(block, 210, std::byte{});
  const float scale = as_float16(largest / 127.0F);
  put_float16(block + 208, scale);
  for (std::size_t s = 0; s < scales.size(); ++s) {
    const int sub = steps_of(scales[s], scale, 128);
    block[192 + s] = static_cast<std::byte>(sub);
    for (std::size_t i = s * kSub; i < (s + 1) * kSub; ++i) {
      const int code = steps_of(values[i], scale * static_cast<float>(sub), 32) + 32;
      const std::size_t in_half = i % 128;
      add_bits(block[i / 128 * 64 + in_half % 64], code & 15, in_half / 64 * 4);
      add_bits(block[128 + i / 128 * 32 + i % 32], code >> 4, in_half / 32 * 2);
    }
  }
}

// Values as scale * code - minimum, neither negative, codes up to `top`.
struct Affine {
  float scale = 0.0F;
  float minimum = 0.0F;

  int code(float value, int top) const {
    if (scale == 0.0F) return 0;
    return static_cast<int>(
        std::clamp(std::nearbyint((value + minimum) / scale), 0.0F, static_cast<float>(top)));
  }
  double error(std::span<const float> values, int top) const {
    double out = 0;
    for (const float value : values) {
      const double off = value - (scale * static_cast<float>(code(value, top)) - minimum);
      out += off * off;
    }
    return out;
  }
};

// The line through the values that these codes fit best.
Affine refitted(std::span<const float> values, const Affine& from, int top) {
  double sum = 0;
  double squares = 0;
  double of_values = 0;
  double products = 0;
  const auto n = static_cast<double>(values.size());
  for (const float value : values) {
    const double code = from.code(value, top);
    sum += code;
    squares += code * code;
    of_values += value;
    products += code * value;
  }
  const double spread = n * squares - sum * sum;
  if (spread <= 0) return from;
  const double slope = (n * products - sum * of_values) / spread;
  const double minimum = (slope * sum - of_values) / n;
  // Minimums cannot be negative: then the line goes through 0.
  if (minimum < 0) return {static_cast<float>(std::max(products / squares, 0.0)), 0.0F};
  return {static_cast<float>(std::max(slope, 0.0)), static_cast<float>(minimum)};
}

Affine affine_of(std::span<const float> values, int top) {
  const float low = std::min(0.0F, *std::ranges::min_element(values));
  const float high = *std::ranges::max_element(values);
  if (high <= low) return {0.0F, -low};
  constexpr int kTries = 10;
  Affine best;
  double least = std::numeric_limits<double>::infinity();
  for (int i = 0; i < kTries; ++i) {
    const float reach = static_cast<float>(top) - 0.5F + 0.25F * static_cast<float>(i);
    Affine each = refitted(values, {(high - low) / reach, -low}, top);
    each = refitted(values, each, top);
    const double error = each.error(values, top);
    if (error >= least) continue;
    least = error;
    best = each;
  }
  return best;
}

// 8 scales and 8 minimums of 6 bits in 12 bytes: 4 of each whole, the upper bits of the others above them.
void put_pair(std::byte* packed, std::size_t j, int scale, int minimum) {
  if (j < 4) {
    add_bits(packed[j], scale, 0);
    add_bits(packed[j + 4], minimum, 0);
    return;
  }
  add_bits(packed[j + 4], (scale & 15) | (minimum & 15) << 4, 0);
  add_bits(packed[j - 4], scale >> 4, 6);
  add_bits(packed[j], minimum >> 4, 6);
}

// Q4_K and Q5_K: scale, minimum, sub-scales; the fifth bits of Q5_K; codes.
void encode_affine(const float* values, bool has_fifth, std::byte* block) {
  constexpr std::size_t kSubs = kSuper / kSmall;
  const int top = has_fifth ? 31 : 15;
  std::array<Affine, kSubs> subs;
  float scale = 0.0F;
  float minimum = 0.0F;
  for (std::size_t s = 0; s < kSubs; ++s) {
    subs[s] = affine_of({values + s * kSmall, kSmall}, top);
    scale = std::max(scale, subs[s].scale);
    minimum = std::max(minimum, subs[s].minimum);
  }
  scale = as_float16(scale / kSubMax);
  minimum = as_float16(minimum / kSubMax);
  std::fill_n(block, has_fifth ? 176 : 144, std::byte{});
  put_float16(block, scale);
  put_float16(block + 2, minimum);
  std::byte* const codes = block + (has_fifth ? 48 : 16);
  for (std::size_t s = 0; s < kSubs; ++s) {
    const int sub_scale = std::min(steps_of(subs[s].scale, scale, kSubMax + 1), kSubMax);
    const int sub_minimum = std::min(steps_of(subs[s].minimum, minimum, kSubMax + 1), kSubMax);
    put_pair(block + 4, s, sub_scale, sub_minimum);
    const Affine stored{scale * static_cast<float>(sub_scale),
                        minimum * static_cast<float>(sub_minimum)};
    for (std::size_t i = s * kSmall; i < (s + 1) * kSmall; ++i) {
      const int code = stored.code(values[i], top);
      add_bits(codes[i / 64 * 32 + i % 32], code & 15, i % 64 / 32 * 4);
      if (has_fifth) add_bits(block[16 + i % 32], code >> 4, i / 32);
    }
  }
}

void encode_q4_k(const float* values, std::byte* block) {
  encode_affine(values, false, block);
}
void encode_q5_k(const float* values, std::byte* block) {
  encode_affine(values, true, block);
}

}  // namespace

EncodeBlock find_block_encoder(std::string_view type) {
  static constexpr std::array<std::pair<std::string_view, EncodeBlock>, 9> kTypes{{
      {"F32", encode_f32},
      {"F16", encode_f16},
      {"BF16", encode_bf16},
      {"Q4_0", encode_q4_0},
      {"Q5_0", encode_q5_0},
      {"Q8_0", encode_q8_0},
      {"Q4_K", encode_q4_k},
      {"Q5_K", encode_q5_k},
      {"Q6_K", encode_q6_k},
  }};
  const auto* const found =
      std::ranges::find(kTypes, type, &std::pair<std::string_view, EncodeBlock>::first);
  return found == kTypes.end() ? nullptr : found->second;
}

}  // namespace coxswain::quantize
