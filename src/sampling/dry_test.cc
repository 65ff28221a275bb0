#include "sampling/dry.h"

#include <algorithm>
#include <cmath>
#include <random>

#include <gtest/gtest.h>

#include "sampling/row_math.h"
#include "sampling/sampler.h"
#include "sampling/test_rows.h"

namespace coxswain::sampling {
namespace {

using Ids = std::vector<TokenId>;

// The rule of https://github.com/oobabooga/text-generation-webui/pull/5677, said of one id: the longest end of the text
// that stands in it once more with the id behind it. Neither it nor the id has a break.
std::uint32_t longest_repetition(const Ids& text,
                                 const std::vector<std::uint8_t>& breaks,
                                 TokenId next) {
  std::uint32_t longest = 0;
  for (std::size_t length = 1; length < text.size(); ++length) {
    if (!breaks.empty() && breaks[text.size() - length] != 0) break;
    for (std::size_t at = 0; at + length < text.size(); ++at) {
      const bool is_same = std::equal(text.end() - static_cast<std::ptrdiff_t>(length),
                                      text.end(),
                                      text.begin() + static_cast<std::ptrdiff_t>(at));
      const std::size_t behind = at + length;
      if (is_same && text[behind] == next && (breaks.empty() || breaks[behind] == 0))
        longest = static_cast<std::uint32_t>(length);
    }
  }
  return longest;
}

TEST(Dry, FindsWhatAPlainProgramFinds) {
  constexpr TokenId kIds = 4;  // few, so that the text repeats itself
  std::mt19937 random(3);
  RepetitionScratch scratch;
  std::vector<Repetition> found;
  std::size_t n_found = 0;
  for (int round = 0; round < 400; ++round) {
    Ids text(random() % 40);
    for (TokenId& id : text) id = static_cast<TokenId>(random() % kIds);
    std::vector<std::uint8_t> breaks;
    if (round % 2 == 0) {
      for (const TokenId id : text) breaks.push_back(id == kIds - 1 ? 1 : 0);
    }
    const SamplingParams params{
        .dry_multiplier = 1.0F,
        .dry_allowed_length = 1 + static_cast<std::uint32_t>(random() % 4),
        .dry_penalty_last_n = round % 3 == 0 ? static_cast<std::uint32_t>(random() % 20) : 0};
    const std::size_t n_prompt = text.empty() ? 0 : random() % text.size();
    const std::span<const TokenId> all = text;
    find_repetitions({.prompt = all.first(n_prompt), .output = all.subspan(n_prompt)},
                     breaks,
                     params,
                     scratch,
                     found);
    const std::size_t n_seen = params.dry_penalty_last_n == 0
                                   ? text.size()
                                   : std::min<std::size_t>(text.size(), params.dry_penalty_last_n);
    const Ids seen(text.end() - static_cast<std::ptrdiff_t>(n_seen), text.end());
    if (!breaks.empty())
      breaks.erase(breaks.begin(), breaks.end() - static_cast<std::ptrdiff_t>(n_seen));
    std::vector<Repetition> expected;
    for (TokenId id = 0; id < kIds; ++id) {
      const std::uint32_t length = longest_repetition(seen, breaks, id);
      if (length >= params.dry_allowed_length) expected.push_back({.id = id, .length = length});
    }
    EXPECT_EQ(found, expected) << round;
    n_found += found.size();
  }
  EXPECT_GT(n_found, 200U);
}

TEST(Dry, ThePenaltyGrowsByItsBase) {
  const std::vector<float> row(8, 3.0F);
  CandidateSet set(row.size());
  ASSERT_TRUE(set.assign(row));
  const SamplingParams params{.dry_multiplier = 0.8F, .dry_base = 1.75F, .dry_allowed_length = 2};
  const std::vector<Repetition> repetitions = {{1, 2}, {2, 3}, {5, 12}, {7, 100'000}, {9, 3}};
  apply_dry(set, repetitions, params);
  EXPECT_FLOAT_EQ(set.scores()[1], 3.0F - 0.8F);
  EXPECT_FLOAT_EQ(set.scores()[2], 3.0F - 0.8F * 1.75F);
  EXPECT_FLOAT_EQ(set.scores()[5], 3.0F - 0.8F * std::pow(1.75F, 10.0F));
  EXPECT_EQ(set.scores()[7], -kScoreMax);  // beyond every float
  for (const std::size_t id : {0U, 3U, 4U, 6U}) EXPECT_EQ(set.scores()[id], 3.0F);
}

TEST(Dry, TheSamplerAvoidsTheRepetition) {
  std::vector<float> row(10, 0.0F);
  row[4] = 5.0F;
  row[6] = 4.0F;
  Sampler sampler(row.size());
  SamplingParams params{.dry_multiplier = 0.8F};
  ASSERT_TRUE(wants_repetitions(params));
  const auto chosen = [&](std::vector<Repetition> repetitions) {
    return sampler.sample({.logits = row, .params = &params, .repetitions = repetitions})->token.id;
  };
  EXPECT_EQ(chosen({}), 4);
  EXPECT_EQ(chosen({{.id = 4, .length = 3}}), 6);
  params.samplers = {SamplerStep::kTopK};
  EXPECT_FALSE(wants_repetitions(params));
  EXPECT_FALSE(wants_repetitions({}));
}

}  // namespace
}  // namespace coxswain::sampling
