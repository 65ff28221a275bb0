#include "batch/future_blocks.h"

#include <vector>

#include <gtest/gtest.h>

namespace coxswain::batch {
namespace {

constexpr std::uint32_t kBlock = 10;

TEST(FutureBlocks, NobodyNeedsNothing) {
  EXPECT_EQ(FutureBlocks(kBlock).peak(), 0);
}

TEST(FutureBlocks, OneGrowsToItsEnd) {
  FutureBlocks future(kBlock);
  future.insert({.n_steps = 35, .n_tokens = 20, .n_blocks = 2, .n_freed = 2});
  EXPECT_DOUBLE_EQ(future.peak(), 3.5 + 0.5);
}

// The first ends after 10 steps and gives 5 blocks back; the second needs 3 more by then, 7 at its own end.
TEST(FutureBlocks, WhoEndsFirstMakesRoomForTheOther) {
  FutureBlocks future(kBlock);
  future.insert({.n_steps = 70, .n_tokens = 30, .n_blocks = 3, .n_freed = 3});
  future.insert({.n_steps = 10, .n_tokens = 50, .n_blocks = 5, .n_freed = 5});
  EXPECT_DOUBLE_EQ(future.peak(), 1 + 1 + 0.5 + 0.5);
  FutureBlocks kept(kBlock);  // the same, but what the first one holds is shared and stays
  kept.insert({.n_steps = 70, .n_tokens = 30, .n_blocks = 3, .n_freed = 3});
  kept.insert({.n_steps = 10, .n_tokens = 50, .n_blocks = 5, .n_freed = 0});
  EXPECT_DOUBLE_EQ(kept.peak(), 7 + 0.5);
}

TEST(FutureBlocks, APromptThatIsNotComputedYetCountsWhole) {
  FutureBlocks future(kBlock);
  future.insert({.n_steps = 5, .n_tokens = 100, .n_blocks = 2, .n_freed = 2});
  EXPECT_DOUBLE_EQ(future.peak(), 8 + 0.5 + 0.5);
}

TEST(FutureBlocks, TheOrderOfAddingDoesNotMatter) {
  const std::vector<FutureBlocks::Use> uses{
      {3, 40, 4, 4}, {90, 12, 2, 1}, {50, 70, 3, 3}, {3, 8, 1, 0}};
  FutureBlocks sorted(kBlock);
  for (const auto& use : uses) sorted.add(use);
  sorted.sort();
  FutureBlocks inserted(kBlock);
  for (std::size_t i = uses.size(); i-- > 0;) inserted.insert(uses[i]);
  EXPECT_DOUBLE_EQ(sorted.peak(), inserted.peak());
  inserted.insert({7, 1000, 1, 1});
  EXPECT_GT(inserted.peak(), sorted.peak());
  inserted.erase({7, 1000, 1, 1});
  EXPECT_DOUBLE_EQ(sorted.peak(), inserted.peak());
}

}  // namespace
}  // namespace coxswain::batch
