#pragma once
// ReplicaGroup: the replicas of the model as the router has them: for each a way to its shard, an engine over it, its
// metrics and a supervisor; before all of them a fleet::Fleet that takes the requests.
//
// Order: connect(), start(), supervise(); at the end stop_supervisors(), then the destructor.
//
// Thread rule: one thread, but for fleet(), view(), memory() and ring().

#include <chrono>
#include <cstddef>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "base/mutex.h"
#include "fleet/autoscaler.h"
#include "fleet/bell.h"
#include "fleet/fleet.h"
#include "fleet/replica_supervisor.h"
#include "options/options.h"
#include "request/token_limits.h"
#include "router/engine_metrics.h"
#include "serve/replica_channel.h"
#include "serve/replica_roles.h"
#include "serve/router/admin_documents.h"
#include "serve/router/autoscale_setup.h"
#include "serve/router/fleet_document.h"
#include "serve/router/shard_connector.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::serve {

class ReplicaGroup {
 public:
  // `values` of the router, for which replica_roles() is well, and the log must outlive this.
  ReplicaGroup(const options::OptionValues& values,
               bool below_launcher,
               const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer,
               telemetry::Logger& log);
  ~ReplicaGroup();
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;

  // Before connect(): the launcher starts and ends processes for --autoscale, and only the first `n_present` replicas
  // have one. Errors: those of autoscaler_options().
  Status scale_over(ReplicaChannel channel, std::size_t n_present);
  bool scales() const { return processes_ != nullptr; }

  // To all shards that are there, as ShardConnector::connect_patiently(). Errors: those, and kFailedPrecondition
  // if they do not serve the same model.
  Status connect();
  // What the first shard says about itself.
  const RunnerInfo& info() const { return replicas_.front()->info; }
  // Of a request in any of them: the least that one of them can serve; batch_total_tokens_max is the sum.
  // Errors: as request::resolve_limits().
  Result<request::TokenLimits> resolve_limits(const request::TokenLimitOptions& asked);

  // Whether the shards can do what --roles wants of them. Errors: kInvalidArgument.
  Status check_roles() const { return any_hands_over(roles_) ? can_have_roles() : Status(); }

  // `metrics` must outlive this. Errors: those of kvspill::make_tier().
  Status start(telemetry::Metrics& metrics);
  fleet::Fleet& fleet() { return *fleet_; }

  // `on_health`: told how the whole is: well while one replica is. `health_asked`: ReplicaSupervisor::Parts.
  void supervise(std::function<void(const Status&)> on_health,
                 const std::function<bool()>& health_asked);
  // From any thread, from start() to the end.
  FleetView view() const;
  // From any thread, from start() to the end. Reads files.
  std::vector<ReplicaMemory> memory() const;
  // Somebody wants to know how the replicas are.
  void ring();
  void stop_supervisors();

 private:
  struct Replica {
    std::string shard;  // as the log calls it
    fleet::Bell bell;
    std::unique_ptr<ShardConnector> connector;  // of the supervisor's thread once that runs
    std::shared_ptr<StepRunner> runner;         // until the engine has it
    RunnerInfo info;
    request::TokenLimits limits;
    std::unique_ptr<router::EngineMetrics> metrics;
    std::unique_ptr<fleet::ReplicaSupervisor> supervisor;
    Status health;  // guarded by mu_
  };

  Status can_have_roles() const;
  Result<fleet::FleetMember> member(std::size_t index);
  Result<batch::EngineOptions> engine_options_of(std::size_t index);
  void note_health(Replica& replica, const Status& status);
  void start_autoscaler();

  const options::OptionValues& values_;
  telemetry::Logger& log_;
  const std::vector<fleet::Role> roles_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  telemetry::Metrics* metrics_ = nullptr;
  std::size_t n_present_ = 0;  // at the start
  fleet::AutoscalerOptions scaling_;
  std::unique_ptr<LauncherProcesses> processes_;   // null without --autoscale
  std::unique_ptr<fleet::Autoscaler> autoscaler_;  // outlives the fleet, which rings it
  std::unique_ptr<fleet::Fleet> fleet_;
  std::function<void(const Status&)> on_health_;
  mutable base::Mutex mu_;
};

// How several are together: well if one is, and otherwise rather late than lost.
Status health_of_all(const std::vector<Status>& each);

}  // namespace coxswain::serve
