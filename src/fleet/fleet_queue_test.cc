// What waits before all engines: its order, its ends and its limit.

#include <algorithm>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <thread>

#include <gtest/gtest.h>

#include "batch/testing/recorder.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::fleet {
namespace {

using batch::GenerationRequest;
using batch::testing::Recorder;
using testing::fake;
using testing::request_of;
using testing::runner_that_dies;
using testing::TestFleet;
using namespace std::chrono_literals;

class QueueTest : public ::testing::Test {
 protected:
  static batch::EngineOptions one_at_a_time() {
    batch::EngineOptions out = TestFleet::engine_options();
    out.batch_size_max = 1;
    out.prefill_tokens_max = 4;
    return out;
  }
  // Held runners, each with one request that runs, and so many that wait that none takes more.
  void fill() {
    for (std::uint64_t id = 1; id <= 10; ++id) submit(request_of(7 * id, 4));
    TestFleet::wait_until([&] { return std::ranges::all_of(fleet_->status().replicas, is_full); });
  }
  static bool is_full(const ReplicaStatus& r) {
    return r.stats.running == 1 && r.stats.queued == 4;
  }
  std::shared_ptr<Recorder> submit(const GenerationRequest& request) {
    auto sink = std::make_shared<Recorder>();
    EXPECT_EQ(fleet_->submit(request, sink), Status());
    return sink;
  }
  void SetUp() override {
    fleet_.runner(0).hold();
    fleet_.runner(1).hold();
  }
  void release() {
    fleet_.runner(0).release();
    fleet_.runner(1).release();
  }

  FleetOptions options_{.queue_requests_max = 12};
  TestFleet fleet_{
      {runner_that_dies(fake(), 0), runner_that_dies(fake(), 0)}, options_, one_at_a_time()};
};

TEST_F(QueueTest, AHigherPriorityIsPlacedFirst) {
  // One engine that serves one request at a time; the other is away.
  TestFleet fleet({runner_that_dies(fake(), 0), runner_that_dies(fake(), 1)}, {}, one_at_a_time());
  fleet.runner(0).hold();
  for (std::uint64_t id = 1; id <= 10; ++id)
    ASSERT_TRUE(fleet->submit(request_of(7 * id, 4), std::make_shared<Recorder>()).ok());
  TestFleet::wait_until([&] {
    const FleetStatus status = fleet->status();
    return !fleet.is_up(1) && is_full(status.replicas[0]) && status.n_waiting == 5;
  });
  GenerationRequest request = request_of(101, 4);
  const auto common = std::make_shared<Recorder>();
  ASSERT_TRUE(fleet->submit(request, common).ok());
  request = request_of(102, 4);
  request.priority = 1;
  const auto urgent = std::make_shared<Recorder>();
  urgent->on_each = [&] { EXPECT_EQ(common->n_tokens(), 0U); };
  ASSERT_TRUE(fleet->submit(request, urgent).ok());
  const auto& waiting = fleet.metrics().queue_size_by_priority;
  EXPECT_EQ(waiting[telemetry::PriorityClass::kHigh].value(), 1);
  EXPECT_GE(waiting[telemetry::PriorityClass::kNormal].value(), 1);
  fleet.runner(0).release();
  EXPECT_TRUE(urgent->wait().ok());
  EXPECT_TRUE(common->wait().ok());
}

TEST_F(QueueTest, WhatWaitsHereIsCancelledAndLate) {
  fill();
  const auto gone = submit(request_of(201, 4));
  GenerationRequest hurried = request_of(202, 4);
  hurried.queue_deadline = Clock::now() + 20ms;
  const auto late = submit(hurried);
  fleet_->cancel(RequestId{201});
  EXPECT_EQ(gone->wait().code(), Code::kCancelled);
  EXPECT_EQ(late->wait().kind(), ErrorKind::kQueueTimeout);
  release();
  fleet_.expect_idle();
}

TEST_F(QueueTest, AFullQueueRefuses) {
  fill();
  std::size_t n_taken = 0;
  Status refusal;
  for (std::uint64_t id = 301; refusal.ok(); ++id) {
    refusal = fleet_->submit(request_of(id, 4), std::make_shared<Recorder>());
    n_taken += refusal.ok() ? 1 : 0;
    ASSERT_LE(n_taken, 12U);
  }
  EXPECT_EQ(refusal.kind(), ErrorKind::kOverloaded);
  EXPECT_EQ(fleet_->submit(request_of(7), std::make_shared<Recorder>()).code(),
            Code::kFailedPrecondition)
      << "its id is in use";
  release();
  fleet_.expect_idle();
}

// A replica is lost between the look at it and the submission, and the other one is full: the request waits for that.
TEST_F(QueueTest, ALossDuringASubmissionRefusesNothing) {
  TestFleet fleet({runner_that_dies(fake(), 0), runner_that_dies(fake(), 1)}, {}, one_at_a_time());
  fleet.runner(0).hold();
  std::uint64_t id = 0;
  while (id < 5) ASSERT_TRUE(fleet->submit(request_of(++id, 4), std::make_shared<Recorder>()).ok());
  TestFleet::wait_until([&] { return fleet->status().replicas[0].stats.queued == 4; });
  std::atomic<std::uint64_t> n_refused{0};
  std::atomic<bool> done{false};
  std::thread client([&] {
    while (!done) {
      const auto sink = std::make_shared<Recorder>();
      const bool taken = fleet->submit(request_of(++id, 4), sink).ok();
      fleet->cancel(RequestId{id});
      if (taken && id % 32 == 0) static_cast<void>(sink->wait());
      n_refused += taken ? 0 : 1;
    }
  });
  for (int i = 0; i < 300; ++i) {
    TestFleet::wait_until([&] { return !fleet.is_up(1); });
    fleet.replace(1, runner_that_dies(fake(), 1));
  }
  done = true;
  client.join();
  fleet.runner(0).release();
  EXPECT_EQ(n_refused, 0U) << "of " << id;
  fleet.expect_idle();
}

TEST_F(QueueTest, PlacesSayWhereRequestsAreAndWhetherTheyRun) {
  EXPECT_TRUE(fleet_->places().empty());
  fill();
  const auto waits = submit(request_of(500, 4));  // in no engine
  std::size_t n_running = 0;
  std::size_t n_unplaced = 0;
  const std::vector<RequestPlace> places = fleet_->places();
  EXPECT_EQ(places.size(), 11U);
  for (const RequestPlace& place : places) {
    n_running += place.running ? 1 : 0;
    n_unplaced += place.replicas.empty() ? 1 : 0;
    EXPECT_EQ(place.replicas.empty(), place.id == RequestId{500});
    EXPECT_LE(place.replicas.size(), 1U);
  }
  EXPECT_EQ(n_running, 2U);
  EXPECT_EQ(n_unplaced, 1U);
  release();
  EXPECT_TRUE(waits->wait().ok());
  fleet_.expect_idle();
  EXPECT_TRUE(fleet_->places().empty());
}

TEST_F(QueueTest, WhatFitsNowhereIsRefused) {
  GenerationRequest request = request_of(1);
  request.stopping.max_new_tokens = 100'000;
  const Status refusal = fleet_->submit(request, std::make_shared<Recorder>());
  EXPECT_EQ(refusal.kind(), ErrorKind::kValidation);
  EXPECT_EQ(refusal.field(), batch::kMaxNewTokensField);
  fill();
  const auto sink = submit(request);  // found out when it is its turn
  release();
  EXPECT_EQ(sink->wait().field(), batch::kMaxNewTokensField);
  fleet_.expect_idle();
}

}  // namespace
}  // namespace coxswain::fleet
