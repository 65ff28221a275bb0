// Scenarios with a known number of iterations: who runs when, who is paused and who comes back.

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunnerOptions;
using testing::Recorder;

// Not a power of two: the accounting does not mind, and iterations are easy to count.
constexpr std::uint32_t kBlock = 10;

// A cache of n_blocks blocks under a runner that takes one plan at a time.
FakeRunnerOptions cache_of(std::uint32_t n_blocks) {
  FakeRunnerOptions o;
  o.block_tokens = kBlock;
  o.n_blocks = {n_blocks + 1};
  o.capabilities.look_ahead = false;
  return o;
}

EngineOptions policy(CapacityPolicy p) {
  EngineOptions o;
  o.policy = p;
  o.prefix_caching = false;
  o.overtakes_max = 1;
  return o;
}

// Prompt of one block, nine blocks in all by the end: 10 + 80 - 1 positions.
GenerationRequest one_block_prompt(std::uint64_t id, std::int32_t priority = 0) {
  GenerationRequest r;
  r.id = RequestId{id};
  for (std::uint32_t i = 0; i < kBlock; ++i) r.prompt.push_back(static_cast<TokenId>(id + i));
  r.stopping.max_new_tokens = 80;
  r.priority = priority;
  return r;
}

int steps_until_done(CoreDriver& d, const Recorder& sink) {
  while (!sink.done()) d.turn();
  return d.n_steps;
}

TEST(Golden, BothRunTogetherWhereBothFit) {
  for (const auto p : {CapacityPolicy::kMaxUtilization,
                       CapacityPolicy::kGuaranteedNoEvict,
                       CapacityPolicy::kStaticBatch,
                       CapacityPolicy::kAdaptive}) {
    CoreDriver d(cache_of(20), policy(p));
    auto a = d.add(one_block_prompt(0));
    auto b = d.add(one_block_prompt(1));
    EXPECT_EQ(steps_until_done(d, *a), 80);
    EXPECT_TRUE(b->done());
    EXPECT_EQ(d.core->stats().pauses, 0U);
  }
}

// With ten blocks both hold five when they have 50 positions, that is 41 tokens each. The next
// position needs a sixth.
TEST(Golden, MaxUtilizationPausesTheNewestAndResumesItAfterTheOther) {
  CoreDriver d(cache_of(10), policy(CapacityPolicy::kMaxUtilization));
  const auto request = one_block_prompt(1);
  auto a = d.add(one_block_prompt(0));
  auto b = d.add(request);
  while (d.core->stats().pauses == 0) d.turn();
  EXPECT_EQ(d.n_steps, 42);  // in iteration 41, counted from 0
  EXPECT_EQ(b->tokens().size(), 41U);
  EXPECT_EQ(d.core->stats().queued_tokens, 51U);  // of b
  EXPECT_EQ(steps_until_done(d, *a), 80);
  EXPECT_EQ(b->tokens().size(), 41U);
  EXPECT_EQ(steps_until_done(d, *b), 119);
  EXPECT_EQ(d.core->stats().queued_tokens, 0U);
  EXPECT_EQ(d.core->stats().pauses, 1U);
  b->expect_complete(expected_output(cache_of(10), request), false);
}

// The adaptive policy reserves it, too, while nothing has finished.
TEST(Golden, WhoReservesTheAnswerRunsOneAfterTheOther) {
  for (const auto p : {CapacityPolicy::kGuaranteedNoEvict,
                       CapacityPolicy::kStaticBatch,
                       CapacityPolicy::kAdaptive}) {
    CoreDriver d(cache_of(10), policy(p));
    auto a = d.add(one_block_prompt(0));
    auto b = d.add(one_block_prompt(1));
    EXPECT_EQ(steps_until_done(d, *a), 80);
    EXPECT_EQ(b->tokens().size(), 0U);
    EXPECT_EQ(steps_until_done(d, *b), 160);
    EXPECT_EQ(d.core->stats().pauses, 0U);
  }
}

// Two of three fit. The place of the second one, which ends early, stays empty.
TEST(Golden, AStaticBatchTakesNobodyIn) {
  CoreDriver d(cache_of(20), policy(CapacityPolicy::kStaticBatch));
  auto a = d.add(one_block_prompt(0));
  auto brief = one_block_prompt(1);
  brief.stopping.max_new_tokens = 40;
  auto b = d.add(brief);
  auto c = d.add(one_block_prompt(2));
  EXPECT_EQ(steps_until_done(d, *b), 40);
  EXPECT_EQ(steps_until_done(d, *a), 80);
  EXPECT_EQ(c->tokens().size(), 0U);
  EXPECT_EQ(steps_until_done(d, *c), 160);
}

// A budget of one prompt a step: the first waits until the others of its batch have their first token, too. Who comes
// while they decode begins behind the last of them.
TEST(Golden, AStaticBatchDecodesTogether) {
  for (const bool chunks : {true, false}) {
    for (const bool selects : {true, false}) {
      FakeRunnerOptions fake = cache_of(40);
      fake.capabilities.plans_chunks = chunks;
      fake.capabilities.selects_rows = selects;
      EngineOptions o = policy(CapacityPolicy::kStaticBatch);
      o.prefill_tokens_max = kBlock;
      CoreDriver d(fake, o);
      std::vector<std::shared_ptr<Recorder>> sinks;
      for (std::uint64_t id = 0; id < 3; ++id) {
        auto r = one_block_prompt(id);
        r.stopping.max_new_tokens = 5;
        sinks.push_back(d.add(r));
      }
      for (std::size_t i = 0; i < 3; ++i) {
        d.turn();
        EXPECT_EQ(sinks[i]->tokens().size(), 1U);
      }
      d.turn();
      auto late = d.add(one_block_prompt(7));
      for (const auto& sink : sinks) EXPECT_EQ(sink->tokens().size(), 2U);
      EXPECT_EQ(steps_until_done(d, *sinks[2]), 7);
      EXPECT_TRUE(sinks[0]->done() && sinks[1]->done());
      EXPECT_EQ(late->tokens().size(), 0U);
      EXPECT_EQ(steps_until_done(d, *late), 87);
    }
  }
}

// Two of low priority start; two of higher priority arrive at iteration 10. Prompts of one block of
// ten, 80 new tokens, ten blocks: four sequences have room for two blocks each, two for five, one
// for all it needs.
TEST(Golden, PrioritiesDecideWhoIsPausedAndWhoComesBack) {
  CoreDriver d(cache_of(10), policy(CapacityPolicy::kMaxUtilization));
  auto r0 = d.add(one_block_prompt(0, 5));
  auto r1 = d.add(one_block_prompt(1, 5));
  std::shared_ptr<Recorder> r2;
  std::shared_ptr<Recorder> r3;
  std::vector<int> paused_at;
  std::vector<std::pair<int, int>> done_at;
  std::vector<bool> seen(4);
  while (d.n_steps < 10 || d.core->n_sequences() > 0) {
    if (d.n_steps == 10 && !r2) {
      r2 = d.add(one_block_prompt(2, 6));
      r3 = d.add(one_block_prompt(3, 7));
    }
    const auto pauses = d.core->stats().pauses;
    d.turn();
    if (d.core->stats().pauses > pauses) paused_at.push_back(d.n_steps - 1);
    const std::shared_ptr<Recorder> all[] = {r0, r1, r2, r3};
    for (int i = 0; i < 4; ++i) {
      if (all[i] && all[i]->done() && !seen[static_cast<std::size_t>(i)]) {
        seen[static_cast<std::size_t>(i)] = true;
        done_at.emplace_back(i, d.n_steps);
      }
    }
  }
  EXPECT_EQ(paused_at, (std::vector<int>{21, 31, 51, 139}));
  EXPECT_EQ(done_at, (std::vector<std::pair<int, int>>{{3, 90}, {2, 129}, {0, 178}, {1, 227}}));
}

// A static batch computes equal prompts at the same time: nobody could join later.
TEST(Golden, EqualPromptsOfAStaticBatchBeginTogether) {
  EngineOptions o = policy(CapacityPolicy::kStaticBatch);
  o.prefix_caching = true;
  CoreDriver d(cache_of(20), o);
  std::vector<std::shared_ptr<Recorder>> sinks;
  for (std::uint64_t id = 0; id < 3; ++id) {
    auto r = one_block_prompt(7);
    r.id = RequestId{id};
    r.prompt.resize(2 * kBlock + 1, 3);
    r.stopping.max_new_tokens = 2;
    sinks.push_back(d.add(r));
  }
  d.turn();
  d.turn();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->done());
  EXPECT_EQ(d.core->stats().cached_prompt_tokens, 0U);
}

// The first computes the prompt; the others wait one step and take its two whole blocks from the cache.
TEST(Golden, EqualPromptsAreComputedOnce) {
  EngineOptions o = policy(CapacityPolicy::kMaxUtilization);
  o.prefix_caching = true;
  CoreDriver d(cache_of(20), o);
  std::vector<std::shared_ptr<Recorder>> sinks;
  for (std::uint64_t id = 0; id < 3; ++id) {
    auto r = one_block_prompt(7);
    r.id = RequestId{id};
    r.prompt.resize(2 * kBlock + 1, 3);
    r.stopping.max_new_tokens = 2;
    sinks.push_back(d.add(r));
  }
  d.turn();
  EXPECT_EQ(sinks[0]->tokens().size(), 1U);
  EXPECT_EQ(sinks[1]->tokens().size(), 0U);
  d.turn();
  d.turn();
  for (const auto& sink : sinks) EXPECT_TRUE(sink->done());
  EXPECT_EQ(d.n_steps, 3);
  EXPECT_EQ(d.core->stats().cached_prompt_tokens, 4U * kBlock);
}

// With ten draft tokens, none of which is ever right, the blocks for them are wanted ten positions earlier.
TEST(Golden, RoomForDraftsMakesAPauseEarlier) {
  FakeRunnerOptions fake = cache_of(10);
  fake.capabilities.draft_tokens_max = 10;
  fake.drafts_in_vain = true;
  CoreDriver d(fake, policy(CapacityPolicy::kMaxUtilization));
  const auto request = one_block_prompt(1);
  auto a = d.add(one_block_prompt(0));
  auto b = d.add(request);
  while (d.core->stats().pauses == 0) d.turn();
  EXPECT_EQ(d.n_steps, 32);  // in iteration 31, counted from 0
  EXPECT_EQ(steps_until_done(d, *a), 80);
  EXPECT_EQ(b->tokens().size(), 31U);
  EXPECT_EQ(steps_until_done(d, *b), 129);
  EXPECT_EQ(d.core->stats().pauses, 1U);
  b->expect_complete(expected_output(fake, request), false);
}

// Requests 0 and 2 have one adapter, request 1 another.
std::vector<std::shared_ptr<Recorder>> add_with_adapters(CoreDriver& d, std::uint32_t pages) {
  std::vector<std::shared_ptr<Recorder>> sinks;
  for (const std::uint64_t id : {0U, 1U, 2U}) {
    GenerationRequest r = one_block_prompt(id);
    r.stopping.max_new_tokens = 50;
    r.adapter_digest = id == 1 ? "b" : "a";
    r.adapter_pages = pages;
    sinks.push_back(d.add(r));
  }
  return sinks;
}

FakeRunnerOptions with_adapter_pages(std::uint32_t n) {
  FakeRunnerOptions out = cache_of(30);
  out.about.adapter_pages = n;
  return out;
}

TEST(Golden, AnAdapterTakesItsPagesOnce) {
  for (const auto p : {CapacityPolicy::kMaxUtilization,
                       CapacityPolicy::kGuaranteedNoEvict,
                       CapacityPolicy::kStaticBatch,
                       CapacityPolicy::kAdaptive}) {
    CoreDriver d(with_adapter_pages(30), policy(p));
    for (const auto& sink : add_with_adapters(d, 15)) EXPECT_EQ(steps_until_done(d, *sink), 50);
  }
}

// Only one of the two fits. TensorRT-LLM lets others pass who waits for pages, but under MAX_UTILIZATION; here that is
// a question of overtaking alone.
TEST(Golden, WhoWaitsForPagesOfAdaptersIsPassed) {
  for (const auto p : {CapacityPolicy::kMaxUtilization,
                       CapacityPolicy::kGuaranteedNoEvict,
                       CapacityPolicy::kStaticBatch,
                       CapacityPolicy::kAdaptive}) {
    for (const std::uint32_t overtakes_max : {0U, 1U}) {
      EngineOptions o = policy(p);
      o.overtakes_max = overtakes_max;
      CoreDriver d(with_adapter_pages(30), o);
      const auto sinks = add_with_adapters(d, 20);
      EXPECT_EQ(steps_until_done(d, *sinks[0]), 50);
      EXPECT_EQ(sinks[2]->done(), overtakes_max == 1);
      EXPECT_EQ(steps_until_done(d, *sinks[1]), 100);
      EXPECT_EQ(steps_until_done(d, *sinks[2]), overtakes_max == 1 ? 100 : 150);
    }
  }
}

// Two places in the batch. Two of higher priority come at iteration 2 and have them until they are done.
TEST(Golden, PrioritiesAboveTheActiveLimit) {
  EngineOptions o = policy(CapacityPolicy::kMaxUtilization);
  o.batch_size_max = 2;
  o.overtakes_max = 32;
  CoreDriver d(cache_of(10), o);
  std::vector<std::shared_ptr<Recorder>> sinks;
  const auto add = [&](std::uint64_t id, std::int32_t priority) {
    auto r = one_block_prompt(id, priority);
    r.stopping.max_new_tokens = 10;
    sinks.push_back(d.add(r));
  };
  add(0, 5);
  add(1, 5);
  d.turn();
  d.turn();
  add(2, 6);
  add(3, 7);
  EXPECT_EQ(steps_until_done(d, *sinks[2]), 12);
  EXPECT_TRUE(sinks[3]->done());
  EXPECT_EQ(sinks[0]->tokens().size(), 2U);
  EXPECT_EQ(steps_until_done(d, *sinks[1]), 20);
  EXPECT_TRUE(sinks[0]->done());
}

// Chunks of 20: the second of two equal prompts of 50 begins as soon as the four whole blocks are there that it can
// use. That is while the last ten tokens of the first are computed: 42 steps. TensorRT-LLM takes 43, because it shares
// the blocks of a prompt when all of it is computed.
TEST(Golden, EqualPromptsInChunksAreComputedOnce) {
  for (const auto p : {CapacityPolicy::kMaxUtilization, CapacityPolicy::kGuaranteedNoEvict}) {
    EngineOptions o = policy(p);
    o.prefix_caching = true;
    o.chunk_tokens_max = 20;
    CoreDriver d(cache_of(20), o);
    std::vector<std::shared_ptr<Recorder>> sinks;
    for (std::uint64_t id = 0; id < 2; ++id) {
      GenerationRequest r = one_block_prompt(0);
      r.id = RequestId{id};
      for (TokenId t = 10; t < 50; ++t) r.prompt.push_back(t);
      r.stopping.max_new_tokens = 40;
      sinks.push_back(d.add(r));
    }
    d.turn();
    d.turn();
    EXPECT_EQ(d.core->stats().cached_prompt_tokens, 0U);
    EXPECT_EQ(steps_until_done(d, *sinks[0]), 42);
    EXPECT_TRUE(sinks[1]->done());
    EXPECT_EQ(d.core->stats().cached_prompt_tokens, 4U * kBlock);
  }
}

// Two prompts of their own, and three of 11, 21 and 31 tokens that begin alike: each waits for the one before it.
TEST(Golden, FivePromptsOfWhichThreeBeginAlike) {
  for (const auto p : {CapacityPolicy::kMaxUtilization, CapacityPolicy::kGuaranteedNoEvict}) {
    EngineOptions o = policy(p);
    o.prefix_caching = true;
    CoreDriver d(cache_of(100), o);
    std::vector<std::shared_ptr<Recorder>> sinks;
    const auto add = [&](TokenId first, TokenId n_prompt) {
      GenerationRequest r = one_block_prompt(sinks.size());
      r.prompt.clear();
      for (TokenId i = 0; i < n_prompt; ++i) r.prompt.push_back(first + i);
      sinks.push_back(d.add(r));
    };
    add(1, 11);
    add(2, 21);
    for (const TokenId n_prompt : {11, 21, 31}) add(0, n_prompt);
    EXPECT_EQ(steps_until_done(d, *sinks[2]), 80);
    EXPECT_TRUE(sinks[0]->done() && sinks[1]->done());
    EXPECT_EQ(steps_until_done(d, *sinks[3]), 81);
    EXPECT_EQ(steps_until_done(d, *sinks[4]), 82);
    EXPECT_EQ(d.core->stats().cached_prompt_tokens, 3U * kBlock);
  }
}

// Eight tokens a step, prompts of twelve: chunks are whole blocks, the rest of the step goes to the next prompt.
TEST(Golden, ChunksAreWholeBlocksAndDecodesComeFirst) {
  FakeRunnerOptions o = cache_of(20);
  o.block_tokens = 4;
  EngineOptions options = policy(CapacityPolicy::kMaxUtilization);
  options.prefill_tokens_max = 8;
  options.prefill_tokens_min = 0;
  CoreDriver d(o, options);
  d.runner->keep_plans();
  for (std::uint64_t id = 0; id < 2; ++id) {
    GenerationRequest r = one_block_prompt(id);
    r.prompt.resize(12, 1);
    r.stopping.max_new_tokens = 3;
    d.add(r);
  }
  ASSERT_TRUE(d.run());
  std::vector<std::vector<std::uint32_t>> rows;
  for (const StepPlan& plan : d.runner->plans()) {
    rows.emplace_back();
    for (const Row& row : plan.rows) rows.back().push_back(row.n_tokens);
  }
  const std::vector<std::vector<std::uint32_t>> expected{{8}, {4, 4}, {1, 4}, {1, 4}, {1}, {1}, {}};
  EXPECT_EQ(rows, expected);
}

// Fourteen sequences decode, sixteen tokens a step: a prompt of 32 gets what it is promised, at least a block.
TEST(Golden, APromptMovesOnBesideManyDecodes) {
  const auto steps_of_prompt = [](std::uint32_t prefill_tokens_min) {
    FakeRunnerOptions o = cache_of(400);
    o.block_tokens = 4;
    EngineOptions options = policy(CapacityPolicy::kMaxUtilization);
    options.prefill_tokens_max = 16;
    options.prefill_tokens_min = prefill_tokens_min;
    CoreDriver d(o, options);
    std::shared_ptr<Recorder> last;
    for (std::uint64_t id = 0; id < 14; ++id) {
      GenerationRequest r = one_block_prompt(id);
      r.prompt.resize(4);
      last = d.add(r);
    }
    while (last->tokens().empty()) d.turn();
    GenerationRequest r = one_block_prompt(20);
    r.prompt.resize(32, 1);
    const auto sink = d.add(r);
    const int begin = d.n_steps;
    while (sink->tokens().empty()) d.turn();
    return d.n_steps - begin;
  };
  EXPECT_EQ(steps_of_prompt(0), 8);
  EXPECT_EQ(steps_of_prompt(8), 4);
  EXPECT_EQ(steps_of_prompt(1000), 2);  // the whole budget
}

// B computes the prompt that A has published for itself (it wants log-probabilities) and publishes
// what follows behind A's blocks. When B is short of a block, A, whose client does not read, is
// paused; but its two blocks stay pinned by what B published, so B itself must give way and come
// back, all in one pass: with no step in flight nothing would bring about another plan.
TEST(Golden, BlocksThatAPauseDoesNotBringAreFoundOutAtOnce) {
  FakeRunnerOptions cache;
  cache.block_tokens = 4;
  cache.n_blocks = {8};
  cache.capabilities.look_ahead = false;
  CoreDriver d(cache, {});
  GenerationRequest a;
  a.id = RequestId{1};
  a.prompt = {1, 2, 3, 4, 5, 6, 7, 8};
  a.stopping.max_new_tokens = 8;
  GenerationRequest b = a;
  b.id = RequestId{2};
  b.prompt.insert(b.prompt.end(), {9, 10, 11, 12, 13});
  b.stopping.max_new_tokens = 12;
  b.prompt_logprobs = true;
  auto first = d.add(a);
  ASSERT_TRUE(d.turn());
  first->set_stalled(true);
  auto second = d.add(b);
  while (!second->done()) ASSERT_TRUE(d.turn()) << "no step although one could be computed";
  EXPECT_EQ(d.core->stats().pauses, 2U);
  second->expect_complete(expected_output(cache, b), true);
  first->set_stalled(false);
  ASSERT_TRUE(d.run());
  first->expect_complete(expected_output(cache, a), false);
}

// The only place in the batch goes to the higher priority, and back; but not for ever.
TEST(Golden, ABatchSlotIsNoReasonToKeepAHigherPriorityWaiting) {
  EngineOptions o = policy(CapacityPolicy::kMaxUtilization);
  o.batch_size_max = 1;
  o.overtakes_max = 2;
  const FakeRunnerOptions cache = cache_of(40);
  CoreDriver d(cache, o);
  const auto request = one_block_prompt(0);
  auto low = d.add(request);
  for (int i = 0; i < 5; ++i) d.turn();
  for (std::uint64_t id = 1; id <= 2; ++id) {
    auto high = d.add(one_block_prompt(id, 1));
    const int n_before = d.n_steps;
    while (!high->done()) d.turn();
    EXPECT_EQ(d.n_steps - n_before, 80);
    EXPECT_EQ(d.core->stats().pauses, id);
    EXPECT_EQ(low->tokens().size(), 4 + id);  // one between the two
    d.turn();
  }
  auto third = d.add(one_block_prompt(3, 1));  // low has been overtaken twice
  while (!low->done()) d.turn();
  EXPECT_TRUE(third->tokens().empty());
  EXPECT_EQ(d.core->stats().pauses, 2U);
  low->expect_complete(expected_output(cache, request), false);
  ASSERT_TRUE(d.run());
}

TEST(Golden, ARequestIsOvertakenOnlySoOften) {
  EngineOptions o = policy(CapacityPolicy::kGuaranteedNoEvict);
  o.overtakes_max = 2;
  CoreDriver d(cache_of(10), o);
  const auto small = [](std::uint64_t id) {
    auto r = one_block_prompt(id);
    r.stopping.max_new_tokens = 9;  // two blocks
    return r;
  };
  auto first = d.add(small(0));
  auto large = d.add(one_block_prompt(1));  // nine blocks of ten: only when nothing else runs
  std::vector<std::shared_ptr<Recorder>> behind;
  for (std::uint64_t id = 2; id < 6; ++id) behind.push_back(d.add(small(id)));
  while (!large->done()) d.turn();
  EXPECT_TRUE(first->done() && behind[0]->done() && behind[1]->done());
  EXPECT_FALSE(behind[2]->done() || behind[3]->done());
  ASSERT_TRUE(d.run());
}

// Four sequences of 500 positions beside a window of 64, with prefix caching on: pools with room for what each sees,
// the rows in flight and one prompt run all four, and in use is at most a tenth more than what they see.
TEST(Golden, WindowsHoldWhatTheySeeWithPrefixCachingOn) {
  constexpr std::uint32_t kWindow = 64;
  constexpr std::uint32_t kSequences = 4;
  FakeRunnerOptions fake;
  fake.block_tokens = 4;
  fake.n_blocks = {kSequences * 125 + 1, kSequences * 19 + 2 + 1};
  fake.windows = {0, kWindow};
  EngineOptions options;
  options.policy = CapacityPolicy::kGuaranteedNoEvict;
  options.prefill_tokens_max = 8;
  CoreDriver d(fake, options);
  std::vector<std::pair<GenerationRequest, std::shared_ptr<Recorder>>> all;
  for (std::uint64_t id = 1; id <= kSequences; ++id) {
    GenerationRequest r;
    r.id = RequestId{id};
    for (std::uint64_t i = 0; i < 200; ++i)
      r.prompt.push_back(static_cast<TokenId>((i * id + id) % 50));
    r.stopping.max_new_tokens = 300;
    r.stopping.ignore_eos = true;
    all.emplace_back(r, d.add(r));
  }
  std::uint32_t n_decoding_max = 0;
  while (d.core->n_sequences() > 0) {
    ASSERT_TRUE(d.turn());
    double seen = 0;
    std::uint32_t n_decoding = 0;
    for (const auto& [request, sink] : all) {
      const std::size_t n = sink->tokens().size();
      n_decoding += n > 0 && !sink->done() ? 1 : 0;
      seen += static_cast<double>(request.prompt.size() + n + kWindow) / fake.block_tokens;
    }
    n_decoding_max = std::max(n_decoding_max, n_decoding);
    if (n_decoding < kSequences) continue;
    const EngineStats s = d.core->stats();
    EXPECT_LE(s.blocks_leased + s.blocks_retiring, 1.1 * seen);
  }
  EXPECT_EQ(n_decoding_max, kSequences);
  for (const auto& [request, sink] : all)
    sink->expect_complete(expected_output(fake, request), false);
  // What was said and answered goes on from the cache.
  GenerationRequest more = all.back().first;
  more.id = RequestId{9};
  const auto tokens = all.back().second->tokens();
  for (const OutputToken& token : tokens) more.prompt.push_back(token.id);
  more.stopping.max_new_tokens = 1;
  const auto sink = d.add(more);
  ASSERT_NE(sink, nullptr) << d.status.message();
  ASSERT_TRUE(d.run());
  sink->expect_complete(expected_output(fake, more), false);
  EXPECT_GE(sink->final_event().n_cached_prompt_tokens, 496U);
}

}  // namespace
}  // namespace coxswain::batch
