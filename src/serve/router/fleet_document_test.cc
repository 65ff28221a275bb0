#include "serve/router/fleet_document.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

using ::testing::AllOf;
using ::testing::HasSubstr;
using ::testing::Not;

FleetView view_of_two() {
  FleetView out;
  out.status.replicas = {
      {.stats = {.queued = 1, .running = 2, .steps = 30, .blocks_total = 9, .blocks_free = 4},
       .role = fleet::Role::kPrefill,
       .incarnation = 1,
       .n_stays = 3},
      {.stats = {}, .incarnation = 4, .n_stays = 0}};
  out.status.n_requests = 5;
  out.status.n_waiting = 2;
  out.status.n_resuming = 1;
  out.status.n_resumed = 7;
  out.status.handovers = {.n_moved = 8,
                          .n_recomputed = 2,
                          .n_bytes = 4096,
                          .n_bytes_ahead = 1024,
                          .n_running = 1,
                          .transport = "memory"};
  out.status.n_together = 3;
  out.health = {Status(), Status(Code::kUnavailable, "no socket")};
  out.addresses = {"/run/shard-0", "tcp://b:9400"};
  return out;
}

TEST(FleetDocument, EachReplicaAndTheWhole) {
  EXPECT_EQ(
      json::write(fleet_document(view_of_two())),
      R"({"replicas":[{"replica":0,"address":"/run/shard-0","role":"prefill","state":"serving","admission":"open","drain":"no",)"
      R"("blitz_name":"AusPrefill","incarnation":1,"restarts":0,"requests":3,"queued":1,"running":2,"blocks":{"total":9,"free":4,"cached":0,"leased":0,"retiring":0},"steps":30,)"
      R"("prompt_tokens":0,"cached_prompt_tokens":0,"generated_tokens":0,"pauses":0},)"
      R"({"replica":1,"address":"tcp://b:9400","role":"mixed","state":"lost","reason":"no socket","admission":"closed","drain":"no",)"
      R"("blitz_name":"Inactive","incarnation":4,"restarts":3,"requests":0,"queued":0,"running":0,"blocks":{"total":0,"free":0,"cached":0,"leased":0,"retiring":0},"steps":0,)"
      R"("prompt_tokens":0,"cached_prompt_tokens":0,"generated_tokens":0,"pauses":0}],)"
      R"("serving":1,"restarts":3,"requests":5,"waiting":2,"resuming":1,"resumed":7,)"
      R"("handovers":{"moved":8,"recomputed":2,"running":1,"bytes":4096,"bytes_ahead":1024,"transport":"memory","together":3},)"
      R"("divided":{"moved":0,"layers":0,"finished":0,"recomputed":0}})");
}

TEST(FleetDocument, AReplicaThatIsSlowIsLate) {
  FleetView view = view_of_two();
  view.health[1] = Status(Code::kDeadlineExceeded, "no step has finished");
  EXPECT_THAT(json::write(fleet_document(view)), HasSubstr(R"("state":"late")"));
}

TEST(FleetDocument, LayersThatAreThereAreShownOnceAStepHasSaidSo) {
  FleetView view = view_of_two();
  EXPECT_THAT(json::write(fleet_document(view)), Not(HasSubstr("layers_ready")));
  view.status.replicas[0].stats.layers_ready = 5;
  EXPECT_THAT(json::write(fleet_document(view)), HasSubstr(R"("layers_ready":5,"steps":30)"));
}

TEST(FleetDocument, AReplicaThatLoadsHelpsTheOthers) {
  FleetView view = view_of_two();
  view.health[1] = {};
  view.status.replicas[1].stats.layers_ready = 2;
  view.status.replicas[1].live = {.phase = fleet::LivePhase::kLoading,
                                  .n_layers = 6,
                                  .layers_ready = 2,
                                  .n_prompts = 1,
                                  .n_prompts_begun = 4,
                                  .n_layers_run = 7};
  view.status.divided = {.n_moved = 3, .n_layers = 5, .n_finished = 1, .n_recomputed = 2};
  const std::string loading = json::write(fleet_document(view));
  EXPECT_THAT(loading, HasSubstr(R"("assist":"donor","blitz_name":"OldPrefill")"));
  EXPECT_THAT(loading, HasSubstr(R"("assist":"target","blitz_name":"NewPrefill")"));
  EXPECT_THAT(
      loading,
      HasSubstr(
          R"("layers_ready":2,"layers":6,"first_layers":{"prompts":1,"begun":4,"layers":7},)"));
  EXPECT_THAT(loading,
              HasSubstr(R"("divided":{"moved":3,"layers":5,"finished":1,"recomputed":2})"));
  EXPECT_THAT(replica_metrics(view, telemetry::TextFormat::kPrometheus),
              AllOf(HasSubstr("tgi_replica_layers_ready{replica=\"1\"} 2"),
                    HasSubstr("tgi_replica_first_layers_total{replica=\"1\"} 7")));
  view.status.replicas[1].live.phase = fleet::LivePhase::kRefractory;
  EXPECT_THAT(json::write(fleet_document(view)),
              HasSubstr(R"("admission":"pull_only","drain":"no","assist":"refractory",)"));
  view.status.replicas[1].live.phase = fleet::LivePhase::kWhole;
  EXPECT_THAT(json::write(fleet_document(view)), Not(HasSubstr("assist")));
  view.status.replicas[1].live.phase = fleet::LivePhase::kLoading;
  view.status.replicas[1].role = fleet::Role::kDecode;
  EXPECT_THAT(json::write(fleet_document(view)),
              AllOf(Not(HasSubstr("assist")), HasSubstr(R"("blitz_name":"LoadingDecode")")));
}

TEST(FleetDocument, ADrainedReplicaIsShown) {
  FleetView view = view_of_two();
  view.status.replicas[0].drain.phase = fleet::DrainPhase::kWaiting;
  const std::string busy = json::write(fleet_document(view));
  EXPECT_THAT(busy, HasSubstr(R"("admission":"closed","drain":"waiting","blitz_name":"Shutting)"));
  view.status.replicas[0].n_stays = 0;
  view.status.replicas[0].drain.phase = fleet::DrainPhase::kMigrating;
  EXPECT_THAT(json::write(fleet_document(view)),
              HasSubstr(R"("drain":"migrating","blitz_name":"ShuttingNull")"));
}

TEST(FleetDocument, AFleetThatScalesItselfTellsWhatItDecided) {
  FleetView view = view_of_two();
  view.now = TimePoint(std::chrono::seconds(100));
  view.status.replicas[1].incarnation = 0;
  view.scaling =
      fleet::AutoscalerView{.dry_run = true,
                            .replicas_min = 1,
                            .replicas_max = 2,
                            .state = "zero",
                            .n_failed_starts = 2,
                            .inputs = {},
                            .presences = {fleet::Presence::kPresent, fleet::Presence::kAbsent},
                            .decisions = {{.at = TimePoint(std::chrono::seconds(98)),
                                           .decision = {.choice = fleet::Choice::kLoad,
                                                        .replica = {.replica = fleet::ReplicaId{1}},
                                                        .command = fleet::Load{},
                                                        .reason = "more are needed",
                                                        .inputs = {.waiting_tokens = 70,
                                                                   .n_waiting = 5,
                                                                   .prefill = {.n = 1, .min = 2}}},
                                           .outcome = "dry run"}}};
  const std::string text = json::write(fleet_document(view));
  EXPECT_THAT(text, HasSubstr(R"("state":"absent")"));
  EXPECT_THAT(text, HasSubstr(R"("incarnation":0,"restarts":0)"));
  EXPECT_THAT(text,
              HasSubstr(R"("autoscale":{"planner":"dry-run","replicas_min":1,"replicas_max":2,)"
                        R"("state":"zero","failed_starts":2,)"));
  EXPECT_THAT(text,
              HasSubstr(R"({"ago_ms":2000,"decision":"load","replica":1,"outcome":"dry run",)"
                        R"("reason":"more are needed","inputs":{"waiting":5,"waiting_tokens":70)"));
}

TEST(FleetDocument, MembersAreNamedAndTheirSourceIsShown) {
  FleetView view = view_of_two();
  view.members = MembersView{.source = "etcd",
                             .status = {.is_known = true, .n_failures = 2, .last_failure = "gone"},
                             .replicas = {{"a", true}, {"b", false}}};
  const std::string text = json::write(fleet_document(view));
  EXPECT_THAT(text, HasSubstr(R"("replica":1,"member":"b","address":"tcp://b:9400")"));
  EXPECT_THAT(text, HasSubstr(R"("state":"absent")"));
  EXPECT_THAT(text,
              HasSubstr(R"("membership":{"source":"etcd","members":1,"current":false,)"
                        R"("failures":2,"refused":0,"last_failure":"gone"})"));
  view.members->replicas[1].is_listed = true;
  EXPECT_THAT(json::write(fleet_document(view)), Not(HasSubstr("absent"))) << "it is lost";
}

TEST(ReplicaMetrics, HaveTheLabel) {
  EXPECT_THAT(replica_metrics(view_of_two(), telemetry::TextFormat::kPrometheus),
              AllOf(HasSubstr("# TYPE tgi_replica_running gauge\n"
                              "tgi_replica_running{replica=\"0\"} 2\n"
                              "tgi_replica_running{replica=\"1\"} 0\n"),
                    HasSubstr("tgi_replica_serving{replica=\"1\"} 0\n"),
                    HasSubstr("# TYPE tgi_replica_steps_total counter\n"
                              "tgi_replica_steps_total{replica=\"0\"} 30\n")));
}

}  // namespace
}  // namespace coxswain::serve
