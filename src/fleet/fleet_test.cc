#include "fleet/fleet.h"

#include <algorithm>
#include <atomic>
#include <memory>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"

namespace coxswain::fleet {
namespace {

using batch::GenerationRequest;
using batch::testing::alone;
using batch::testing::expected_output;
using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using batch::testing::Recorder;
using batch::testing::RequestRecorder;
using namespace std::chrono_literals;

FakeRunnerOptions fake() {
  FakeRunnerOptions out;
  out.n_blocks = {65};
  out.eos_every = 40;
  out.capabilities.moves = true;
  return out;
}

// Says that it is dead from the step `dies_at` on; 0: never. As a process that was killed: nothing comes back.
std::shared_ptr<FakeRunner> runner_that_dies(const FakeRunnerOptions& options,
                                             std::uint64_t dies_at) {
  static std::atomic<std::uint64_t> epoch{100};
  FakeRunnerOptions own = options;
  own.epoch = epoch.fetch_add(1);
  auto out = std::make_shared<FakeRunner>(own);
  if (dies_at != 0) {
    out->step_failure = [dies_at](std::uint64_t step) {
      return step >= dies_at ? Status(Code::kUnavailable, "the shard was lost") : Status();
    };
  }
  return out;
}

class TestFleet {
 public:
  explicit TestFleet(std::vector<std::shared_ptr<FakeRunner>> runners,
                     const FleetOptions& options = {},
                     const batch::EngineOptions& engine = engine_options(),
                     const std::vector<Role>& roles = {})
      : runners_(std::move(runners)) {
    std::vector<FleetMember> members;
    members.reserve(runners_.size());
    for (const auto& runner : runners_) {
      members.push_back({.make_engine =
                             [runner, engine](batch::EngineObserver& observer) {
                               return batch::Engine::create(runner, engine, &observer);
                             },
                         .observer = nobody_,
                         .step_prompt_tokens = engine.prefill_tokens_max,
                         .role = roles.empty() ? Role::kMixed : roles[members.size()]});
    }
    fleet_ =
        std::make_unique<Fleet>(members, options, Fleet::Parts{.log = log_, .metrics = &metrics_});
  }
  ~TestFleet() {
    fleet_.reset();
    for (const auto& runner : runners_) EXPECT_EQ(runner->violations(), std::vector<std::string>());
    EXPECT_EQ(metrics_.queue_size.value(), 0);
  }

  static batch::EngineOptions engine_options() {
    batch::EngineOptions out;
    out.policy = CapacityPolicy::kMaxUtilization;
    out.prefill_tokens_max = 16;
    out.check_invariants = true;
    return out;
  }

  Fleet& operator*() { return *fleet_; }
  Fleet* operator->() { return fleet_.get(); }
  FakeRunner& runner(std::size_t i) { return *runners_[i]; }

  void replace(std::size_t replica, std::shared_ptr<FakeRunner> runner) {
    runners_.push_back(runner);
    fleet_->engine(replica).replace_runner(std::move(runner));
  }
  bool is_up(std::size_t replica) { return fleet_->engine(replica).stats().runner_up; }
  template <typename Condition>
  static void wait_until(Condition condition) {
    while (!condition()) std::this_thread::sleep_for(100us);
  }
  // Everything is answered, and nobody holds a block.
  void expect_idle() {
    EXPECT_TRUE(fleet_->drain(60s));
    // A source gives its blocks back behind the hand-over.
    wait_until([&] {
      return std::ranges::all_of(fleet_->status().replicas,
                                 [](const auto& r) { return r.stats.blocks_leased == 0; });
    });
    const FleetStatus status = fleet_->status();
    EXPECT_EQ(status.n_requests, 0U);
    EXPECT_EQ(status.n_waiting, 0U);
    for (const ReplicaStatus& replica : status.replicas) {
      EXPECT_EQ(replica.n_stays, 0U);
      EXPECT_EQ(replica.stats.blocks_retiring, 0U);
      EXPECT_EQ(replica.stats.queued + replica.stats.running, 0U);
    }
  }

 private:
  batch::EngineObserver nobody_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2}};
  telemetry::Metrics metrics_{telemetry::MetricsOptions{}};
  std::vector<std::shared_ptr<FakeRunner>> runners_;
  std::unique_ptr<Fleet> fleet_;
};

GenerationRequest request_of(std::uint64_t id, std::uint32_t n_new = 20) {
  GenerationRequest out;
  out.id = RequestId{id};
  for (std::uint64_t i = 0; i < 3 + id % 7; ++i)
    out.prompt.push_back(static_cast<TokenId>((7 * id + i) % 50));
  out.sampling.do_sample = id % 2 == 0;
  out.sampling.seed = 11 * id + 1;
  out.stopping.max_new_tokens = n_new;
  return out;
}

TEST(Fleet, RequestsAreSharedOut) {
  TestFleet fleet(
      {runner_that_dies(fake(), 0), runner_that_dies(fake(), 0), runner_that_dies(fake(), 0)});
  for (std::size_t i = 0; i < 3; ++i) fleet.runner(i).hold();
  std::vector<std::pair<GenerationRequest, std::shared_ptr<Recorder>>> open;
  for (std::uint64_t id = 1; id <= 60; ++id) {
    open.emplace_back(request_of(id), std::make_shared<Recorder>());
    ASSERT_TRUE(fleet->submit(open.back().first, open.back().second).ok());
  }
  for (std::size_t i = 0; i < 3; ++i) fleet.runner(i).release();
  for (auto& [request, sink] : open) {
    sink->wait_final();
    sink->expect_complete(expected_output(fake(), request), false);
  }
  fleet.expect_idle();
  for (std::size_t i = 0; i < 3; ++i) EXPECT_GE(fleet->engine(i).stats().finished, 4U);
}

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
    TestFleet::wait_until([&] {
      return std::ranges::all_of(fleet_->status().replicas, [](const ReplicaStatus& r) {
        return r.stats.running == 1 && r.stats.queued == 4;
      });
    });
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
  TestFleet::wait_until([&] { return !fleet.is_up(1) && fleet->status().n_waiting >= 2; });
  GenerationRequest request = request_of(101, 4);
  const auto common = std::make_shared<Recorder>();
  ASSERT_TRUE(fleet->submit(request, common).ok());
  request = request_of(102, 4);
  request.priority = 1;
  const auto urgent = std::make_shared<Recorder>();
  urgent->on_each = [&] { EXPECT_EQ(common->n_tokens(), 0U); };
  ASSERT_TRUE(fleet->submit(request, urgent).ok());
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

TEST(Fleet, EqualBeginningsMeet) {
  FakeRunnerOptions options = fake();
  options.n_blocks = {257};
  TestFleet fleet({runner_that_dies(options, 0), runner_that_dies(options, 0)});
  const auto run = [&](std::uint64_t id, TokenId begin) {
    GenerationRequest request = request_of(id, 3);
    request.prompt.assign(100, begin);
    request.prompt.push_back(static_cast<TokenId>(id % 50));
    const auto sink = std::make_shared<Recorder>();
    EXPECT_TRUE(fleet->submit(request, sink).ok());
    EXPECT_TRUE(sink->wait().ok());
    sink->expect_complete(expected_output(options, request), false);
    return sink->final_event().n_cached_prompt_tokens;
  };
  EXPECT_EQ(run(1, 7), 0U);
  for (std::uint64_t id = 2; id < 10; ++id) EXPECT_GE(run(id, 7), 96U);
}

class RolesTest : public ::testing::Test {
 protected:
  static FakeRunnerOptions movable() {
    FakeRunnerOptions out = fake();
    out.capabilities.attachments = true;
    out.capabilities.attachment_bytes_max = 22 << 10;
    out.about.max_total_tokens = 240;
    return out;
  }
  // One replica for prompts and one that generates, which die at these steps.
  static std::unique_ptr<TestFleet> two(std::uint64_t prompts_die_at,
                                        std::uint64_t others_die_at,
                                        const FakeRunnerOptions& runner = movable(),
                                        Disaggregation how = Disaggregation::kStatic) {
    return std::make_unique<TestFleet>(
        std::vector<std::shared_ptr<FakeRunner>>{runner_that_dies(runner, prompts_die_at),
                                                 runner_that_dies(runner, others_die_at)},
        FleetOptions{.resumes_max = 100, .apart_tokens_min = 8, .disaggregation = how},
        TestFleet::engine_options(),
        std::vector<Role>{Role::kPrefill, Role::kDecode});
  }
  static GenerationRequest long_request(std::uint64_t id) {
    GenerationRequest out = request_of(id, 12);
    out.prompt.assign(20 + id % 5, static_cast<TokenId>(id % 50));
    out.prompt_logprobs = id % 4 == 0;
    return out;
  }
  struct Open {
    GenerationRequest request;
    std::shared_ptr<Recorder> sink;
  };
  static void expect_all(const std::vector<Open>& open) {
    for (const Open& o : open) {
      o.sink->wait_final();
      o.sink->expect_complete(expected_output(movable(), o.request), o.request.prompt_logprobs);
    }
  }
};

TEST_F(RolesTest, PromptsAndWhatFollowsThemAreComputedApart) {
  const auto fleet = two(0, 0);
  std::vector<Open> open;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    open.push_back({long_request(id), std::make_shared<Recorder>()});
    ASSERT_TRUE((*fleet)->submit(open.back().request, open.back().sink).ok());
  }
  expect_all(open);
  fleet->expect_idle();
  EXPECT_EQ((*fleet)->engine(0).stats().generated_tokens, 20U) << "the first token of each";
  EXPECT_GT((*fleet)->engine(1).stats().generated_tokens, 20U);
}

// What pays depends on the time that steps take; answers do not.
TEST_F(RolesTest, WhereAPromptIsComputedChangesNothing) {
  const auto fleet = two(0, 0, movable(), Disaggregation::kAuto);
  std::vector<Open> open;
  for (std::uint64_t id = 1; id <= 60; ++id) {
    open.push_back({long_request(id), std::make_shared<Recorder>()});
    ASSERT_TRUE((*fleet)->submit(open.back().request, open.back().sink).ok());
  }
  expect_all(open);
  fleet->expect_idle();
  const FleetStatus status = (*fleet)->status();
  // One token alone is not handed over.
  const auto n_brief =
      std::ranges::count_if(open, [](const Open& o) { return o.sink->n_tokens() == 1; });
  const std::uint64_t n =
      status.n_together + status.handovers.n_moved + status.handovers.n_recomputed;
  EXPECT_LE(n, 60U);
  EXPECT_GE(n + static_cast<std::uint64_t>(n_brief), 60U);
  EXPECT_GE(status.n_together, 1U) << "nothing is known of steps at first";
}

TEST_F(RolesTest, BlocksAreKeptWhileNobodyHasRoom) {
  FakeRunnerOptions roomy = movable();
  roomy.n_blocks = {1025};
  const auto fleet = two(0, 0, roomy);
  fleet->runner(1).hold();
  std::vector<Open> open;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    open.push_back({long_request(id), std::make_shared<Recorder>()});
    ASSERT_TRUE((*fleet)->submit(open.back().request, open.back().sink).ok());
  }
  for (const Open& o : open) o.sink->wait_tokens(1);
  TestFleet::wait_until([&] { return (*fleet)->status().n_waiting >= 12; });
  (*fleet)->cancel(RequestId{20});
  EXPECT_EQ(open.back().sink->wait().code(), Code::kCancelled);
  open.pop_back();
  fleet->runner(1).release();
  expect_all(open);
  fleet->expect_idle();
  const FleetStatus status = (*fleet)->status();
  EXPECT_EQ(status.handovers.n_moved, 19U);
  EXPECT_EQ(status.handovers.n_recomputed, 0U);
  EXPECT_EQ(status.replicas[0].role, Role::kPrefill);
}

TEST_F(RolesTest, WhatIsNotComputedApartDoesNotWaitForPrompts) {
  const auto fleet = two(0, 0);
  fleet->runner(0).hold();
  std::vector<Open> open;
  for (std::uint64_t id = 1; id <= 20; ++id) {
    open.push_back({long_request(id), std::make_shared<Recorder>()});
    ASSERT_TRUE((*fleet)->submit(open.back().request, open.back().sink).ok());
  }
  TestFleet::wait_until([&] { return (*fleet)->status().n_waiting > 0; });
  GenerationRequest brief = request_of(101);
  brief.prompt.resize(5, 3);
  GenerationRequest several = long_request(102);
  several.more_seeds = {17};
  const auto first = std::make_shared<Recorder>();
  const auto second = std::make_shared<RequestRecorder>(2);
  ASSERT_TRUE((*fleet)->submit(brief, first).ok());
  ASSERT_TRUE((*fleet)->submit(several, second).ok());
  EXPECT_TRUE(first->wait().ok());
  EXPECT_TRUE((*second)[0].wait().ok());
  EXPECT_TRUE((*second)[1].wait().ok());
  EXPECT_FALSE(open.front().sink->done());
  fleet->runner(0).release();
  expect_all(open);
  first->expect_complete(expected_output(movable(), brief), false);
  fleet->expect_idle();
}

TEST_F(RolesTest, EitherMayBeLostAtAnyStep) {
  for (std::uint64_t step = 1; step <= 14; ++step) {
    for (const bool prompts : {true, false}) {
      SCOPED_TRACE(step);
      const auto fleet = two(prompts ? step : 0, prompts ? 0 : step);
      std::vector<Open> open;
      for (std::uint64_t id = 1; id <= 4; ++id) {
        open.push_back({long_request(id), std::make_shared<Recorder>()});
        ASSERT_TRUE((*fleet)->submit(open.back().request, open.back().sink).ok());
      }
      expect_all(open);
      EXPECT_TRUE((*fleet)->drain(60s));
      EXPECT_EQ((*fleet)->status().n_requests, 0U);
    }
  }
}

TEST_F(RolesTest, ACancelEndsItOnItsWayToo) {
  for (int i = 0; i < 50; ++i) {
    const auto fleet = two(0, 0);
    const auto sink = std::make_shared<Recorder>();
    sink->on_each = [&] {
      if (!sink->done()) (*fleet)->cancel(RequestId{1});  // with the first token
    };
    ASSERT_TRUE((*fleet)->submit(long_request(1), sink).ok());
    EXPECT_EQ(sink->wait().code(), Code::kCancelled);
    EXPECT_TRUE((*fleet)->drain(60s));
  }
}

// Kills at random, of replicas that come back; every request gets what it gets alone, once.
void live_through_kills(std::uint64_t seed) {
  SCOPED_TRACE(seed);
  std::uint64_t state = seed * 2654435761U + 1;
  const auto random = [&](std::uint64_t below) {
    state = state * 6364136223846793005U + 1442695040888963407U;
    return (state >> 33) % below;
  };
  const std::size_t n_replicas = 1 + random(3);
  std::vector<std::shared_ptr<FakeRunner>> runners;
  for (std::size_t i = 0; i < n_replicas; ++i)
    runners.push_back(runner_that_dies(fake(), 1 + random(30)));
  FleetOptions options;
  options.resumes_max = 1000;
  TestFleet fleet(std::move(runners), options);
  struct Open {
    GenerationRequest request;
    std::shared_ptr<RequestRecorder> sinks;
    bool leaves = false;
  };
  std::vector<Open> open;
  for (std::uint64_t id = 1; id <= 24; ++id) {
    GenerationRequest request = request_of(id, 1 + static_cast<std::uint32_t>(random(40)));
    request.priority = static_cast<std::int32_t>(random(2));
    for (std::uint64_t n = random(3); n > 0; --n) request.more_seeds.push_back(random(1000));
    open.push_back(
        {request, std::make_shared<RequestRecorder>(request.n_sequences()), random(5) == 0});
  }
  std::size_t n_sent = 0;
  std::size_t n_spared = 0;
  const auto all_done = [&] {
    return n_sent == open.size() &&
           std::ranges::all_of(open, [](const Open& o) { return o.sinks->done(); });
  };
  while (!all_done()) {
    for (std::size_t i = 0; i < n_replicas; ++i) {
      if (fleet.is_up(i)) continue;
      fleet.replace(i, runner_that_dies(fake(), ++n_spared > 20 ? 0 : 1 + random(30)));
    }
    if (n_sent < open.size()) {
      const Open& o = open[n_sent];
      const Status status = fleet->submit(o.request, o.sinks);
      if (status.ok()) ++n_sent;
      EXPECT_TRUE(status.ok() || status.code() == Code::kUnavailable) << status.message();
    }
    const Open& other = open[random(open.size())];
    if (other.leaves) fleet->cancel(other.request.id);
    std::this_thread::sleep_for(50us);
  }
  for (Open& o : open) {
    for (std::size_t i = 0; i < o.sinks->size(); ++i) {
      const Recorder& one = (*o.sinks)[i];
      const auto expected = expected_output(fake(), alone(o.request, i));
      if (o.leaves && one.final_event().status.code() == Code::kCancelled) {
        one.expect_beginning(expected);
      } else {
        one.expect_complete(expected, false);
      }
    }
  }
  for (std::size_t i = 0; i < n_replicas; ++i)
    if (!fleet.is_up(i)) fleet.replace(i, runner_that_dies(fake(), 0));
  fleet.expect_idle();
}

TEST(Fleet, KillsAtRandomChangeNothing) {
  for (std::uint64_t seed = 1; seed <= 40; ++seed) live_through_kills(seed);
}

}  // namespace
}  // namespace coxswain::fleet
