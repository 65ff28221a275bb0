#include "serve/launcher_plan.h"

#include <algorithm>
#include <csignal>
#include <initializer_list>
#include <utility>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "serve/port_lease.h"
#include "serve/weights_file.h"

namespace coxswain::serve {
namespace {

using ::testing::AllOf;
using ::testing::AnyOf;
using ::testing::Contains;
using ::testing::Each;
using ::testing::ElementsAre;
using ::testing::HasSubstr;
using ::testing::Not;
using ::testing::Pair;
using ::testing::StartsWith;

options::OptionValues values_of(std::initializer_list<const char*> arguments,
                                const options::Environment& environment = {}) {
  std::vector<const char*> argv{"text-generation-launcher"};
  argv.insert(argv.end(), arguments);
  auto result = options::parse(
      options::Binary::kLauncher, static_cast<int>(argv.size()), argv.data(), environment);
  EXPECT_EQ(result.exit_code, std::nullopt) << result.output;
  return std::move(result.values);
}

LauncherSite site() {
  return {.model = {.folder = "/models/a", .name = "a"},
          .port = 3001,
          .run_folder = "/run/x",
          .program_folder = "/opt/bin"};
}

LauncherPlan plan_of(std::initializer_list<const char*> arguments,
                     const options::Environment& environment = {}) {
  return make_launcher_plan(values_of(arguments, environment), site());
}

TEST(LauncherPlanText, HasTheCommandsWithoutKeys) {
  const auto values = values_of({"--plan", "--threads=3", "--api-key=secret", "--replicas=2"});
  LauncherSite there = site();
  there.memory_bytes = 4000;
  const std::string text = plan_text(make_launcher_plan(values, there), "/models/a");
  EXPECT_THAT(text, StartsWith("model    /models/a\nreplicas 2, of which 2 start; "));
  EXPECT_THAT(text, HasSubstr("\nshard    /opt/bin/text-generation-server serve /models/a "));
  EXPECT_THAT(text, HasSubstr(" --threads=3 "));
  EXPECT_THAT(text, HasSubstr(" --memory-bytes-max=2000 "));
  EXPECT_THAT(text, HasSubstr("\nrouter   /opt/bin/text-generation-router "));
  EXPECT_THAT(text, Not(AnyOf(HasSubstr("secret"), HasSubstr("--plan"))));
  // The shard that the launcher becomes is asked for its plan.
  EXPECT_THAT(make_launcher_plan(values, there).replicas.front().shard.argv, Contains("--plan"));
}

std::string refusal(std::initializer_list<const char*> arguments) {
  return validate_launcher_options(values_of(arguments)).message();
}

TEST(LauncherPlan, TheChildrenMeetInThePrivateFolder) {
  const LauncherPlan plan = plan_of({"--model-id=a"});
  EXPECT_EQ(plan.replicas[0].socket, "/run/x/shard-0");
  EXPECT_EQ(plan.replicas[0].shard.argv[0], "/opt/bin/text-generation-server");
  EXPECT_EQ(plan.replicas[0].shard.argv[1], "serve");
  EXPECT_EQ(plan.replicas[0].shard.argv[2], "/models/a");
  EXPECT_THAT(plan.replicas[0].shard.argv, Contains("--uds-path=/run/x/shard"));
  EXPECT_EQ(plan.router.argv[0], "/opt/bin/text-generation-router");
  EXPECT_THAT(plan.router.argv,
              AllOf(Contains("--tokenizer-name=/models/a"),
                    Contains("--port=3001"),
                    Contains("--master-shard-uds-path=/run/x/shard-0"),
                    Contains("--served-model-name=a")));
  EXPECT_THAT(plan.replicas[0].shard.environment,
              Contains(Pair("COXSWAIN_STATUS_FILE", plan.replicas[0].status_file)));
  EXPECT_THAT(plan.router.environment,
              Contains(Pair("COXSWAIN_STATUS_FILE", plan.router_status_file)));
  EXPECT_NE(plan.replicas[0].status_file, plan.router_status_file);
  for (const supervise::ChildSpec* child : {&plan.replicas[0].shard, &plan.router}) {
    EXPECT_THAT(child->signals_held, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGUSR1));
  }
}

TEST(LauncherPlan, TheRouterInheritsThePorts) {
  LauncherSite with_ports = site();
  with_ports.listen_fd = 7;
  with_ports.metrics_fd = 9;
  const LauncherPlan plan = make_launcher_plan(values_of({"--model-id=a"}), with_ports);
  EXPECT_THAT(plan.router.descriptors_kept, ElementsAre(7, 9));
  EXPECT_THAT(
      plan.router.environment,
      AllOf(Contains(Pair(kListenVariable, "7")), Contains(Pair(kMetricsListenVariable, "9"))));
  EXPECT_TRUE(plan.replicas[0].shard.descriptors_kept.empty());
  EXPECT_TRUE(plan_of({"--model-id=a"}).router.descriptors_kept.empty());
}

TEST(LauncherPlan, EveryShardInheritsTheFileOfTheWeights) {
  LauncherSite with_file = site();
  with_file.weights_fd = 7;
  const LauncherPlan plan = make_launcher_plan(
      values_of({"--model-id=a", "--autoscale", "--replicas=1", "--replicas-max=3"}), with_file);
  ASSERT_EQ(plan.replicas.size(), 3U);
  for (const ReplicaPlan& replica : plan.replicas) {
    EXPECT_THAT(replica.shard.descriptors_kept, ElementsAre(7));
    EXPECT_THAT(replica.shard.environment, Contains(Pair(kWeightsFileVariable, "7:3")));
  }
  EXPECT_TRUE(plan.router.descriptors_kept.empty());
  // One of an outer launcher is not meant.
  const LauncherPlan alone = plan_of({"--model-id=a"});
  EXPECT_THAT(alone.replicas[0].shard.environment_removed, Contains(kWeightsFileVariable));
  EXPECT_TRUE(alone.replicas[0].shard.descriptors_kept.empty());
}

TEST(LauncherPlan, AnExplicitSocketPathIsKept) {
  const LauncherPlan plan = plan_of({"--model-id=a", "--shard-uds-path=/tmp/tgi"});
  EXPECT_EQ(plan.replicas[0].socket, "/tmp/tgi-0");
  EXPECT_THAT(plan.replicas[0].shard.argv, Contains("--uds-path=/tmp/tgi"));
}

TEST(LauncherPlan, OptionsGoToThoseThatHaveThem) {
  const LauncherPlan plan =
      plan_of({"--model-id=a", "--threads=2", "--dtype=float32", "--port=5", "--json-output"},
              {{"MAX_BEST_OF", "3"}});
  EXPECT_THAT(
      plan.replicas[0].shard.argv,
      AllOf(Contains("--threads=2"), Contains("--dtype=float32"), Contains("--json-output")));
  EXPECT_THAT(plan.replicas[0].shard.argv, Each(Not(StartsWith("--max-best-of"))));
  EXPECT_EQ(std::ranges::count(plan.replicas[0].shard.argv, "--json-output"), 1);
  EXPECT_THAT(
      plan.router.argv,
      AllOf(Contains("--max-best-of=3"), Contains("--json-output"), Contains("--port=3001")));
  EXPECT_THAT(plan.router.argv, Not(Contains("--port=5")));
  EXPECT_THAT(plan.router.argv, Each(Not(StartsWith("--threads"))));
}

TEST(LauncherPlan, TheShardAlwaysLogsRecordsAtTheLaunchersLevel) {
  const LauncherPlan other =
      plan_of({"--model-id=a"}, {{"LOG_LEVEL", "text_generation_launcher=warn,debug"}});
  EXPECT_THAT(other.replicas[0].shard.argv, Contains("--logger-level=warn"));
  const LauncherPlan plan = plan_of({"--model-id=a"}, {{"LOG_LEVEL", "debug"}});
  EXPECT_THAT(plan.replicas[0].shard.argv,
              AllOf(Contains("--json-output"), Contains("--logger-level=debug")));
  EXPECT_THAT(plan.replicas[0].shard.environment_removed, Contains("LOG_LEVEL"));
}

TEST(LauncherPlan, WhatGuessesTokensIsNamedByItsFolder) {
  LauncherSite found = site();
  found.guesser = "/models/a-draft";
  const auto values = values_of({"--model-id=a", "--speculate=4", "--speculative-model=a-draft"});
  EXPECT_THAT(make_launcher_plan(values, found).replicas[0].shard.argv,
              AllOf(Contains("--speculative-model=/models/a-draft"),
                    Contains("--speculate=4"),
                    Not(Contains("--speculative-model=a-draft"))));
  EXPECT_THAT(plan_of({"--model-id=a"}).replicas[0].shard.argv,
              Each(Not(StartsWith("--speculative-model"))));
}

TEST(LauncherPlan, TheOldNameOfTheInputLimitReachesBoth) {
  const LauncherPlan plan = plan_of({"--model-id=a", "--max-input-length=70"});
  EXPECT_THAT(plan.replicas[0].shard.argv, Contains("--max-input-tokens=70"));
  EXPECT_THAT(plan.router.argv, Contains("--max-input-tokens=70"));
}

TEST(LauncherPlan, TheKeyTravelsInTheEnvironmentOfTheRouterAlone) {
  const LauncherPlan plan = plan_of({"--model-id=a", "--api-key=secret"});
  for (const supervise::ChildSpec* child : {&plan.replicas[0].shard, &plan.router}) {
    EXPECT_THAT(child->argv, Each(Not(HasSubstr("secret"))));
  }
  EXPECT_THAT(plan.router.environment, Contains(Pair("API_KEY", "secret")));
  EXPECT_THAT(plan.replicas[0].shard.environment_removed, Contains("API_KEY"));
}

TEST(LauncherPlan, VariablesWithoutEffectAreReportedOnce) {
  const LauncherPlan plan = plan_of({"--model-id=a"});
  for (const supervise::ChildSpec* child : {&plan.replicas[0].shard, &plan.router}) {
    EXPECT_THAT(child->environment_removed,
                AllOf(Contains("USAGE_STATS"), Contains("TRUST_REMOTE_CODE")));
    EXPECT_THAT(child->environment_removed, Not(Contains("PORT")));
  }
}

LauncherPlan plan_of_three(std::initializer_list<const char*> arguments) {
  LauncherSite machine = site();
  machine.cores = 8;
  machine.memory_bytes = 9000;
  return make_launcher_plan(values_of(arguments), machine);
}

TEST(LauncherPlan, ReplicasShareTheMachine) {
  const LauncherPlan plan =
      plan_of_three({"--model-id=a", "--replicas=3", "--kv-cache-bytes-max=600"});
  ASSERT_EQ(plan.replicas.size(), 3U);
  EXPECT_EQ(plan.replicas[0].socket, "/run/x/shard-0");
  EXPECT_EQ(plan.replicas[2].socket, "/run/x/shard-replica-2-0");
  for (const ReplicaPlan& replica : plan.replicas) {
    EXPECT_THAT(replica.shard.argv,
                AllOf(Contains("--threads=2"),
                      Contains("--memory-bytes-max=3000"),
                      Contains("--kv-cache-bytes-max=200"),
                      Not(Contains("--kv-cache-bytes-max=600"))));
    EXPECT_THAT(replica.shard.environment,
                Contains(Pair("COXSWAIN_STATUS_FILE", replica.status_file)));
    EXPECT_THAT(replica.shard.signals_held, ElementsAre(SIGTERM, SIGINT, SIGHUP, SIGUSR1));
  }
  EXPECT_EQ(plan.replicas[1].shard.name, "replica-1");
  EXPECT_NE(plan.replicas[1].status_file, plan.replicas[0].status_file);
  EXPECT_THAT(plan.router.argv,
              AllOf(Contains("--master-shard-uds-path=/run/x/shard-0"),
                    Contains("--replica-uds-path=/run/x/shard-replica-1-0"),
                    Contains("--replica-uds-path=/run/x/shard-replica-2-0")));
}

TEST(LauncherPlan, WhatIsGivenIsSharedToo) {
  const LauncherPlan plan =
      plan_of_three({"--model-id=a", "--replicas=3", "--memory-bytes-max=600", "--threads=5"});
  EXPECT_THAT(plan.replicas[1].shard.argv,
              AllOf(Contains("--threads=5"), Contains("--memory-bytes-max=200")));
}

TEST(LauncherPlan, ShardsThatHandOverHaveRoomForIt) {
  const LauncherPlan plan = plan_of_three({"--model-id=a", "--replicas=3", "--roles=prefill=1"});
  EXPECT_THAT(plan.router.argv, Contains("--roles=prefill=1"));
  for (const ReplicaPlan& replica : plan.replicas)
    EXPECT_THAT(replica.shard.argv, Contains("--kv-handover-bytes-max=67108864"));
  const LauncherPlan given = plan_of_three(
      {"--model-id=a", "--replicas=3", "--roles=decode=1", "--kv-handover-bytes-max=9000"});
  EXPECT_THAT(given.replicas[2].shard.argv, Contains("--kv-handover-bytes-max=9000"));
  const LauncherPlan mixed = plan_of_three({"--model-id=a", "--replicas=3", "--roles=mixed=3"});
  EXPECT_THAT(mixed.replicas[0].shard.argv, Each(Not(StartsWith("--kv-handover-bytes-max"))));
  const LauncherPlan off =
      plan_of_three({"--model-id=a", "--replicas=3", "--roles=prefill=1", "--disaggregation=off"});
  EXPECT_THAT(off.replicas[0].shard.argv, Each(Not(StartsWith("--kv-handover-bytes-max"))));
  EXPECT_THAT(off.router.argv, Contains("--disaggregation=off"));
}

TEST(LauncherPlan, ASingleReplicaLooksForItself) {
  const LauncherPlan plan = plan_of_three({"--model-id=a"});
  ASSERT_EQ(plan.replicas.size(), 1U);
  EXPECT_EQ(plan.replicas[0].shard.name, "shard-0");
  EXPECT_THAT(plan.replicas[0].shard.argv,
              Each(Not(AnyOf(StartsWith("--threads"), StartsWith("--memory-bytes-max")))));
  EXPECT_THAT(plan.router.argv, Each(Not(StartsWith("--replica-uds-path"))));
}

TEST(LauncherPlan, AFleetThatScalesIsPlannedForAllThatThereCanBe) {
  LauncherSite machine = site();
  machine.cores = 8;
  machine.memory_bytes = 9000;
  machine.replica_fd = 7;
  const LauncherPlan plan = make_launcher_plan(
      values_of({"--model-id=a", "--replicas=1", "--autoscale", "--replicas-max=3"}), machine);
  ASSERT_EQ(plan.replicas.size(), 3U);
  EXPECT_EQ(plan.n_started, 1U);
  EXPECT_THAT(plan.replicas[0].shard.argv,
              AllOf(Contains("--threads=2"),
                    Contains("--memory-bytes-max=3000"),
                    Contains("--kv-handover-bytes-max=67108864")));
  EXPECT_THAT(plan.router.argv,
              AllOf(Contains("--autoscale"),
                    Contains("--replica-uds-path=/run/x/shard-replica-2-0"),
                    Not(Contains("--replicas-max=3"))));
  EXPECT_THAT(plan.router.environment, Contains(Pair("COXSWAIN_REPLICA_CHANNEL", "7:1")));
  EXPECT_THAT(plan.router.descriptors_kept, Contains(7));
}

TEST(LauncherOptions, RulesOfScaling) {
  EXPECT_EQ(refusal({"--autoscale", "--replicas-max=3"}), "");
  EXPECT_EQ(refusal({"--autoscale", "--replicas=2"}), "");
  EXPECT_EQ(refusal({"--autoscale", "--replicas-min=0", "--replicas-max=3"}), "");
  EXPECT_EQ(refusal({"--autoscale", "--replicas-min=0"}), "") << "one comes and goes";
  EXPECT_THAT(refusal({"--replicas-min=0"}), HasSubstr("`autoscale`"));
  EXPECT_THAT(refusal({"--replicas-max=3"}), HasSubstr("`autoscale`"));
  EXPECT_THAT(refusal({"--autoscale"}), HasSubstr("`replicas_max` above 1"));
  EXPECT_THAT(refusal({"--autoscale", "--replicas=4", "--replicas-max=3"}),
              HasSubstr("Given: 4 and 1..3"));
  EXPECT_THAT(refusal({"--autoscale", "--replicas-min=2", "--replicas-max=3"}),
              HasSubstr("Given: 1 and 2..3"));
  EXPECT_THAT(refusal({"--autoscale", "--replicas-max=3", "--pin-threads"}),
              HasSubstr("`pin_threads`"));
  EXPECT_THAT(refusal({"--autoscale", "--replicas=3", "--roles=prefill=1,decode=1"}),
              HasSubstr("`roles`"));
  EXPECT_THAT(refusal({"--autoscale",
                       "--replicas-max=3",
                       "--planner-backlog-low-ms=9",
                       "--planner-backlog-high-ms=8"}),
              HasSubstr("Given: 9 and 8"));
}

TEST(LauncherOptions, RulesOfReplicas) {
  EXPECT_EQ(refusal({"--replicas=2", "--roles=mixed=2"}), "");
  EXPECT_THAT(refusal({"--replicas=2", "--roles=mixed=3"}), HasSubstr("`replicas` is 2"));
  EXPECT_EQ(refusal({"--replicas=2", "--roles=prefill=1,decode=1"}), "");
  EXPECT_THAT(refusal({"--replicas=2", "--roles=prefill=2"}), HasSubstr("that generates"));
  EXPECT_THAT(refusal({"--roles=prefill=1"}), HasSubstr("`replicas` is 1"));
  EXPECT_THAT(refusal({"--replicas=2", "--pin-threads"}), HasSubstr("`pin_threads`"));
  EXPECT_EQ(refusal({"--pin-threads"}), "");
}

TEST(LauncherOptions, RulesOverSeveralOptions) {
  EXPECT_EQ(refusal({"--max-input-tokens=5", "--max-total-tokens=6"}), "");
  EXPECT_EQ(refusal({"--num-shard=0"}), "`num_shard` cannot be < 1");
  EXPECT_EQ(refusal({"--max-input-tokens=6", "--max-total-tokens=6"}),
            "`max_input_tokens`(6) must be < `max_total_tokens`(6)");
  EXPECT_EQ(refusal({"--max-input-length=7", "--max-total-tokens=6"}),
            "`max_input_tokens`(7) must be < `max_total_tokens`(6)");
  EXPECT_THAT(refusal({"--max-input-tokens=5", "--max-input-length=5"}),
              StartsWith("Both `max_input_tokens` (5)"));
  EXPECT_EQ(refusal({"--max-total-tokens=7", "--max-batch-total-tokens=6"}),
            "`max_total_tokens` must be <= `max_batch_total_tokens`. Given: 7 and 6");
  EXPECT_EQ(refusal({"--validation-workers=0"}), "`validation_workers` must be > 0");
  EXPECT_EQ(refusal({"--max-batch-size=0"}), "`max_batch_size` must be > 0");
  EXPECT_EQ(refusal({"--port=81", "--prometheus-port=81"}),
            "`prometheus_port` must not be `port`. Given: 81");
  EXPECT_EQ(refusal({"--port=0", "--prometheus-port=0"}), "");
  EXPECT_THAT(refusal({"--admin-listen=0.0.0.0:81"}), StartsWith("`admin_listen` must be"));
  EXPECT_EQ(refusal({"--admin-listen=localhost:81"}), "");
}

}  // namespace
}  // namespace coxswain::serve
