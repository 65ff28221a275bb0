#include "serve/router/cluster_control.h"

#include <memory>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "batch/testing/recorder.h"
#include "fleet/testing/test_fleet.h"

namespace coxswain::serve {
namespace {

using fleet::DrainPhase;
using fleet::Role;
using ::testing::HasSubstr;

class ClusterControl : public ::testing::Test {
 protected:
  void begin(const std::vector<Role>& roles, const fleet::FleetOptions& options = {}) {
    std::vector<std::shared_ptr<batch::testing::FakeRunner>> runners;
    for (std::size_t i = 0; i < roles.size(); ++i)
      runners.push_back(fleet::testing::runner_that_dies(
          fleet::testing::fake(), last_dies_ && i + 1 == roles.size() ? 1 : 0));
    fleet_ = std::make_unique<fleet::testing::TestFleet>(
        runners, options, fleet::testing::TestFleet::engine_options(), roles);
  }
  Status post(const std::string& body) { return modify_cluster_state(**fleet_, body, now_); }
  std::vector<Role> roles() {
    std::vector<Role> out;
    for (const auto& replica : (*fleet_)->status().replicas) out.push_back(replica.role);
    return out;
  }
  // Those that are given work.
  std::vector<bool> open() {
    std::vector<bool> out;
    for (const auto& replica : (*fleet_)->status().replicas)
      out.push_back(replica.drain.phase == DrainPhase::kNo);
    return out;
  }

  const TimePoint now_ = Clock::now();
  bool last_dies_ = false;
  std::unique_ptr<fleet::testing::TestFleet> fleet_;
};

TEST_F(ClusterControl, PrefillReplicasMutate) {
  begin({Role::kPrefill, Role::kPrefill, Role::kDecode});
  ASSERT_EQ(post(R"({"type":"TriggerMutation","data":{"stub_indices":[1]}})"), Status());
  EXPECT_EQ(roles(), (std::vector{Role::kPrefill, Role::kDecode, Role::kDecode}));
}

TEST_F(ClusterControl, WhatIsBroughtUpServesInItsNewRole) {
  begin({Role::kPrefill, Role::kDecode, Role::kMixed});
  ASSERT_EQ(post(R"({"type":"TriggerScaleDown","data":{"stub_indices":[2]}})"), Status());
  EXPECT_EQ(open(), (std::vector{true, true, false}));
  ASSERT_EQ(
      post(R"({"type":"TriggerPrefillUp","data":{"old_stub_indices":[0],"new_stub_indices":[2]}})"),
      Status());
  EXPECT_EQ(open(), (std::vector{true, true, true}));
  EXPECT_EQ(roles(), (std::vector{Role::kPrefill, Role::kDecode, Role::kPrefill}));
  ASSERT_EQ(
      post(R"({"type":"TriggerDecodeUp","data":{"old_stub_indices":[0],"new_stub_indices":[2]}})"),
      Status());
  EXPECT_EQ(roles().back(), Role::kDecode);
  ASSERT_EQ(
      post(R"({"type":"TriggerNormalUp","data":{"old_stub_indices":[0],"new_stub_indices":[2]}})"),
      Status());
  EXPECT_EQ(roles().back(), Role::kMixed);
}

TEST_F(ClusterControl, WhatIsTakenDownMayEndOrGoesAtOnce) {
  begin({Role::kMixed, Role::kMixed, Role::kMixed});
  ASSERT_EQ(post(R"({"type":"TriggerNoramalDown","data":{"stub_indices":[0]}})"), Status());
  ASSERT_EQ(post(R"({"type":"TriggerScaleDown","data":{"stub_indices":[1]}})"), Status());
  fleet_->wait_until(
      [&] { return (*fleet_)->status().replicas[1].drain.phase == DrainPhase::kMigrating; });
  const fleet::Drain first = (*fleet_)->status().replicas[0].drain;
  EXPECT_EQ(first.phase, DrainPhase::kWaiting);
  EXPECT_EQ(first.deadline, now_ + kDrainTime);
  EXPECT_EQ(open(), (std::vector{false, false, true}));
}

TEST_F(ClusterControl, NothingIsDoneOfWhatCannotBe) {
  begin({Role::kPrefill, Role::kDecode});
  const Status no_prompts = post(R"({"type":"TriggerMutation","data":{"stub_indices":[0]}})");
  EXPECT_EQ(no_prompts.code(), Code::kInvalidArgument);
  EXPECT_THAT(no_prompts.message(), HasSubstr("computes prompts"));
  const Status none_left = post(R"({"type":"TriggerScaleDown","data":{"stub_indices":[0,1]}})");
  EXPECT_EQ(none_left.code(), Code::kFailedPrecondition);
  EXPECT_EQ(none_left.message(), "`stub_indices` would leave no replica that serves");
  EXPECT_EQ(post(R"({"type":"TriggerMutation","data":{"stub_indices":[2]}})").field(),
            "stub_indices");
  EXPECT_EQ(post(R"({"type":"TriggerSideways","data":{}})").field(), "type");
  EXPECT_FALSE(post("no document").ok());
  EXPECT_EQ(roles(), (std::vector{Role::kPrefill, Role::kDecode}));
  EXPECT_EQ(open(), (std::vector{true, true}));
}

TEST_F(ClusterControl, ALostReplicaIsNoneThatServes) {
  last_dies_ = true;
  begin({Role::kMixed, Role::kMixed, Role::kMixed});
  const std::string down = R"({"type":"TriggerScaleDown","data":{"stub_indices":[0,1]}})";
  ASSERT_EQ(post(down), Status());
  // It is the last one that takes it, and dies of it.
  const auto sink = std::make_shared<batch::testing::RequestRecorder>(1);
  ASSERT_EQ((*fleet_)->submit(fleet::testing::request_of(1), sink), Status());
  fleet_->wait_until([&] { return !fleet_->is_up(2); });
  ASSERT_EQ(
      post(
          R"({"type":"TriggerNormalUp","data":{"old_stub_indices":[2],"new_stub_indices":[0,1]}})"),
      Status());
  EXPECT_EQ(post(down).code(), Code::kFailedPrecondition);
  EXPECT_EQ(open(), (std::vector{true, true, true})) << "not the first of the two alone";
  (*sink)[0].wait_final();
  EXPECT_EQ((*sink)[0].final_event().status, Status());
}

TEST_F(ClusterControl, AFleetWithoutRolesDrains) {
  begin({Role::kMixed, Role::kMixed}, {.no_roles = invalid_argument("no roles here")});
  EXPECT_EQ(post(R"({"type":"TriggerDecodeUp","data":{"old_stub_indices":[0],)"
                 R"("new_stub_indices":[1]}})")
                .message(),
            "no roles here");
  EXPECT_EQ(post(R"({"type":"TriggerScaleDown","data":{"stub_indices":[1]}})"), Status());
  EXPECT_EQ(open(), (std::vector{true, false}));
}

}  // namespace
}  // namespace coxswain::serve
