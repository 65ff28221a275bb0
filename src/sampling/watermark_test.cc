#include "sampling/watermark.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

#include "sampling/sampler.h"
#include "sampling/test_rows.h"

namespace coxswain::sampling {
namespace {

std::vector<std::uint32_t> green(std::size_t vocab, TokenId previous, double gamma) {
  std::vector<std::uint32_t> room(vocab);
  const auto ids = green_ids(previous, gamma, room);
  return {ids.begin(), ids.end()};
}

// The first ids as torch's generator on the CPU permutes them; coxswain-conformance compares whole lists.
TEST(Watermark, TakesThePermutationOfTheReference) {
  const auto begins_with = [](const std::vector<std::uint32_t>& ids,
                              const std::vector<std::uint32_t>& first) {
    return std::equal(first.begin(), first.end(), ids.begin());
  };
  EXPECT_TRUE(begins_with(green(50, 0, 0.5), {44, 39, 7, 6, 17, 29, 21, 37, 33, 10, 31}));
  EXPECT_TRUE(begins_with(green(320, 283, 0.25), {246, 144, 16, 248, 229, 32, 9, 215, 57}));
  // The seed is 32 bits of 15485863 times the id.
  EXPECT_TRUE(begins_with(green(32'000, 31'999, 0.25), {10'511, 24'288, 8406, 1661, 12'440}));
}

TEST(Watermark, AShareOfTheVocabularyEachIdOnce) {
  for (const std::size_t vocab : {1U, 2U, 51U, 1000U}) {
    for (const double gamma : {0.0, 0.25, 0.5, 1.0}) {
      auto ids = green(vocab, 7, gamma);
      EXPECT_EQ(ids.size(), static_cast<std::size_t>(static_cast<double>(vocab) * gamma));
      std::sort(ids.begin(), ids.end());
      EXPECT_EQ(std::adjacent_find(ids.begin(), ids.end()), ids.end());
      EXPECT_TRUE(ids.empty() || ids.back() < vocab);
    }
  }
}

TEST(Watermark, TheSamplerRaisesWhatTheTokenBeforeChooses) {
  const auto row = random_row(300, 2.0F, 5);
  Sampler sampler(row.size(), 300);
  const SamplingParams plain{.n_top_tokens = 300};
  SamplingParams marked = plain;
  marked.watermark = true;
  for (const TokenId previous : {0, 3, 299}) {
    auto raised = row;
    for (const std::uint32_t id : green(row.size(), previous, kWatermarkGamma))
      raised[id] += kWatermarkDelta;
    const auto seen = sampler.sample({.logits = row, .params = &marked, .previous = previous});
    ASSERT_TRUE(seen.ok());
    const std::vector<ScoredToken> top(seen->top.begin(), seen->top.end());
    const auto expected = sampler.sample({.logits = raised, .params = &plain});
    EXPECT_TRUE(std::equal(top.begin(), top.end(), expected->top.begin(), expected->top.end()));
  }
}

}  // namespace
}  // namespace coxswain::sampling
