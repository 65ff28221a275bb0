// Statistics of steps and requests, and why the head of the queue waits.

#include <memory>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batch/engine_core.h"
#include "batch/stats_history.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"

namespace coxswain::batch {
namespace {

using ::testing::ElementsAre;
using testing::FakeRunner;
using testing::FakeRunnerOptions;
using testing::Recorder;
using namespace std::chrono_literals;

// Blocks of 4; each step takes 10 ms of a clock that moves with them alone.
class StatsTest : public ::testing::Test {
 protected:
  void start(std::uint32_t n_blocks,
             const EngineOptions& options,
             StatsHistoryOptions kept = {100, 100},
             bool look_ahead = false) {
    FakeRunnerOptions fake;
    fake.n_blocks = {n_blocks + 1};
    fake.capabilities.look_ahead = look_ahead;
    fake.epoch = 1;
    runner_ = std::make_shared<FakeRunner>(fake);
    history_ = std::make_unique<StatsHistory>(kept);
    core_ = std::make_unique<EngineCore>(
        runner_, options, base::HashKey{1, 2}, EngineCore::Hooks{.observer = history_.get()});
  }

  std::shared_ptr<Recorder> add(std::uint64_t id, std::uint32_t n_prompt, std::uint32_t n_new) {
    GenerationRequest r;
    r.id = RequestId{id};
    for (std::uint32_t i = 0; i < n_prompt; ++i) r.prompt.push_back(static_cast<TokenId>(id + i));
    r.stopping.max_new_tokens = n_new;
    auto sink = std::make_shared<Recorder>();
    core_->add(std::move(r), sink, now_);
    return sink;
  }

  void turn() {
    core_->advance(now_);
    core_->submit_next(now_);
    if (core_->n_in_flight() == 0) return;
    now_ += 10ms;
    core_->apply_oldest(core_->wait_oldest(), now_);
  }

  std::vector<WaitReason> reasons() {
    std::vector<WaitReason> out;
    for (const IterationStats& i : history_->take_iterations()) out.push_back(i.wait);
    return out;
  }

  TimePoint now_{1h};
  std::shared_ptr<FakeRunner> runner_;
  std::unique_ptr<StatsHistory> history_;
  std::unique_ptr<EngineCore> core_;
};

TEST_F(StatsTest, AStepSaysWhatItComputed) {
  start(64, {.batch_size_max = 7, .prefill_tokens_max = 16, .prefill_tokens_min = 8});
  const TimePoint begin = now_;
  add(1, 10, 3);
  turn();
  now_ += 5ms;
  add(2, 12, 2);
  now_ += 2ms;
  turn();
  turn();
  const auto steps = history_->take_iterations();
  ASSERT_EQ(steps.size(), 3U);
  EXPECT_EQ(steps[0].iteration, 1U);
  EXPECT_EQ(steps[0].ended_at, begin + 10ms);
  EXPECT_EQ(steps[0].duration, 10ms);
  EXPECT_EQ(steps[0].n_new_active, 1U);
  EXPECT_EQ(steps[0].n_context_tokens, 10U);
  EXPECT_EQ(steps[0].prompt_tokens_max, 16U);
  EXPECT_EQ(steps[0].kv.blocks_max, 64U);
  EXPECT_EQ(steps[0].kv.blocks_used, 3U);
  EXPECT_EQ(steps[0].kv.block_tokens, 4U);
  EXPECT_EQ(steps[0].kv.use, (BlockUse{.allocated = 3, .allocated_new = 3, .missed = 3}));

  EXPECT_EQ(steps[1].duration, 10ms);
  EXPECT_EQ(steps[1].new_active_queue_time, 2ms);
  EXPECT_EQ(steps[1].n_active, 2U);
  EXPECT_EQ(steps[1].n_scheduled, 2U);
  EXPECT_EQ(steps[1].n_context, 1U);
  EXPECT_EQ(steps[1].n_generation, 1U);
  EXPECT_EQ(steps[1].n_context_tokens, 12U);
  EXPECT_EQ(steps[1].prompt_tokens_max, 15U);
  EXPECT_EQ(steps[1].n_decoded_tokens, 2U);
  EXPECT_EQ(steps[1].n_completed, 0U);
  EXPECT_EQ(steps[1].batch_size_max, 7U);

  EXPECT_EQ(steps[2].n_generation, 2U);
  EXPECT_EQ(steps[2].n_completed, 2U);
  EXPECT_EQ(steps[2].n_active, 0U);
  EXPECT_EQ(steps[2].decoded_tokens_mean(), 1.0);
  EXPECT_TRUE(history_->take_iterations().empty()) << "what was read is gone";
}

TEST_F(StatsTest, ARequestGoesThroughItsStages) {
  start(64,
        {.policy = CapacityPolicy::kMaxUtilization,  // by arrival
         .batch_size_max = 1,
         .prefill_tokens_max = 8,
         .prefill_tokens_min = 8});
  const TimePoint begin = now_;
  add(1, 12, 2);
  add(2, 4, 1);
  for (int i = 0; i < 4; ++i) turn();
  const auto steps = history_->take_requests();
  ASSERT_EQ(steps.size(), 4U);
  const auto stages = [&](std::size_t step) {
    std::vector<std::pair<std::uint64_t, RequestStage>> out;
    for (const RequestStats& r : steps[step].requests)
      out.emplace_back(static_cast<std::uint64_t>(r.id), r.stage);
    return out;
  };
  using enum RequestStage;
  EXPECT_THAT(stages(0), ElementsAre(std::pair(1U, kContext), std::pair(2U, kQueued)));
  EXPECT_THAT(stages(1), ElementsAre(std::pair(1U, kGeneration), std::pair(2U, kQueued)));
  EXPECT_THAT(stages(2), ElementsAre(std::pair(1U, kComplete), std::pair(2U, kQueued)));
  EXPECT_THAT(stages(3), ElementsAre(std::pair(2U, kComplete)));
  const RequestStats& first = steps[0].requests[0];
  EXPECT_EQ(first.context_position, 8U);
  EXPECT_TRUE(first.scheduled);
  EXPECT_EQ(first.scheduled_at, begin);
  EXPECT_FALSE(steps[0].requests[1].scheduled);
  EXPECT_EQ(steps[0].requests[1].scheduled_at, TimePoint{});
  const RequestStats& last = steps[2].requests[0];
  EXPECT_EQ(last.n_generated_tokens, 2U);
  EXPECT_EQ(last.first_token_at, begin + 20ms);
  EXPECT_EQ(last.last_token_at, begin + 30ms);
  EXPECT_EQ(last.first_iteration, 2U);
  EXPECT_EQ(last.last_iteration, 3U);
  EXPECT_EQ(last.decoded_tokens_mean(), 1.0);
  EXPECT_EQ(last.use, (BlockUse{.allocated = 4, .allocated_new = 4, .missed = 3}));
}

TEST_F(StatsTest, BlocksThatWereFoundAreCounted) {
  start(64, {});
  add(1, 9, 1);
  turn();
  add(1, 9, 1);
  turn();
  const auto steps = history_->take_iterations();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[1].kv.use.reused, 2U);
  EXPECT_EQ(steps[1].kv.use.missed, 4U);
  EXPECT_DOUBLE_EQ(steps[1].kv.use.hit_rate(), 1.0 / 3);
  EXPECT_EQ(history_->take_requests()[1].requests[0].use.reused, 2U);
}

TEST_F(StatsTest, BlocksOfAnEvictedPrefixAreNotNew) {
  start(4, {});
  add(1, 12, 1);
  turn();
  add(20, 12, 1);
  turn();
  EXPECT_EQ(history_->take_iterations()[1].kv.use,
            (BlockUse{.allocated = 6, .allocated_new = 4, .missed = 6}));
}

TEST_F(StatsTest, APauseIsCountedAndSeen) {
  start(4, {.policy = CapacityPolicy::kMaxUtilization, .prefix_caching = false});
  add(1, 6, 9);
  add(20, 6, 9);
  for (int i = 0; i < 4; ++i) turn();
  const auto steps = history_->take_iterations();
  const auto requests = history_->take_requests();
  ASSERT_EQ(steps.size(), 4U);
  EXPECT_EQ(steps[2].n_paused, 0U);
  EXPECT_EQ(steps[3].n_paused, 1U);
  EXPECT_EQ(steps[3].n_active, 2U);
  EXPECT_EQ(steps[3].n_queued, 0U);
  EXPECT_EQ(steps[3].wait, WaitReason::kNoBlocks);
  ASSERT_EQ(requests[3].requests.size(), 2U);
  EXPECT_TRUE(requests[3].requests[1].paused);
  EXPECT_FALSE(requests[3].requests[1].scheduled);
}

// Some make room for a step that has no rows yet, and some come between two steps.
TEST_F(StatsTest, EveryPauseIsOfOneStep) {
  for (const bool look_ahead : {false, true}) {
    start(6, {.policy = CapacityPolicy::kMaxUtilization}, {1000, 0}, look_ahead);
    for (std::uint64_t id = 1; id <= 4; ++id) add(id, 3, 17);
    while (core_->n_sequences() > 0) {
      core_->advance(now_);
      while (core_->submit_next(now_)) {
      }
      now_ += 10ms;
      if (core_->n_in_flight() > 0) core_->apply_oldest(core_->wait_oldest(), now_);
    }
    std::uint64_t n_paused = 0;
    for (const IterationStats& step : history_->take_iterations()) n_paused += step.n_paused;
    EXPECT_EQ(n_paused, core_->stats().pauses) << look_ahead;
    EXPECT_GT(n_paused, 3U);
  }
}

TEST_F(StatsTest, ABatchSizeThatFollowsLengthsIsTheOneThatIsTold) {
  start(64,
        {.batch_size_max = 7,
         .dynamic_batch = {.tunes_batch_size = true, .batch_sizes = {{1000, 3}}}});
  add(1, 4, 1);
  turn();
  add(2, 4, 1);
  turn();
  const auto steps = history_->take_iterations();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].batch_size_max, 7U);
  EXPECT_EQ(steps[1].batch_size_max, 3U);
}

TEST_F(StatsTest, TheHeadOfTheQueueSaysWhyItWaits) {
  start(8, {.policy = CapacityPolicy::kGuaranteedNoEvict, .batch_size_max = 2});
  add(1, 8, 3);
  turn();
  add(2, 8, 20);  // seven blocks, five are free
  turn();
  turn();
  turn();
  EXPECT_THAT(
      reasons(),
      ElementsAre(
          WaitReason::kNone, WaitReason::kNoBlocks, WaitReason::kNoBlocks, WaitReason::kNone));
}

TEST_F(StatsTest, AFullBatchAndASpentBudgetAreSaid) {
  start(64, {.batch_size_max = 2, .prefill_tokens_max = 8, .prefill_tokens_min = 8});
  add(1, 8, 9);
  add(20, 8, 9);
  add(40, 8, 9);
  turn();
  turn();
  turn();
  EXPECT_THAT(
      reasons(),
      ElementsAre(WaitReason::kTokenBudget, WaitReason::kTokenBudget, WaitReason::kBatchFull));
}

TEST_F(StatsTest, AStaticBatchThatDecodesIsSaid) {
  start(64, {.policy = CapacityPolicy::kStaticBatch});
  add(1, 8, 3);
  turn();
  turn();
  add(20, 8, 1);
  turn();
  turn();
  EXPECT_THAT(
      reasons(),
      ElementsAre(WaitReason::kNone, WaitReason::kNone, WaitReason::kPolicy, WaitReason::kNone));
}

TEST_F(StatsTest, APrefixBeingComputedIsSaid) {
  start(64, {});
  add(1, 9, 9);
  add(1, 9, 9);
  turn();
  EXPECT_THAT(reasons(), ElementsAre(WaitReason::kSharedPrefix));
}

TEST_F(StatsTest, OnlyTheLatestAreKept) {
  start(64, {}, {.iterations_max = 2, .requests_max = 1});
  add(1, 4, 5);
  for (int i = 0; i < 5; ++i) turn();
  const auto steps = history_->take_iterations();
  ASSERT_EQ(steps.size(), 2U);
  EXPECT_EQ(steps[0].iteration, 4U);
  EXPECT_EQ(steps[1].iteration, 5U);
  EXPECT_EQ(history_->take_requests().size(), 1U);
}

TEST_F(StatsTest, WhoAsksForNothingIsToldNothing) {
  start(64, {}, {.iterations_max = 0, .requests_max = 0});
  add(1, 4, 5);
  for (int i = 0; i < 5; ++i) turn();
  EXPECT_TRUE(history_->take_iterations().empty());
  EXPECT_TRUE(history_->take_requests().empty());
}

}  // namespace
}  // namespace coxswain::batch
