// What becomes of the blocks of a paused sequence where there is a tier behind the cache: they are kept there and come
// back before it goes on, and its tokens are those that it yields alone.

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"
#include "batch/testing/fake_tier.h"

namespace coxswain::batch {
namespace {

using testing::alone;
using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::FakeTier;
using testing::Recorder;
using testing::RequestMaker;
using testing::RequestRecorder;
using namespace std::chrono_literals;

FakeRunnerOptions fake(std::uint32_t n_blocks) {
  FakeRunnerOptions o;
  o.n_blocks = {n_blocks + 1};
  o.eos_every = 40;
  o.capabilities.attachments = true;
  o.capabilities.attachment_bytes_max = 20 << 10;  // pieces of a few blocks
  return o;
}

EngineOptions greedy() {
  EngineOptions o;
  o.policy = CapacityPolicy::kMaxUtilization;
  o.check_invariants = true;
  return o;
}

// An engine over a tier. Steps take 0.1 ms and 0.1 ms for each position; one that moves blocks takes 20 us.
struct Tiered {
  explicit Tiered(const FakeRunnerOptions& fake,
                  std::uint32_t n_tier_blocks = 1000,
                  EngineOptions options = greedy())
      : tier(std::make_shared<FakeTier>(FakeRunner(fake).info(), n_tier_blocks)),
        d(fake, with(std::move(options))) {
    d.turn_time = 10us;
    d.runner->set_clock(&d.now);
    d.runner->step_time = [this](const StepPlan& plan) -> Clock::duration {
      std::uint32_t n = 0;
      for (const Row& row : plan.rows) n += row.n_tokens;
      n_computed += n;
      return n == 0 ? move_time : 100us + n * 100us;
    };
  }
  EngineOptions with(EngineOptions options) const {
    if (tier->capacity()[0] > 0) options.tier = tier;
    return options;
  }
  void turn() {
    while (does_jobs && tier->do_one()) {
    }
    d.turn();
  }
  bool run() {
    for (int i = 0; i < 20'000 && (d.core->n_sequences() > 0 || d.core->owes_offloads()); ++i)
      turn();
    return d.run();
  }
  KvTierStats stats() const { return d.core->stats().tier; }

  std::shared_ptr<FakeTier> tier;
  CoreDriver d;
  Clock::duration move_time = 20us;
  bool does_jobs = true;
  std::uint64_t n_computed = 0;  // positions
};

GenerationRequest request(std::uint64_t id, std::uint32_t n_prompt, std::uint32_t n_new) {
  GenerationRequest r;
  r.id = RequestId{id};
  for (std::uint32_t i = 0; i < n_prompt; ++i)
    r.prompt.push_back(static_cast<TokenId>((id * 13 + i * 7) % 50));
  r.stopping = {.max_new_tokens = n_new, .ignore_eos = true};
  return r;
}

// Two of 16 blocks each in 20: the second is paused when both have ten, and the first takes six of these.
struct Two {
  explicit Two(Tiered& on, std::uint32_t n_blocks = 20) : t(on), runner(fake(n_blocks)) {
    for (const GenerationRequest& r : requests) sinks.push_back(t.d.add(r));
  }
  void run() {
    ASSERT_TRUE(t.run());
    for (std::size_t i = 0; i < requests.size(); ++i)
      sinks[i]->expect_complete(expected_output(runner, requests[i]), false);
    t.d.expect_idle();
    EXPECT_TRUE(t.d.runner->attached().empty());
  }
  Tiered& t;
  FakeRunnerOptions runner;
  std::vector<GenerationRequest> requests{request(1, 24, 41), request(2, 24, 41)};
  std::vector<std::shared_ptr<Recorder>> sinks;
};

TEST(PausedTier, WhatWasTakenFromAPausedOneComesBack) {
  Tiered without(fake(20), 0);
  Two(without).run();
  EXPECT_EQ(without.d.core->stats().pauses, 1U);
  Tiered with(fake(20));
  Two(with).run();
  EXPECT_EQ(with.d.core->stats().pauses, 1U) << "nobody else is paused for blocks that come back";
  EXPECT_GE(with.stats().paused_blocks_offloaded, 8U);
  EXPECT_GE(with.stats().paused_blocks_onboarded, 5U);
  EXPECT_EQ(with.stats().paused_blocks_onboarded, with.stats().blocks_onboarded);
  EXPECT_EQ(with.n_computed + 4 * with.stats().blocks_onboarded, without.n_computed);
}

TEST(PausedTier, WhatTakesLongerThanToComputeItIsNotKept) {
  for (const bool slow_steps : {false, true}) {
    Tiered t(fake(20));
    // One that ends tells what the tier takes: blocks that go, and that come back behind another one's.
    const auto first = t.d.add(request(3, 24, 2));
    ASSERT_TRUE(t.run());
    if (slow_steps) {
      t.move_time = 10ms;
    } else {
      t.tier->took = 100ms;
    }
    t.d.add(request(4, 60, 12));
    ASSERT_TRUE(t.run());
    t.d.add(request(3, 24, 2));
    ASSERT_TRUE(t.run());
    EXPECT_GT(t.stats().blocks_onboarded, 0U);
    Two(t).run();
    EXPECT_EQ(t.d.core->stats().pauses, 1U);
    EXPECT_EQ(t.stats().paused_blocks_offloaded, 0U);
  }
}

TEST(PausedTier, NothingIsKeptBeforeAStepWasMeasured) {
  Tiered t(fake(20));
  GenerationRequest low = request(1, 60, 4);
  low.priority = -1;
  t.d.add(low);
  t.turn();
  t.turn();
  const auto high = t.d.add(request(2, 40, 2));
  ASSERT_TRUE(t.run());
  EXPECT_EQ(t.d.core->stats().pauses, 1U);
  EXPECT_EQ(t.stats().paused_blocks_offloaded, 0U);
}

TEST(PausedTier, OneMayHaveHalfOfTheTier) {
  Tiered t(fake(20), 10);
  Two two(t);
  while (t.d.core->stats().pauses == 0) t.turn();
  for (int i = 0; i < 8; ++i) t.turn();
  EXPECT_EQ(t.stats().paused_blocks_offloaded, 5U);
  two.run();
}

// What is not given back in time is given back all the same.
TEST(PausedTier, ATierThatHangsHoldsUpNobodyForLong) {
  Tiered t(fake(20));
  Two two(t);
  while (t.d.core->stats().pauses == 0) t.turn();
  t.does_jobs = false;
  const TimePoint paused_at = t.d.now;
  const std::size_t n_tokens = two.sinks[0]->n_tokens();
  while (two.sinks[0]->n_tokens() < n_tokens + 24) t.turn();
  EXPECT_LT(t.d.now - paused_at, TierDriver::kLoanMax + 100ms);
  EXPECT_GT(t.stats().blocks_skipped, 0U);
  t.does_jobs = true;
  two.run();
}

// Random requests, one and several sequences of each, sampled or not, beside each other in a small cache.
struct Arm {
  const char* name;
  FakeRunnerOptions runner;
  bool fails = false;
};

std::vector<Arm> arms() {
  const FakeRunnerOptions plain = fake(18);
  FakeRunnerOptions windows = fake(18);
  windows.windows = {0, 10};
  windows.n_blocks = {19, 24};
  FakeRunnerOptions sinks = windows;
  sinks.sink_tokens = 5;
  FakeRunnerOptions all_windows = fake(18);
  all_windows.windows = {14};
  FakeRunnerOptions drafts = fake(20);
  drafts.capabilities.draft_tokens_max = 3;
  drafts.forces_tokens = true;
  FakeRunnerOptions one_step = plain;
  one_step.capabilities.look_ahead = false;
  FakeRunnerOptions copies = plain;
  copies.capabilities.moves = true;
  return {{"plain", plain},
          {"windows", windows},
          {"sink tokens", sinks},
          {"all windows", all_windows},
          {"drafts", drafts},
          {"one step", one_step},
          {"copies", copies},
          {"faults", plain, true},
          {"faults of windows", windows, true}};
}

FakeTier::Fault draw_fault(RequestMaker& make) {
  switch (make.pick(8)) {
    case 0:
      return FakeTier::Fault::kLost;
    case 1:
      return FakeTier::Fault::kCut;
    case 2:
      return FakeTier::Fault::kBroken;
    default:
      return FakeTier::Fault::kNone;
  }
}

void run_arm(const Arm& arm, std::uint64_t seed, KvTierStats& sum) {
  RequestMaker make(seed);
  Tiered t(arm.runner, 20 + static_cast<std::uint32_t>(make.pick(60)));
  if (arm.fails) t.tier->draw_fault = [&] { return draw_fault(make); };
  std::vector<GenerationRequest> requests;
  std::vector<std::shared_ptr<RequestRecorder>> sinks;
  for (int i = 0; i < 40; ++i) {
    requests.push_back(make.make_some(28, 28));
    sinks.push_back(t.d.add_all(requests.back()));
    ASSERT_NE(sinks.back(), nullptr) << t.d.status.message();
    for (std::uint64_t n = make.pick(5); n > 0; --n) {
      t.does_jobs = make.pick(2) == 0;
      t.turn();
    }
  }
  t.does_jobs = true;
  ASSERT_TRUE(t.run());
  t.d.expect_idle();
  EXPECT_TRUE(t.d.runner->attached().empty());
  for (std::size_t i = 0; i < requests.size(); ++i) {
    for (std::uint32_t k = 0; k < sinks[i]->size(); ++k)
      (*sinks[i])[k].expect_complete(expected_output(arm.runner, alone(requests[i], k)),
                                     requests[i].prompt_logprobs);
  }
  sum.paused_blocks_offloaded += t.stats().paused_blocks_offloaded;
  sum.paused_blocks_onboarded += t.stats().paused_blocks_onboarded;
}

TEST(PausedTier, TokensAreThoseOfTheRequestAlone) {
  for (const Arm& arm : arms()) {
    KvTierStats sum;
    for (std::uint64_t seed = 1; seed <= 12; ++seed) {
      SCOPED_TRACE(std::string(arm.name) + ", seed " + std::to_string(seed));
      run_arm(arm, seed, sum);
      if (::testing::Test::HasFailure()) return;
    }
    EXPECT_GT(sum.paused_blocks_offloaded, 200U) << arm.name;
    EXPECT_GT(sum.paused_blocks_onboarded, 100U) << arm.name;
  }
}

}  // namespace
}  // namespace coxswain::batch
