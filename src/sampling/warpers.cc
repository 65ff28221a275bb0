#include "sampling/warpers.h"

#include <algorithm>
#include <cmath>
#include <functional>
#include <limits>
#include <numeric>

#include "base/scalar_math.h"
#include "sampling/row_math.h"
#include "sampling/select.h"

namespace coxswain::sampling {
namespace {

// Where the shortest list in the order (key, index) ends whose weight reaches a target.
struct MassCut {
  float key = std::numeric_limits<float>::infinity();  // of the last member
  std::size_t n_ties = 0;                              // members with that key
  float last_weight = 0.0F;                            // of the last member
};

// Below this size all candidates are sorted; above it a histogram finds the part worth sorting.
constexpr std::size_t kSortAllMax = 2048;
constexpr float kSlightlyLess = 0.999F;

// Equal parts of the range that the keys of some candidates have.
class Buckets {
 public:
  Buckets(std::span<const std::uint32_t> members, std::span<const float> keys) {
    lowest_ = keys[members.front()];
    float highest = lowest_;
    for (const std::uint32_t i : members) {
      lowest_ = std::min(lowest_, keys[i]);
      highest = std::max(highest, keys[i]);
    }
    per_unit_ = highest > lowest_ ? std::min(kLast / (highest - lowest_), kScoreMax) : 0.0F;
  }

  // Never falls while keys rise.
  std::size_t of(float key) const {
    return static_cast<std::size_t>(std::min((key - lowest_) * per_unit_, kLast));
  }

 private:
  static constexpr auto kLast = static_cast<float>(CandidateSet::kBuckets - 1);

  float lowest_;
  float per_unit_;
};

// Walks `order` by (key, index), adding weights to `mass` until it reaches `target`.
MassCut walk(std::span<std::uint32_t> order,
             std::span<const float> keys,
             std::span<const float> weights,
             double mass,
             double target) {
  const auto before = [&](std::uint32_t a, std::uint32_t b) {
    return keys[a] != keys[b] ? keys[a] < keys[b] : a < b;
  };
  // Equal keys are in order from the start.
  if (!std::is_sorted(order.begin(), order.end(), before))
    std::sort(order.begin(), order.end(), before);
  MassCut cut;
  for (const std::uint32_t i : order) {
    cut.n_ties = keys[i] == cut.key ? cut.n_ties + 1 : 1;
    cut.key = keys[i];
    cut.last_weight = weights[i];
    mass += static_cast<double>(weights[i]);
    if (mass >= target) break;
  }
  return cut;
}

// `keys` are not negative. Only the candidates `members` (ascending indices, overwritten) come into
// question; their weights reach the target together.
//
// Buckets are found within a bucket until few members are left: scores that a high temperature made
// nearly equal would otherwise all be sorted, however far away single others are.
MassCut find_mass_cut(CandidateSet& set,
                      std::span<std::uint32_t> members,
                      std::span<const float> keys,
                      const CandidateSet::Weights& weights,
                      double target) {
  const std::span<double> masses = set.bucket_scratch();
  double mass = 0.0;
  while (members.size() > kSortAllMax) {
    const Buckets buckets(members, keys);
    std::fill(masses.begin(), masses.end(), 0.0);
    for (const std::uint32_t i : members)
      masses[buckets.of(keys[i])] += static_cast<double>(weights.values[i]);
    std::size_t bucket = 0;
    while (bucket + 1 < masses.size() && mass + masses[bucket] < target) mass += masses[bucket++];
    std::size_t n = 0;
    for (const std::uint32_t i : members) {
      if (buckets.of(keys[i]) == bucket) members[n++] = i;
    }
    if (n == 0) return {};  // rounding: the target lies beyond the last candidate
    const bool equal = n == members.size();
    members = members.first(n);
    if (equal) break;
  }
  return walk(members, keys, weights.values, mass, target);
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
  const float threshold = kth_largest(set, k);
  const std::span<std::uint32_t> indices = set.index_scratch();
  set.keep(indices.first(indices_at_least(set.scores(), threshold, indices)));
}

void keep_top_p(CandidateSet& set, float p) {
  if (p >= 1.0F || set.size() == 1) return;
  const CandidateSet::Weights weights = set.weights();
  const std::span<const float> scores = set.scores();
  const std::span<float> keys = set.float_scratch();
  const std::span<std::uint32_t> indices = set.index_scratch();
  // All candidates below this weight together weigh less than half of what may be left out, so none
  // of them is needed.
  const double left_out = (1.0 - static_cast<double>(p)) * weights.sum;
  const auto lowest = static_cast<float>(left_out / (2.0 * static_cast<double>(set.size())));
  const auto members = indices.first(indices_at_least(weights.values, lowest, indices));
  for (const std::uint32_t i : members) keys[i] = weights.max_score - scores[i];
  const MassCut cut =
      find_mass_cut(set, members, keys, weights, static_cast<double>(p) * weights.sum);
  if (cut.n_ties == 0) return;

  // Weights follow scores up to rounding: a little below the last member's are all that may stay.
  const std::size_t n_near =
      indices_at_least(weights.values, cut.last_weight * kSlightlyLess, indices);
  std::size_t n_ties = 0;
  std::size_t n_kept = 0;
  for (const std::uint32_t i : indices.first(n_near)) {
    const float key = weights.max_score - scores[i];
    if (key < cut.key || (key == cut.key && n_ties++ < cut.n_ties)) indices[n_kept++] = i;
  }
  set.keep(indices.first(n_kept));
}

void keep_typical(CandidateSet& set, float mass) {
  if (mass >= 1.0F || set.size() == 1) return;
  const CandidateSet::Weights weights = set.weights();
  const auto entropy = static_cast<float>(entropy_of(set, weights));
  const auto log_sum = static_cast<float>(base::log(weights.sum));
  const std::span<float> keys = set.float_scratch();
  const std::span<const float> scores = set.scores();
  for (std::size_t i = 0; i < keys.size(); ++i) {
    keys[i] = std::fabs(log_sum - (scores[i] - weights.max_score) - entropy);
  }
  const std::span<std::uint32_t> all = set.index_scratch();
  std::iota(all.begin(), all.end(), 0u);
  const MassCut cut =
      find_mass_cut(set, all, keys, weights, static_cast<double>(mass) * weights.sum);
  set.keep_if([&](std::size_t i) { return keys[i] <= cut.key; });
}

void keep_min_p(CandidateSet& set, float ratio) {
  if (ratio <= 0.0F || set.size() == 1) return;
  const CandidateSet::Weights weights = set.weights();  // the largest weight is 1
  const std::span<std::uint32_t> indices = set.index_scratch();
  set.keep(indices.first(indices_at_least(weights.values, std::min(ratio, 1.0F), indices)));
}

void keep_epsilon(CandidateSet& set, float epsilon) {
  if (epsilon > 0.0F) keep_probability(set, static_cast<double>(epsilon));
}

void keep_eta(CandidateSet& set, float epsilon) {
  if (epsilon <= 0.0F) return;
  const double entropy = entropy_of(set, set.weights());
  const auto e = static_cast<double>(epsilon);
  keep_probability(set, std::min(e, std::sqrt(e) * base::exp(-entropy)));
}

void keep_top_n_sigma(CandidateSet& set, float n) {
  if (n <= 0.0F || set.size() == 1) return;
  const double threshold = static_cast<double>(max_of(set.scores())) -
                           static_cast<double>(n) * standard_deviation(set.scores());
  set.keep_if([&](std::size_t i) { return static_cast<double>(set.scores()[i]) >= threshold; });
}

void exclude_top_choices(CandidateSet& set, float threshold) {
  const CandidateSet::Weights weights = set.weights();
  const double lowest = static_cast<double>(threshold) * weights.sum;
  const auto is_top = [&](std::size_t i) {
    return static_cast<double>(weights.values[i]) >= lowest;
  };
  std::size_t n_top = 0;
  std::size_t last = 0;
  for (std::size_t i = 0; i < set.size(); ++i) {
    if (!is_top(i)) continue;
    if (n_top++ == 0 || set.scores()[i] < set.scores()[last]) last = i;
  }
  if (n_top < 2) return;
  set.keep_if([&](std::size_t i) { return i == last || !is_top(i); });
}

}  // namespace coxswain::sampling
