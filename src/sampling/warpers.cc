#include "sampling/warpers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "sampling/row_math.h"
#include "sampling/select.h"

namespace coxswain::sampling {
namespace {

// Where the shortest list in the order (key, index) ends whose weight reaches a target.
struct MassCut {
  float key = std::numeric_limits<float>::infinity();  // of the last member
  std::size_t n_ties = 0;                              // members with that key
};

// Below this size all candidates are sorted; above it a histogram finds the part worth sorting.
constexpr std::size_t kSortAllMax = 2048;
constexpr float kBucketsPerUnit = 64.0F;

std::size_t bucket_of(float key) {
  constexpr auto kLast = static_cast<float>(CandidateSet::kBuckets - 1);
  return static_cast<std::size_t>(std::min(key * kBucketsPerUnit, kLast));
}

// Walks `order` by (key, index), adding weights to `mass` until it reaches `target`.
MassCut walk(std::span<std::uint32_t> order,
             std::span<const float> keys,
             std::span<const float> weights,
             double mass,
             double target) {
  std::sort(order.begin(), order.end(), [&](std::uint32_t a, std::uint32_t b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
  });
  MassCut cut;
  for (const std::uint32_t i : order) {
    cut.n_ties = keys[i] == cut.key ? cut.n_ties + 1 : 1;
    cut.key = keys[i];
    mass += static_cast<double>(weights[i]);
    if (mass >= target) break;
  }
  return cut;
}

// `keys` are not negative. `set` lends its scratch; keys may lie in its float scratch.
MassCut find_mass_cut(CandidateSet& set,
                      std::span<const float> keys,
                      const CandidateSet::Weights& weights,
                      double target) {
  const std::span<std::uint32_t> order = set.index_scratch();
  if (set.size() <= kSortAllMax) {
    std::iota(order.begin(), order.end(), 0u);
    return walk(order, keys, weights.values, 0.0, target);
  }
  const std::span<double> buckets = set.bucket_scratch();
  std::fill(buckets.begin(), buckets.end(), 0.0);
  for (std::size_t i = 0; i < keys.size(); ++i)
    buckets[bucket_of(keys[i])] += static_cast<double>(weights.values[i]);

  std::size_t bucket = 0;
  double mass = 0.0;
  while (bucket + 1 < buckets.size() && mass + buckets[bucket] < target) mass += buckets[bucket++];
  std::size_t n = 0;
  for (std::size_t i = 0; i < keys.size(); ++i) {
    if (bucket_of(keys[i]) == bucket) order[n++] = static_cast<std::uint32_t>(i);
  }
  if (n == 0) return {};  // rounding: the target lies beyond the last candidate
  return walk(order.first(n), keys, weights.values, mass, target);
}

// -sum p log p, with log p = score - max - log(sum).
double entropy_of(const CandidateSet& set, const CandidateSet::Weights& weights) {
  const double log_sum = std::log(weights.sum);
  double entropy = 0.0;
  const std::span<const float> scores = set.scores();
  for (std::size_t i = 0; i < scores.size(); ++i) {
    if (weights.values[i] == 0.0F) continue;
    const double log_p = static_cast<double>(scores[i] - weights.max_score) - log_sum;
    entropy -= static_cast<double>(weights.values[i]) / weights.sum * log_p;
  }
  return entropy;
}

void keep_probability(CandidateSet& set, double lowest) {
  const CandidateSet::Weights weights = set.weights();
  const double threshold = lowest * weights.sum;
  set.keep_if([&](std::size_t i) {
    return set.scores()[i] == weights.max_score ||
           static_cast<double>(weights.values[i]) >= threshold;
  });
}

}  // namespace

void keep_top_k(CandidateSet& set, std::size_t k) {
  if (k == 0 || k >= set.size()) return;
  const float threshold = kth_largest(set.scores(), k, set.float_scratch());
  set.keep_if([&](std::size_t i) { return set.scores()[i] >= threshold; });
}

void keep_top_p(CandidateSet& set, float p) {
  if (p >= 1.0F || set.size() == 1) return;
  const CandidateSet::Weights weights = set.weights();
  const std::span<float> keys = set.float_scratch();
  const std::span<const float> scores = set.scores();
  for (std::size_t i = 0; i < keys.size(); ++i) keys[i] = weights.max_score - scores[i];
  const MassCut cut = find_mass_cut(set, keys, weights, static_cast<double>(p) * weights.sum);
  std::size_t n_ties = 0;
  set.keep_if([&](std::size_t i) {
    return keys[i] < cut.key || (keys[i] == cut.key && n_ties++ < cut.n_ties);
  });
}

void keep_typical(CandidateSet& set, float mass) {
  if (mass >= 1.0F || set.size() == 1) return;
  const CandidateSet::Weights weights = set.weights();
  const auto entropy = static_cast<float>(entropy_of(set, weights));
  const auto log_sum = static_cast<float>(std::log(weights.sum));
  const std::span<float> keys = set.float_scratch();
  const std::span<const float> scores = set.scores();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = std::fabs(log_sum - (scores[i] - weights.max_score) - entropy);
  }
  const MassCut cut = find_mass_cut(set, keys, weights, static_cast<double>(mass) * weights.sum);
  set.keep_if([&](std::size_t i) { return keys[i] <= cut.key; });
}

void keep_min_p(CandidateSet& set, float ratio) {
  if (ratio <= 0.0F || set.size() == 1) return;
  const CandidateSet::Weights weights = set.weights();  // the largest weight is 1
  const float lowest = std::min(ratio, 1.0F);
  set.keep_if([&](std::size_t i) { return weights.values[i] >= lowest; });
}

void keep_epsilon(CandidateSet& set, float epsilon) {
  if (epsilon > 0.0F) keep_probability(set, static_cast<double>(epsilon));
}

void keep_eta(CandidateSet& set, float epsilon) {
  if (epsilon <= 0.0F) return;
  const double entropy = entropy_of(set, set.weights());
  const auto e = static_cast<double>(epsilon);
  keep_probability(set, std::min(e, std::sqrt(e) * std::exp(-entropy)));
}

}  // namespace coxswain::sampling
