#pragma once
// ReplicaGroup: the replicas of the model as the router has them: for each a way to its shard, an engine over it, its
// metrics and a supervisor; before all of them a fleet::Fleet that takes the requests.
//
// Its replicas are those that the options name, or one for each member that etcd or Kubernetes tells (--membership), as
// they come and go. One that is not there when the router starts is given work when it has come.
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
#include "membership/membership.h"
#include "options/options.h"
#include "request/token_limits.h"
#include "router/engine_metrics.h"
#include "serve/replica_channel.h"
#include "serve/replica_roles.h"
#include "serve/router/admin_documents.h"
#include "serve/router/autoscale_setup.h"
#include "serve/router/fleet_document.h"
#include "serve/router/member_slots.h"
#include "serve/router/shard_connector.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::serve {

class ReplicaGroup {
 public:
  // `values` of the router, for which replica_roles() is well, and the log must outlive this. `members` tells which
  // shards there are; null: the options do.
  ReplicaGroup(const options::OptionValues& values,
               bool below_launcher,
               const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer,
               telemetry::Logger& log,
               std::unique_ptr<membership::Membership> members = {});
  ~ReplicaGroup();
  ReplicaGroup(const ReplicaGroup&) = delete;
  ReplicaGroup& operator=(const ReplicaGroup&) = delete;

  // Before connect(): the launcher starts and ends processes for --autoscale, and only the first `n_present` replicas
  // have one. Errors: those of autoscaler_options().
  Status scale_over(ReplicaChannel channel, std::size_t n_present);
  bool scales() const { return processes_ != nullptr; }

  // Below a launcher to all shards that are to be there, as ShardConnector::connect_patiently(). Otherwise until one is
  // there: for 30 s, or as long as it takes where members come and go. Errors: those of connect(); those of
  // Membership::start(); kFailedPrecondition if shards that the options name do not serve the same model.
  Status connect();
  // What the first shard that is there says about itself.
  const RunnerInfo& info() const { return info_; }
  // Of a request in any of those that are there: the least that one can serve; batch_total_tokens_max is the sum.
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
    bool is_there = false;  // at the start
    // Guarded by mu_.
    Status health;
    bool is_wanted = true;  // somebody says that there is a shard
    bool joins = false;     // it is given work when it is connected to
    fleet::Role role = fleet::Role::kMixed;
  };

  Status connect_all();
  Status connect_any();
  // One try for each that is wanted. Errors: that of the last, if none is there.
  Status connect_each();
  Status take_runner(Replica& replica, Result<ShardConnector::Runner> runner);
  void note_members(const membership::Members& members) EXCLUDES(mu_);
  void note_source(const Status& status);
  // What the list of now means for the replicas.
  void follow_members() REQUIRES(mu_);
  std::string why_nobody() const;
  fleet::Role role_of(const membership::Member& member) const;
  Status can_have_roles() const;
  Result<fleet::FleetMember> member(std::size_t index);
  Result<batch::EngineOptions> engine_options_of(std::size_t index);
  bool wants(std::size_t index) const EXCLUDES(mu_);
  void note_health(std::size_t index, const Status& status) EXCLUDES(mu_);
  void start_autoscaler();

  const options::OptionValues& values_;
  telemetry::Logger& log_;
  const bool below_launcher_;
  const std::vector<fleet::Role> roles_;
  std::vector<std::unique_ptr<Replica>> replicas_;
  RunnerInfo info_;
  telemetry::Metrics* metrics_ = nullptr;
  std::size_t n_present_ = 0;  // at the start
  fleet::AutoscalerOptions scaling_;
  std::unique_ptr<LauncherProcesses> processes_;   // null without --autoscale
  std::unique_ptr<fleet::Autoscaler> autoscaler_;  // outlives the fleet, which rings it
  std::unique_ptr<fleet::Fleet> fleet_;
  std::function<void(const Status&)> on_health_;
  mutable base::Mutex mu_;
  base::CondVar members_changed_;
  membership::Members members_ GUARDED_BY(mu_);  // as they were told last
  bool any_news_ GUARDED_BY(mu_) = false;        // in it, for connect()
  bool follows_ GUARDED_BY(mu_) = false;         // the supervisors are there
  MemberSlots slots_ GUARDED_BY(mu_);
  std::size_t n_shown_ GUARDED_BY(mu_) = 0;  // replicas after these never had a member
  // Null: the options say what there is. The first to go.
  std::unique_ptr<membership::Membership> source_;
};

// How several are together: well if one is, and otherwise rather late than lost.
Status health_of_all(const std::vector<Status>& each);

}  // namespace coxswain::serve
