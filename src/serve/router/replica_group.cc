#include "serve/router/replica_group.h"

#include <algorithm>
#include <cstdlib>
#include <string_view>
#include <utility>

#include "batch/block_transfers.h"
#include "kvspill/spill_tier.h"
#include "rpc/memory_transport.h"
#include "serve/router/absent_runner.h"
#include "serve/router/router_setup.h"
#include "serve/status_file.h"

namespace coxswain::serve {

ReplicaGroup::ReplicaGroup(const options::OptionValues& values,
                           bool below_launcher,
                           const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer,
                           telemetry::Logger& log)
    : values_(values), log_(log), roles_(replica_roles(values).value()) {
  std::vector<std::string> sockets{values.get<"master-shard-uds-path">()};
  const std::vector<std::string>& more = values.get<"replica-uds-path">();
  sockets.insert(sockets.end(), more.begin(), more.end());
  for (std::size_t i = 0; i < sockets.size(); ++i) {
    auto replica = std::make_unique<Replica>();
    replica->shard =
        sockets.size() == 1 ? "the shard" : "the shard of replica " + std::to_string(i);
    replica->connector = std::make_unique<ShardConnector>(
        values, sockets[i], below_launcher, tokenizer, log, [r = replica.get()] {
          r->bell.ring();
        });
    replicas_.push_back(std::move(replica));
  }
  n_present_ = replicas_.size();
}

Status ReplicaGroup::scale_over(ReplicaChannel channel, std::size_t n_present) {
  n_present_ = std::min(n_present, replicas_.size());
  const std::vector roles(roles_.begin(), roles_.begin() + static_cast<std::ptrdiff_t>(n_present_));
  COXSWAIN_ASSIGN_OR_RETURN(scaling_, autoscaler_options(values_, roles, replicas_.size()));
  processes_ = std::make_unique<LauncherProcesses>(std::move(channel), replicas_.size(), log_);
  return {};
}

ReplicaGroup::~ReplicaGroup() = default;

Status ReplicaGroup::connect() {
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    const auto& replica = replicas_[i];
    if (i >= n_present_) {
      replica->info = info();
      replica->runner = std::make_shared<AbsentRunner>(info());
      replica->health = Status(Code::kUnavailable, replica->shard + " is not there");
      continue;
    }
    COXSWAIN_ASSIGN_OR_RETURN(replica->runner, replica->connector->connect_patiently());
    replica->info = replica->runner->info();
    const RunnerInfo& first = info();
    if (replica->info.vocab_size != first.vocab_size ||
        replica->info.model_fingerprint != first.model_fingerprint) {
      return {Code::kFailedPrecondition, replica->shard + " serves another model than the first"};
    }
  }
  return {};
}

Result<request::TokenLimits> ReplicaGroup::resolve_limits(const request::TokenLimitOptions& asked) {
  for (const auto& replica : replicas_) {
    COXSWAIN_ASSIGN_OR_RETURN(replica->limits, request::resolve_limits(asked, replica->info));
  }
  request::TokenLimits all = replicas_.front()->limits;
  all.batch_total_tokens_max = 0;
  for (const auto& replica : replicas_) {
    const request::TokenLimits& own = replica->limits;
    all.input_tokens_max = std::min(all.input_tokens_max, own.input_tokens_max);
    all.total_tokens_max = std::min(all.total_tokens_max, own.total_tokens_max);
    all.batch_total_tokens_max += own.batch_total_tokens_max;
  }
  return all;
}

Status ReplicaGroup::can_have_roles() const {
  const auto cannot = [](const std::string& why) {
    return invalid_argument("`roles` names replicas that hand KV blocks over: " + why, "roles");
  };
  if (values_.get<"disaggregation">() == "off") return cannot("`disaggregation` is off");
  if (!values_.get<"PREFIX_CACHING">()) return cannot("`PREFIX_CACHING` must not be false");
  for (const auto& replica : replicas_) {
    if (!replica->info.capabilities.takes_ids)
      return cannot(replica->shard + " speaks generate.v3, which cannot");
    if (batch::piece_blocks_max(replica->info) == 0) {
      return cannot(replica->shard +
                    " has no room for one with `kv_handover_bytes_max`, or has a " +
                    "model whose state is not made of blocks");
    }
  }
  return {};
}

// A tier is of one engine at a time: each replica has a part of it, in a folder of its own.
Result<batch::EngineOptions> ReplicaGroup::engine_options_of(std::size_t index) {
  const Replica& replica = *replicas_[index];
  std::string path = values_.get<"kv-spill-path">().value_or("");
  if (!path.empty() && index > 0) path += "/replica-" + std::to_string(index);
  batch::EngineOptions out = engine_options(values_, replica.limits, replica.info);
  COXSWAIN_ASSIGN_OR_RETURN(
      out.tier,
      kvspill::make_tier({.memory_bytes_max = values_.get<"kv-host-bytes-max">() / replicas_.size(),
                          .path = path,
                          .file_bytes_max = values_.get<"kv-spill-bytes-max">() / replicas_.size(),
                          .warn = [this](std::string_view line) { log_.warn(line); }},
                         replica.info));
  return out;
}

Result<fleet::FleetMember> ReplicaGroup::member(std::size_t index) {
  Replica& replica = *replicas_[index];
  COXSWAIN_ASSIGN_OR_RETURN(batch::EngineOptions options, engine_options_of(index));
  const std::size_t step_prompt_tokens = options.prefill_tokens_max;
  return fleet::FleetMember{
      .make_engine =
          [&replica, options = std::move(options)](batch::EngineObserver& observer) {
            return batch::Engine::create(std::move(replica.runner), options, &observer);
          },
      .observer = *replica.metrics,
      .step_prompt_tokens = step_prompt_tokens,
      .resumes = replica.info.capabilities.takes_ids,
      .role = roles_[index],
      .present = index < n_present_};
}

Status ReplicaGroup::start(telemetry::Metrics& metrics) {
  metrics_ = &metrics;
  std::vector<fleet::FleetMember> members;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    Replica& replica = *replicas_[i];
    replica.metrics =
        std::make_unique<router::EngineMetrics>(metrics, log_, [&replica] { replica.bell.ring(); });
    COXSWAIN_ASSIGN_OR_RETURN(fleet::FleetMember one, member(i));
    members.push_back(std::move(one));
  }
  fleet::FleetOptions options;
  options.queue_requests_max = values_.get<"queue-requests-max">();
  options.queue_tokens_max = values_.get<"queue-tokens-max">();
  options.resumes_max = values_.get<"request-resumes-max">();
  options.apart_tokens_min = info().block_tokens;
  options.no_roles = can_have_roles();
  if (values_.get<"disaggregation">() == "auto")
    options.disaggregation = fleet::Disaggregation::kAuto;
  const auto on_work = [this] {
    if (autoscaler_) autoscaler_->ring();
  };
  fleet_ = std::make_unique<fleet::Fleet>(
      members,
      options,
      fleet::Fleet::Parts{.log = log_, .metrics = &metrics, .on_work = on_work},
      std::make_unique<rpc::MemoryTransport>());
  start_autoscaler();
  return {};
}

void ReplicaGroup::start_autoscaler() {
  if (!scales()) return;
  scaling_.planner.block_tokens = info().block_tokens;
  const auto up = [this] {
    base::MutexLock lock(mu_);
    std::vector<bool> out;
    out.reserve(replicas_.size());
    for (const auto& replica : replicas_)
      out.push_back(replica->health.code() != Code::kUnavailable);
    return out;
  };
  autoscaler_ = std::make_unique<fleet::Autoscaler>(
      fleet::Autoscaler::Parts{.fleet = *fleet_,
                               .processes = *processes_,
                               .up = up,
                               .on_process = [this](std::size_t i) { replicas_[i]->bell.ring(); },
                               .log = log_},
      scaling_,
      n_present_);
}

void ReplicaGroup::supervise(std::function<void(const Status&)> on_health,
                             const std::function<bool()>& health_asked) {
  on_health_ = std::move(on_health);
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    Replica& replica = *replicas_[i];
    replica.supervisor = std::make_unique<fleet::ReplicaSupervisor>(
        fleet::ReplicaSupervisor::Parts{
            .engine = fleet_->engine(i),
            .bell = replica.bell,
            .connect = [&replica] { return replica.connector->connect(); },
            .on_state = [this, &replica](const Status& s) { note_health(replica, s); },
            .metrics = metrics_,
            .up = &replica.metrics->replica_up(),
            .log = log_,
            .health_asked = health_asked,
            .on_stuck = [&replica] { replica.connector->end_stuck_shard(); },
            .shard = replica.shard,
            .wanted = [this, i] { return !autoscaler_ || autoscaler_->wants(i); }},
        replica.info,
        fleet::ReplicaSupervisor::Options{});
  }
  if (autoscaler_) autoscaler_->start();
}

void ReplicaGroup::note_health(Replica& replica, const Status& status) {
  base::MutexLock lock(mu_);
  if (autoscaler_ && replica.health.ok() != status.ok()) autoscaler_->ring();
  replica.health = status;
  std::vector<Status> each;
  each.reserve(replicas_.size());
  for (const auto& r : replicas_) each.push_back(r->health);
  Status all = health_of_all(each);
  // A fleet at zero serves whoever asks.
  if (all.code() == Code::kUnavailable && fleet_->when_none_serves().ok()) all = Status();
  on_health_(all);
}

FleetView ReplicaGroup::view() const {
  FleetView out{.status = fleet_->status(), .now = Clock::now()};
  if (autoscaler_) out.scaling = autoscaler_->view();
  base::MutexLock lock(mu_);
  for (const auto& replica : replicas_) out.health.push_back(replica->health);
  return out;
}

std::vector<ReplicaMemory> ReplicaGroup::memory() const {
  const char* own = std::getenv(kStatusFileVariable);  // of a launcher, whose folder has all
  const std::string path = own == nullptr ? "" : own;
  const std::string folder = path.substr(0, std::min(path.rfind('/'), path.size()));
  const fleet::FleetStatus status = fleet_->status();
  std::vector<ReplicaMemory> out;
  for (std::size_t i = 0; i < replicas_.size(); ++i) {
    ReplicaMemory one{.status = {},
                      .info = replicas_[i]->info,
                      .stats = status.replicas[i].stats,
                      .host_bytes_max = values_.get<"kv-host-bytes-max">() / replicas_.size(),
                      .file_bytes_max = values_.get<"kv-spill-path">()
                                            ? values_.get<"kv-spill-bytes-max">() / replicas_.size()
                                            : 0};
    if (!folder.empty()) {
      auto facts = json::parse_file(shard_status_file(folder, i), kStatusBytesMax);
      if (facts.ok()) one.status = std::move(facts).value();
    }
    out.push_back(std::move(one));
  }
  return out;
}

void ReplicaGroup::ring() {
  for (const auto& replica : replicas_) replica->bell.ring();
}

void ReplicaGroup::stop_supervisors() {
  if (autoscaler_) autoscaler_->stop();
  for (const auto& replica : replicas_)
    if (replica->supervisor) replica->supervisor->stop();
}

Status health_of_all(const std::vector<Status>& each) {
  const auto well = std::ranges::find_if(each, &Status::ok);
  if (well != each.end()) return *well;
  const auto late =
      std::ranges::find_if(each, [](const Status& s) { return s.code() != Code::kUnavailable; });
  return late != each.end() ? *late : each.front();
}

}  // namespace coxswain::serve
