#include "sampling/warpers.h"

#include <algorithm>
#include <cmath>
#include <numeric>
#include <set>
#include <vector>

#include <gtest/gtest.h>

#include "sampling/select.h"
#include "sampling/test_rows.h"

namespace coxswain::sampling {
namespace {

std::vector<TokenId> ids_of(const CandidateSet& set) {
  std::vector<TokenId> out;
  for (std::size_t i = 0; i < set.size(); ++i) out.push_back(set.id(i));
  return out;
}

template <typename Warp>
std::vector<TokenId> warped(const std::vector<float>& row, Warp warp) {
  CandidateSet set(row.size());
  EXPECT_TRUE(set.assign(row));
  warp(set);
  for (std::size_t i = 0; i < set.size(); ++i)
    EXPECT_EQ(set.scores()[i], row[static_cast<std::size_t>(set.id(i))]);
  return ids_of(set);
}

std::vector<double> softmax(const std::vector<float>& row) {
  const double max = *std::max_element(row.begin(), row.end());
  std::vector<double> p(row.size());
  double sum = 0.0;
  for (std::size_t i = 0; i < row.size(); ++i)
    sum += p[i] = std::exp(static_cast<double>(row[i]) - max);
  for (double& v : p) v /= sum;
  return p;
}

// Ids in the order of key, ties by id, until their probability reaches `mass`.
std::vector<TokenId> shortest_prefix(const std::vector<double>& p,
                                     const std::vector<double>& key,
                                     double mass) {
  std::vector<TokenId> order(p.size());
  std::iota(order.begin(), order.end(), 0);
  std::stable_sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    return key[static_cast<std::size_t>(a)] < key[static_cast<std::size_t>(b)];
  });
  double sum = 0.0;
  std::size_t n = 0;
  while (n < order.size() && sum < mass) sum += p[static_cast<std::size_t>(order[n++])];
  order.resize(n);
  std::sort(order.begin(), order.end());
  return order;
}

const std::vector<std::size_t> kSizes = {1, 2, 50, 2048, 2049, 40'000};

// The tokens whose logits are no less than the k-th largest.
std::vector<TokenId> largest_with_ties(const std::vector<float>& row, std::size_t k) {
  std::vector<float> sorted = row;
  std::sort(sorted.begin(), sorted.end(), std::greater<>());
  const float threshold = sorted[std::min(k, row.size()) - 1];
  std::vector<TokenId> out;
  for (std::size_t i = 0; i < row.size(); ++i) {
    if (row[i] >= threshold) out.push_back(static_cast<TokenId>(i));
  }
  return out;
}

std::vector<TokenId> kept_top_k(const std::vector<float>& row, std::size_t k) {
  return warped(row, [k](CandidateSet& set) { keep_top_k(set, k); });
}

TEST(Warpers, TopKKeepsTies) {
  for (const std::size_t n : kSizes) {
    for (const std::size_t k : {1u, 2u, 7u, 100u, 39'999u}) {
      for (const float grid : {0.0F, 0.25F}) {
        const auto row = random_row(n, 2.0F, static_cast<unsigned>(n + k), grid);
        const std::vector<TokenId> expected = largest_with_ties(row, k);
        EXPECT_EQ(kept_top_k(row, k), expected) << n << " " << k;
      }
    }
  }
}

TEST(Warpers, TopPIsTheShortestPrefixOfTheSortedList) {
  for (const std::size_t n : kSizes) {
    for (const float p : {1e-6F, 0.1F, 0.5F, 0.9F, 0.97F}) {
      const auto row = random_row(n, 2.0F, static_cast<unsigned>(n));
      const auto probability = softmax(row);
      std::vector<double> key(n);
      for (std::size_t i = 0; i < n; ++i) key[i] = -static_cast<double>(row[i]);
      const auto expected = shortest_prefix(probability, key, static_cast<double>(p));
      EXPECT_EQ(warped(row, [&](CandidateSet& set) { keep_top_p(set, p); }), expected)
          << n << " " << p;
    }
  }
}

TEST(Warpers, TopPKeepsTheLowestIdsOfATieAtTheCut) {
  const std::vector<float> equal(4096, 1.5F);
  const auto kept = warped(equal, [](CandidateSet& set) { keep_top_p(set, 0.25F); });
  ASSERT_EQ(kept.size(), 1024u);
  EXPECT_EQ(kept.front(), 0);
  EXPECT_EQ(kept.back(), 1023);
}

TEST(Warpers, TypicalIsTheShortestPrefixByDistanceFromTheEntropy) {
  for (const std::size_t n : kSizes) {
    for (const float mass : {0.2F, 0.5F, 0.9F}) {
      const auto row = random_row(n, 1.5F, static_cast<unsigned>(n) + 1);
      const auto p = softmax(row);
      double entropy = 0.0;
      for (const double v : p) entropy -= v * std::log(v);
      std::vector<double> key(n);
      for (std::size_t i = 0; i < n; ++i) key[i] = std::fabs(-std::log(p[i]) - entropy);
      const auto expected = shortest_prefix(p, key, static_cast<double>(mass));
      const auto kept = warped(row, [&](CandidateSet& set) { keep_typical(set, mass); });
      std::vector<TokenId> differing;
      std::set_symmetric_difference(kept.begin(),
                                    kept.end(),
                                    expected.begin(),
                                    expected.end(),
                                    std::back_inserter(differing));
      // Rounding may swap neighbours at the cut of a large vocabulary.
      EXPECT_LE(differing.size(), n > 2048 ? 4u : 0u) << n << " " << mass;
    }
  }
}

// As a very high temperature leaves them: keys much closer together than the buckets of usual ones.
TEST(Warpers, NearlyEqualCandidatesAreCutWhereTheMassIs) {
  constexpr std::size_t kSize = 40'000;
  for (const float spread : {1e-2F, 1e-4F, 1e-9F}) {
    const auto row = random_row(kSize, spread, 17);
    const auto best = warped(row, [](CandidateSet& set) { keep_top_p(set, 0.25F); });
    EXPECT_NEAR(static_cast<double>(best.size()), 0.25 * kSize, 0.01 * kSize) << spread;
    float lowest_kept = row[static_cast<std::size_t>(best.front())];
    for (const TokenId id : best)
      lowest_kept = std::min(lowest_kept, row[static_cast<std::size_t>(id)]);
    std::size_t n_above = 0;
    for (const float score : row) n_above += score > lowest_kept ? 1 : 0;
    EXPECT_LT(n_above, best.size()) << spread;
    const auto typical = warped(row, [](CandidateSet& set) { keep_typical(set, 0.25F); });
    EXPECT_GE(typical.size(), kSize / 4 - kSize / 100) << spread;
  }
}

// Whatever lies far away from them.
TEST(Warpers, NearlyEqualCandidatesMayHaveDistantOnes) {
  constexpr std::size_t kSize = 40'000;
  auto row = random_row(kSize, 1e-4F, 18);
  row[7] = -1e30F;
  row[11] = -3.0F;
  const auto plain = warped(row, [](CandidateSet& set) { keep_top_p(set, 0.25F); });
  EXPECT_NEAR(static_cast<double>(plain.size()), 0.25 * kSize, 0.01 * kSize);
  EXPECT_GE(warped(row, [](CandidateSet& set) { keep_typical(set, 0.25F); }).size(), kSize / 5);
  row[500] = 10.0F;  // e^10 beside 40000: a bit over a third of the mass
  const auto with_best = warped(row, [](CandidateSet& set) { keep_top_p(set, 0.5F); });
  const double share = std::exp(10.0) / (std::exp(10.0) + kSize);
  EXPECT_NEAR(
      static_cast<double>(with_best.size()), (0.5 - share) / (1.0 - share) * kSize, 0.01 * kSize);
  EXPECT_TRUE(std::binary_search(with_best.begin(), with_best.end(), 500));
}

TEST(Warpers, MinPEpsilonAndEtaCutByProbability) {
  const auto row = random_row(500, 2.0F, 9);
  const auto p = softmax(row);
  const double best = *std::max_element(p.begin(), p.end());
  double entropy = 0.0;
  for (const double v : p) entropy -= v * std::log(v);
  const auto at_least = [&](double lowest) {
    std::vector<TokenId> out;
    for (std::size_t i = 0; i < p.size(); ++i) {
      if (p[i] >= lowest || p[i] == best) out.push_back(static_cast<TokenId>(i));
    }
    return out;
  };
  EXPECT_EQ(warped(row, [](CandidateSet& set) { keep_min_p(set, 0.1F); }), at_least(0.1 * best));
  EXPECT_EQ(warped(row, [](CandidateSet& set) { keep_epsilon(set, 0.004F); }), at_least(0.004));
  EXPECT_EQ(warped(row, [](CandidateSet& set) { keep_epsilon(set, 0.9F); }).size(), 1u);
  EXPECT_EQ(warped(row, [](CandidateSet& set) { keep_eta(set, 0.004F); }),
            at_least(std::min(0.004, std::sqrt(0.004) * std::exp(-entropy))));
}

// arXiv 2411.07641, algorithm 1: scores of at least max - n sigma.
TEST(Warpers, TopNSigmaCutsByStandardDeviations) {
  for (const std::size_t n : kSizes) {
    const auto row = random_row(n, 2.0F, static_cast<unsigned>(n) + 3);
    double mean = 0.0;
    for (const float v : row) mean += static_cast<double>(v);
    mean /= static_cast<double>(n);
    double variance = 0.0;
    for (const float v : row) variance += std::pow(static_cast<double>(v) - mean, 2.0);
    const double sigma = std::sqrt(variance / static_cast<double>(n));
    const auto best = static_cast<double>(*std::max_element(row.begin(), row.end()));
    for (const float sigmas : {0.01F, 1.0F, 2.5F, 100.0F}) {
      std::vector<TokenId> expected;
      for (std::size_t i = 0; i < n; ++i) {
        if (static_cast<double>(row[i]) >= best - static_cast<double>(sigmas) * sigma)
          expected.push_back(static_cast<TokenId>(i));
      }
      EXPECT_EQ(warped(row, [&](CandidateSet& set) { keep_top_n_sigma(set, sigmas); }), expected)
          << n << " " << sigmas;
    }
  }
  EXPECT_EQ(
      warped({1e30F, -1e30F, 0.0F}, [](CandidateSet& set) { keep_top_n_sigma(set, 1e30F); }).size(),
      3U);
}

// https://github.com/oobabooga/text-generation-webui/pull/6335: sorted by probability, a candidate leaves if the next
// one is likely enough, too.
template <typename Row>
std::vector<TokenId> without_top_choices(const Row& row, float threshold) {
  const auto p = softmax(row);
  std::vector<std::size_t> order(row.size());
  std::iota(order.begin(), order.end(), std::size_t{0});
  // Of a tie the lowest id comes last.
  std::sort(order.begin(), order.end(), [&](std::size_t a, std::size_t b) {
    return p[a] != p[b] ? p[a] > p[b] : a > b;
  });
  std::vector<TokenId> out;
  for (std::size_t k = 0; k < order.size(); ++k) {
    const bool leaves = k + 1 < order.size() && p[order[k + 1]] >= static_cast<double>(threshold);
    if (!leaves) out.push_back(static_cast<TokenId>(order[k]));
  }
  std::sort(out.begin(), out.end());
  return out;
}

template <typename Row>
std::vector<TokenId> left_by_xtc(const Row& row, float threshold) {
  return warped(row, [&](CandidateSet& set) { exclude_top_choices(set, threshold); });
}

TEST(Warpers, XtcLeavesTheLeastOfTheTopChoices) {
  for (const float grid : {0.0F, 0.5F}) {
    for (unsigned seed = 0; seed < 40; ++seed) {
      const auto row = random_row(30, 1.5F, seed, grid);
      for (const float threshold : {0.02F, 0.1F, 0.3F, 0.6F}) {
        EXPECT_EQ(left_by_xtc(row, threshold), without_top_choices(row, threshold))
            << seed << " " << threshold;
      }
    }
  }
}

TEST(Warpers, NeutralValuesChangeNothing) {
  const auto row = random_row(300, 2.0F, 10);
  const auto kept = warped(row, [](CandidateSet& set) {
    keep_top_k(set, 0);
    keep_top_k(set, 300);
    keep_top_k(set, 301);
    keep_top_p(set, 1.0F);
    keep_typical(set, 1.0F);
    keep_min_p(set, 0.0F);
    keep_epsilon(set, 0.0F);
    keep_eta(set, 0.0F);
    keep_top_n_sigma(set, 0.0F);
  });
  EXPECT_EQ(kept.size(), row.size());
}

TEST(Warpers, OneCandidateSurvivesEverything) {
  for (const std::size_t n : {1u, 5u, 5000u}) {
    for (const float value : {0.0F, -1e30F, 1e30F}) {
      std::vector<float> row(n, value);
      row.back() = 1e30F;
      const auto kept = warped(row, [](CandidateSet& set) {
        keep_top_k(set, 1);
        keep_top_p(set, 1e-38F);
        keep_typical(set, 1e-38F);
        keep_min_p(set, 1.0F);
        keep_eta(set, 1.0F);
        keep_top_n_sigma(set, 1e-38F);
        exclude_top_choices(set, 1e-38F);
      });
      EXPECT_GE(kept.size(), 1u);
    }
  }
}

TEST(Select, BestCandidatesIncludeTiesUpToTheLimit) {
  const std::vector<float> row = {-1.0F, -3.0F, -4.0F, -2.0F, -3.0F};
  CandidateSet set(row.size());
  ASSERT_TRUE(set.assign(row));
  const auto best = [&](std::size_t n, std::size_t limit) {
    const auto found = best_candidates(set, n, limit);
    return std::vector<std::uint32_t>(found.begin(), found.end());
  };
  EXPECT_EQ(best(0, 9), (std::vector<std::uint32_t>{}));
  EXPECT_EQ(best(2, 9), (std::vector<std::uint32_t>{0, 3}));
  EXPECT_EQ(best(3, 9), (std::vector<std::uint32_t>{0, 3, 1, 4}));
  EXPECT_EQ(best(3, 3), (std::vector<std::uint32_t>{0, 3, 1}));
  EXPECT_EQ(best(9, 9), (std::vector<std::uint32_t>{0, 3, 1, 4, 2}));
}

}  // namespace
}  // namespace coxswain::sampling
