#include "serve/router/autoscale_setup.h"

#include <initializer_list>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

using fleet::Role;
using ::testing::HasSubstr;
using namespace std::chrono_literals;

options::OptionValues values_of(std::initializer_list<const char*> arguments) {
  std::vector<const char*> argv{"text-generation-router"};
  argv.insert(argv.end(), arguments);
  auto result =
      options::parse(options::Binary::kRouter, static_cast<int>(argv.size()), argv.data(), {});
  EXPECT_EQ(result.exit_code, std::nullopt) << result.output;
  return std::move(result.values);
}

Result<fleet::AutoscalerOptions> options_of(std::initializer_list<const char*> arguments,
                                            const std::vector<Role>& roles = {Role::kMixed}) {
  return autoscaler_options(values_of(arguments), roles, 4);
}

TEST(AutoscaleSetup, DefaultsAreThePlanners) {
  const auto out = options_of({"--autoscale"});
  ASSERT_EQ(out.status(), Status());
  const fleet::PlannerConfig given;
  EXPECT_EQ(out->planner.prefill_backlog_s.lower, given.prefill_backlog_s.lower);
  EXPECT_EQ(out->planner.prefill_backlog_s.upper, given.prefill_backlog_s.upper);
  EXPECT_EQ(out->planner.prefill_use_max, given.prefill_use_max);
  EXPECT_EQ(out->planner.decode_occupancy.lower, given.decode_occupancy.lower);
  EXPECT_EQ(out->planner.decode_occupancy.upper, given.decode_occupancy.upper);
  EXPECT_EQ(out->planner.migration_s.upper, given.migration_s.upper);
  EXPECT_EQ(out->planner.down_cooldown, given.down_cooldown);
  EXPECT_EQ(out->planner.changes_max, given.changes_max);
  EXPECT_EQ(out->planner.drain_deadline, given.drain_deadline);
  EXPECT_EQ(out->planner.loads_max, given.loads_max);
  EXPECT_EQ(out->planner.target_ttft, std::nullopt);
  EXPECT_TRUE(out->planner.mixed && out->measured.prefill && out->measured.transfer);
  EXPECT_TRUE(out->measures_start && !out->dry_run);
  EXPECT_EQ(out->planner.prefill_max, 4U);
}

TEST(AutoscaleSetup, WhatIsGivenHolds) {
  const auto out = options_of({"--autoscale",
                               "--planner=dry-run",
                               "--target-ttft-ms=300",
                               "--target-itl-ms=40",
                               "--planner-prefill-rate=70",
                               "--planner-transfer-rate=90",
                               "--planner-start-ms=1500",
                               "--planner-use-max=0.9",
                               "--planner-warm-ttl-ms=5"},
                              {Role::kPrefill, Role::kDecode});
  ASSERT_EQ(out.status(), Status());
  EXPECT_EQ(out->planner.target_ttft, 300ms);
  EXPECT_EQ(out->planner.target_itl, 40ms);
  EXPECT_EQ(out->planner.tokens_prefilled_per_s, 70.0);
  EXPECT_EQ(out->planner.tokens_transferred_per_s, 90.0);
  EXPECT_EQ(out->measured.start_s, 1.5);
  EXPECT_EQ(out->planner.prefill_use_max, 0.9);
  EXPECT_FALSE(out->planner.mixed || out->measured.prefill || out->measured.transfer);
  EXPECT_FALSE(out->measures_start);
  EXPECT_TRUE(out->dry_run);
  EXPECT_EQ(out->warm_ttl, 5ms);
}

TEST(AutoscaleSetup, WhatContradictsItselfIsRefusedByName) {
  const auto refusal = [](std::initializer_list<const char*> arguments,
                          const std::vector<Role>& roles) {
    return options_of(arguments, roles).status().message();
  };
  EXPECT_THAT(refusal({"--planner-backlog-low-ms=500"}, {Role::kMixed}),
              HasSubstr("`planner_backlog_low_ms`"));
  EXPECT_THAT(refusal({"--planner-occupancy-low=0.9"}, {Role::kMixed}),
              HasSubstr("`planner_occupancy_low`"));
  EXPECT_THAT(refusal({}, {Role::kMixed, Role::kDecode}), HasSubstr("`roles`"));
  EXPECT_THAT(refusal({"--replicas-min=2"}, {Role::kPrefill, Role::kDecode, Role::kDecode}),
              HasSubstr("fewer are prefill"));
}

TEST(LauncherProcesses, AsksAndIsTold) {
  telemetry::Logger log(
      {.level = telemetry::Level::kError, .target = "test", .file_descriptor = 2});
  auto ends = ReplicaChannel::make();
  ASSERT_EQ(ends.status(), Status());
  const ReplicaChannel launcher = std::move(ends->first);
  LauncherProcesses processes(std::move(ends->second), 3, log);
  ASSERT_EQ(processes.start(2), Status());
  ASSERT_EQ(processes.stop(1), Status());
  const auto asked = launcher.receive(3, [](const Status&) {});
  EXPECT_THAT(asked,
              ::testing::ElementsAre(ReplicaMessage{ReplicaVerb::kStart, 2},
                                     ReplicaMessage{ReplicaVerb::kStop, 1}));
  ASSERT_EQ(launcher.send({.verb = ReplicaVerb::kFailed, .replica = 2}), Status());
  ASSERT_EQ(launcher.send({.verb = ReplicaVerb::kStart, .replica = 2}), Status());
  const auto news = processes.news();
  ASSERT_EQ(news.size(), 1U) << "what only a router says is no news";
  EXPECT_EQ(news[0].replica, 2U);
  EXPECT_EQ(news[0].what, fleet::ProcessNews::What::kFailed);
}

}  // namespace
}  // namespace coxswain::serve
