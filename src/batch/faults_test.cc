// What becomes of requests where they are cancelled, clients do not read, steps fail or the runner is lost: one case
// each. testing/simulation.h has them all at once.

#include <gtest/gtest.h>

#include "batch/plan_size.h"
#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::Recorder;
using namespace std::chrono_literals;

FakeRunnerOptions fake(std::uint32_t n_blocks) {
  FakeRunnerOptions o;
  o.n_blocks = {n_blocks + 1};
  o.eos_every = 15;
  o.capabilities.moves = true;
  return o;
}

EngineOptions engine_options() {
  EngineOptions o;
  o.policy = CapacityPolicy::kMaxUtilization;
  o.prefill_tokens_max = 12;
  o.stall_timeout = 60ms;
  return o;
}

// A cancel is in no plan that is submitted after it; in the strict order it is answered when the last step retires.
void cancel_with_a_step_in_flight(bool strict) {
  EngineOptions options = engine_options();
  options.final_after_retire = strict;
  CoreDriver d(fake(20), options);
  d.runner->keep_plans();
  GenerationRequest r;
  r.id = RequestId{1};
  r.prompt = {1, 2, 3};
  r.stopping.max_new_tokens = 30;
  r.stopping.ignore_eos = true;
  auto sink = d.add(r);
  for (int i = 0; i < 5; ++i) d.turn();
  ASSERT_EQ(d.core->n_in_flight(), 1U);  // a step that names it runs ahead
  const std::size_t n_plans = d.runner->plans().size();
  d.core->cancel(r.id);
  EXPECT_EQ(sink->done(), !strict);
  EXPECT_EQ(d.core->stats().blocks_leased, 0U);
  EXPECT_GT(d.core->stats().blocks_retiring, 0U);
  d.turn();
  ASSERT_TRUE(sink->done());
  EXPECT_EQ(sink->final_event().status.code(), Code::kCancelled);
  EXPECT_EQ(d.core->stats().blocks_retiring, 0U);
  d.turn();
  for (std::size_t i = n_plans; i < d.runner->plans().size(); ++i)
    EXPECT_TRUE(d.runner->plans()[i].rows.empty());
  EXPECT_TRUE(d.runner->live().empty());
}

TEST(Faults, CancelIsOutOfTheNextPlanAndAnsweredAtOnce) {
  cancel_with_a_step_in_flight(false);
}

TEST(Faults, CancelIsOutOfTheNextPlanAndBlocksReturnFirst) {
  cancel_with_a_step_in_flight(true);
}

TEST(Faults, AStalledClientIsSkippedAndThenCancelled) {
  CoreDriver d(fake(20), engine_options());
  GenerationRequest r;
  r.id = RequestId{1};
  r.prompt = {1, 2, 3};
  r.stopping = {.max_new_tokens = 30, .stop_sequences = {}, .ignore_eos = true};
  auto slow = d.add(r);
  r.id = RequestId{2};
  auto quick = d.add(r);
  for (int i = 0; i < 4; ++i) d.turn();
  slow->set_stalled(true);
  d.turn();  // reads what was in flight
  d.turn();
  const std::size_t n = slow->tokens().size();
  for (int i = 0; i < 10; ++i) d.turn();
  EXPECT_EQ(slow->tokens().size(), n);
  EXPECT_GT(quick->tokens().size(), n);
  for (int i = 0; i < 100; ++i) d.turn();
  ASSERT_TRUE(slow->done());
  EXPECT_EQ(slow->final_event().status.code(), Code::kCancelled);
  quick->expect_complete(expected_output(fake(20), r), false);
}

TEST(Faults, WhatWaitsOutlivesTheRunner) {
  auto options = engine_options();
  options.batch_size_max = 1;
  CoreDriver d(fake(20), options);
  GenerationRequest r;
  r.prompt = {1, 2, 3};
  r.stopping.max_new_tokens = 10;
  r.id = RequestId{1};
  auto running = d.add(r);
  r.id = RequestId{2};
  auto waiting = d.add(r);
  d.turn();
  d.runner->step_failure = [](std::uint64_t) { return Status(Code::kUnavailable, "killed"); };
  d.turn();
  ASSERT_TRUE(running->done());
  EXPECT_EQ(running->final_event().status.kind(), ErrorKind::kGeneration);
  EXPECT_EQ(running->final_event().status.message(), "killed");
  EXPECT_FALSE(waiting->done());
  EXPECT_FALSE(d.turn());
  auto options_of_new = fake(20);
  options_of_new.epoch = 2;
  d.runner = std::make_shared<FakeRunner>(options_of_new);
  d.core->replace_runner(d.runner);
  ASSERT_TRUE(d.run());
  waiting->expect_complete(expected_output(fake(20), r), false);
}

// A step that is refused or fails may have forgotten nobody: the next one says it again, and nothing is said over and
// over while nobody has a row.
TEST(Faults, WhoIsDroppedByAStepThatFailsIsDroppedByTheNext) {
  for (const bool refused : {true, false}) {
    SCOPED_TRACE(refused ? "refused" : "failed");
    CoreDriver d(FakeRunnerOptions{}, {});
    GenerationRequest request;
    request.prompt = {1, 2, 3};
    request.stopping = {.max_new_tokens = 3, .ignore_eos = true};
    request.id = RequestId{1};
    const auto first = d.add(request);
    while (!first->done()) d.turn();
    EXPECT_EQ(d.runner->live().size(), 1U);
    if (refused) d.runner->refuse_next(internal_error("not today"));
    if (!refused) d.runner->fail_next(internal_error("not today"));
    d.turn();
    ASSERT_EQ(d.observer.failed.size(), 1U);
    EXPECT_EQ(d.runner->live().size(), 1U);
    for (int i = 0; i < 5; ++i) EXPECT_FALSE(d.turn());

    request.id = RequestId{2};
    const auto second = d.add(request);
    ASSERT_TRUE(d.run());
    EXPECT_TRUE(second->final_event().status.ok());
    EXPECT_TRUE(d.runner->live().empty());
  }
}

// More than one plan names.
TEST(Faults, ManyAreDroppedAtOnceInSeveralPlans) {
  FakeRunnerOptions fake;
  fake.n_blocks = {40'000};
  EngineOptions options;
  options.batch_size_max = 20'000;
  options.prefill_tokens_max = 40'000;
  CoreDriver d(fake, options);
  GenerationRequest request;
  request.prompt = {1};
  request.stopping.max_new_tokens = 2;
  for (std::uint64_t i = 1; i <= kPlanDroppedMax + 100; ++i) {
    request.id = RequestId{i};
    d.core->add(request, std::make_shared<Recorder>(), d.now);
  }
  d.now += 1s;
  ASSERT_TRUE(d.core->submit_next(d.now));
  EXPECT_EQ(d.runner->live().size(), kPlanDroppedMax + 100);
  d.core->cancel_all(internal_error("enough"));
  d.runner->keep_plans();
  while (d.turn()) {
  }
  EXPECT_TRUE(d.runner->live().empty());
  for (const StepPlan& plan : d.runner->plans()) EXPECT_LE(plan.dropped.size(), kPlanDroppedMax);
}

TEST(Faults, RequestsThatCanNeverFitAreRefused) {
  CoreDriver d(fake(10), engine_options());  // 40 positions
  GenerationRequest r;
  r.id = RequestId{1};
  r.prompt.assign(21, 5);
  r.stopping.max_new_tokens = 20;  // 21 + 20 - 1
  auto sink = d.add(r);
  ASSERT_NE(sink, nullptr);
  ASSERT_TRUE(d.run());
  EXPECT_TRUE(sink->final_event().status.ok());
  r.id = RequestId{2};
  r.stopping.max_new_tokens = 21;
  EXPECT_EQ(d.add(r), nullptr);
  EXPECT_EQ(d.status.kind(), ErrorKind::kValidation);
  EXPECT_EQ(d.status.field(), kMaxNewTokensField);
  EXPECT_EQ(d.status.message(),
            "the request needs room for 41 tokens (21 of the prompt and 21 new ones, but for the "
            "last), the KV cache holds 40");
  r.stopping.max_new_tokens = 0xFFFFFFFFU;
  EXPECT_EQ(d.add(r), nullptr);
  r.prompt.clear();
  r.stopping.max_new_tokens = 1;
  EXPECT_EQ(d.add(r), nullptr);
  EXPECT_EQ(d.status.field(), kPromptField);
}

TEST(Faults, WhatTheRunnerWouldNotTakeIsRefusedAtOnceAndNamed) {
  FakeRunnerOptions limited = fake(20);
  limited.about.max_input_tokens = 8;
  limited.about.max_total_tokens = 12;
  CoreDriver d(limited, engine_options());
  GenerationRequest r;
  r.id = RequestId{1};
  r.prompt.assign(8, 5);
  r.stopping.max_new_tokens = 4;  // 12 in all, as many as the runner takes
  auto sink = d.add(r);
  ASSERT_NE(sink, nullptr);
  ASSERT_TRUE(d.run());
  EXPECT_TRUE(sink->final_event().status.ok());

  const auto expect_refused = [&](std::string_view field, std::string_view message) {
    EXPECT_EQ(d.add(r), nullptr);
    EXPECT_EQ(d.status.kind(), ErrorKind::kValidation);
    EXPECT_EQ(d.status.field(), field);
    EXPECT_EQ(d.status.message(), message);
  };
  r.stopping.max_new_tokens = 5;
  expect_refused(
      kMaxNewTokensField,
      "the request has 8 tokens of the prompt and 5 new ones, the runner takes 12 together");
  r.prompt.push_back(5);
  r.stopping.max_new_tokens = 1;
  expect_refused(kPromptField, "the prompt has 9 tokens, the runner takes 8");
  for (const TokenId foreign : {-1, 50}) {
    r.prompt = {1, foreign};
    expect_refused(kPromptField,
                   "token ids must be >= 0 and < 50. Given: " + std::to_string(foreign));
  }
  r.prompt = {1};
  r.draft = {1, 50};
  expect_refused(kDraftField, "token ids must be >= 0 and < 50. Given: 50");
  r.draft = {};
  r.sampling.top_p = 0.0F;
  expect_refused("top_p", "`top_p` must be > 0.0 and <= 1.0. Given: 0");
  r.sampling = {};
  r.sampling.logit_bias = {{50, 1.0F}};
  expect_refused("logit_bias", "`logit_bias` token ids must be < 50. Given: 50");
}

TEST(Faults, WhatOnlyARunnerInThisProcessCanDoIsRefusedByNameElsewhere) {
  FakeRunnerOptions able = fake(20);  // 50 ids
  able.about.logits_processors = {"mine"};
  able.about.hidden_size = 10;
  able.capabilities.output_bytes_max = 1000;
  able.capabilities.top_tokens_max = 100;
  CoreDriver local(able, engine_options());
  FakeRunnerOptions unable = fake(20);
  unable.about.hidden_size = 10;
  CoreDriver remote(unable, engine_options());
  GenerationRequest r;
  r.id = RequestId{1};
  r.prompt = {1, 2, 3, 4};
  r.stopping.max_new_tokens = 4;
  const auto expect_refused = [&](CoreDriver& d, std::string_view field, std::string_view message) {
    EXPECT_EQ(d.add(r), nullptr);
    EXPECT_EQ(d.status.field(), field);
    EXPECT_EQ(d.status.message(), message);
  };
  r.sampling.n_top_tokens = 100;
  expect_refused(remote, "top_n_tokens", "`top_n_tokens` must be <= 64. Given: 100");
  r.sampling.n_top_tokens = 101;
  expect_refused(local, "top_n_tokens", "`top_n_tokens` must be <= 100. Given: 101");
  r.sampling = {.logits_processor = "mine"};
  expect_refused(remote, "logits_processor", "the runner has no logits processor `mine`");
  r.sampling.logits_processor = "other";
  expect_refused(local, "logits_processor", "the runner has no logits processor `other`");
  r.sampling = {};
  r.outputs.context_hidden = true;  // 4 positions of 10 floats
  expect_refused(remote,
                 "outputs",
                 "logits and hidden states of 160 bytes are asked for, `output_bytes_max` of the "
                 "runner is 0");
  r.outputs.context_logits = true;  // and of 50
  r.outputs.generation_hidden = true;
  expect_refused(local,
                 "outputs",
                 "logits and hidden states of 1120 bytes are asked for, `output_bytes_max` of the "
                 "runner is 1000");
  // A runner that has said so and gives none.
  r.outputs.generation_hidden = false;
  const auto sink = local.add(r);
  ASSERT_NE(sink, nullptr) << local.status.message();
  ASSERT_TRUE(local.run());
  EXPECT_EQ(sink->final_event().status.message(),
            "log-probabilities, logits or states are missing");
}

TEST(Faults, TheObserverIsToldOfPausesFailuresAndRunners) {
  auto options = fake(9);  // 32 positions: two such requests do not fit
  CoreDriver d(options, {.policy = CapacityPolicy::kMaxUtilization, .prefill_tokens_max = 16});
  GenerationRequest r;
  r.prompt = {1, 2, 3, 4, 5, 6, 7, 8};
  r.stopping.max_new_tokens = 20;
  r.id = RequestId{1};
  d.add(r);
  r.id = RequestId{2};
  d.add(r);
  ASSERT_TRUE(d.run());
  const std::uint64_t n_pauses = d.core->stats().pauses;
  ASSERT_GE(n_pauses, 1U);
  EXPECT_EQ(d.observer.paused.size(), n_pauses);
  EXPECT_EQ(d.observer.paused.front(), RequestId{2});
  EXPECT_EQ(d.observer.n_admissions, 2U + n_pauses);
  EXPECT_EQ(d.observer.admitted.size(), 2U);
  EXPECT_TRUE(d.observer.failed.empty());

  d.runner->step_failure = [](std::uint64_t) { return internal_error("told to fail"); };
  r.id = RequestId{3};
  d.add(r);
  ASSERT_TRUE(d.turn());
  ASSERT_EQ(d.observer.failed.size(), 1U);
  EXPECT_EQ(d.observer.failed.front().message(), "told to fail");
  EXPECT_EQ(d.observer.life, "up ");

  d.runner->step_failure = [](std::uint64_t) { return Status(Code::kUnavailable, "killed"); };
  r.id = RequestId{4};
  d.add(r);
  while (d.core->runner_up()) d.turn();
  r.id = RequestId{5};
  d.add(r);
  options.epoch = 2;
  d.core->replace_runner(std::make_shared<FakeRunner>(options));
  EXPECT_EQ(d.observer.life, "up lost: killed up replaced, 1 wait ");
}

}  // namespace
}  // namespace coxswain::batch
