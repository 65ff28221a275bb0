// The adaptive policy: who is let in by what those that have finished produced.

#include <algorithm>
#include <memory>

#include <gtest/gtest.h>

#include "batch/engine_core.h"
#include "batch/testing/recorder.h"
#include "batch/testing/timed_runner.h"

namespace coxswain::batch {
namespace {

using testing::Recorder;
using testing::TimedRunner;
using namespace std::chrono_literals;

// 100 blocks of 16 tokens; requests of 32 + 480 tokens, 32 blocks at most, of which they use `length`.
class AdaptiveTest : public ::testing::Test {
 protected:
  void start(CapacityPolicy policy) {
    auto runner = std::make_shared<TimedRunner>(
        100,
        now_,
        [](const StepShape&) { return 10ms; },
        [this](const SequenceSpec&) { return length_; });
    core_ = std::make_unique<EngineCore>(
        runner,
        EngineOptions{.policy = policy, .prefix_caching = false, .check_invariants = true},
        base::HashKey{1, 2},
        EngineCore::Hooks{});
  }
  void add(std::uint32_t n_prompt = 32) {
    GenerationRequest r;
    r.id = RequestId{++n_added_};
    r.prompt.assign(n_prompt, static_cast<TokenId>(n_added_));
    r.stopping.max_new_tokens = 480;
    core_->add(std::move(r), std::make_shared<Recorder>(), now_);
  }
  void turn() {
    core_->advance(now_);
    while (core_->submit_next(now_)) {
    }
    if (core_->n_in_flight() > 0) core_->apply_oldest(core_->wait_oldest(), now_);
    ASSERT_EQ(core_->check(), "");
  }
  // Keeps 20 requests waiting until `n` have finished. Returns the steps.
  std::uint64_t serve(std::uint64_t n) {
    const std::uint64_t steps = core_->stats().steps;
    const std::uint64_t until = core_->stats().finished + n;
    while (core_->stats().finished < until) {
      while (core_->stats().queued < 20) add();
      turn();
      n_running_most_ = std::max(n_running_most_, core_->stats().running);
    }
    return core_->stats().steps - steps;
  }

  TimePoint now_{1h};
  std::uint32_t length_ = 40;
  std::uint64_t n_added_ = 0;
  std::uint32_t n_running_most_ = 0;
  std::unique_ptr<EngineCore> core_;
};

TEST_F(AdaptiveTest, AtFirstItReservesEverything) {
  start(CapacityPolicy::kAdaptive);
  for (int i = 0; i < 8; ++i) add();
  turn();
  EXPECT_EQ(core_->stats().running, 3U);
}

TEST_F(AdaptiveTest, LetsInMoreOnceAnswersProveShort) {
  start(CapacityPolicy::kAdaptive);
  serve(300);
  // 72 tokens are 5 blocks.
  EXPECT_GE(n_running_most_, 16U);
  EXPECT_LE(n_running_most_, 24U);
  EXPECT_LE(core_->stats().pauses, 3U);
}

TEST_F(AdaptiveTest, ServesShortAnswersFasterThanReservingAllAndWithoutThrash) {
  start(CapacityPolicy::kGuaranteedNoEvict);
  const std::uint64_t reserved = serve(400);
  start(CapacityPolicy::kAdaptive);
  const std::uint64_t adaptive = serve(400);
  EXPECT_LT(adaptive * 3, reserved);
}

TEST_F(AdaptiveTest, PausesLittleWhereAnswersBecomeLong) {
  const auto pauses = [&](CapacityPolicy policy) {
    length_ = 40;
    start(policy);
    serve(300);
    length_ = 480;
    serve(200);
    return core_->stats().pauses;
  };
  const std::uint64_t greedy = pauses(CapacityPolicy::kMaxUtilization);
  EXPECT_LT(pauses(CapacityPolicy::kAdaptive) * 5, greedy);
}

TEST_F(AdaptiveTest, TheHeadOfTheQueueSaysThatThePolicyHoldsItBack) {
  start(CapacityPolicy::kAdaptive);
  struct Last final : EngineObserver {
    void on_step_finished(const StepFinished& step) override { wait = step.wait; }
    WaitReason wait = WaitReason::kNone;
  } last;
  auto runner = std::make_shared<TimedRunner>(
      100, now_, [](const StepShape&) { return 10ms; }, [](const SequenceSpec&) { return 40U; });
  core_ = std::make_unique<EngineCore>(
      runner, EngineOptions{}, base::HashKey{1, 2}, EngineCore::Hooks{.observer = &last});
  for (int i = 0; i < 8; ++i) add();
  turn();
  turn();
  EXPECT_EQ(last.wait, WaitReason::kPolicy);
}

// One request at a time; behind the one that runs wait a prompt of 320 tokens, then 40 of 32.
class ShortPromptsTest : public AdaptiveTest {
 protected:
  struct Admissions final : EngineObserver {
    void on_request_admitted(const RequestAdmitted& r) override { order.push_back(r.request); }
    std::vector<RequestId> order;
  };
  // How many of the short ones begin before the long one.
  std::int64_t n_before_long(CapacityPolicy policy, std::uint32_t overtakes_max) {
    Admissions admissions;
    auto runner = std::make_shared<TimedRunner>(
        100, now_, [](const StepShape&) { return 10ms; }, [](const SequenceSpec&) { return 2U; });
    core_ = std::make_unique<EngineCore>(runner,
                                         EngineOptions{.policy = policy,
                                                       .batch_size_max = 1,
                                                       .overtakes_max = overtakes_max,
                                                       .prefix_caching = false,
                                                       .check_invariants = true},
                                         base::HashKey{1, 2},
                                         EngineCore::Hooks{.observer = &admissions});
    n_added_ = 0;
    add(32);
    turn();
    add(320);
    for (int i = 0; i < 40; ++i) add(32);
    while (core_->n_sequences() > 0) turn();
    core_.reset();
    return std::ranges::find(admissions.order, RequestId{2}) - admissions.order.begin() - 1;
  }
};

TEST_F(ShortPromptsTest, ShortPromptsPassALongOneForHalfOfItsOvertakes) {
  EXPECT_EQ(n_before_long(CapacityPolicy::kAdaptive, 32), 16);
  EXPECT_EQ(n_before_long(CapacityPolicy::kAdaptive, 7), 3);
  EXPECT_EQ(n_before_long(CapacityPolicy::kAdaptive, 0), 0);
}

TEST_F(ShortPromptsTest, UnderOtherPoliciesArrivalDecides) {
  for (const auto policy : {CapacityPolicy::kMaxUtilization,
                            CapacityPolicy::kGuaranteedNoEvict,
                            CapacityPolicy::kStaticBatch})
    EXPECT_EQ(n_before_long(policy, 32), 0);
}

TEST_F(AdaptiveTest, TheSameRequestsAreServedInTheSameSteps) {
  start(CapacityPolicy::kAdaptive);
  const std::uint64_t first = serve(200);
  now_ = TimePoint(1h);
  n_added_ = 0;
  start(CapacityPolicy::kAdaptive);
  EXPECT_EQ(serve(200), first);
}

}  // namespace
}  // namespace coxswain::batch
