// Runners that are lost: streams go on with successors and in other replicas, or end with one clear answer.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/recorder.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::fleet {
namespace {

using batch::GenerationRequest;
using batch::testing::alone;
using batch::testing::expected_output;
using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using batch::testing::Recorder;
using batch::testing::RequestRecorder;
using testing::fake;
using testing::request_of;
using testing::runner_that_dies;
using testing::TestFleet;
using namespace std::chrono_literals;

// With one replica its successor goes on, with two the other one.
void lose_at_every_step(std::size_t n_replicas) {
  for (std::uint64_t step = 1; step <= 24; ++step) {
    std::vector<std::shared_ptr<FakeRunner>> runners;
    for (std::size_t i = 0; i < n_replicas; ++i)
      runners.push_back(runner_that_dies(fake(), i == 0 ? step : 0));
    TestFleet fleet(std::move(runners));
    GenerationRequest request = request_of(step);
    request.prompt_logprobs = step % 3 == 0;
    const auto sink = std::make_shared<Recorder>();
    ASSERT_TRUE(fleet->submit(request, sink).ok());
    TestFleet::wait_until([&] { return sink->done() || !fleet.is_up(0); });
    if (n_replicas == 1 && !sink->done()) fleet.replace(0, runner_that_dies(fake(), 0));
    sink->wait_final();
    sink->expect_complete(expected_output(fake(), request), request.prompt_logprobs);
    fleet.expect_idle();
  }
}

TEST(Fleet, AStreamGoesOnWithTheSuccessor) {
  lose_at_every_step(1);
}

TEST(Fleet, AStreamGoesOnInAnotherReplica) {
  lose_at_every_step(2);
}

TEST(Fleet, ReplicasAreLostOneAfterTheOther) {
  TestFleet fleet(
      {runner_that_dies(fake(), 5), runner_that_dies(fake(), 9), runner_that_dies(fake(), 0)});
  std::vector<std::pair<GenerationRequest, std::shared_ptr<Recorder>>> open;
  for (std::uint64_t id = 1; id <= 12; ++id) {
    open.emplace_back(request_of(id, 30), std::make_shared<Recorder>());
    ASSERT_TRUE(fleet->submit(open.back().first, open.back().second).ok());
  }
  for (auto& [request, sink] : open) {
    sink->wait_final();
    sink->expect_complete(expected_output(fake(), request), false);
  }
  EXPECT_FALSE(fleet.is_up(0));
  EXPECT_FALSE(fleet.is_up(1));
  EXPECT_GT(fleet->status().n_resumed, 0U);
  EXPECT_EQ(fleet->submit(request_of(1), std::make_shared<Recorder>()), Status());
}

TEST(Fleet, WhatWaitsInALostEngineIsServedByOthers) {
  const auto first = runner_that_dies(fake(), 3);
  batch::EngineOptions engine = TestFleet::engine_options();
  engine.batch_size_max = 1;
  TestFleet fleet({first, runner_that_dies(fake(), 0)}, {}, engine);
  std::vector<std::pair<GenerationRequest, std::shared_ptr<Recorder>>> open;
  for (std::uint64_t id = 1; id <= 8; ++id) {
    open.emplace_back(request_of(id), std::make_shared<Recorder>());
    ASSERT_TRUE(fleet->submit(open.back().first, open.back().second).ok());
  }
  for (auto& [request, sink] : open) {
    sink->wait_final();
    sink->expect_complete(expected_output(fake(), request), false);
  }
  EXPECT_FALSE(fleet.is_up(0));
  fleet.expect_idle();
}

TEST(Fleet, SequencesOfARequestGoOnEachForItself) {
  TestFleet fleet(
      {runner_that_dies(fake(), 6), runner_that_dies(fake(), 12), runner_that_dies(fake(), 0)});
  GenerationRequest request = request_of(4);
  request.more_seeds = {91, 92, 93};
  const auto sinks = std::make_shared<RequestRecorder>(4);
  ASSERT_TRUE(fleet->submit(request, sinks).ok());
  for (std::size_t i = 0; i < 4; ++i) {
    (*sinks)[i].wait_final();
    (*sinks)[i].expect_complete(expected_output(fake(), alone(request, i)), false);
  }
  EXPECT_GE(fleet->status().n_resumed, 4U);
  fleet.expect_idle();
}

TEST(Fleet, BeamsBeginAgain) {
  FakeRunnerOptions options = fake();
  options.capabilities.edits = true;
  options.capabilities.candidates_max = 8;
  GenerationRequest request = request_of(3, 12);
  request.beams.width = 3;
  request.n_beam_answers = 2;
  request.stream_beams = true;
  const auto run = [&](std::uint64_t dies_at) {
    TestFleet fleet({runner_that_dies(options, dies_at), runner_that_dies(options, 0)});
    const auto sinks = std::make_shared<RequestRecorder>(2);
    EXPECT_TRUE(fleet->submit(request, sinks).ok());
    std::vector<std::vector<TokenId>> out;
    for (std::size_t i = 0; i < 2; ++i) {
      (*sinks)[i].wait_final();
      EXPECT_TRUE((*sinks)[i].final_event().status.ok());
      out.push_back((*sinks)[i].ids());
    }
    EXPECT_EQ(fleet->status().n_resumed, dies_at == 0 ? 0U : 1U);
    fleet.expect_idle();
    return out;
  };
  const auto undisturbed = run(0);
  EXPECT_EQ(run(1), undisturbed);
  EXPECT_EQ(run(5), undisturbed);
}

TEST(Fleet, ARequestIsGivenUpAfterSoManyLosses) {
  FleetOptions options;
  options.resumes_max = 2;
  TestFleet fleet({runner_that_dies(fake(), 4)}, options);
  const GenerationRequest request = request_of(1, 40);
  const auto sink = std::make_shared<Recorder>();
  ASSERT_TRUE(fleet->submit(request, sink).ok());
  for (int loss = 1; loss <= 2; ++loss) {
    TestFleet::wait_until([&] { return !fleet.is_up(0) && fleet->status().n_resuming == 1; });
    EXPECT_FALSE(sink->done());
    fleet.replace(0, runner_that_dies(fake(), 4));
  }
  const Status status = sink->wait();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_EQ(status.kind(), ErrorKind::kGeneration);
  sink->expect_beginning(expected_output(fake(), request));
}

// What a stream without a runner is told: nothing, until it is cancelled, late, or the fleet ends.
class AwayTest : public ::testing::Test {
 protected:
  std::shared_ptr<Recorder> lose(GenerationRequest request) {
    auto sink = std::make_shared<Recorder>();
    EXPECT_TRUE((*fleet_)->submit(std::move(request), sink).ok());
    TestFleet::wait_until([&] { return !fleet_->is_up(0) && !fleet_->is_up(1); });
    TestFleet::wait_until([&] { return (*fleet_)->status().n_resuming == 1; });
    EXPECT_FALSE(sink->done());
    return sink;
  }
  std::unique_ptr<TestFleet> fleet_ =
      std::make_unique<TestFleet>(std::vector<std::shared_ptr<FakeRunner>>{
          runner_that_dies(fake(), 6), runner_that_dies(fake(), 6)});
};

TEST_F(AwayTest, ACancelIsAnsweredAtOnce) {
  const auto sink = lose(request_of(5, 40));
  (*fleet_)->cancel(RequestId{5});
  EXPECT_EQ(sink->wait().code(), Code::kCancelled);
  EXPECT_EQ((*fleet_)->submit(request_of(6), std::make_shared<Recorder>()).code(),
            Code::kUnavailable);
  EXPECT_TRUE((*fleet_)->drain(60s));
}

TEST_F(AwayTest, TheDeadlineHolds) {
  GenerationRequest request = request_of(5, 40);
  request.deadline = Clock::now() + 100ms;
  request.queue_deadline = Clock::now() + 50ms;  // it has been in a step
  EXPECT_EQ(lose(request)->wait().kind(), ErrorKind::kDeadline);
  EXPECT_GE(Clock::now(), *request.deadline);
}

TEST_F(AwayTest, AllComeBack) {
  const GenerationRequest request = request_of(5, 40);
  const auto sink = lose(request);
  fleet_->replace(1, runner_that_dies(fake(), 0));
  sink->wait_final();
  sink->expect_complete(expected_output(fake(), request), false);
  EXPECT_EQ((*fleet_)->status().replicas[1].incarnation, 2U);
}

TEST_F(AwayTest, TheEndAnswersWhatWaits) {
  const auto sink = lose(request_of(5, 40));
  EXPECT_FALSE((*fleet_)->drain(1ms));
  fleet_.reset();
  EXPECT_EQ(sink->wait().kind(), ErrorKind::kUnavailable);
}

}  // namespace
}  // namespace coxswain::fleet
