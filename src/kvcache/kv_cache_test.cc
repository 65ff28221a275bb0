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

// Full and window group of six tokens: a position sees two blocks before its own at most.
KvCacheOptions windowed(std::uint32_t n_blocks, std::uint32_t n_window_blocks) {
  KvCacheOptions out = options(n_blocks, 2);
  out.groups[1] = {.n_blocks = n_window_blocks, .window_tokens = 6};
  return out;
}

TEST(KvCache, OfABlockTheLongestCommonPartIsCopied) {
  KvCacheOptions o = options(20, 2);
  o.partial_reuse = true;
  KvCache cache(o);
  const KvLease a = filled(cache, "id", {0, 1, 2, 3, 10, 11, 12, 13});
  const KvLease b = filled(cache, "id", {0, 1, 2, 3, 10, 11, 20, 21});
  const std::vector<TokenId> tokens{0, 1, 2, 3, 10, 11, 20, 30, 31};
  const PrefixProbe probe = cache.probe("id", tokens);
  EXPECT_EQ(probe.n_blocks, 1U);
  EXPECT_EQ(probe.n_partial, 3U);
  EXPECT_EQ(probe.n_copied, (std::vector<std::uint32_t>{0, 0}));  // b holds the block
  KvLease lease = cache.open("id", tokens, true);
  EXPECT_EQ(lease.n_blocks(), 1U);
  EXPECT_EQ(lease.n_partial(), 3U);
  ASSERT_TRUE(cache.grow(lease, 3).ok());
  EXPECT_EQ(cache.take_copies(lease, 1),
            (std::vector<BlockCopy>{{.group = 0, .from = b.table(0)[1], .to = lease.table(0)[1]},
                                    {.group = 1, .from = b.table(1)[1], .to = lease.table(1)[1]}}));
  EXPECT_EQ(lease.n_partial(), 0U);
  EXPECT_TRUE(cache.take_copies(lease, 1).empty());
  EXPECT_EQ(cache.probe("other", tokens).n_partial, 0U);
  EXPECT_EQ(cache.probe("id", std::span(tokens).first(6)).n_partial, 1U);  // one is left to compute
  EXPECT_EQ(cache.open("id", tokens, true, {}, false).n_partial(), 0U);
  EXPECT_EQ(cache.check(), "");
}

TEST(KvCache, WhatIsToBeCopiedStaysUntilTheStepHasRun) {
  KvCacheOptions o = options(2);
  o.partial_reuse = true;
  KvCache cache(o);
  filled(cache, "id", {0, 1, 2, 3}).reset();
  KvLease lease = cache.open("id", std::vector<TokenId>{0, 1, 9}, true);
  EXPECT_EQ(cache.available(0), 1U);
  ASSERT_TRUE(cache.grow(lease, 1).ok());
  EXPECT_EQ(cache.take_copies(lease, 7).size(), 1U);
  EXPECT_EQ(cache.counts(0), (BlockCounts{.total = 2, .leased = 1, .retiring = 1}));
  cache.retire(7);
  EXPECT_EQ(cache.counts(0), (BlockCounts{.total = 2, .cached = 1, .leased = 1}));
}

TEST(KvCache, AForkSharesWholeBlocksAndCopiesThePart) {
  KvCache cache(options(9));
  KvLease lease = filled(cache, "id", iota_tokens(10));
  KvLease child = cache.fork(lease, 10);
  EXPECT_EQ(child.n_blocks(), 2U);
  EXPECT_EQ(child.n_partial(), 2U);
  EXPECT_EQ(cache.counts(0).leased, 3U);
  ASSERT_TRUE(cache.grow(child, 3).ok());
  EXPECT_EQ(cache.take_copies(child, 1),
            (std::vector<BlockCopy>{{.from = lease.table(0)[2], .to = child.table(0)[2]}}));
  EXPECT_NE(child.table(0)[2], lease.table(0)[2]);
  lease.reset();
  EXPECT_EQ(cache.counts(0), (BlockCounts{.total = 9, .free = 5, .leased = 3, .retiring = 1}));
  KvLease whole = cache.fork(child, 8);
  EXPECT_EQ(whole.n_blocks(), 2U);
  EXPECT_EQ(whole.n_partial(), 0U);
  EXPECT_EQ(cache.check(), "");
}

// The examples of TensorRT-LLM's tests: blocks of 64 tokens.
TEST(KvCache, ABlockTakesTheRangeOfItsFirstToken) {
  const auto priorities = [](const Retention& retention, std::uint32_t n_prompt, std::uint32_t n) {
    const RetentionRule rule{.retention = &retention, .n_prompt = n_prompt};
    std::vector<std::uint32_t> out;
    for (std::uint32_t p = 0; p < n; p += 64)
      out.push_back(rule.at(p).value_or(BlockRetention{}).priority);
    return out;
  };
  using Priorities = std::vector<std::uint32_t>;
  EXPECT_EQ(priorities({.ranges = {{.token_begin = 0, .token_end = 64, .priority = 80},
                                   {.token_begin = 64, .token_end = 128, .priority = 50}}},
                       256,
                       256),
            (Priorities{80, 50, 35, 35}));
  EXPECT_EQ(
      priorities({.ranges = {{.token_begin = 127, .token_end = 193, .priority = 80}}}, 256, 256),
      (Priorities{35, 35, 80, 80}));
  EXPECT_EQ(priorities({.ranges = {{.token_begin = 1, .priority = 80}}}, 128, 128),
            (Priorities{35, 80}));
  EXPECT_EQ(priorities({.ranges = {{.priority = 80}}, .decode_priority = 10}, 65, 256),
            (Priorities{80, 80, 10, 10}));
}

std::vector<TokenId> one_block(TokenId first) {
  return iota_tokens(4, first);
}

TEST(KvCache, TheLowestPriorityIsEvictedFirstThenTheLongestUnused) {
  for (const std::uint32_t window : {0U, 3U}) {
    KvCacheOptions o = options(5);
    o.groups[0].window_tokens = window;
    KvCache cache(o);
    const auto cached = [&](TokenId first, std::uint32_t priority) {
      const Retention retention{.ranges = {{.priority = priority}}};
      KvLease lease = cache.open("id", {}, true);
      ASSERT_TRUE(cache.grow(lease, 1).ok());
      cache.publish(lease, one_block(first), {.retention = &retention, .n_prompt = 4});
    };
    cached(10, 100);
    cached(20, 0);
    cached(30, 80);
    cached(40, 35);
    cached(50, 80);
    std::vector<TokenId> left{10, 20, 30, 40, 50};
    std::vector<KvLease> takers;
    for (const TokenId expected : {20, 40, 30, 50, 10}) {
      takers.push_back(cache.open("other", {}, false));
      ASSERT_TRUE(cache.grow(takers.back(), 1).ok());
      ASSERT_EQ(cache.check(), "");
      std::vector<TokenId> gone;
      for (const TokenId first : left) {
        if (cache.probe("id", iota_tokens(5, first)).n_blocks == 0) gone.push_back(first);
      }
      EXPECT_EQ(gone, std::vector<TokenId>{expected});
      std::erase(left, expected);
    }
  }
}

TEST(KvCache, APriorityEndsSoLongAfterTheLastUse) {
  using std::chrono::milliseconds;
  for (const std::uint32_t window : {0U, 3U}) {
    SCOPED_TRACE(window);
    KvCacheOptions o = options(2);
    o.groups[0].window_tokens = window;
    KvCache cache(o);
    const TimePoint begin{std::chrono::hours(1)};
    cache.advance(begin);
    const Retention kept{.ranges = {{.priority = 90, .duration = milliseconds(50)}}};
    const RetentionRule rule{.retention = &kept, .n_prompt = 5};
    const auto use = [&] {
      KvLease lease = cache.open("id", iota_tokens(5), true, {}, true, rule);
      EXPECT_TRUE(cache.grow(lease, 1).ok());
      cache.publish(lease, one_block(0), rule);
    };
    use();
    cache.advance(begin + milliseconds(40));
    use();  // it counts anew
    filled(cache, "id", one_block(20)).reset();
    cache.advance(begin + milliseconds(89));
    {
      KvLease lease = cache.open("", {}, false);
      ASSERT_TRUE(cache.grow(lease, 1).ok());
    }
    EXPECT_EQ(cache.probe("id", iota_tokens(5)).n_blocks, 1U);
    EXPECT_EQ(cache.probe("id", iota_tokens(5, 20)).n_blocks, 0U);
    filled(cache, "id", one_block(20)).reset();
    cache.advance(begin + milliseconds(90));
    KvLease lease = cache.open("", {}, false);
    ASSERT_TRUE(cache.grow(lease, 1).ok());
    EXPECT_EQ(cache.probe("id", iota_tokens(5)).n_blocks, 0U);
    EXPECT_EQ(cache.probe("id", iota_tokens(5, 20)).n_blocks, 1U);
    EXPECT_EQ(cache.check(), "");
  }
}

TEST(KvCache, WindowGroupsGiveBlocksBack) {
  for (const bool prefix_caching : {false, true}) {
    KvCacheOptions o = windowed(8, 8);
    o.prefix_caching = prefix_caching;
    KvCache cache(o);
    KvLease lease = filled(cache, "id", iota_tokens(16));
    EXPECT_FALSE(cache.release_before(lease, 8, 16));  // position 8 sees 3..8
    EXPECT_FALSE(cache.release_before(lease, 9, 3));   // nothing that is not computed
    EXPECT_TRUE(cache.release_before(lease, 9, 16));   // position 9 sees 4..9
    EXPECT_EQ(lease.table(1)[0], kReleasedBlock);
    EXPECT_NE(lease.table(0)[0], kReleasedBlock);
    EXPECT_EQ(cache.counts(1).leased, 3U);
    EXPECT_EQ(cache.counts(1).cached, prefix_caching ? 1U : 0U);
    EXPECT_EQ(cache.available(1), 5U);
    EXPECT_EQ(cache.counts(0).free, 4U);
    EXPECT_EQ(cache.check(), "");
    lease.reset();
    EXPECT_EQ(cache.available(1), 8U);
    EXPECT_EQ(cache.counts(1).free, prefix_caching ? 4U : 8U);
  }
}

TEST(KvCache, WhatEveryWindowHasLeftIsNotPublished) {
  KvCacheOptions o = options(8);
  o.groups[0].window_tokens = 9;
  KvCache cache(o);
  KvLease lease = cache.open("id", {}, true);
  ASSERT_TRUE(cache.grow(lease, 6).ok());
  EXPECT_TRUE(cache.release_before(lease, 24, 24));  // blocks 0 to 3
  cache.publish(lease, iota_tokens(12));
  EXPECT_EQ(cache.check(), "");
  EXPECT_EQ(lease.n_published(), 0U);
  cache.publish(lease, iota_tokens(24));
  EXPECT_EQ(cache.check(), "");
  EXPECT_EQ(lease.n_published(), 6U);
  lease.reset();
  EXPECT_EQ(cache.counts(0).cached, 2U);
}

// A prefix of eight blocks that lies behind its window, and a lease that has taken four blocks since: those of the
// prefix that left the window last went first.
KvLease outlived_prefix(KvCache& cache) {
  KvLease first = filled(cache, "id", iota_tokens(32));
  cache.release_before(first, 32, 32);
  first.reset();
  KvLease other = cache.open("", {}, false);
  EXPECT_TRUE(cache.grow(other, 4).ok());
  return other;
}

TEST(KvCache, APrefixIsUsedUpToWhereTheWindowIsThere) {
  KvCache cache(windowed(40, 8));
  const KvLease other = outlived_prefix(cache);
  const PrefixProbe probe = cache.probe("id", iota_tokens(33));
  EXPECT_EQ(probe.n_blocks, 8U);
  EXPECT_EQ(probe.n_held, (std::vector<std::uint32_t>{8, 2}));
  EXPECT_EQ(probe.n_taken, (std::vector<std::uint32_t>{8, 2}));
  // Blocks 2 to 5 are gone: seven blocks would need the last of them, and so on.
  EXPECT_EQ(cache.probe("id", iota_tokens(30)).n_blocks, 2U);
  KvLease hit = cache.open("id", iota_tokens(33), true);
  EXPECT_EQ(hit.n_blocks(), 8U);
  EXPECT_EQ(hit.n_released(1), 6U);
  EXPECT_EQ(hit.table(1)[5], kReleasedBlock);
  EXPECT_NE(hit.table(1)[6], kReleasedBlock);
  EXPECT_EQ(cache.counts(1).leased, 6U);
  EXPECT_EQ(cache.check(), "");
}

// Six sink tokens: the first two of the blocks of four stay.
KvCacheOptions with_sinks(std::uint32_t n_blocks, std::uint32_t n_window_blocks) {
  KvCacheOptions out = windowed(n_blocks, n_window_blocks);
  out.groups[1].sink_tokens = 6;
  return out;
}

TEST(KvCache, BlocksOfSinkTokensAreNotGivenBack) {
  KvCache cache(with_sinks(20, 20));
  KvLease lease = filled(cache, "id", iota_tokens(32));
  EXPECT_FALSE(cache.release_before(lease, 13, 32));  // position 13 sees 8..13
  EXPECT_TRUE(cache.release_before(lease, 32, 32));   // position 32 sees 27..32
  EXPECT_EQ(lease.n_released(1), 4U);
  EXPECT_EQ(lease.released_end(1), 6U);
  EXPECT_EQ(lease.n_held(1, 1), 1U);
  EXPECT_EQ(lease.n_held(1, 5), 2U);
  EXPECT_EQ(lease.n_held(1, 8), 4U);
  EXPECT_EQ(cache.reclaimable(lease, 1), 4U);
  for (const std::uint32_t i : {0U, 1U, 6U, 7U}) EXPECT_NE(lease.table(1)[i], kReleasedBlock) << i;
  for (const std::uint32_t i : {2U, 5U}) EXPECT_EQ(lease.table(1)[i], kReleasedBlock) << i;
  EXPECT_EQ(cache.counts(1).leased, 4U);
  EXPECT_EQ(cache.check(), "");
  EXPECT_TRUE(cache.can_fork(lease, 32));
  EXPECT_TRUE(cache.can_fork(lease, 8));   // within what the sinks keep
  EXPECT_FALSE(cache.can_fork(lease, 9));  // position 9 sees 8 and 7: block 2 is gone
  KvLease other = cache.fork(lease, 30);
  EXPECT_EQ(other.n_released(1), 4U);
  EXPECT_EQ(other.n_partial(), 2U);
  lease.reset();
  EXPECT_EQ(cache.counts(1).leased, 4U);
  other.reset();
  EXPECT_EQ(cache.available(1), 20U);
  EXPECT_EQ(cache.check(), "");
}

TEST(KvCache, AShrunkLeaseGivesBackItsLastBlocks) {
  KvCache cache(with_sinks(20, 20));
  filled(cache, "id", iota_tokens(32)).reset();
  KvLease hold = cache.open("id", iota_tokens(33), true);
  EXPECT_EQ(hold.n_released(1), 4U);
  EXPECT_EQ(cache.counts(0).leased, 8U);
  EXPECT_EQ(cache.counts(1).leased, 4U);
  cache.shrink(hold, 7);
  EXPECT_EQ(cache.counts(0).leased, 7U);
  EXPECT_EQ(cache.counts(1).leased, 3U);
  EXPECT_EQ(cache.check(), "");
  hold.mark_used(1);
  cache.shrink(hold, 3);  // the last block of the window, and three that had left it
  EXPECT_EQ(hold.n_blocks(), 3U);
  EXPECT_EQ(hold.n_released(1), 1U);
  EXPECT_EQ(hold.n_held(1, 3), 2U);
  EXPECT_EQ(cache.reclaimable(hold, 1), 2U);
  EXPECT_EQ(cache.counts(0).retiring, 4U);
  cache.retire(1);
  EXPECT_EQ(cache.counts(0).cached, 5U);
  EXPECT_EQ(cache.probe("id", iota_tokens(33)).n_blocks, 8U) << "nothing was evicted";
  KvLease other = cache.open("", {}, false);
  ASSERT_TRUE(cache.grow(other, 17).ok());
  EXPECT_EQ(cache.counts(0).leased, 20U);
  hold.reset();
  EXPECT_EQ(cache.available(0), 3U);
  EXPECT_EQ(cache.check(), "");
}

TEST(KvCache, APrefixNeedsItsSinkTokens) {
  KvCache cache(with_sinks(40, 8));
  KvLease other = outlived_prefix(cache);
  const PrefixProbe probe = cache.probe("id", iota_tokens(33));
  EXPECT_EQ(probe.n_blocks, 8U);
  EXPECT_EQ(probe.n_held, (std::vector<std::uint32_t>{8, 4}));
  EXPECT_EQ(probe.n_taken, (std::vector<std::uint32_t>{8, 4}));
  KvLease hit = cache.open("id", iota_tokens(33), true);
  EXPECT_EQ(hit.n_blocks(), 8U);
  EXPECT_EQ(hit.n_released(1), 4U);
  EXPECT_NE(hit.table(1)[1], kReleasedBlock);
  EXPECT_EQ(hit.table(1)[2], kReleasedBlock);
  hit.reset();
  // The window's two, then the second of the sinks: with it the whole prefix but for its first block is lost.
  ASSERT_TRUE(cache.grow(other, 7).ok());
  EXPECT_EQ(cache.probe("id", iota_tokens(33)).n_blocks, 1U);
  EXPECT_EQ(cache.check(), "");
}

TEST(KvCache, WhatIsComputedAgainFillsTheHolesOfAPrefix) {
  KvCache cache(windowed(40, 8));
  filled(cache, "id", iota_tokens(16)).reset();
  KvLease other = cache.open("", {}, false);
  ASSERT_TRUE(cache.grow(other, 7).ok());  // the window's blocks 3, 2 and 1
  other.reset();
  EXPECT_EQ(cache.probe("id", iota_tokens(17)).n_blocks, 1U);
  KvLease again = filled(cache, "id", iota_tokens(16));
  EXPECT_EQ(again.n_published(), 4U);
  EXPECT_EQ(cache.probe("id", iota_tokens(17)).n_blocks, 4U);
  // Now that two sequences had them, they leave the window as any other.
  cache.release_before(again, 16, 16);
  again.reset();
  EXPECT_EQ(cache.counts(1).cached, 4U);
  EXPECT_EQ(cache.check(), "");
}

TEST(KvCache, ABlockOfAWindowGroupOutlivesItsNode) {
  KvCache cache(windowed(6, 8));
  const auto tokens = iota_tokens(8);
  KvLease a = cache.open("id", tokens, true);
  KvLease b = cache.open("id", tokens, true);
  ASSERT_TRUE(cache.grow(a, 2).ok() && cache.grow(b, 2).ok());
  cache.publish(a, tokens);
  a.reset();
  KvLease c = cache.open("", {}, false);
  ASSERT_TRUE(cache.grow(c, 1).ok());  // two were free
  c.reset();
  KvLease d = cache.open("id", iota_tokens(9), true);
  ASSERT_EQ(d.n_blocks(), 2U);
  EXPECT_FALSE(cache.grow(d, 5).ok());
  d.reset();
  ASSERT_TRUE(cache.grow(c = cache.open("", {}, false), 4).ok());  // evicts both nodes
  EXPECT_EQ(cache.probe("id", iota_tokens(9)).n_blocks, 0U);
  EXPECT_EQ(cache.counts(1).cached, 0U);
  EXPECT_EQ(cache.check(), "");
  cache.publish(b, tokens);
  EXPECT_EQ(cache.probe("id", iota_tokens(9)).n_blocks, 2U);
  EXPECT_EQ(cache.check(), "");
}

TEST(KvCache, WhereAllGroupsHaveWindowsTheIndexIsBoundedAllTheSame) {
  KvCacheOptions o = options(4);
  o.groups[0].window_tokens = 4;
  KvCache cache(o);
  // One sequence that holds three blocks at once is up to 60 blocks long: more than the 32 nodes that there may be.
  KvLease lease = cache.open("id", {}, true);
  const auto tokens = iota_tokens(240);
  for (std::uint32_t end = 4; end <= 240; end += 4) {
    cache.release_before(lease, end - 4, end - 4);
    ASSERT_TRUE(cache.grow(lease, end / 4).ok());
    cache.publish(lease, std::span(tokens).first(end));
    ASSERT_EQ(cache.check(), "");
    if (end == 128) {
      EXPECT_EQ(lease.n_published(), 32U);
    }
  }
  EXPECT_EQ(lease.n_published(), 0U);
  lease.reset();
  EXPECT_EQ(cache.available(0), 4U);
  EXPECT_EQ(filled(cache, "id", iota_tokens(8, 500)).n_published(), 2U);
  EXPECT_EQ(cache.probe("id", iota_tokens(9, 500)).n_blocks, 2U);
}

}  // namespace
}  // namespace coxswain::kvcache
