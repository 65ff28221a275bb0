#include "kvcache/kv_cache.h"

#include <numeric>

#include <gtest/gtest.h>

namespace coxswain::kvcache {
namespace {

std::vector<TokenId> iota_tokens(int n, TokenId first = 0) {
  std::vector<TokenId> out(static_cast<std::size_t>(n));
  std::iota(out.begin(), out.end(), first);
  return out;
}

KvCacheOptions options(std::uint32_t n_blocks, std::uint32_t n_groups = 1) {
  KvCacheOptions out{.block_tokens = 4, .hash_key = {11, 22}};
  out.groups.assign(n_groups, KvGroupOptions{.n_blocks = n_blocks});
  return out;
}

// Computes and publishes `tokens` in a fresh lease.
KvLease filled(KvCache& cache, std::string_view identity, const std::vector<TokenId>& tokens) {
  KvLease lease = cache.open(identity, tokens, true);
  EXPECT_TRUE(cache.grow(lease, cache.blocks_for(static_cast<std::uint32_t>(tokens.size()))).ok());
  cache.publish(lease, tokens);
  EXPECT_EQ(cache.check(), "");
  return lease;
}

TEST(KvCache, BlockZeroIsNeverLeased) {
  KvCache cache(options(3));
  KvLease lease = cache.open("", {}, false);
  ASSERT_TRUE(cache.grow(lease, 3).ok());
  for (const BlockId id : lease.table(0)) EXPECT_NE(id, 0U);
  EXPECT_EQ(cache.counts(0), (BlockCounts{.total = 3, .leased = 3}));
}

TEST(KvCache, GrowTakesAllOrNothing) {
  KvCache cache(options(3));
  KvLease a = cache.open("", {}, false);
  ASSERT_TRUE(cache.grow(a, 2).ok());
  KvLease b = cache.open("", {}, false);
  const Status status = cache.grow(b, 2);
  EXPECT_EQ(status.code(), Code::kResourceExhausted);
  EXPECT_EQ(b.n_blocks(), 0U);
  EXPECT_EQ(cache.counts(0).free, 1U);
}

TEST(KvCache, LeaseGivesBackOnDestructionAndMoves) {
  KvCache cache(options(3));
  {
    KvLease a = cache.open("", {}, false);
    ASSERT_TRUE(cache.grow(a, 2).ok());
    KvLease b = std::move(a);
    // Moved-from is empty, that is what is tested.
    // NOLINTNEXTLINE(bugprone-use-after-move)
    EXPECT_FALSE(a);
    EXPECT_EQ(cache.counts(0).leased, 2U);
  }
  EXPECT_EQ(cache.counts(0).free, 3U);
  EXPECT_EQ(cache.check(), "");
}

TEST(KvCache, ReleasedBlocksRetireWithTheLastStepThatNamesThem) {
  KvCache cache(options(3));
  KvLease lease = cache.open("", {}, false);
  ASSERT_TRUE(cache.grow(lease, 2).ok());
  lease.mark_used(7);
  lease.reset();
  EXPECT_EQ(cache.counts(0), (BlockCounts{.total = 3, .free = 1, .retiring = 2}));
  EXPECT_EQ(cache.available(0), 1U);
  cache.retire(6);
  EXPECT_EQ(cache.counts(0).retiring, 2U);
  cache.retire(7);
  EXPECT_EQ(cache.counts(0).free, 3U);
}

TEST(KvCache, PrefixIsWholeBlocksAndLeavesOneTokenToCompute) {
  KvCache cache(options(8));
  filled(cache, "id", iota_tokens(12)).reset();
  EXPECT_EQ(cache.counts(0).cached, 3U);
  EXPECT_EQ(cache.probe("id", iota_tokens(13)).n_blocks, 3U);
  EXPECT_EQ(cache.probe("id", iota_tokens(12)).n_blocks, 2U);
  EXPECT_EQ(cache.probe("id", iota_tokens(11)).n_blocks, 2U);
  EXPECT_EQ(cache.probe("id", iota_tokens(4)).n_blocks, 0U);
  EXPECT_EQ(cache.probe("other", iota_tokens(13)).n_blocks, 0U);
  auto different = iota_tokens(13);
  different[5] = 99;
  EXPECT_EQ(cache.probe("id", different).n_blocks, 1U);
}

TEST(KvCache, NothingIsFoundBeforeItIsPublished) {
  KvCache cache(options(8));
  KvLease lease = cache.open("id", iota_tokens(8), true);
  ASSERT_TRUE(cache.grow(lease, 2).ok());
  EXPECT_EQ(cache.probe("id", iota_tokens(9)).n_blocks, 0U);
  const auto tokens = iota_tokens(8);
  cache.publish(lease, std::span(tokens).first(5));
  EXPECT_EQ(cache.probe("id", iota_tokens(9)).n_blocks, 1U);
}

TEST(KvCache, SharedBlocksAreCountedOnce) {
  KvCache cache(options(8, 2));
  KvLease a = filled(cache, "id", iota_tokens(9));
  KvLease b = cache.open("id", iota_tokens(9), true);
  EXPECT_EQ(b.n_published(), 2U);
  EXPECT_EQ(cache.counts(1).leased, 3U);
  EXPECT_EQ(cache.reclaimable(a, 0), 1U);
  a.reset();
  EXPECT_EQ(cache.counts(0), (BlockCounts{.total = 8, .free = 6, .leased = 2}));
  b.reset();
  EXPECT_EQ(cache.counts(1), (BlockCounts{.total = 8, .free = 6, .cached = 2}));
  EXPECT_EQ(cache.check(), "");
}

TEST(KvCache, EvictsTheLeastRecentlyUsedLeafFirst) {
  KvCache cache(options(5));
  filled(cache, "id", iota_tokens(8)).reset();       // blocks 0-3, 4-7
  filled(cache, "id", iota_tokens(8, 100)).reset();  // another branch, used later
  KvLease lease = cache.open("", {}, false);
  // One is free, one must be evicted: the tail of the older branch.
  ASSERT_TRUE(cache.grow(lease, 2).ok());
  EXPECT_EQ(cache.probe("id", iota_tokens(9)).n_blocks, 1U);
  EXPECT_EQ(cache.probe("id", iota_tokens(9, 100)).n_blocks, 2U);
  EXPECT_EQ(cache.check(), "");
}

TEST(KvCache, NeverEvictsABlockInUse) {
  KvCache cache(options(4));
  KvLease held = filled(cache, "id", iota_tokens(8));
  KvLease other = cache.open("", {}, false);
  EXPECT_FALSE(cache.grow(other, 3).ok());
  ASSERT_TRUE(cache.grow(other, 2).ok());
  EXPECT_EQ(cache.probe("id", iota_tokens(9)).n_blocks, 2U);
}

TEST(KvCache, TwoThatComputeTheSamePrefixKeepTheFirst) {
  KvCache cache(options(8));
  const auto tokens = iota_tokens(8);
  KvLease a = cache.open("id", tokens, true);
  KvLease b = cache.open("id", tokens, true);
  ASSERT_TRUE(cache.grow(a, 2).ok() && cache.grow(b, 2).ok());
  cache.publish(a, tokens);
  cache.publish(b, tokens);
  EXPECT_EQ(cache.check(), "");
  const BlockId first = a.table(0)[0];
  b.reset();
  EXPECT_EQ(cache.counts(0).free, 6U);
  a.reset();
  EXPECT_EQ(cache.counts(0).cached, 2U);
  EXPECT_EQ(cache.open("id", iota_tokens(9), true).table(0)[0], first);
}

TEST(KvCache, AnEvictedTwinIsReplacedByTheOwnBlocks) {
  KvCache cache(options(6));
  const auto tokens = iota_tokens(8);
  KvLease a = cache.open("id", tokens, true);
  KvLease b = cache.open("id", tokens, true);
  ASSERT_TRUE(cache.grow(a, 2).ok() && cache.grow(b, 2).ok());
  cache.publish(a, tokens);
  cache.publish(b, tokens);
  a.reset();
  KvLease c = cache.open("", {}, false);
  ASSERT_TRUE(cache.grow(c, 4).ok());  // evicts what a computed
  EXPECT_EQ(cache.probe("id", iota_tokens(9)).n_blocks, 0U);
  c.reset();
  ASSERT_TRUE(cache.grow(b, 3).ok());
  cache.publish(b, iota_tokens(12));
  EXPECT_EQ(cache.check(), "");
  EXPECT_EQ(cache.probe("id", iota_tokens(13)).n_blocks, 3U);
}

TEST(KvCache, WindowGroupsGiveBlocksBackAndSwitchPrefixCachingOff) {
  KvCacheOptions o = options(8, 2);
  o.groups[1].window_tokens = 6;
  KvCache cache(o);
  EXPECT_FALSE(cache.prefix_caching());
  KvLease lease = cache.open("id", iota_tokens(16), true);
  ASSERT_TRUE(cache.grow(lease, 4).ok());
  EXPECT_FALSE(cache.release_before(lease, 8));  // position 8 sees 3..8
  EXPECT_TRUE(cache.release_before(lease, 9));   // position 9 sees 4..9
  EXPECT_EQ(lease.table(1)[0], kReleasedBlock);
  EXPECT_NE(lease.table(0)[0], kReleasedBlock);
  EXPECT_EQ(cache.counts(1).free, 5U);
  EXPECT_EQ(cache.counts(0).free, 4U);
  EXPECT_EQ(cache.check(), "");
  lease.reset();
  EXPECT_EQ(cache.counts(1).free, 8U);
}

}  // namespace
}  // namespace coxswain::kvcache
