// What a request says of its cached blocks, through the engine: how long they are kept, and who finds them.

#include <gtest/gtest.h>

#include "batch/stats_history.h"
#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using std::chrono::milliseconds;
using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunnerOptions;

FakeRunnerOptions fake(std::uint32_t n_blocks) {
  FakeRunnerOptions o;
  o.n_blocks = {n_blocks + 1};
  o.capabilities.moves = true;
  return o;
}

GenerationRequest request(std::uint64_t id, TokenId first, std::uint32_t n_prompt) {
  GenerationRequest r;
  r.id = RequestId{id};
  for (std::uint32_t p = 0; p < n_prompt; ++p)
    r.prompt.push_back((first + static_cast<TokenId>(p)) % 50);
  r.stopping = {.max_new_tokens = 1, .ignore_eos = true};
  return r;
}

std::uint32_t cached_tokens(CoreDriver& d, const GenerationRequest& r) {
  const auto sink = d.add(r);
  EXPECT_NE(sink, nullptr) << d.status.message();
  EXPECT_TRUE(d.run());
  return sink->final_event().n_cached_prompt_tokens;
}

TEST(CacheUse, APromptOfHighPriorityStaysForItsTime) {
  CoreDriver d(fake(8));  // room for 32 tokens
  GenerationRequest kept = request(1, 0, 12);
  kept.retention = {.ranges = {{.priority = 90, .duration = milliseconds(1000)}}};
  EXPECT_EQ(cached_tokens(d, kept), 0U);
  EXPECT_EQ(cached_tokens(d, request(2, 20, 20)), 0U);
  EXPECT_EQ(cached_tokens(d, request(3, 40, 20)), 0U);  // in the place of the second
  GenerationRequest probe = request(4, 0, 12);
  EXPECT_EQ(cached_tokens(d, probe), 11U);
  d.now += milliseconds(1100);
  EXPECT_EQ(cached_tokens(d, request(5, 20, 20)), 0U);
  EXPECT_EQ(cached_tokens(d, request(6, 30, 20)), 0U);
  probe.id = RequestId{7};
  EXPECT_EQ(cached_tokens(d, probe), 0U);
}

TEST(CacheUse, WhatIsNotToBeCachedIsNotFound) {
  for (const bool prompt : {true, false}) {
    for (const bool generation : {true, false}) {
      const FakeRunnerOptions o = fake(60);
      CoreDriver d(o);
      GenerationRequest first = request(1, 0, 10);
      first.stopping.max_new_tokens = 20;
      first.cache_prompt = prompt;
      first.cache_generation = generation;
      EXPECT_EQ(cached_tokens(d, first), 0U);
      GenerationRequest next = first;
      next.id = RequestId{2};
      const auto said = expected_output(o, first).tokens;
      next.prompt.insert(next.prompt.end(), said.begin(), said.end());
      // The last token of the first is not computed, and a block that is not full is not cached.
      EXPECT_EQ(cached_tokens(d, next), !prompt ? 0U : generation ? 28U : 8U);
    }
  }
}

TEST(CacheUse, WhoEndsUpWithoutACachedBlockHoldsUpNobody) {
  CoreDriver d(fake(60));
  GenerationRequest first = request(1, 0, 40);
  first.cache_prompt = false;
  GenerationRequest second = request(2, 0, 40);
  d.add(first);
  d.add(second);
  d.turn();
  EXPECT_EQ(d.core->stats().queued, 0U);
  ASSERT_TRUE(d.run());
}

TEST(CacheUse, HitsPartialHitsAndMissesAreCounted) {
  CoreDriver d(fake(60));
  EXPECT_EQ(cached_tokens(d, request(1, 0, 12)), 0U);
  EXPECT_EQ(cached_tokens(d, request(2, 0, 12)), 11U);
  EXPECT_EQ(cached_tokens(d, request(3, 0, 13)), 12U);
  EXPECT_EQ(cached_tokens(d, request(4, 0, 30)), 12U);
  EXPECT_EQ(cached_tokens(d, request(5, 40, 30)), 0U);
  const EngineStats s = d.core->stats();
  EXPECT_EQ(s.prefix_hits, 2U);
  EXPECT_EQ(s.prefix_partial_hits, 1U);
  EXPECT_EQ(s.prefix_misses, 2U);
  EXPECT_EQ(s.cached_prompt_tokens, 35U);
  EXPECT_EQ(s.copied_prompt_tokens, 3U);
}

TEST(CacheUse, EventsAreBoundedAndALossIsCounted) {
  StatsHistory history({.kv_events_max = 2});
  EngineCore core(
      std::make_shared<testing::FakeRunner>(fake(60)),
      {},
      base::HashKey{3, 4},
      {.before_final_event = [](RequestId) {}, .runner_lost = [] {}, .observer = &history});
  const TimePoint now{std::chrono::hours(1)};
  for (std::uint64_t i = 0; i < 4; ++i) {
    core.add(
        request(i, static_cast<TokenId>(7 * i), 9), std::make_shared<testing::Recorder>(), now);
    while (core.submit_next(now)) {
    }
    while (core.n_in_flight() > 0) core.apply_oldest(core.wait_oldest(), now);
  }
  const KvEvents kept = history.take_kv_events();  // of the pool and four prompts
  EXPECT_EQ(kept.n_lost, 3U);
  ASSERT_EQ(kept.events.size(), 2U);
  EXPECT_EQ(kept.events[0].id, 4U);
  EXPECT_EQ(kept.events[1].id, 5U);
  EXPECT_EQ(kept.events[1].kind, KvEvent::Kind::kStored);
  EXPECT_EQ(kept.events[1].blocks.size(), 2U);
  EXPECT_EQ(history.take_kv_events(), KvEvents{});
}

TEST(CacheUse, ARetentionThatCannotBeIsRefused) {
  CoreDriver d(fake(60));
  GenerationRequest r = request(1, 0, 4);
  r.retention.ranges = {{.token_begin = 0, .token_end = 9}, {.token_begin = 8}};
  EXPECT_EQ(d.add(r), nullptr);
  EXPECT_EQ(d.status.field(), "retention");
  EXPECT_EQ(d.status.message(), "ranges overlap at token 8");
}

}  // namespace
}  // namespace coxswain::batch
