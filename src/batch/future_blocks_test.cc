#include "batch/future_blocks.h"

#include <algorithm>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::batch {
namespace {

constexpr std::uint32_t kBlock = 10;
constexpr std::uint32_t kPromptTokens = 20;  // two blocks a step

TEST(FutureBlocks, NobodyNeedsNothing) {
  EXPECT_EQ(FutureBlocks(kBlock, kPromptTokens).peak(), 0);
}

TEST(FutureBlocks, OneGrowsToItsEnd) {
  FutureBlocks future(kBlock, kPromptTokens);
  future.insert({.n_steps = 35, .n_tokens = 20, .n_blocks = 2, .n_freed = 2});
  EXPECT_DOUBLE_EQ(future.peak(), 3.5 + 0.5);
}

// The first ends after 10 steps and gives 5 blocks back; the second needs 3 more by then, 7 at its own end.
TEST(FutureBlocks, WhoEndsFirstMakesRoomForTheOther) {
  FutureBlocks future(kBlock, kPromptTokens);
  future.insert({.n_steps = 70, .n_tokens = 30, .n_blocks = 3, .n_freed = 3});
  future.insert({.n_steps = 10, .n_tokens = 50, .n_blocks = 5, .n_freed = 5});
  EXPECT_DOUBLE_EQ(future.peak(), 1 + 1 + 0.5 + 0.5);
  // The same, but what the first one holds is shared and stays.
  FutureBlocks kept(kBlock, kPromptTokens);
  kept.insert({.n_steps = 70, .n_tokens = 30, .n_blocks = 3, .n_freed = 3});
  kept.insert({.n_steps = 10, .n_tokens = 50, .n_blocks = 5, .n_freed = 0});
  EXPECT_DOUBLE_EQ(kept.peak(), 7 + 0.5);
}

TEST(FutureBlocks, APromptThatIsNotComputedYetCountsWhole) {
  FutureBlocks future(kBlock, kPromptTokens);
  future.insert({.n_steps = 5, .n_tokens = 100, .n_blocks = 2, .n_freed = 2});
  EXPECT_DOUBLE_EQ(future.peak(), 8 + 0.5 + 0.5);
}

// Of the prompt's 8 blocks 6 are there when the other one ends and gives 5 back.
TEST(FutureBlocks, APromptTakesItsBlocksAsItIsComputed) {
  FutureBlocks future(kBlock, kPromptTokens);
  future.insert({.n_steps = 9, .n_tokens = 80, .n_blocks = 0, .n_freed = 0, .n_prompt = 8});
  future.insert({.n_steps = 2, .n_tokens = 50, .n_blocks = 5, .n_freed = 5});
  const double at_first_end = 8 + 0.5 + 0.5 + 2 * 2 / 10.0 - 2;
  const double at_last_end = 8 + 0.5 + 0.9 - 5;
  EXPECT_DOUBLE_EQ(future.peak(), std::max(at_first_end, at_last_end));
}

TEST(FutureBlocks, TheOrderOfAddingDoesNotMatter) {
  const std::vector<FutureBlocks::Use> uses{
      {3, 40, 4, 4}, {90, 12, 2, 1}, {50, 70, 3, 3}, {3, 8, 1, 0}};
  FutureBlocks sorted(kBlock, kPromptTokens);
  for (const auto& use : uses) sorted.add(use);
  sorted.sort();
  FutureBlocks inserted(kBlock, kPromptTokens);
  for (std::size_t i = uses.size(); i-- > 0;) inserted.insert(uses[i]);
  EXPECT_DOUBLE_EQ(sorted.peak(), inserted.peak());
  inserted.insert({7, 1000, 1, 1});
  EXPECT_GT(inserted.peak(), sorted.peak());
  inserted.erase({7, 1000, 1, 1});
  EXPECT_DOUBLE_EQ(sorted.peak(), inserted.peak());
}

}  // namespace
}  // namespace coxswain::batch
