#include "serve/router/autoscale_setup.h"

#include <chrono>
#include <limits>
#include <optional>

#include "serve/replica_roles.h"

namespace coxswain::serve {
namespace {

double seconds(std::chrono::milliseconds time) {
  return std::chrono::duration<double>(time).count();
}

std::optional<std::chrono::milliseconds> target(std::chrono::milliseconds time) {
  return time.count() == 0 ? std::nullopt : std::optional(time);
}

}  // namespace

Result<fleet::AutoscalerOptions> autoscaler_options(const options::OptionValues& values,
                                                    const std::vector<fleet::Role>& roles,
                                                    std::size_t n_replicas) {
  COXSWAIN_RETURN_IF_ERROR(validate_planner(values, roles));
  fleet::AutoscalerOptions out;
  fleet::PlannerConfig& plan = out.planner;
  // A process reads its weights from files, which are in memory by then.
  plan.executor = fleet::Executor::kAllCache;
  plan.live = false;
  plan.hold_over_mean = std::numeric_limits<double>::infinity();  // no engine holds its ingress
  plan.mixed = !any_hands_over(roles);
  plan.prefill_min = plan.decode_min = static_cast<std::uint32_t>(values.get<"replicas-min">());
  plan.prefill_max = plan.decode_max = static_cast<std::uint32_t>(n_replicas);
  plan.prefill_backlog_s = {seconds(values.get<"planner-backlog-low-ms">()),
                            seconds(values.get<"planner-backlog-high-ms">())};
  plan.prefill_use_max = values.get<"planner-use-max">();
  plan.decode_occupancy = {values.get<"planner-occupancy-low">(),
                           values.get<"planner-occupancy-high">()};
  plan.migration_s.upper = seconds(values.get<"planner-migration-high-ms">());
  plan.decode_prescale = values.get<"planner-decode-prescale">();
  plan.loads_max = static_cast<std::uint32_t>(values.get<"planner-loads-max">());
  plan.up_cooldown = values.get<"planner-up-cooldown-ms">();
  plan.down_cooldown = values.get<"planner-down-cooldown-ms">();
  plan.changes_max = static_cast<std::uint32_t>(values.get<"planner-changes-max">());
  plan.changes_window = values.get<"planner-changes-window-ms">();
  plan.drain_deadline = values.get<"planner-drain-ms">();
  plan.target_ttft = target(values.get<"target-ttft-ms">());
  plan.target_itl = target(values.get<"target-itl-ms">());
  if (const auto rate = values.get<"planner-prefill-rate">(); rate > 0) {
    plan.tokens_prefilled_per_s = static_cast<double>(rate);
    out.measured.prefill = false;
  }
  if (const auto rate = values.get<"planner-transfer-rate">(); rate > 0) {
    plan.tokens_transferred_per_s = static_cast<double>(rate);
    out.measured.transfer = false;
  }
  out.measured.start_s = seconds(values.get<"planner-start-ms">());
  out.measures_start = out.measured.start_s == 0.0;
  out.dry_run = values.get<"planner">() == "dry-run";
  out.tick = values.get<"planner-tick-ms">();
  out.window = values.get<"planner-window-ms">();
  out.warm_ttl = values.get<"planner-warm-ttl-ms">();
  out.start_pause = values.get<"planner-start-pause-ms">();
  return out;
}

Status LauncherProcesses::start(std::size_t replica) {
  return channel_.send({.verb = ReplicaVerb::kStart, .replica = replica});
}

Status LauncherProcesses::stop(std::size_t replica) {
  return channel_.send({.verb = ReplicaVerb::kStop, .replica = replica});
}

std::vector<fleet::ProcessNews> LauncherProcesses::news() {
  using What = fleet::ProcessNews::What;
  std::vector<fleet::ProcessNews> out;
  const auto bad = [this](const Status& status) { log_.warn(status.message()); };
  for (const ReplicaMessage& message : channel_.receive(n_replicas_, bad)) {
    if (message.verb == ReplicaVerb::kReady) out.push_back({message.replica, What::kReady});
    if (message.verb == ReplicaVerb::kEnded) out.push_back({message.replica, What::kEnded});
    if (message.verb == ReplicaVerb::kFailed) out.push_back({message.replica, What::kFailed});
  }
  return out;
}

}  // namespace coxswain::serve
