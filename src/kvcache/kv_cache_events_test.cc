#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "kvcache/kv_cache.h"

namespace coxswain::kvcache {
namespace {

using Kind = KvEvent::Kind;

KvCacheOptions options(const std::vector<KvGroupOptions>& groups, std::uint64_t key = 1) {
  return {.block_tokens = 2, .groups = groups, .events = true, .hash_key = {key, 2}};
}

void compute(KvCache& cache,
             KvLease& lease,
             const std::vector<TokenId>& tokens,
             const RetentionRule& rule = {}) {
  ASSERT_TRUE(cache.grow(lease, cache.blocks_for(static_cast<std::uint32_t>(tokens.size()))).ok());
  cache.publish(lease, tokens, rule);
}

TEST(KvCacheEvents, TellOfAChainAndItsEnd) {
  KvCache cache(options({{.n_blocks = 3}, {.n_blocks = 4}}));
  auto events = cache.take_events();
  ASSERT_EQ(events.size(), 1U);  // both groups as one
  EXPECT_EQ(events[0], (KvEvent{.kind = Kind::kCreated, .n_blocks = 3}));
  {
    KvLease lease = cache.open("id", {}, true);
    compute(cache, lease, {1, 2, 3, 4, 5});
  }
  events = cache.take_events();
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].kind, Kind::kStored);
  ASSERT_EQ(events[0].blocks.size(), 2U);
  const KvEventBlock first = events[0].blocks[0];
  const KvEventBlock second = events[0].blocks[1];
  EXPECT_EQ(first.tokens, (std::vector<TokenId>{1, 2}));
  EXPECT_EQ(second.tokens, (std::vector<TokenId>{3, 4}));
  EXPECT_EQ(first.priority, kRetentionPriorityDefault);
  EXPECT_NE(first.hash, second.hash);

  // A cache with another key, as that of another process: the same hashes.
  KvCache other(options({{.n_blocks = 9}}, 7));
  KvLease twin = other.open("id", {}, true);
  compute(other, twin, {1, 2});
  compute(other, twin, {1, 2, 3, 4});
  events = other.take_events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[1].blocks, (std::vector<KvEventBlock>{first, second}));

  const Retention retention{.ranges = {{.priority = 80}}};
  const RetentionRule rule{.retention = &retention, .n_prompt = 4};
  KvLease lease = cache.open("id", std::vector<TokenId>{1, 2, 9}, true, {}, true, rule);
  compute(cache, lease, {1, 2, 9, 9}, rule);
  KvLease all = cache.open("id", {}, false);
  ASSERT_TRUE(cache.grow(all, 1).ok());
  events = cache.take_events();
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0],
            (KvEvent{.kind = Kind::kUpdated,
                     .blocks = {{.hash = first.hash, .priority = 80, .priority_before = 35}}}));
  EXPECT_EQ(events[1].kind, Kind::kStored);
  EXPECT_EQ(events[1].parent, first.hash);
  EXPECT_EQ(events[1].blocks.at(0).priority, 80U);
  EXPECT_EQ(events[2], (KvEvent{.kind = Kind::kRemoved, .blocks = {{.hash = second.hash}}}));
}

TEST(KvCacheEvents, AreNotMadeUnlessWanted) {
  KvCacheOptions o = options({{.n_blocks = 3}});
  o.events = false;
  KvCache cache(o);
  KvLease lease = cache.open("id", {}, true);
  compute(cache, lease, {1, 2, 3, 4});
  EXPECT_FALSE(cache.has_events());
}

// What a consumer knows of one group.
struct Mirror {
  std::map<std::uint64_t, KvEventBlock> held;
  std::size_t n_removed = 0;

  void follow(const KvEvent& event) {
    for (const KvEventBlock& block : event.blocks) {
      if (event.kind == Kind::kStored) {
        EXPECT_TRUE(held.emplace(block.hash, block).second) << "stored twice";
      } else if (event.kind == Kind::kRemoved) {
        EXPECT_EQ(held.erase(block.hash), 1U);
        ++n_removed;
      } else {
        EXPECT_EQ(held.at(block.hash).priority, block.priority_before);
        held.at(block.hash).priority = block.priority;
      }
    }
  }
};

// Who follows the events knows which prefixes there are.
TEST(KvCacheEvents, AMirrorIsTheCache) {
  for (const std::vector<KvGroupOptions>& groups : std::vector<std::vector<KvGroupOptions>>{
           {{.n_blocks = 9}},
           {{.n_blocks = 9}, {.n_blocks = 7, .window_tokens = 3}},
           {{.n_blocks = 8, .window_tokens = 3}}}) {
    KvCache cache(options(groups));
    std::mt19937_64 rng(groups.size());
    std::vector<Mirror> mirrors(groups.size());
    for (int i = 0; i < 3'000; ++i) {
      std::vector<TokenId> tokens(1 + rng() % 9);
      for (TokenId& token : tokens) token = static_cast<TokenId>(rng() % 2);
      Retention retention;
      if (rng() % 3 == 0)
        retention.ranges = {{.priority = static_cast<std::uint32_t>(rng() % 101)}};
      const RetentionRule rule{.retention = &retention, .n_prompt = 9};
      KvLease lease = cache.open("id", tokens, true, {}, true, rule);
      compute(cache, lease, tokens, rule);
      lease.reset();
      for (const KvEvent& event : cache.take_events()) mirrors[event.kv_group].follow(event);
      for (std::size_t g = 0; g < groups.size(); ++g)
        ASSERT_EQ(cache.counts(g).cached, mirrors[g].held.size());
    }
    EXPECT_GT(mirrors[0].n_removed, 100U);
  }
}

}  // namespace
}  // namespace coxswain::kvcache
