#include "sampling/thought_budget.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::sampling {
namespace {

using Ids = std::vector<TokenId>;

// The output of a model that would say `wishes`, until they are used up.
Ids written(const ThoughtBudget& budget, const Ids& wishes) {
  ThoughtState state(budget);
  Ids out;
  for (std::size_t i = 0; i < wishes.size(); ++i) {
    out.push_back(state.forced().value_or(wishes[i]));
    state.add(out.back());
  }
  return out;
}

TEST(ThoughtBudget, ABlockThatTheOutputBeginsInIsClosed) {
  const ThoughtBudget budget{.tokens_max = 2, .close = {8, 9}};
  EXPECT_EQ(written(budget, {1, 2, 3, 4, 5}), (Ids{1, 2, 8, 9, 5}));
  // The model closes it itself: before its end, or just there.
  EXPECT_EQ(written(budget, {8, 9, 3, 4, 5}), (Ids{8, 9, 3, 4, 5}));
  EXPECT_EQ(written(budget, {1, 8, 3, 4, 5}), (Ids{1, 8, 9, 4, 5}));
  EXPECT_EQ(written({.tokens_max = 0, .close = {8, 9}}, {1, 2, 3}), (Ids{8, 9, 3}));
  EXPECT_EQ(written({.tokens_max = 9, .close = {8, 9}}, {1, 2, 3}), (Ids{1, 2, 3}));
}

TEST(ThoughtBudget, ABlockBeginsBehindItsOpening) {
  const ThoughtBudget budget{.tokens_max = 1, .open = {6, 7}, .close = {9}};
  EXPECT_EQ(written(budget, {1, 2, 3, 4}), (Ids{1, 2, 3, 4}));
  EXPECT_EQ(written(budget, {6, 6, 7, 1, 2, 3}), (Ids{6, 6, 7, 1, 9, 3}));
  // Only the first block counts.
  EXPECT_EQ(written(budget, {6, 7, 9, 6, 7, 1, 2}), (Ids{6, 7, 9, 6, 7, 1, 2}));
  // What closes it before it is open does not count.
  EXPECT_EQ(written(budget, {9, 6, 7, 1, 2, 3}), (Ids{9, 6, 7, 1, 9, 3}));
}

// Against the whole output read anew for each token.
TEST(ThoughtBudget, IsAFunctionOfTheOutput) {
  std::mt19937 random(3);
  for (int round = 0; round < 2000; ++round) {
    const auto any_ids = [&](std::size_t least) {
      Ids out(least + random() % 4);
      for (TokenId& id : out) id = static_cast<TokenId>(random() % 2);
      return out;
    };
    const ThoughtBudget budget{.tokens_max = static_cast<std::uint32_t>(random() % 6),
                               .open = any_ids(0),
                               .close = any_ids(1)};
    ThoughtState state(budget);
    Ids output;
    for (int n = 0; n < 20; ++n) {
      std::optional<TokenId> expected;
      const auto open =
          std::search(output.begin(), output.end(), budget.open.begin(), budget.open.end());
      const bool is_open = open != output.end() || budget.open.empty();
      if (is_open) {
        const Ids block(open + static_cast<std::ptrdiff_t>(budget.open.size()), output.end());
        const bool is_closed =
            std::search(block.begin(), block.end(), budget.close.begin(), budget.close.end()) !=
            block.end();
        std::size_t part = std::min(block.size(), budget.close.size() - 1);
        while (!std::equal(
            block.end() - static_cast<std::ptrdiff_t>(part), block.end(), budget.close.begin()))
          --part;
        if (!is_closed && block.size() >= budget.tokens_max) expected = budget.close[part];
      }
      ASSERT_EQ(state.forced(), expected) << round << " " << n;
      output.push_back(expected && random() % 4 != 0 ? *expected
                                                     : static_cast<TokenId>(random() % 2));
      state.add(output.back());
    }
  }
}

}  // namespace
}  // namespace coxswain::sampling
