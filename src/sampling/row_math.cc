#include "sampling/row_math.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cstdint>

namespace coxswain::sampling {
namespace {

inline float clamp_score(float x) {
  x = x < kScoreMax ? x : kScoreMax;
  return x > -kScoreMax ? x : -kScoreMax;
}

// exp(x) for x <= 0, 0 below -87, within 2 ulp: x = k ln 2 + r with |r| <= ln(2) / 2, exp(r) by its
// Taylor polynomial of degree 7 (remainder below 2^-27), scaled by 2^k through the exponent bits.
// ln 2 is split in two so that k * ln 2 is exact enough.
inline float exp_nonpositive(float x) {
  constexpr float kLowest = -87.0F;
  constexpr float kInvLn2 = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  constexpr float kRound =
      12582912.0F;  // 1.5 * 2^23: adding it rounds to an integer in the low mantissa bits
  const float clipped = x > kLowest ? x : kLowest;
  const float shifted = clipped * kInvLn2 + kRound;
  const float k = shifted - kRound;
  const float r = (clipped - k * kLn2High) - k * kLn2Low;
  float p = 1.0F / 5040.0F;
  p = p * r + 1.0F / 720.0F;
  p = p * r + 1.0F / 120.0F;
  p = p * r + 1.0F / 24.0F;
  p = p * r + 1.0F / 6.0F;
  p = p * r + 0.5F;
  p = p * r + 1.0F;
  p = p * r + 1.0F;
  const auto exponent =
      (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3F800000u;  // (k + 127) << 23
  const float value = p * std::bit_cast<float>(exponent);
  return x > kLowest ? value : 0.0F;
}

double sum_lanes(const float (&lanes)[kLanes]) {
  double sum = 0.0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace

RowSummary summarise(std::span<const float> row) {
  assert(!row.empty());
  const float* x = row.data();
  const std::size_t n = row.size();
  float best[kLanes];
  std::uint32_t nan[kLanes] = {};
  std::fill(std::begin(best), std::end(best), -kScoreMax);
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) {
      const float v = x[i + l];
      nan[l] |= v == v ? 0u : 1u;
      best[l] = v > best[l] ? v : best[l];
    }
  }
  RowSummary out;
  for (std::size_t l = 0; l < kLanes; ++l) {
    out.has_nan |= nan[l] != 0;
    out.max = std::max(out.max, best[l]);
  }
  for (; i < n; ++i) {
    out.has_nan |= x[i] != x[i];
    if (x[i] > out.max) out.max = x[i];
  }
  out.max = std::min(out.max, kScoreMax);
  if (out.has_nan) return out;
  // Every value of at least the clamped maximum ties with it.
  out.argmax = static_cast<std::size_t>(
      std::find_if(row.begin(), row.end(), [&](float v) { return clamp_score(v) >= out.max; }) -
      row.begin());
  return out;
}

float max_of(std::span<const float> row) {
  assert(!row.empty());
  float best[kLanes];
  std::fill(std::begin(best), std::end(best), row[0]);
  std::size_t i = 0;
  for (; i + kLanes <= row.size(); i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) {
      const float v = row[i + l];
      best[l] = v > best[l] ? v : best[l];
    }
  }
  float max = *std::max_element(std::begin(best), std::end(best));
  for (; i < row.size(); ++i) max = std::max(max, row[i]);
  return max;
}

bool copy_clamped(std::span<const float> from, std::span<float> to) {
  assert(from.size() == to.size());
  const float* x = from.data();
  float* y = to.data();
  std::uint32_t nan = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const float v = x[i];
    nan |= v == v ? 0u : 1u;
    y[i] = clamp_score(v);
  }
  return nan == 0;
}

void divide(std::span<float> values, float divisor) {
  for (float& v : values) v /= divisor;
}

double sum_exp(std::span<const float> row, float max) {
  const float* x = row.data();
  const std::size_t n = row.size();
  double sum = 0.0;
  for (std::size_t begin = 0; begin < n; begin += kSumBlock) {
    const std::size_t end = std::min(n, begin + kSumBlock);
    float lanes[kLanes] = {};
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l)
        lanes[l] += exp_nonpositive(clamp_score(x[i + l]) - max);
    }
    for (std::size_t l = 0; i < end; ++i, ++l) lanes[l] += exp_nonpositive(clamp_score(x[i]) - max);
    sum += sum_lanes(lanes);
  }
  return sum;
}

double exp_weights(std::span<const float> row,
                   float max,
                   std::span<float> weights,
                   std::span<double> block_sums) {
  assert(weights.size() == row.size());
  assert(block_sums.size() >= (row.size() + kSumBlock - 1) / kSumBlock);
  const float* x = row.data();
  float* w = weights.data();
  const std::size_t n = row.size();
  double sum = 0.0;
  std::size_t block = 0;
  for (std::size_t begin = 0; begin < n; begin += kSumBlock, ++block) {
    const std::size_t end = std::min(n, begin + kSumBlock);
    float lanes[kLanes] = {};
    std::size_t i = begin;
    for (; i + kLanes <= end; i += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) {
        w[i + l] = exp_nonpositive(x[i + l] - max);
        lanes[l] += w[i + l];
      }
    }
    for (std::size_t l = 0; i < end; ++i, ++l) {
      w[i] = exp_nonpositive(x[i] - max);
      lanes[l] += w[i];
    }
    block_sums[block] = sum_lanes(lanes);
    sum += block_sums[block];
  }
  return sum;
}

void block_maxima(std::span<const float> row, std::size_t block, std::span<float> block_max) {
  for (std::size_t begin = 0, b = 0; begin < row.size(); begin += block, ++b) {
    block_max[b] = max_of(row.subspan(begin, std::min(block, row.size() - begin)));
  }
}

}  // namespace coxswain::sampling
