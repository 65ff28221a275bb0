// Replicas for prompts beside replicas that generate: what is computed where changes no answer.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/recorder.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::fleet {
namespace {

using batch::GenerationRequest;
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
  // In chunks of 16 tokens.
  static GenerationRequest longer_request(std::uint64_t id) {
    GenerationRequest out = request_of(id, 12);
    out.prompt.clear();
    for (std::uint64_t i = 0; i < 150 + id % 20; ++i)
      out.prompt.push_back(static_cast<TokenId>((7 * id + 3 * i) % 50));
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

// Unless the other one is still busy with the one before, or not asked yet whether it loads.
TEST_F(RolesTest, BlocksPassWhileThePromptIsComputed) {
  const auto fleet = two(0, 0);
  std::vector<Open> open;
  for (std::uint64_t id = 1; id <= 5 || (*fleet)->status().handovers.n_bytes_ahead == 0; ++id) {
    open.push_back({longer_request(id), std::make_shared<Recorder>()});
    ASSERT_TRUE((*fleet)->submit(open.back().request, open.back().sink).ok());
    open.back().sink->wait_final();
  }
  expect_all(open);
  fleet->expect_idle();
  const FleetStatus status = (*fleet)->status();
  EXPECT_GT(status.handovers.n_moved, 0U);
  EXPECT_EQ(status.handovers.n_recomputed, 0U);
  EXPECT_GT(status.handovers.n_bytes, status.handovers.n_bytes_ahead);
  EXPECT_EQ(fleet->metrics().kv_handover_bytes.value(), status.handovers.n_bytes);
}

// The destination has room for one of the longer ones, and a half.
TEST_F(RolesTest, BlocksThatPassAheadTakeNoRoomFromOthers) {
  const auto fleet = two(0, 0);
  std::vector<Open> open;
  for (std::uint64_t id = 1; id <= 30; ++id) {
    open.push_back(
        {id % 3 == 0 ? long_request(id) : longer_request(id), std::make_shared<Recorder>()});
    ASSERT_TRUE((*fleet)->submit(open.back().request, open.back().sink).ok());
  }
  expect_all(open);
  fleet->expect_idle();
}

TEST_F(RolesTest, EitherMayBeLostWhileBlocksPassAhead) {
  for (std::uint64_t step = 1; step <= 30; ++step) {
    for (const bool prompts : {true, false}) {
      SCOPED_TRACE(step);
      const auto fleet = two(prompts ? step : 0, prompts ? 0 : step);
      std::vector<Open> open;
      for (std::uint64_t id = 1; id <= 4; ++id) {
        open.push_back({longer_request(id), std::make_shared<Recorder>()});
        ASSERT_TRUE((*fleet)->submit(open.back().request, open.back().sink).ok());
      }
      expect_all(open);
      EXPECT_TRUE((*fleet)->drain(60s));
      EXPECT_EQ((*fleet)->status().n_requests, 0U);
    }
  }
}

// At whatever moment.
TEST_F(RolesTest, ACancelEndsWhatPassesAheadToo) {
  for (int i = 0; i < 60; ++i) {
    const auto fleet = two(0, 0);
    const auto sink = std::make_shared<Recorder>();
    ASSERT_TRUE((*fleet)->submit(longer_request(1), sink).ok());
    for (int n = 0; n < i && !sink->done(); ++n)
      std::this_thread::sleep_for(std::chrono::microseconds(20));
    (*fleet)->cancel(RequestId{1});
    const Status status = sink->wait();
    EXPECT_TRUE(status.ok() || status.code() == Code::kCancelled) << status.message();
    fleet->expect_idle();
  }
}

TEST_F(RolesTest, AFleetThatEndsAnswersWhatPassesAhead) {
  for (int i = 0; i < 30; ++i) {
    std::vector<std::shared_ptr<Recorder>> sinks;
    {
      const auto fleet = two(0, 0);
      for (std::uint64_t id = 1; id <= 4; ++id) {
        sinks.push_back(std::make_shared<Recorder>());
        ASSERT_TRUE((*fleet)->submit(longer_request(id), sinks.back()).ok());
      }
      for (int n = 0; n < i; ++n) std::this_thread::sleep_for(std::chrono::microseconds(20));
    }
    for (const auto& sink : sinks) EXPECT_TRUE(sink->done());
  }
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

}  // namespace
}  // namespace coxswain::fleet
