#include "sampling/row_math.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <cmath>
#include <cstdint>
#include <limits>

// Loops over a row are compiled for each of these sets, too, and the loader takes the best that the CPU has: no lane
// depends on another and nothing is contracted, so the bits are the same. What they call is inlined. Sanitizers are not
// up when the loader asks.
#if defined(__clang__) || defined(__SANITIZE_ADDRESS__) || defined(__SANITIZE_THREAD__)
#define COXSWAIN_EACH_SET
#else
#define COXSWAIN_EACH_SET __attribute__((target_clones("avx512f", "avx2", "default")))
#endif

namespace coxswain::sampling {
namespace {

inline float clamp_score(float x) {
  x = x < kScoreMax ? x : kScoreMax;
  return x > -kScoreMax ? x : -kScoreMax;
}

// exp(x) for x <= 0, 0 below -87, within 2 ulp:
//   x = k ln 2 + r with |r| <= ln(2) / 2, ln 2 split in two so that k ln 2 is exact enough;
//   exp(r) by its Taylor polynomial of degree 7 (remainder below 2^-27);
//   scaled by 2^k through the bits of the exponent.
inline float exp_nonpositive(float x) {
  constexpr float kLowest = -87.0F;
  constexpr float kInvLn2 = 1.44269504F;
  constexpr float kLn2High = 0.693359375F;
  constexpr float kLn2Low = -2.12194440e-4F;
  // 1.5 * 2^23: adding it rounds to an integer in the low bits of the mantissa.
  constexpr float kRound = 12582912.0F;
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
  // (k + 127) << 23
  const auto exponent = (std::bit_cast<std::uint32_t>(shifted) << 23) + 0x3F800000u;
  const float value = p * std::bit_cast<float>(exponent);
  return x > kLowest ? value : 0.0F;
}

// Floats as integers of the same order (IEEE 754): integer minima and maxima become vector code,
// float ones do not because of NaN. Positive NaN lie above the key of infinity, negative ones below
// that of -infinity.
inline std::int32_t key_of(float value) {
  const auto bits = std::bit_cast<std::int32_t>(value);
  return bits ^ ((bits >> 31) & 0x7FFFFFFF);
}
inline float value_of(std::int32_t key) {
  return std::bit_cast<float>(key ^ ((key >> 31) & 0x7FFFFFFF));
}

struct KeyRange {
  std::int32_t min = std::numeric_limits<std::int32_t>::max();
  std::int32_t max = std::numeric_limits<std::int32_t>::min();
};

inline KeyRange key_range(std::span<const float> row) {
  KeyRange out;
  for (const float value : row) {
    const std::int32_t key = key_of(value);
    out.min = key < out.min ? key : out.min;
    out.max = key > out.max ? key : out.max;
  }
  return out;
}

// Lane l sums the elements l, l + kLanes, ...; then the lanes in order.
inline double sum_block(const float* values, std::size_t n) {
  float lanes[kLanes] = {};
  std::size_t i = 0;
  for (; i + kLanes <= n; i += kLanes) {
    for (std::size_t l = 0; l < kLanes; ++l) lanes[l] += values[i + l];
  }
  for (std::size_t l = 0; i < n; ++i, ++l) lanes[l] += values[i];
  double sum = 0.0;
  for (const float lane : lanes) sum += static_cast<double>(lane);
  return sum;
}

}  // namespace

COXSWAIN_EACH_SET RowSummary summarise(std::span<const float> row) {
  assert(!row.empty());
  constexpr float kInfinity = std::numeric_limits<float>::infinity();
  RowSummary out;
  std::size_t best_begin = 0;
  for (std::size_t begin = 0; begin < row.size(); begin += kSumBlock) {
    const auto block = row.subspan(begin, std::min(kSumBlock, row.size() - begin));
    const KeyRange keys = key_range(block);
    out.has_nan |= keys.max > key_of(kInfinity) || keys.min < key_of(-kInfinity);
    const float max = clamp_score(value_of(keys.max));
    if (begin == 0 || max > out.max) {
      out.max = max;
      best_begin = begin;
    }
  }
  if (out.has_nan) return out;
  // Every value of at least the clamped maximum ties with it.
  const auto best = row.subspan(best_begin);
  const auto at =
      std::find_if(best.begin(), best.end(), [&](float v) { return clamp_score(v) >= out.max; });
  out.argmax = best_begin + static_cast<std::size_t>(at - best.begin());
  return out;
}

float max_of(std::span<const float> row) {
  assert(!row.empty());
  return value_of(key_range(row).max);
}

COXSWAIN_EACH_SET CopyFindings copy_clamped(std::span<const float> from, std::span<float> to) {
  assert(from.size() == to.size());
  constexpr float kForbidden = -std::numeric_limits<float>::infinity();
  const float* x = from.data();
  float* y = to.data();
  std::uint32_t nan = 0;
  std::uint32_t forbidden = 0;
  for (std::size_t i = 0; i < from.size(); ++i) {
    const float v = x[i];
    nan |= v == v ? 0u : 1u;
    forbidden |= v == kForbidden ? 1u : 0u;
    y[i] = clamp_score(v);
  }
  return {.has_nan = nan != 0, .has_negative_infinity = forbidden != 0};
}

bool is_within_score_max(std::span<const float> row) {
  const float* x = row.data();
  std::uint32_t beyond = 0;
  for (std::size_t i = 0; i < row.size(); ++i)
    beyond |= x[i] >= -kScoreMax && x[i] <= kScoreMax ? 0u : 1u;  // NaN is beyond
  return beyond == 0;
}

void divide(std::span<float> values, float divisor) {
  for (float& v : values) v = clamp_score(v / divisor);
}

COXSWAIN_EACH_SET double sum_exp(std::span<const float> row, float max) {
  float weights[kSumBlock];
  double sum = 0.0;
  for (std::size_t begin = 0; begin < row.size(); begin += kSumBlock) {
    const std::size_t n = std::min(kSumBlock, row.size() - begin);
    const float* x = row.data() + begin;
    for (std::size_t i = 0; i < n; ++i) weights[i] = exp_nonpositive(clamp_score(x[i]) - max);
    sum += sum_block(weights, n);
  }
  return sum;
}

COXSWAIN_EACH_SET double exp_weights(std::span<const float> row,
                                     float max,
                                     std::span<float> weights,
                                     std::span<double> block_sums) {
  assert(weights.size() == row.size());
  assert(block_sums.size() >= (row.size() + kSumBlock - 1) / kSumBlock);
  double sum = 0.0;
  for (std::size_t begin = 0, block = 0; begin < row.size(); begin += kSumBlock, ++block) {
    const std::size_t n = std::min(kSumBlock, row.size() - begin);
    const float* x = row.data() + begin;
    float* w = weights.data() + begin;
    for (std::size_t i = 0; i < n; ++i) w[i] = exp_nonpositive(x[i] - max);
    block_sums[block] = sum_block(w, n);
    sum += block_sums[block];
  }
  return sum;
}

void block_maxima(std::span<const float> row, std::size_t block, std::span<float> block_max) {
  for (std::size_t begin = 0, b = 0; begin < row.size(); begin += block, ++b) {
    block_max[b] = max_of(row.subspan(begin, std::min(block, row.size() - begin)));
  }
}

std::size_t indices_at_least(std::span<const float> row,
                             float threshold,
                             std::span<std::uint32_t> out) {
  assert(out.size() >= row.size());
  constexpr std::size_t kSkip = 64;  // values that are looked at together
  std::size_t n = 0;
  for (std::size_t begin = 0; begin < row.size(); begin += kSkip) {
    const std::size_t end = std::min(row.size(), begin + kSkip);
    if (max_of(row.subspan(begin, end - begin)) < threshold) continue;
    for (std::size_t i = begin; i < end; ++i) {
      out[n] = static_cast<std::uint32_t>(i);
      n += row[i] >= threshold ? 1 : 0;
    }
  }
  return n;
}

double standard_deviation(std::span<const float> row) {
  const auto mean_of = [&](auto value_at) {
    double lanes[kLanes] = {};
    std::size_t i = 0;
    for (; i + kLanes <= row.size(); i += kLanes) {
      for (std::size_t l = 0; l < kLanes; ++l) lanes[l] += value_at(row[i + l]);
    }
    for (std::size_t l = 0; i < row.size(); ++i, ++l) lanes[l] += value_at(row[i]);
    double sum = 0.0;
    for (const double lane : lanes) sum += lane;
    return sum / static_cast<double>(row.size());
  };
  const double mean = mean_of([](float x) { return static_cast<double>(x); });
  return std::sqrt(mean_of([mean](float x) {
    const double distance = static_cast<double>(x) - mean;
    return distance * distance;
  }));
}

}  // namespace coxswain::sampling
