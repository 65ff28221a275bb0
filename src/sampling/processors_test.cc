#include "sampling/processors.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <map>
#include <random>
#include <vector>

#include <gtest/gtest.h>

#include "sampling/row_math.h"
#include "sampling/test_rows.h"

namespace coxswain::sampling {
namespace {

CandidateSet set_of(const std::vector<float>& row) {
  CandidateSet set(row.size());
  EXPECT_TRUE(set.assign(row));
  return set;
}

std::vector<float> scores_of(const CandidateSet& set) {
  return {set.scores().begin(), set.scores().end()};
}

std::vector<TokenId> ids_of(const CandidateSet& set) {
  std::vector<TokenId> out;
  for (std::size_t i = 0; i < set.size(); ++i) out.push_back(set.id(i));
  return out;
}

TEST(TokenCounts, CountsPromptAndOutputApart) {
  TokenCounts counts;
  counts.reset(std::vector<TokenId>{5, 2, 5, 9}, 4);
  counts.add(2);
  counts.add(7);
  ASSERT_EQ(counts.entries().size(), 4u);
  EXPECT_EQ(counts.context_length(), 6u);
  const auto& two = counts.entries()[0];
  EXPECT_EQ(two.id, 2);
  EXPECT_EQ(two.in_context, 2u);
  EXPECT_EQ(two.in_output, 1u);
  EXPECT_EQ(counts.entries()[1].in_context, 2u);
  EXPECT_EQ(counts.entries()[1].in_output, 0u);
  EXPECT_EQ(counts.entries()[2].id, 7);
}

// Long ones are sorted in another way, by as many digits as the ids have.
TEST(TokenCounts, LongPromptsAreCountedAsShortOnesAre) {
  std::mt19937 random(1);
  for (const TokenId highest : {0, 7, 2047, 2048, 300'000, 2'147'483'647}) {
    std::vector<TokenId> prompt(5000);
    for (TokenId& id : prompt)
      id = static_cast<TokenId>(random() % (static_cast<std::uint64_t>(highest) + 1));
    prompt[4000] = highest;
    std::map<TokenId, std::uint32_t> expected;
    for (const TokenId id : prompt) ++expected[id];
    TokenCounts counts;
    counts.reset(prompt, 0);
    EXPECT_EQ(counts.entries().size(), expected.size()) << highest;
    EXPECT_TRUE(std::ranges::equal(counts.entries(),
                                   expected,
                                   [](const auto& entry, const auto& e) {
                                     return entry.id == e.first && entry.in_context == e.second;
                                   }))
        << highest;
    EXPECT_EQ(counts.context_length(), prompt.size());
  }
}

TEST(Processors, PenaltiesFollowTheirFormulas) {
  TokenCounts counts;
  counts.reset(std::vector<TokenId>{0, 1, 1}, 4);
  counts.add(1);
  const std::vector<float> row = {2.0F, -2.0F, 1.0F};
  CandidateSet set = set_of(row);
  apply_repetition_penalty(set, counts, 2.0F);
  EXPECT_EQ(scores_of(set), (std::vector<float>{1.0F, -4.0F, 1.0F}));
  set = set_of(row);
  apply_relative_frequency_penalty(set, counts, 2.0F);
  EXPECT_EQ(scores_of(set), (std::vector<float>{1.5F, -3.5F, 1.0F}));
  set = set_of(row);
  apply_count_penalties(set, counts, Counted::kOutput, 0.5F, 0.25F);
  EXPECT_EQ(scores_of(set), (std::vector<float>{2.0F, -2.75F, 1.0F}));
  set = set_of(row);
  apply_count_penalties(set, counts, Counted::kPromptAndOutput, 0.5F, 0.25F);
  EXPECT_EQ(scores_of(set), (std::vector<float>{1.25F, -3.75F, 1.0F}));
}

TEST(Processors, ExtremeValuesStayFinite) {
  TokenCounts counts;
  counts.reset(std::vector<TokenId>{0, 1, 2, 3}, 0);
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<float> row = {inf, -1e38F, 0.0F, 1.0F};
  for (const float penalty : {std::numeric_limits<float>::denorm_min(), 1e-30F, 1e30F, 3e38F}) {
    CandidateSet set = set_of(row);
    apply_repetition_penalty(set, counts, penalty);
    const std::vector<std::pair<TokenId, float>> bias = {
        {0, 3e38F}, {3, -3e38F}, {100, 1.0F}, {-4, 1.0F}};
    apply_logit_bias(set, bias);
    for (const float score : set.scores()) {
      EXPECT_LE(score, kScoreMax);
      EXPECT_GE(score, -kScoreMax);
    }
  }
}

// What is brought into range or left out takes the longer way.
TEST(Processors, OddRowsAreNotMaskedAtOnce) {
  const float inf = std::numeric_limits<float>::infinity();
  const std::vector<std::uint64_t> mask = {0b11};
  CandidateSet set(3);
  for (const float odd : {inf, -inf, 2e30F, -2e30F, std::numeric_limits<float>::quiet_NaN()}) {
    EXPECT_FALSE(set.assign_masked(std::vector<float>{1.0F, 2.0F, odd}, mask)) << odd;
    EXPECT_FALSE(set.assign_masked(std::vector<float>{odd, 2.0F, 0.0F}, mask)) << odd;
  }
  EXPECT_TRUE(set.assign_masked(std::vector<float>{kScoreMax, -kScoreMax, 0.0F}, mask));
}

TEST(Processors, MasksNeverEmptyTheSet) {
  CandidateSet set = set_of({1.0F, 2.0F, 3.0F, 4.0F});
  EXPECT_TRUE(keep_masked(set, std::vector<std::uint64_t>{0b10'0000'1010}));
  EXPECT_EQ(ids_of(set), (std::vector<TokenId>{1, 3}));
  EXPECT_FALSE(keep_masked(set, std::vector<std::uint64_t>{0b101}));
  EXPECT_FALSE(keep_masked(set, {}));
  EXPECT_EQ(ids_of(set), (std::vector<TokenId>{1, 3}));
  remove_ids(set, std::vector<TokenId>{1});
  EXPECT_EQ(ids_of(set), (std::vector<TokenId>{3}));
  remove_ids(set, std::vector<TokenId>{3});
  EXPECT_EQ(ids_of(set), (std::vector<TokenId>{3}));
}

// Seldom a word without holes at first, ever denser then.
std::vector<std::uint64_t> random_mask(std::mt19937_64& random, int pass) {
  std::vector<std::uint64_t> mask(random() % 7);
  for (std::uint64_t& word : mask)
    word = random() % 4 == 0 ? ~std::uint64_t{0} : random() | (pass == 0 ? 0 : random());
  return mask;
}

std::vector<TokenId> filtered(const std::vector<TokenId>& ids,
                              const std::vector<std::uint64_t>& mask) {
  std::vector<TokenId> left;
  for (const TokenId id : ids) {
    const auto bit = static_cast<std::size_t>(id);
    if (bit / 64 < mask.size() && (mask[bit / 64] >> (bit % 64) & 1) != 0) left.push_back(id);
  }
  return left;
}

// Of whole sets and of those that have lost ids before; masks shorter and longer than the row. A set that is made of
// masked ids is what a mask leaves of a whole one.
TEST(Processors, MaskedIdsAreThoseOfAPlainFilter) {
  std::mt19937_64 random(5);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = 1 + random() % 300;
    std::vector<float> row(n);
    for (float& value : row) value = static_cast<float>(random() % 100);
    std::vector<TokenId> expected(n);
    for (std::size_t i = 0; i < n; ++i) expected[i] = static_cast<TokenId>(i);
    CandidateSet set = set_of(row);
    CandidateSet at_once(n);
    for (int pass = 0; pass < 3; ++pass) {
      const std::vector<std::uint64_t> mask = random_mask(random, pass);
      const std::vector<TokenId> left = filtered(expected, mask);
      ASSERT_EQ(keep_masked(set, mask), !left.empty());
      if (pass == 0) {
        ASSERT_EQ(at_once.assign_masked(row, mask), !left.empty());
      }
      if (pass == 0 && !left.empty()) {
        ASSERT_EQ(ids_of(at_once), left);
        ASSERT_TRUE(std::ranges::equal(at_once.scores(), set.scores()));
        ASSERT_EQ(at_once.is_whole(), set.is_whole());
      }
      if (!left.empty()) expected = left;
      ASSERT_EQ(ids_of(set), expected);
      for (std::size_t i = 0; i < set.size(); ++i)
        ASSERT_EQ(set.scores()[i], row[static_cast<std::size_t>(set.id(i))]);
    }
  }
}

// Of whole sets and of those that have lost ids before, at both ends and in between.
TEST(Processors, RemovedIdsAreThoseOfAPlainFilter) {
  std::mt19937 random(4);
  for (int round = 0; round < 300; ++round) {
    const std::size_t n = 1 + random() % 40;
    std::vector<float> row(n);
    for (std::size_t i = 0; i < n; ++i) row[i] = static_cast<float>(random() % 100);
    std::map<TokenId, float> expected;
    for (std::size_t i = 0; i < n; ++i) expected.emplace(static_cast<TokenId>(i), row[i]);
    CandidateSet set = set_of(row);
    for (int pass = 0; pass < 3; ++pass) {
      std::vector<TokenId> ids;
      for (TokenId id = -1; id <= static_cast<TokenId>(n); ++id) {
        if (random() % 4 == 0) ids.push_back(id);
      }
      remove_ids(set, ids);
      std::map<TokenId, float> left = expected;
      for (const TokenId id : ids) left.erase(id);
      if (!left.empty()) expected = left;
      ASSERT_TRUE(
          std::ranges::equal(ids_of(set), expected, {}, {}, [](const auto& e) { return e.first; }));
      ASSERT_TRUE(std::ranges::equal(
          scores_of(set), expected, {}, {}, [](const auto& e) { return e.second; }));
    }
  }
}

TEST(CandidateSet, ForbiddenIdsAreLeftOutUnlessAllAre) {
  const float low = -std::numeric_limits<float>::infinity();
  EXPECT_EQ(ids_of(set_of({low, 1.0F, low, 2.0F})), (std::vector<TokenId>{1, 3}));
  EXPECT_EQ(set_of({low, low}).size(), 2u);
  CandidateSet set(4);
  EXPECT_FALSE(set.assign(std::vector<float>{0.0F, std::numeric_limits<float>::quiet_NaN()}));
}

// By the formula of https://github.com/ggml-org/llama.cpp/pull/4972, in double.
TEST(Processors, DynamicTemperatureFollowsTheEntropy) {
  for (const float spread : {0.01F, 1.0F, 4.0F}) {
    const auto row = random_row(200, spread, 21);
    double sum = 0.0;
    for (const float v : row) sum += std::exp(static_cast<double>(v));
    double entropy = 0.0;
    for (const float v : row) {
      const double p = std::exp(static_cast<double>(v)) / sum;
      entropy -= p * std::log(p);
    }
    const double share = entropy / std::log(static_cast<double>(row.size()));
    struct Case {
      float temperature;
      float range;
      float exponent;
    };
    for (const Case& c : {Case{1.0F, 0.5F, 1.0F}, Case{0.7F, 2.0F, 0.5F}, Case{2.0F, 1.5F, 3.0F}}) {
      const double low = std::max(0.0, static_cast<double>(c.temperature - c.range));
      const double high = static_cast<double>(c.temperature + c.range);
      const double chosen = low + (high - low) * std::pow(share, static_cast<double>(c.exponent));
      auto set = set_of(row);
      apply_dynamic_temperature(set, c.temperature, c.range, c.exponent);
      for (std::size_t i = 0; i < row.size(); ++i) {
        const double expected = static_cast<double>(row[i]) / chosen;
        EXPECT_NEAR(set.scores()[i], expected, 2e-5 * std::max(1.0, std::fabs(expected)));
      }
    }
  }
}

TEST(Processors, DynamicTemperatureOfOneCertainCandidateIsTheLowest) {
  auto sure = set_of({0.0F, 1e30F, 5.0F});
  apply_dynamic_temperature(sure, 1.0F, 2.0F, 1.0F);  // 0, held where a greedy request begins
  EXPECT_EQ(sure.scores()[1], kScoreMax);
  EXPECT_NEAR(sure.scores()[2], 5e6F, 1.0F);
  auto alone = set_of({3.0F});
  apply_dynamic_temperature(alone, 1.0F, 0.5F, 1.0F);
  EXPECT_EQ(alone.scores()[0], 3.0F);
}

}  // namespace
}  // namespace coxswain::sampling
