// Law 1: the tokens of a request depend on the request alone. Every run is compared with what the
// request produces by itself.

#include <gtest/gtest.h>

#include "batch/plan_size.h"
#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunnerOptions;
using testing::Recorder;
using testing::RequestMaker;

struct Case {
  const char* name;
  FakeRunnerOptions runner;
  EngineOptions engine;
  bool has_grammars = false;  // every other request
};

struct Totals {
  std::uint64_t pauses = 0;
  std::uint64_t cached_tokens = 0;
  std::uint64_t finished = 0;
  std::uint64_t steps = 0;
};

// Random requests arrive at random turns, some are cancelled; all others must come out as if alone.
void run_batch(const Case& c, std::uint64_t seed, Totals& totals) {
  RequestMaker make(seed);
  CoreDriver d(c.runner, c.engine);
  std::vector<std::pair<GenerationRequest, std::shared_ptr<Recorder>>> all;
  std::vector<bool> cancelled;
  for (int i = 0; i < 60; ++i) {
    auto request = make.make(24, 20);
    if (c.has_grammars && i % 2 == 0)
      request.sampling.grammar.bytes = std::make_shared<const std::string>("any");
    auto sink = d.add(request);
    ASSERT_NE(sink, nullptr) << d.status.message();
    all.emplace_back(request, sink);
    cancelled.push_back(false);
    for (std::uint64_t n = make.pick(4); n > 0; --n) d.turn();
    if (make.pick(6) == 0) {
      const std::size_t victim = make.pick(all.size());
      cancelled[victim] = true;
      d.core->cancel(all[victim].first.id);
    }
  }
  ASSERT_TRUE(d.run());
  d.expect_idle();
  EXPECT_TRUE(d.runner->live().empty()) << "the runner was not told what to forget";
  for (std::size_t i = 0; i < all.size(); ++i) {
    SCOPED_TRACE("request " + std::to_string(i));
    const auto& [request, sink] = all[i];
    const auto expected = expected_output(c.runner, request);
    ASSERT_TRUE(sink->done());
    if (cancelled[i] && sink->final_event().status.code() == Code::kCancelled) {
      sink->expect_beginning(expected);
    } else {
      sink->expect_complete(expected, request.prompt_logprobs);
    }
  }
  const EngineStats s = d.core->stats();
  totals.pauses += s.pauses;
  totals.cached_tokens += s.cached_prompt_tokens;
  totals.finished += s.finished;
  totals.steps += s.steps;
}

Totals run_seeds(const Case& c, int n_seeds = 25) {
  Totals totals;
  for (int seed = 1; seed <= n_seeds; ++seed) {
    SCOPED_TRACE(std::string(c.name) + ", seed " + std::to_string(seed));
    run_batch(c, static_cast<std::uint64_t>(seed), totals);
    if (::testing::Test::HasFailure()) break;
  }
  return totals;
}

FakeRunnerOptions fake(std::uint32_t n_blocks) {
  FakeRunnerOptions o;
  o.n_blocks = {n_blocks + 1};
  o.eos_every = 12;
  o.capabilities.moves = true;
  return o;
}

TEST(Invariance, AloneIsTheReference) {
  RequestMaker make(5);
  for (int i = 0; i < 50; ++i) {
    const auto request = make.make(40, 30);
    CoreDriver d(fake(64));
    auto sink = d.add(request);
    ASSERT_TRUE(d.run());
    sink->expect_complete(expected_output(fake(64), request), request.prompt_logprobs);
  }
}

TEST(Invariance, ChunkedAtEveryBudget) {
  for (const std::uint32_t budget : {1U, 4U, 8U, 12U, 20U, 24U, 4096U}) {
    Case c{.name = "chunks", .runner = fake(100), .engine = {}};
    c.engine.prefill_tokens_max = budget;
    EXPECT_GT(run_seeds(c, 8).finished, 200U);
  }
}

// All policies, with chunks and units of every kind, in a roomy cache and in a tight one.
TEST(Invariance, PoliciesAndChunks) {
  constexpr std::uint32_t kWhole = 1000;
  for (const auto policy : {CapacityPolicy::kMaxUtilization,
                            CapacityPolicy::kAdaptive,
                            CapacityPolicy::kGuaranteedNoEvict,
                            CapacityPolicy::kStaticBatch}) {
    for (const std::uint32_t unit : {0U, 8U, 100U, kWhole}) {
      for (const std::uint32_t n_blocks : {100U, 14U}) {
        Case c{.name = "policies", .runner = fake(n_blocks), .engine = {}};
        c.engine.policy = policy;
        c.engine.chunking =
            unit == kWhole ? ChunkingPolicy::kWholePrompts : ChunkingPolicy::kEqualProgress;
        c.engine.chunk_tokens_unit = unit == kWhole ? 0 : unit;
        c.engine.prefill_tokens_max = 20;
        EXPECT_GT(run_seeds(c, 4).finished, 100U);
        c.runner.n_blocks = {n_blocks + 1, 13};
        c.runner.windows = {0, 6};
        c.engine.prompts_first = true;
        EXPECT_GT(run_seeds(c, 4).finished, 100U);
        c.engine.chunking = ChunkingPolicy::kFirstComeFirstServed;
        c.engine.chunk_tokens_max = 9;
        c.engine.dynamic_batch = {
            .tunes_batch_size = true, .tunes_tokens = true, .batch_sizes = {{4, 1}, {8, 3}}};
        EXPECT_GT(run_seeds(c, 4).finished, 100U);
      }
    }
  }
}

TEST(Invariance, AfterPrefixHits) {
  Case c{.name = "prefix", .runner = fake(60), .engine = {}};
  c.engine.prefill_tokens_max = 16;
  EXPECT_GT(run_seeds(c).cached_tokens, 1000U);
  c.engine.prefix_caching = false;
  EXPECT_EQ(run_seeds(c).cached_tokens, 0U);
}

// A prompt that leaves a cached one inside a block, at every place: of that block the beginning is copied.
TEST(Invariance, AHitEndsInsideABlock) {
  for (const bool window : {false, true}) {
    for (const bool moves : {true, false}) {
      FakeRunnerOptions o = fake(60);
      o.block_tokens = 8;
      o.capabilities.moves = moves;
      if (window) {
        o.n_blocks = {60, 60};
        o.windows = {0, 5};
      }
      CoreDriver d(o);
      GenerationRequest first;
      first.id = RequestId{1};
      for (TokenId p = 0; p < 24; ++p) first.prompt.push_back(p);
      first.stopping = {.max_new_tokens = 4, .ignore_eos = true};
      d.add(first);
      ASSERT_TRUE(d.run());
      for (std::uint32_t n_alike = 16; n_alike <= 24; ++n_alike) {
        SCOPED_TRACE(n_alike);
        GenerationRequest next = first;
        next.id = RequestId{100 + n_alike};
        next.prompt.resize(n_alike);
        next.prompt.resize(30, 49);
        const auto sink = d.add(next);
        ASSERT_TRUE(d.run());
        sink->expect_complete(expected_output(o, next), false);
        const std::uint32_t cached = sink->final_event().n_cached_prompt_tokens;
        EXPECT_EQ(cached, moves ? n_alike : n_alike / 8 * 8);
      }
      // The same prompt again: only its last token is computed.
      first.id = RequestId{2};
      const auto again = d.add(first);
      ASSERT_TRUE(d.run());
      again->expect_complete(expected_output(o, first), false);
      EXPECT_EQ(again->final_event().n_cached_prompt_tokens, moves ? 23U : 16U);
    }
  }
}

// There is no room for the block and for what would be copied into it.
TEST(Invariance, APartIsNotCopiedWhereThatTakesTheLastBlock) {
  for (const std::uint32_t n_blocks : {6U, 7U}) {
    const FakeRunnerOptions o = fake(n_blocks);
    CoreDriver d(o);
    GenerationRequest r;
    r.id = RequestId{1};
    for (TokenId p = 0; p < 8; ++p) r.prompt.push_back(p);
    r.stopping = {.max_new_tokens = 1, .ignore_eos = true};
    d.add(r);
    ASSERT_TRUE(d.run());
    r.id = RequestId{2};
    r.prompt.resize(6);
    r.prompt.resize(24, 9);
    const auto sink = d.add(r);
    ASSERT_TRUE(d.run());
    sink->expect_complete(expected_output(o, r), false);
    EXPECT_EQ(sink->final_event().n_cached_prompt_tokens, n_blocks == 6 ? 4U : 6U);
  }
}

TEST(Invariance, PausedAndResumedInATinyCache) {
  for (const bool look_ahead : {true, false}) {
    for (const bool prefix : {true, false}) {
      Case c{.name = "tiny", .runner = fake(12), .engine = {}};
      c.runner.capabilities.look_ahead = look_ahead;
      c.engine.prefill_tokens_max = 8;
      c.engine.prefix_caching = prefix;
      EXPECT_GT(run_seeds(c).pauses, 100U);
    }
  }
}

// A runner that drafts, or whose grammar forces tokens: the same tokens in fewer steps, whatever the cache.
TEST(Invariance, SeveralTokensAResult) {
  for (const bool forces : {false, true}) {
    for (const std::uint32_t n_blocks : {100U, 14U}) {
      for (const bool prefix : {true, false}) {
        Case c{.name = "drafts", .runner = fake(n_blocks), .engine = {}};
        c.runner.capabilities.draft_tokens_max = 3;
        c.runner.forces_tokens = forces;
        c.engine.prefill_tokens_max = 12;
        c.engine.prefix_caching = prefix;
        const Totals drafted = run_seeds(c);
        EXPECT_EQ(drafted.pauses > 0, n_blocks == 14);
        c.runner.capabilities.draft_tokens_max = 0;
        EXPECT_LT(drafted.steps, run_seeds(c).steps);
      }
    }
  }
}

// A runner that makes no drafts: the fake refuses rows with room for them where no grammar binds the request.
TEST(Invariance, AGrammarGivesRoomForSeveralTokens) {
  for (const bool forces : {false, true}) {
    for (const std::uint32_t n_blocks : {100U, 14U}) {
      Case c{.name = "grammars", .runner = fake(n_blocks), .engine = {}, .has_grammars = true};
      c.runner.forces_tokens = forces;
      c.engine.prefill_tokens_max = 12;
      const Totals forced = run_seeds(c);
      EXPECT_EQ(forced.pauses > 0, n_blocks == 14);
      c.has_grammars = false;
      EXPECT_LT(forced.steps, run_seeds(c).steps);
    }
  }
  Case c{.name = "windows", .runner = fake(40), .engine = {}, .has_grammars = true};
  c.runner.n_blocks = {40, 30};
  c.runner.windows = {0, 6};
  c.engine.prefill_tokens_max = 8;
  EXPECT_GT(run_seeds(c).finished, 200U);
  c.runner.capabilities.look_ahead = false;
  c.engine.policy = CapacityPolicy::kGuaranteedNoEvict;
  EXPECT_EQ(run_seeds(c).pauses, 0U);
}

TEST(Invariance, SeveralTokensAResultWithoutLookAhead) {
  Case c{.name = "drafts", .runner = fake(14), .engine = {}};
  c.runner.capabilities.draft_tokens_max = 5;
  c.runner.capabilities.look_ahead = false;
  c.runner.forces_tokens = true;
  EXPECT_GT(run_seeds(c).pauses, 100U);
  c.engine.policy = CapacityPolicy::kGuaranteedNoEvict;
  EXPECT_EQ(run_seeds(c).pauses, 0U);
}

TEST(Invariance, SeveralTokensAResultInWindows) {
  Case c{.name = "drafts", .runner = fake(40), .engine = {}};
  c.runner.capabilities.draft_tokens_max = 4;
  c.runner.forces_tokens = true;
  c.runner.n_blocks = {40, 30};
  c.runner.windows = {0, 6};
  c.engine.prefill_tokens_max = 8;
  EXPECT_GT(run_seeds(c).finished, 200U);
}

// The bytes of everything that a plan carries, not of prompts alone.
TEST(Invariance, APlanHasABoundedNumberOfBytes) {
  EngineOptions options;
  options.plan_new_bytes_max = 5 * kSpecBytes;
  options.plan_rows_bytes_max = 4 * kRowBytes;
  CoreDriver d(fake(400), options);
  d.runner->keep_plans();
  std::vector<std::pair<GenerationRequest, std::shared_ptr<Recorder>>> all;
  for (std::uint64_t i = 1; i <= 20; ++i) {
    GenerationRequest request;
    request.id = RequestId{i};
    for (std::uint64_t p = 0; p < (i == 5 ? 300U : 14U); ++p)
      request.prompt.push_back(static_cast<TokenId>((p * i + i) % 50));
    request.stopping.max_new_tokens = 20;
    if (i % 3 == 0) request.stopping.stop_sequences = {std::string(900, 'x')};
    if (i % 3 == 1) request.cache_salt = std::string(1500, 's');
    if (i % 7 == 0) request.sampling.logit_bias.assign(30, {1, 0.0F});
    all.emplace_back(request, d.add(request));
    ASSERT_TRUE(all.back().second) << d.status.message();
  }
  ASSERT_TRUE(d.run());
  for (const auto& [request, sink] : all)
    sink->expect_complete(expected_output(fake(400), request), false);
  std::size_t n_introduced = 0;
  for (const StepPlan& plan : d.runner->plans()) {
    std::size_t new_bytes = 0;
    for (const SequenceSpec& spec : plan.new_sequences) {
      GenerationRequest request;
      request.sampling = spec.sampling;
      request.stopping = spec.stopping;
      request.cache_salt = spec.cache_salt;
      new_bytes += spec_bytes_max(request, spec.prompt.size() + spec.produced.size());
    }
    EXPECT_LE(new_bytes, options.plan_new_bytes_max);
    std::size_t rows_bytes = 0;
    for (const Row& row : plan.rows) rows_bytes += row_bytes_max(row);
    EXPECT_TRUE(rows_bytes <= options.plan_rows_bytes_max || plan.rows.size() == 1) << rows_bytes;
    n_introduced += plan.new_sequences.size();
  }
  EXPECT_EQ(n_introduced, all.size());
}

// Rows that are left out, among them some whose window has moved.
TEST(Invariance, RowsThatFindNoRoomInAPlanFollowInTheNext) {
  Case c{.name = "rows", .runner = fake(40), .engine = {}};
  c.runner.n_blocks = {40, 30};
  c.runner.windows = {0, 6};
  c.engine.prefix_caching = false;
  c.engine.prefill_tokens_max = 8;
  c.engine.plan_rows_bytes_max = 3 * kRowBytes;
  EXPECT_GT(run_seeds(c).finished, 200U);
}

TEST(Invariance, ARequestThatNoPlanCarriesIsRefused) {
  EngineOptions options;
  options.plan_new_bytes_max = 2000;
  CoreDriver d(fake(400), options);
  GenerationRequest request;
  request.id = RequestId{1};
  request.prompt.assign(150, 7);
  request.stopping.max_new_tokens = 45;
  EXPECT_TRUE(d.add(request));
  request.id = RequestId{2};
  request.stopping.max_new_tokens = 46;
  EXPECT_FALSE(d.add(request));
  EXPECT_EQ(d.status.message(),
            "the request takes 2004 bytes of a plan, `plan_new_bytes_max` is 2000");
  EXPECT_EQ(d.status.field(), kPromptField);
  ASSERT_TRUE(d.run());
}

TEST(Invariance, WhoReservesTheAnswerNeverPauses) {
  Case c{.name = "no evict", .runner = fake(14), .engine = {}};
  for (const auto policy : {CapacityPolicy::kGuaranteedNoEvict, CapacityPolicy::kStaticBatch}) {
    c.engine.policy = policy;
    for (const std::uint32_t budget : {1U, 4U, 12U, 4096U}) {
      c.engine.prefill_tokens_max = budget;
      EXPECT_EQ(run_seeds(c, 10).pauses, 0U);
    }
  }
}

TEST(Invariance, SeveralGroupsAndWindows) {
  Case full{.name = "two groups", .runner = fake(13), .engine = {}};
  full.runner.n_blocks = {14, 20};
  full.runner.windows = {0, 0};
  const Totals two = run_seeds(full);
  EXPECT_GT(two.pauses, 20U);
  EXPECT_GT(two.cached_tokens, 100U);
}

// Window groups, prefixes, chunks and pauses together, in pools from roomy to tight.
TEST(Invariance, WindowsAndPrefixes) {
  struct Pools {
    std::vector<std::uint32_t> n_blocks;
    std::vector<std::uint32_t> windows;
    bool pauses;
    std::uint32_t sink_tokens = 0;
  };
  for (const Pools& pools : std::vector<Pools>{{{60, 60}, {0, 6}, false},
                                               {{14, 14}, {0, 6}, true},
                                               {{14, 10}, {0, 6}, true},
                                               {{60, 10}, {0, 6}, true},
                                               {{30, 14, 12}, {0, 9, 1}, true},
                                               {{12}, {7}, true},
                                               {{40}, {7}, false},
                                               {{14, 12}, {7, 2}, true},
                                               {{60, 60}, {0, 6}, false, 3},
                                               {{60, 12}, {0, 6}, true, 5},
                                               {{30, 16, 14}, {0, 9, 1}, true, 4},
                                               {{14}, {7}, true, 9}}) {
    for (const std::uint32_t budget : {4U, 8U, 24U}) {
      SCOPED_TRACE(std::to_string(pools.n_blocks.back()) + " blocks, window " +
                   std::to_string(pools.windows.back()) + ", sink tokens " +
                   std::to_string(pools.sink_tokens) + ", budget " + std::to_string(budget));
      Case c{.name = "windows", .runner = fake(13), .engine = {}};
      c.runner.n_blocks = pools.n_blocks;
      c.runner.windows = pools.windows;
      c.runner.sink_tokens = pools.sink_tokens;
      c.engine.prefill_tokens_max = budget;
      const Totals with = run_seeds(c, 10);
      if (HasFailure()) return;
      EXPECT_GT(with.cached_tokens, 100U);
      c.engine.prefix_caching = false;
      EXPECT_EQ(run_seeds(c, 10).cached_tokens, 0U);
      if (pools.pauses) {
        EXPECT_GT(with.pauses, 5U);
      }
      c.engine.prefix_caching = true;
      c.engine.policy = CapacityPolicy::kGuaranteedNoEvict;
      EXPECT_EQ(run_seeds(c, 10).pauses, 0U);
    }
  }
}

// Rows longer than the window: what they leave behind is published all the same.
TEST(Invariance, RowsLongerThanTheWindow) {
  Case c{.name = "long rows", .runner = fake(60), .engine = {}};
  c.runner.n_blocks = {60, 60};
  c.runner.windows = {0, 6};
  EXPECT_GT(run_seeds(c).cached_tokens, 100U);
  c.runner.capabilities.plans_chunks = false;
  EXPECT_GT(run_seeds(c).cached_tokens, 100U);
}

TEST(Invariance, RopeVariantsDoNotShareBlocks) {
  for (const bool exact : {false, true}) {
    Case c{.name = "rope", .runner = fake(40), .engine = {}};
    c.runner.rope_switch_length = 24;
    c.runner.rope_length_is_exact = exact;
    EXPECT_GT(run_seeds(c).cached_tokens, 100U);
  }
}

TEST(Invariance, RunnersThatCanDoLess) {
  const Capabilities none{};
  Case stock{.name = "stock", .runner = fake(30), .engine = {}};
  stock.runner.capabilities = none;
  EXPECT_EQ(run_seeds(stock).pauses, 0U);
  stock.engine.prefill_tokens_max = 8;  // shorter than most prompts: each goes alone
  run_seeds(stock);
  stock.engine.waiting_served_ratio = 1e30F;  // more than can ever wait: only time lets prompts in
  run_seeds(stock);

  Case whole{.name = "whole prompts", .runner = fake(14), .engine = {}};
  whole.runner.capabilities.plans_chunks = false;
  EXPECT_GT(run_seeds(whole).pauses, 20U);

  Case fixed{.name = "fixed tables", .runner = fake(30), .engine = {}};
  fixed.runner.capabilities.grows_blocks = false;
  EXPECT_EQ(run_seeds(fixed).pauses, 0U);
}

TEST(Invariance, BatchSizeOneAndQueueOrderChangeNothing) {
  Case c{.name = "one slot", .runner = fake(20), .engine = {}};
  c.engine.batch_size_max = 1;
  run_seeds(c, 8);
  c.engine.batch_size_max = 3;
  c.engine.overtakes_max = 0;
  run_seeds(c, 8);
}

}  // namespace
}  // namespace coxswain::batch
