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

std::vector<KvEvent> of_group(std::vector<KvEvent> events, std::uint32_t group) {
  std::erase_if(events, [&](const KvEvent& event) { return event.kv_group != group; });
  return events;
}

// A level behind the cache has the first of two blocks, and later one that the cache never had.
TEST(KvCacheEvents, WhatALevelBehindTheCacheHasIsUpdatedNotRemoved) {
  KvCacheOptions o = options({{.n_blocks = 3}, {.n_blocks = 3, .window_tokens = 9}});
  o.tier_blocks = {5, 6};
  KvCache cache(o);
  auto events = cache.take_events();
  ASSERT_EQ(events.size(), 2U);
  EXPECT_EQ(events[0].tier_blocks, (std::vector<std::uint32_t>{5, 6}));
  const std::vector<TokenId> tokens{1, 2, 3, 4, 5, 6};
  const std::vector<std::uint64_t> hashes = cache.event_hashes("id", tokens);
  {
    KvLease lease = cache.open("id", {}, true);
    compute(cache, lease, {1, 2, 3, 4});
  }
  events = of_group(cache.take_events(), 0);
  ASSERT_EQ(events.size(), 1U);
  EXPECT_EQ(events[0].parent, hashes[0]);
  EXPECT_EQ(events[0].blocks[0].hash, hashes[1]);
  EXPECT_EQ(events[0].blocks[1].hash, hashes[2]);

  cache.note_tier({.hash = hashes[1], .parent = hashes[0], .groups = 1, .level = 2});
  EXPECT_FALSE(cache.has_events()) << "the cache has it, too";
  {
    KvLease all = cache.open("id", {}, false);
    ASSERT_TRUE(cache.grow(all, 3).ok());
  }
  events = cache.take_events();
  const auto full = of_group(events, 0);
  ASSERT_EQ(full.size(), 2U);
  EXPECT_EQ(full[0], (KvEvent{.kind = Kind::kRemoved, .blocks = {{.hash = hashes[2]}}}));
  const KvEventBlock demoted{
      .hash = hashes[1], .priority = 35, .priority_before = 35, .cache_level = 2};
  EXPECT_EQ(full[1], (KvEvent{.kind = Kind::kUpdated, .blocks = {demoted}}));
  for (const KvEvent& event : of_group(events, 1)) EXPECT_EQ(event.kind, Kind::kRemoved);

  const std::vector<TokenId> third{5, 6};
  const KvEventBlock stored{.hash = hashes[3], .tokens = third, .priority = 50, .cache_level = 1};
  cache.note_tier({.hash = hashes[3],
                   .parent = hashes[2],
                   .tokens = third,
                   .priority = 50,
                   .groups = 1,
                   .level = 1});
  cache.note_tier({.hash = hashes[1], .groups = 1, .level = 1});
  {
    KvLease lease = cache.open("id", {}, true);
    compute(cache, lease, {1, 2});
  }
  cache.note_tier({.hash = hashes[3]});
  events = of_group(cache.take_events(), 0);
  ASSERT_EQ(events.size(), 3U);
  EXPECT_EQ(events[0], (KvEvent{.kind = Kind::kStored, .parent = hashes[2], .blocks = {stored}}));
  ASSERT_EQ(events[1].blocks.size(), 2U);
  EXPECT_EQ(events[1].blocks[0].cache_level, 1U);
  EXPECT_EQ(events[1].blocks[0].cache_level_before, 2U);
  EXPECT_EQ(events[1].blocks[1].cache_level, 0U);
  EXPECT_EQ(events[1].blocks[1].cache_level_before, 1U);
  EXPECT_EQ(events[2], (KvEvent{.kind = Kind::kRemoved, .blocks = {{.hash = hashes[3]}}}));
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
