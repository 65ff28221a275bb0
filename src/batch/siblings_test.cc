// Several sequences of one request: each is the request alone with its seed, bit for bit, and the prompt is computed
// once where the runner can edit.

#include <numeric>

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::alone;
using testing::CoreDriver;
using testing::expected_output;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::RequestRecorder;

FakeRunnerOptions fake(std::uint32_t n_blocks = 64) {
  FakeRunnerOptions o;
  o.n_blocks = {n_blocks + 1};
  o.eos_every = 15;
  o.capabilities.moves = true;
  return o;
}

GenerationRequest request_of(std::uint32_t n_prompt, std::uint32_t n_sequences) {
  GenerationRequest r;
  r.id = RequestId{1};
  for (std::uint32_t i = 0; i < n_prompt; ++i)
    r.prompt.push_back(static_cast<TokenId>((3 + i * 7) % 50));
  r.stopping.max_new_tokens = 12;
  r.sampling.do_sample = true;
  r.sampling.seed = 100;
  for (std::uint32_t i = 1; i < n_sequences; ++i) r.more_seeds.push_back(100 + 7 * i);
  return r;
}

void expect_each_alone(const FakeRunnerOptions& fake,
                       const GenerationRequest& request,
                       const RequestRecorder& got) {
  for (std::uint32_t i = 0; i < got.size(); ++i) {
    SCOPED_TRACE("sequence " + std::to_string(i));
    got[i].expect_complete(expected_output(fake, alone(request, i)), request.prompt_logprobs);
  }
}

// Positions computed, and blocks copied, in all plans.
std::pair<std::uint32_t, std::size_t> work_of(const FakeRunner& runner) {
  std::uint32_t n_positions = 0;
  std::size_t n_moves = 0;
  for (const StepPlan& plan : runner.plans()) {
    n_moves += plan.moves.size();
    for (const Row& row : plan.rows) n_positions += row.n_tokens;
  }
  return {n_positions, n_moves};
}

struct Setting {
  std::uint32_t n_prompt = 1;
  std::uint32_t budget = 4;
  bool windows = false;
  bool edits = true;
  bool caching = true;
};

void expect_each_alone(const Setting& setting) {
  SCOPED_TRACE("prompt " + std::to_string(setting.n_prompt) + " edits " +
               std::to_string(setting.edits) + " windows " + std::to_string(setting.windows));
  FakeRunnerOptions f = fake();
  f.capabilities.moves = setting.edits;
  if (setting.windows) {
    f.n_blocks = {65, 40};
    f.windows = {0, 7};
  }
  GenerationRequest r = request_of(setting.n_prompt, 5);
  r.prompt_logprobs = setting.budget == 8;
  CoreDriver d(f, {.prefill_tokens_max = setting.budget, .prefix_caching = setting.caching});
  const auto got = d.add_all(r);
  ASSERT_NE(got, nullptr);
  ASSERT_TRUE(d.run());
  expect_each_alone(f, r, *got);
  d.expect_idle();
}

TEST(Siblings, EachIsTheRequestAloneWithItsSeed) {
  for (const std::uint32_t n_prompt : {1U, 2U, 4U, 5U, 15U, 16U, 17U}) {
    for (const std::uint32_t budget : {4U, 8U, 64U}) {
      for (unsigned flags = 0; flags < 8; ++flags) {
        expect_each_alone({.n_prompt = n_prompt,
                           .budget = budget,
                           .windows = (flags & 1U) != 0,
                           .edits = (flags & 2U) != 0,
                           .caching = (flags & 4U) != 0});
      }
    }
  }
}

TEST(Siblings, ThePromptIsComputedOnce) {
  for (const bool caching : {true, false}) {
    for (const bool prompt_logprobs : {true, false}) {
      FakeRunnerOptions f = fake();
      f.eos_every = 0;
      CoreDriver d(f,
                   {.policy = CapacityPolicy::kMaxUtilization,
                    .prefill_tokens_max = 8,
                    .prefix_caching = caching});
      d.runner->keep_plans();
      GenerationRequest r = request_of(18, 4);
      r.prompt_logprobs = prompt_logprobs;
      r.stopping.max_new_tokens = 3;
      const auto got = d.add_all(r);
      d.turn();
      d.turn();
      d.turn();
      ASSERT_TRUE(d.run());
      expect_each_alone(f, r, *got);
      // Of each sibling the last position of the prompt, in a copy of its block; two steps of each compute a token.
      const auto [n_positions, n_moves] = work_of(*d.runner);
      EXPECT_EQ(n_positions, 18U + 3U + 4U * 2U);
      EXPECT_EQ(n_moves, 3U);
    }
  }
}

TEST(Siblings, WholeBlocksAreShared) {
  FakeRunnerOptions f = fake();
  f.eos_every = 0;
  CoreDriver d(f, {.prefill_tokens_max = 64});
  d.add_all(request_of(18, 4));
  for (int i = 0; i < 4; ++i) d.turn();
  // 4 whole ones, and of each the block that it writes.
  EXPECT_EQ(d.core->stats().running, 4U);
  EXPECT_LE(d.core->stats().blocks_leased, 4U + 4U * 2U);
  ASSERT_TRUE(d.run());
}

TEST(Siblings, OneMayFailAndTheOthersGoOn) {
  for (std::uint32_t failing = 0; failing < 4; ++failing) {
    const FakeRunnerOptions f = fake();
    CoreDriver d(f, {.prefill_tokens_max = 8});
    const GenerationRequest r = request_of(21, 4);
    d.runner->row_failure = [&](std::uint64_t step, const SequenceSpec& spec) {
      const bool now = spec.sampling.seed == alone(r, failing).sampling.seed && step >= failing;
      return now ? internal_error("told to fail") : Status();
    };
    const auto got = d.add_all(r);
    ASSERT_TRUE(d.run());
    for (std::uint32_t i = 0; i < 4; ++i) {
      EXPECT_EQ((*got)[i].final_event().status.ok(), i != failing);
      if (i != failing) (*got)[i].expect_complete(expected_output(f, alone(r, i)), false);
    }
    d.expect_idle();
  }
}

TEST(Siblings, ACancelAndADeadlineEndAll) {
  for (const bool deadline : {true, false}) {
    for (int turns = 0; turns < 6; ++turns) {
      CoreDriver d(fake(), {.prefill_tokens_max = 8});
      GenerationRequest r = request_of(21, 4);
      if (deadline) r.deadline = d.now + std::chrono::milliseconds(turns) + std::chrono::seconds(1);
      const auto got = d.add_all(r);
      for (int i = 0; i < turns; ++i) d.turn();
      if (deadline) d.now += std::chrono::seconds(2);
      if (!deadline) d.core->cancel(r.id);
      ASSERT_TRUE(d.run());
      for (std::uint32_t i = 0; i < 4; ++i) {
        EXPECT_EQ((*got)[i].final_event().status.code(),
                  deadline ? Code::kDeadlineExceeded : Code::kCancelled);
      }
      d.expect_idle();
    }
  }
}

TEST(Siblings, ASilentClientEndsAll) {
  CoreDriver d(fake(), {.stall_timeout = std::chrono::milliseconds(50)});
  const auto got = d.add_all(request_of(5, 3));
  for (int i = 0; i < 3; ++i) d.turn();
  got->set_stalled(true);
  for (int i = 0; i < 100; ++i) d.turn();
  for (std::uint32_t i = 0; i < 3; ++i)
    EXPECT_EQ((*got)[i].final_event().status.code(), Code::kCancelled);
  d.expect_idle();
}

// What the leader loses, another takes up.
TEST(Siblings, PausesLeaveEachAsItIsAlone) {
  std::uint64_t n_pauses = 0;
  for (std::uint32_t n_blocks = 8; n_blocks < 20; ++n_blocks) {
    for (const bool caching : {true, false}) {
      const FakeRunnerOptions f = fake(n_blocks);
      CoreDriver d(f,
                   {.policy = CapacityPolicy::kMaxUtilization,
                    .prefill_tokens_max = 8,
                    .prefix_caching = caching});
      const GenerationRequest r = request_of(13, 6);
      const auto got = d.add_all(r);
      ASSERT_TRUE(d.run());
      expect_each_alone(f, r, *got);
      d.expect_idle();
      n_pauses += d.core->stats().pauses;
    }
  }
  EXPECT_GT(n_pauses, 20U);
}

TEST(Siblings, TheyCountInTheQueueAsManyAsTheyAre) {
  auto runner = std::make_shared<FakeRunner>(fake());
  runner->hold();
  auto engine = Engine::create(runner, {.batch_size_max = 1, .queue_requests_max = 5});
  const auto submit = [&](std::uint64_t id, std::uint32_t n) {
    GenerationRequest r = request_of(5, n);
    r.id = RequestId{id};
    return engine->submit(r, std::make_shared<RequestRecorder>(n));
  };
  const Status never = submit(1, 6);
  EXPECT_EQ(never.kind(), ErrorKind::kValidation);
  EXPECT_EQ(never.field(), kSequencesField);
  EXPECT_EQ(never.message(), "the request asks for 6 sequences, `queue_requests_max` is 5");
  EXPECT_TRUE(submit(1, 4).ok());
  const Status full = submit(2, 3);
  EXPECT_EQ(full.kind(), ErrorKind::kOverloaded);
  EXPECT_EQ(submit(1, 1).code(), Code::kFailedPrecondition);
  EXPECT_EQ(engine->stats().accepted, 4U);
  runner->release();
  EXPECT_TRUE(engine->drain(std::chrono::seconds(20)));
  EXPECT_EQ(engine->stats().finished, 4U);
}

// Those that were paused begin again behind the prompt of the first of them, whose copy of a part of a block may be in
// a step that fails.
TEST(Siblings, WhatOthersCopyIsThereAlsoBehindAPause) {
  const FakeRunnerOptions options = fake();
  std::size_t n_failed = 0;
  std::size_t n_finished = 0;
  for (std::uint64_t failing = 0; failing < 12; ++failing) {
    SCOPED_TRACE(failing);
    CoreDriver d(options,
                 {.prefix_caching = false, .sequence_idle_max = std::chrono::milliseconds(0)});
    GenerationRequest request = request_of(19, 4);
    request.stopping.ignore_eos = true;
    const auto sink = d.add_all(request);
    for (int i = 0; i < 7; ++i) d.turn();
    sink->set_stalled(true);
    for (int i = 0; i < 4; ++i) d.turn();
    ASSERT_EQ(d.core->stats().pauses, 4U);
    sink->set_stalled(false);
    const std::uint64_t first = d.runner->n_submitted();
    d.runner->step_failure = [=](std::uint64_t step) {
      return step == first + 1 + failing ? internal_error("told to fail") : Status();
    };
    ASSERT_TRUE(d.run());
    for (std::uint32_t i = 0; i < 4; ++i) {
      const bool ok = (*sink)[i].final_event().status.ok();
      ++(ok ? n_finished : n_failed);
      const auto expected = expected_output(options, alone(request, i));
      if (ok) {
        (*sink)[i].expect_complete(expected, false);
      } else {
        (*sink)[i].expect_beginning(expected);
      }
    }
    d.expect_idle();
  }
  EXPECT_GT(n_failed, 4U);
  EXPECT_GT(n_finished, 4U);
}

}  // namespace
}  // namespace coxswain::batch
