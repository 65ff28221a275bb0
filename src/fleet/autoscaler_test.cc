#include "fleet/autoscaler.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "fleet/snapshot.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::fleet {
namespace {

using batch::testing::expected_output;
using batch::testing::FakeRunner;
using batch::testing::RequestRecorder;
using namespace std::chrono_literals;
using What = ProcessNews::What;

constexpr std::size_t kReplicas = 3;

class FakeStarter final : public ProcessStarter {
 public:
  Status start(std::size_t replica) override {
    started.push_back(replica);
    return {};
  }
  Status stop(std::size_t replica) override {
    stopped.push_back(replica);
    return {};
  }
  std::vector<ProcessNews> news() override { return std::exchange(told, {}); }

  std::vector<std::size_t> started;
  std::vector<std::size_t> stopped;
  std::vector<ProcessNews> told;
};

// The clock is the test's; what the first replica is given waits until release().
class AutoscalerTest : public ::testing::Test {
 protected:
  AutoscalerTest() {
    std::vector<std::shared_ptr<FakeRunner>> runners;
    for (std::size_t i = 0; i < kReplicas; ++i) {
      runners.push_back(testing::runner_that_dies(testing::fake(), 0));
      runners.back()->on_step = [this](std::uint64_t) {
        while (!released_) std::this_thread::sleep_for(100us);
      };
    }
    batch::EngineOptions engine = testing::TestFleet::engine_options();
    engine.batch_size_max = 2;
    fleet_ = std::make_unique<testing::TestFleet>(
        runners, FleetOptions{}, engine, std::vector<Role>{}, 1);
    options_.planner.executor = Executor::kAllCache;
    options_.planner.mixed = true;
    options_.planner.prefill_max = kReplicas;
    options_.planner.tokens_prefilled_per_s = 10;
    options_.measured.prefill = false;
  }
  ~AutoscalerTest() override { released_ = true; }

  void make() {
    scaler_ = std::make_unique<Autoscaler>(Autoscaler::Parts{.fleet = **fleet_,
                                                             .processes = starter_,
                                                             .up = [this] { return up_; },
                                                             .on_process = [](std::size_t) {},
                                                             .log = log_},
                                           options_,
                                           1);
  }
  void begin() {
    make();
    EXPECT_EQ(tick(), std::nullopt) << "nothing is asked for";
  }
  std::optional<std::chrono::milliseconds> tick(std::chrono::milliseconds later = 500ms) {
    now_ += later;
    return scaler_->tick(now_);
  }
  void submit(std::uint64_t n) {
    for (std::uint64_t i = 0; i < n; ++i) {
      requests_.push_back(testing::request_of(requests_.size() + 1));
      sinks_.push_back(std::make_shared<RequestRecorder>(1));
      ASSERT_EQ((*fleet_)->submit(requests_.back(), sinks_.back()), Status());
    }
  }
  // Every stream is that of an undisturbed run.
  void expect_all() {
    released_ = true;
    for (std::size_t i = 0; i < requests_.size(); ++i) {
      (*sinks_[i])[0].wait_final();
      (*sinks_[i])[0].expect_complete(expected_output(testing::fake(), requests_[i]), false);
    }
    // An engine may tell of its blocks after the last token: the test's clock does not wait for that.
    fleet_->wait_until([&] {
      const FleetStatus status = (*fleet_)->status();
      return status.n_requests == 0 && used_blocks(status) == 0;
    });
  }
  // The process of a replica is there, and connected to.
  void arrive(std::size_t replica) {
    fleet_->replace(replica, testing::runner_that_dies(testing::fake(), 0));
    starter_.told.push_back({.replica = replica, .what = What::kReady});
    up_[replica] = true;
  }
  // As if all processes that are told to end did.
  void settle() {
    for (int i = 0; i < 1'000 && tick(); ++i) {
      for (; n_ended_ < starter_.stopped.size(); ++n_ended_) {
        up_[starter_.stopped[n_ended_]] = false;
        starter_.told.push_back({.replica = starter_.stopped[n_ended_], .what = What::kEnded});
      }
    }
    EXPECT_EQ(tick(), std::nullopt) << "it sleeps in the end";
  }
  std::ptrdiff_t n_present() const {
    return std::ranges::count(scaler_->view().presences, Presence::kPresent);
  }

  std::unique_ptr<testing::TestFleet> fleet_;
  FakeStarter starter_;
  std::size_t n_ended_ = 0;  // of those that are to stop
  std::vector<bool> up_{true, false, false};
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2}};
  AutoscalerOptions options_;
  std::unique_ptr<Autoscaler> scaler_;
  TimePoint now_ = Clock::now();
  std::vector<batch::GenerationRequest> requests_;
  std::vector<std::shared_ptr<RequestRecorder>> sinks_;
  std::atomic<bool> released_{false};
};

TEST_F(AutoscalerTest, ABurstStartsReplicasAndQuietEndsThem) {
  begin();
  submit(12);
  EXPECT_EQ(tick(), options_.tick);
  EXPECT_EQ(starter_.started, (std::vector<std::size_t>{1, 2}));
  EXPECT_TRUE(scaler_->wants(2));
  EXPECT_EQ(n_present(), 1);
  arrive(1);
  tick();
  EXPECT_EQ(n_present(), 2);
  EXPECT_EQ((*fleet_)->status().replicas[1].drain.phase, DrainPhase::kNo);
  EXPECT_NE((*fleet_)->status().replicas[2].drain.phase, DrainPhase::kNo) << "not there yet";
  arrive(2);
  tick();
  expect_all();
  settle();
  EXPECT_EQ(n_present(), 1);
  EXPECT_EQ(starter_.stopped.size(), 2U);
  EXPECT_EQ(starter_.started.size(), 2U);
  for (const std::size_t replica : starter_.stopped) EXPECT_FALSE(scaler_->wants(replica));
}

TEST_F(AutoscalerTest, DecisionsAreKeptWithTheirInputs) {
  begin();
  submit(12);
  tick();
  const AutoscalerView view = scaler_->view();
  ASSERT_EQ(view.decisions.size(), 2U);
  EXPECT_EQ(view.decisions[0].decision.choice, Choice::kLoad);
  EXPECT_EQ(view.decisions[0].outcome, "done");
  EXPECT_EQ(view.decisions[0].at, now_);
  EXPECT_GT(view.decisions[0].decision.inputs.waiting_tokens, 0.0);
  EXPECT_EQ(view.inputs.prefill.n, 1U);
  EXPECT_EQ(view.replicas_max, kReplicas);
  expect_all();
}

TEST_F(AutoscalerTest, ADryRunOnlySaysWhatItWouldDo) {
  options_.dry_run = true;
  begin();
  submit(12);
  tick();
  tick();
  EXPECT_EQ(starter_.started, std::vector<std::size_t>());
  ASSERT_EQ(scaler_->view().decisions.size(), 2U) << "each is told once";
  EXPECT_EQ(scaler_->view().decisions[0].outcome, "dry run");
  expect_all();
  settle();
  EXPECT_EQ(starter_.stopped, std::vector<std::size_t>());
}

TEST_F(AutoscalerTest, AStartThatFailedIsTriedAgainLater) {
  options_.planner.prefill_max = 2;
  begin();
  submit(12);
  tick();
  ASSERT_EQ(starter_.started, (std::vector<std::size_t>{1}));
  starter_.told = {{.replica = 1, .what = What::kFailed}};
  tick();
  EXPECT_EQ(starter_.started, (std::vector<std::size_t>{1, 2})) << "another one";
  starter_.told = {{.replica = 2, .what = What::kFailed}};
  tick();
  EXPECT_EQ(starter_.started.size(), 2U);
  tick(options_.start_pause);
  EXPECT_EQ(starter_.started.size(), 3U);
  expect_all();
}

TEST_F(AutoscalerTest, AWarmReplicaIsUsedAgain) {
  options_.warm_ttl = 1h;
  begin();
  submit(12);
  tick();
  arrive(1);
  arrive(2);
  tick();
  expect_all();
  const auto n_warm = [&] {
    const FleetStatus status = (*fleet_)->status();
    return std::ranges::count_if(status.replicas, is_warm);
  };
  for (int i = 0; i < 1'000 && n_warm() < 2; ++i) tick();
  ASSERT_EQ(n_warm(), 2);
  released_ = false;
  submit(12);
  tick();
  EXPECT_EQ(n_warm(), 0);
  EXPECT_EQ(scaler_->view().decisions.back().decision.choice, Choice::kReuseWarm);
  EXPECT_EQ(starter_.started.size(), 2U);
  expect_all();
}

TEST_F(AutoscalerTest, AnotherReplicaStartsInThePlaceOfALostOne) {
  // Three requests at once ask for more, and nobody brings these here.
  options_.planner.prefill_max = 1;
  begin();
  released_ = true;
  up_[0] = false;
  tick();
  EXPECT_EQ(starter_.started, (std::vector<std::size_t>{1}));
  arrive(1);
  tick();
  submit(3);
  up_[0] = true;  // it comes back
  expect_all();
  settle();
  EXPECT_EQ(n_present(), 1);
}

// ---- zero

class AutoscalerZeroTest : public AutoscalerTest {
 protected:
  AutoscalerZeroTest() {
    options_.planner.prefill_min = options_.planner.decode_min = 0;
    options_.planner.tokens_prefilled_per_s = 1000;  // a few prompts need one replica
  }

  // Nobody has asked for anything since the beginning.
  void begin_at_zero() {
    make();
    settle();
    EXPECT_EQ(n_present(), 0);
    EXPECT_EQ(starter_.stopped, std::vector<std::size_t>{0});
    EXPECT_EQ(scaler_->view().state, "zero");
  }
  void fail(std::size_t replica) {
    starter_.told.push_back({.replica = replica, .what = What::kFailed});
    tick();
  }
  // Each replica was started for the requests that wait, and none came.
  void fail_all() {
    tick();
    for (std::size_t i = 0; i < kReplicas; ++i) {
      ASSERT_EQ(starter_.started.size(), i + 1);
      fail(starter_.started.back());
    }
  }
};

TEST_F(AutoscalerZeroTest, TheLastReplicaEndsAndARequestStartsOne) {
  begin_at_zero();
  for (std::size_t round = 1; round <= 2; ++round) {
    submit(3);
    EXPECT_EQ((*fleet_)->status().n_waiting, 3U);
    EXPECT_EQ(tick(), options_.tick);
    EXPECT_EQ(starter_.started.size(), round);
    EXPECT_EQ(scaler_->view().state, "starting");
    tick();
    EXPECT_EQ(starter_.started.size(), round) << "one is on its way";
    arrive(starter_.started.back());
    tick();
    EXPECT_EQ(scaler_->view().state, "serving");
    expect_all();
    settle();
    EXPECT_EQ(n_present(), 0);
    EXPECT_EQ(starter_.stopped.size(), round + 1);
  }
}

TEST_F(AutoscalerZeroTest, TheLastReplicaStaysForTheWindowAndTheTimeThatItIsWarm) {
  make();
  tick();
  submit(1);
  tick();
  expect_all();
  const TimePoint idle = now_;
  while (starter_.stopped.empty()) ASSERT_EQ(tick(), options_.tick);
  EXPECT_GE(now_ - idle, options_.window + options_.warm_ttl - 2 * options_.tick);
  EXPECT_LE(now_ - idle, options_.window + options_.warm_ttl + 4 * options_.tick);
}

TEST_F(AutoscalerZeroTest, AnAnswerThatIsUnderWayKeepsTheLastReplica) {
  make();
  submit(1);
  while (used_blocks((*fleet_)->status()) == 0) std::this_thread::sleep_for(100us);
  for (int i = 0; i < 200; ++i) ASSERT_EQ(tick(), options_.tick);
  EXPECT_EQ((*fleet_)->status().replicas[0].drain.phase, DrainPhase::kNo);
  expect_all();
}

TEST_F(AutoscalerZeroTest, AWarmReplicaNeedsNoStart) {
  make();
  tick();
  ASSERT_TRUE(is_warm((*fleet_)->status().replicas[0]));
  EXPECT_EQ(scaler_->view().state, "serving");
  released_ = true;
  submit(2);
  tick();
  expect_all();
  EXPECT_EQ(starter_.started, std::vector<std::size_t>());
  EXPECT_EQ(starter_.stopped, std::vector<std::size_t>());
}

TEST_F(AutoscalerZeroTest, WhatIsNoPromptStartsOne) {
  begin_at_zero();
  batch::GenerationRequest request = testing::request_of(1);
  request.more_seeds = {5};
  const auto sink = std::make_shared<RequestRecorder>(2);
  ASSERT_EQ((*fleet_)->submit(request, sink), Status());
  tick();
  ASSERT_EQ(starter_.started, std::vector<std::size_t>{0});
  released_ = true;
  arrive(0);
  tick();
  for (std::size_t i = 0; i < 2; ++i) EXPECT_TRUE((*sink)[i].wait().ok());
}

TEST_F(AutoscalerZeroTest, OneFailedStartIsAnotherReplicasTurn) {
  begin_at_zero();
  submit(2);
  tick();
  fail(0);
  ASSERT_EQ(starter_.started, (std::vector<std::size_t>{0, 1}));
  EXPECT_EQ(scaler_->view().n_failed_starts, 1U);
  EXPECT_EQ((*fleet_)->when_none_serves(), Status());
  arrive(1);
  tick();
  EXPECT_EQ(scaler_->view().n_failed_starts, 0U);
  expect_all();
}

TEST_F(AutoscalerZeroTest, WhenStartsFailNobodyWaitsForEverAndItTriesOn) {
  begin_at_zero();
  submit(2);
  fail_all();
  for (const auto& sink : sinks_) {
    EXPECT_EQ((*sink)[0].wait().code(), Code::kUnavailable);
    EXPECT_EQ((*sink)[0].wait().message(),
              "no replica can be started: 3 starts in a row have failed");
  }
  EXPECT_EQ((*fleet_)->status().n_requests, 0U);
  EXPECT_EQ(scaler_->view().state, "failing");
  const auto late = std::make_shared<RequestRecorder>(1);
  EXPECT_EQ((*fleet_)->submit(testing::request_of(50), late).code(), Code::kUnavailable);
  requests_.clear();
  sinks_.clear();

  EXPECT_EQ(tick(), options_.tick) << "it does not give up";
  EXPECT_EQ(starter_.started.size(), 3U);
  tick(options_.start_pause);
  ASSERT_EQ(starter_.started.size(), 4U);
  fail(starter_.started.back());
  tick();
  EXPECT_EQ(starter_.started.size(), 4U) << "the pause is that of all";
  tick(options_.start_pause);
  ASSERT_EQ(starter_.started.size(), 5U);
  arrive(starter_.started.back());
  tick();
  EXPECT_EQ(scaler_->view().state, "serving");
  submit(2);
  expect_all();
  settle();
  EXPECT_EQ(scaler_->view().state, "zero");
  submit(1);
  EXPECT_EQ((*fleet_)->status().n_waiting, 1U) << "what waits is welcome again";
  tick();
  arrive(starter_.started.back());
  tick();
  expect_all();
}

TEST_F(AutoscalerZeroTest, AFleetThatStartsNothingKeepsWhatItHas) {
  options_.planner.tokens_prefilled_per_s = 10;
  make();
  submit(12);
  tick();
  ASSERT_EQ(starter_.started, (std::vector<std::size_t>{1, 2}));
  fail(1);
  fail(2);
  tick(options_.start_pause);
  ASSERT_GT(starter_.started.size(), 2U);
  while (scaler_->view().n_failed_starts < Autoscaler::kStartsTried) fail(starter_.started.back());
  expect_all();
  for (int i = 0; i < 1'000 && tick(); ++i) {
    starter_.told = {};
  }
  EXPECT_EQ(starter_.stopped, std::vector<std::size_t>());
  EXPECT_EQ(scaler_->view().state, "serving");
}

TEST_F(AutoscalerZeroTest, ADryRunEndsNothing) {
  options_.dry_run = true;
  make();
  settle();
  ASSERT_EQ(scaler_->view().decisions.size(), 1U);
  EXPECT_EQ(scaler_->view().decisions[0].decision.choice, Choice::kDrain);
  EXPECT_EQ(scaler_->view().decisions[0].outcome, "dry run");
  EXPECT_EQ((*fleet_)->status().replicas[0].drain.phase, DrainPhase::kNo);
  EXPECT_FALSE((*fleet_)->when_none_serves().ok());
}

TEST_F(AutoscalerTest, ItsThreadWakesForWork) {
  begin();
  scaler_->start();
  submit(12);
  scaler_->ring();
  testing::TestFleet::wait_until([&] { return !scaler_->view().decisions.empty(); });
  scaler_->stop();
  EXPECT_FALSE(starter_.started.empty());
  expect_all();
}

}  // namespace
}  // namespace coxswain::fleet
