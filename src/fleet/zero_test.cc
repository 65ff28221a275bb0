// What becomes of requests while no replica serves.

#include <chrono>
#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/recorder.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::fleet {
namespace {

using batch::GenerationRequest;
using batch::testing::expected_output;
using batch::testing::Recorder;
using testing::fake;
using testing::request_of;
using testing::runner_that_dies;
using testing::TestFleet;
using namespace std::chrono_literals;

const Status kNoStart{Code::kUnavailable, ErrorKind::kUnavailable, "nothing starts"};

// Two replicas, neither of which is there.
class ZeroTest : public ::testing::Test {
 protected:
  ZeroTest() { fleet_->when_none_serves(Status()); }

  std::shared_ptr<Recorder> submit(const GenerationRequest& request) {
    auto sink = std::make_shared<Recorder>();
    EXPECT_EQ(fleet_->submit(request, sink), Status());
    return sink;
  }

  TestFleet fleet_{{runner_that_dies(fake(), 0), runner_that_dies(fake(), 0)},
                   {.queue_requests_max = 3, .queue_tokens_max = 20},
                   TestFleet::engine_options(),
                   {Role::kPrefill, Role::kDecode},
                   0};
};

TEST_F(ZeroTest, RequestsAreRefusedUnlessSomebodyStartsAReplica) {
  EXPECT_EQ(fleet_->when_none_serves(), Status());
  fleet_->when_none_serves(kNoStart);
  EXPECT_EQ(fleet_->submit(request_of(1), std::make_shared<Recorder>()), kNoStart);
  TestFleet untold({runner_that_dies(fake(), 0)}, {}, TestFleet::engine_options(), {}, 0);
  EXPECT_EQ(untold->submit(request_of(1), std::make_shared<Recorder>()).code(), Code::kUnavailable);
}

TEST_F(ZeroTest, WhatWaitsIsServedByTheFirstThatComes) {
  std::vector<std::shared_ptr<Recorder>> sinks;
  for (std::uint64_t id = 1; id <= 3; ++id) sinks.push_back(submit(request_of(id)));
  EXPECT_EQ(fleet_->status().n_waiting, 3U);
  ASSERT_EQ(fleet_->cancel_drain(1), Status());
  for (std::uint64_t id = 1; id <= 3; ++id) {
    sinks[id - 1]->wait_final();
    sinks[id - 1]->expect_complete(expected_output(fake(), request_of(id)), false);
  }
  fleet_.expect_idle();
}

TEST_F(ZeroTest, WhoeverStartsIsToldOfEachThatWaits) {
  const std::uint64_t before = fleet_.n_rung;
  const auto first = submit(request_of(1));
  const std::uint64_t behind_first = fleet_.n_rung;
  EXPECT_GT(behind_first, before);
  const auto second = submit(request_of(2));
  EXPECT_GT(fleet_.n_rung, behind_first);
  EXPECT_EQ(fleet_->load(Clock::now(), 1s).waiting_tokens,
            request_of(1).prompt.size() + request_of(2).prompt.size());
  ASSERT_EQ(fleet_->cancel_drain(0), Status());
  EXPECT_TRUE(first->wait().ok());
  EXPECT_TRUE(second->wait().ok());
}

TEST_F(ZeroTest, LimitsOfTimeAndOfTheQueueHold) {
  GenerationRequest hurried = request_of(1);
  hurried.queue_deadline = Clock::now() + 20ms;
  EXPECT_EQ(submit(hurried)->wait().kind(), ErrorKind::kQueueTimeout);
  GenerationRequest brief = request_of(2);
  brief.deadline = Clock::now() + 20ms;
  EXPECT_EQ(submit(brief)->wait().kind(), ErrorKind::kDeadline);

  const auto gone = submit(request_of(3));
  fleet_->cancel(RequestId{3});
  EXPECT_EQ(gone->wait().code(), Code::kCancelled);

  std::vector<std::shared_ptr<Recorder>> sinks;
  for (std::uint64_t id = 7; id <= 21; id += 7) sinks.push_back(submit(request_of(id)));
  EXPECT_EQ(fleet_->submit(request_of(28), std::make_shared<Recorder>()).kind(),
            ErrorKind::kOverloaded)
      << "`queue_requests_max`";
  fleet_->cancel(RequestId{21});
  EXPECT_EQ(sinks.back()->wait().code(), Code::kCancelled);
  GenerationRequest long_one = request_of(28);
  long_one.prompt.assign(15, TokenId{1});
  EXPECT_EQ(fleet_->submit(long_one, std::make_shared<Recorder>()).kind(), ErrorKind::kOverloaded)
      << "`queue_tokens_max`";
  ASSERT_EQ(fleet_->cancel_drain(0), Status());
  EXPECT_TRUE(sinks[0]->wait().ok());
  EXPECT_TRUE(sinks[1]->wait().ok());
}

TEST_F(ZeroTest, AProbeThatWaitsInAnEngineIsNoLoad) {
  fleet_.runner(0).hold();
  const auto runs = std::make_shared<Recorder>();
  ASSERT_EQ(fleet_->engine(0).submit(request_of(1), runs), Status());
  TestFleet::wait_until([&] { return fleet_->engine(0).stats().running == 1; });
  const auto waits = std::make_shared<Recorder>();
  ASSERT_EQ(fleet_->engine(0).submit(request_of(2), waits), Status());
  EXPECT_GT(fleet_->engine(0).stats().queued_tokens, 0U);
  EXPECT_EQ(fleet_->load(Clock::now(), 1s).waiting_tokens, 0U);
  fleet_.runner(0).release();
  EXPECT_TRUE(runs->wait().ok());
  EXPECT_TRUE(waits->wait().ok());
}

TEST_F(ZeroTest, WhatWaitsEndsWhenNothingStarts) {
  const auto first = submit(request_of(1));
  const auto second = submit(request_of(2));
  fleet_->when_none_serves(kNoStart);
  EXPECT_EQ(first->wait(), kNoStart);
  EXPECT_EQ(second->wait(), kNoStart);
  EXPECT_EQ(fleet_->status().n_requests, 0U);
  // Nobody is turned away by it who is served.
  ASSERT_EQ(fleet_->cancel_drain(0), Status());
  fleet_.runner(0).hold();
  const auto third = submit(request_of(3));
  fleet_->when_none_serves(kNoStart);
  fleet_.runner(0).release();
  EXPECT_TRUE(third->wait().ok());
}

TEST_F(ZeroTest, TheLastOneIsDrainedOnlyIfNothingIsAskedFor) {
  ASSERT_EQ(fleet_->cancel_drain(0), Status());
  fleet_.runner(0).hold();
  const auto sink = submit(request_of(1));
  EXPECT_EQ(fleet_->begin_drain(0, Clock::now()).code(), Code::kFailedPrecondition);
  fleet_.runner(0).release();
  EXPECT_TRUE(sink->wait().ok());
  TestFleet::wait_until([&] { return fleet_->status().n_requests == 0; });
  fleet_->when_none_serves(kNoStart);
  EXPECT_EQ(fleet_->begin_drain(0, Clock::now()).code(), Code::kFailedPrecondition);
  fleet_->when_none_serves(Status());
  EXPECT_EQ(fleet_->begin_drain(0, Clock::now()), Status());
  const auto behind = submit(request_of(2));
  EXPECT_EQ(fleet_->status().n_waiting, 1U);
  ASSERT_EQ(fleet_->cancel_drain(0), Status());
  EXPECT_TRUE(behind->wait().ok());
}

TEST_F(ZeroTest, TheFirstMayHaveAnyRole) {
  ASSERT_EQ(fleet_->set_role(0, Role::kDecode), Status());
  ASSERT_EQ(fleet_->cancel_drain(0), Status());
  EXPECT_TRUE(submit(request_of(1))->wait().ok());
  fleet_->when_none_serves(kNoStart);
  EXPECT_EQ(fleet_->set_role(1, Role::kPrefill), Status());
  EXPECT_EQ(fleet_->set_role(0, Role::kPrefill).code(), Code::kInvalidArgument);
}

}  // namespace
}  // namespace coxswain::fleet
