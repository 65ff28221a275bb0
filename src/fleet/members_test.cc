// Replicas that somebody else starts and ends: given work when they have come, and left while others go on.

#include <memory>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/recorder.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::fleet {
namespace {

using batch::testing::expected_output;
using batch::testing::Recorder;
using testing::fake;
using testing::request_of;
using testing::runner_that_dies;
using testing::TestFleet;

std::shared_ptr<Recorder> submit(TestFleet& fleet, std::uint64_t id) {
  auto sink = std::make_shared<Recorder>();
  EXPECT_EQ(fleet->submit(request_of(id), sink), Status());
  return sink;
}

void expect_whole(Recorder& sink, std::uint64_t id) {
  EXPECT_TRUE(sink.wait().ok());
  sink.expect_complete(expected_output(fake(), request_of(id)), false);
}

TEST(Members, TheFirstMayHaveAnyRole) {
  TestFleet fleet({runner_that_dies(fake(), 0), runner_that_dies(fake(), 0)},
                  {},
                  TestFleet::engine_options(),
                  {},
                  0);
  EXPECT_EQ(fleet->submit(request_of(1), std::make_shared<Recorder>()).code(), Code::kUnavailable);
  EXPECT_EQ(fleet->admit(2, Role::kMixed).code(), Code::kInvalidArgument);
  ASSERT_EQ(fleet->admit(1, Role::kDecode), Status());
  expect_whole(*submit(fleet, 1), 1);
  ASSERT_EQ(fleet->admit(0, Role::kPrefill), Status());
  EXPECT_EQ(fleet->status().replicas[0].role, Role::kPrefill);
  expect_whole(*submit(fleet, 2), 2);
  fleet.expect_idle();
}

TEST(Members, WithoutRolesEveryoneIsMixed) {
  TestFleet fleet({runner_that_dies(fake(), 0), runner_that_dies(fake(), 0)},
                  {.no_roles = invalid_argument("no prefix cache")},
                  TestFleet::engine_options(),
                  {},
                  1);
  ASSERT_EQ(fleet->admit(1, Role::kPrefill), Status());
  EXPECT_EQ(fleet->status().replicas[1].role, Role::kMixed);
}

// What it has, it has been told to give up.
void wait_until_migrating(TestFleet& fleet, std::size_t replica) {
  TestFleet::wait_until(
      [&] { return fleet->status().replicas[replica].drain.phase == DrainPhase::kMigrating; });
}

TEST(Members, WhatOneHasGoesElsewhereWhenItIsDismissed) {
  TestFleet fleet({runner_that_dies(fake(), 0), runner_that_dies(fake(), 0)},
                  {},
                  TestFleet::engine_options(),
                  {},
                  1);
  fleet.runner(0).hold();
  const auto first = submit(fleet, 1);
  TestFleet::wait_until([&] { return fleet->engine(0).stats().running == 1; });
  ASSERT_EQ(fleet->admit(1, Role::kMixed), Status());
  ASSERT_EQ(fleet->dismiss(0), Status());
  wait_until_migrating(fleet, 0);
  fleet.runner(0).release();
  expect_whole(*first, 1);
  EXPECT_GT(fleet->engine(1).stats().generated_tokens, 0U);
  EXPECT_EQ(fleet->status().n_resumed, 0U) << "nothing was lost";
  fleet.expect_idle();
}

TEST(Members, TheLastOneEndsWhatItHasAndGetsNothingNew) {
  TestFleet fleet({runner_that_dies(fake(), 0), runner_that_dies(fake(), 0)},
                  {},
                  TestFleet::engine_options(),
                  {},
                  1);
  fleet.runner(0).hold();
  const auto first = submit(fleet, 1);
  ASSERT_EQ(fleet->dismiss(0), Status());
  EXPECT_EQ(fleet->submit(request_of(3), std::make_shared<Recorder>()).code(), Code::kUnavailable);
  fleet.runner(0).release();
  expect_whole(*first, 1);
  EXPECT_EQ(fleet->engine(1).stats().generated_tokens, 0U);
}

TEST(Members, WhatTheLastOneHasGoesToTheFirstThatComes) {
  TestFleet fleet({runner_that_dies(fake(), 0), runner_that_dies(fake(), 0)},
                  {},
                  TestFleet::engine_options(),
                  {},
                  1);
  fleet.runner(0).hold();
  const auto first = submit(fleet, 1);
  TestFleet::wait_until([&] { return fleet->engine(0).stats().running == 1; });
  ASSERT_EQ(fleet->dismiss(0), Status());
  EXPECT_EQ(fleet->status().replicas[0].drain.phase, DrainPhase::kWaiting);
  ASSERT_EQ(fleet->admit(1, Role::kMixed), Status());
  wait_until_migrating(fleet, 0);
  fleet.runner(0).release();
  expect_whole(*first, 1);
  EXPECT_GT(fleet->engine(1).stats().generated_tokens, 0U);
  fleet.expect_idle();
}

}  // namespace
}  // namespace coxswain::fleet
