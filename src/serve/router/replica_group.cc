#include "serve/router/replica_group.h"

#include <algorithm>
#include <cstdlib>
#include <future>
#include <limits>
#include <optional>
#include <string_view>
#include <utility>

#include "batch/block_transfers.h"
#include "fleet/same_model.h"
#include "kvspill/spill_tier.h"
#include "rpc/fleet_transport.h"
#include "rpc/peer_channel.h"
#include "serve/router/absent_runner.h"
#include "serve/router/router_setup.h"
#include "serve/status_file.h"

namespace coxswain::serve {
namespace {

constexpr std::chrono::seconds kPatience{30};
constexpr std::chrono::milliseconds kPause{200};
constexpr std::chrono::seconds kWaitingLogged{5};

}  // namespace

ReplicaGroup::ReplicaGroup(const options::OptionValues& values,
                           bool below_launcher,
                           const std::shared_ptr<const tokenizer::Tokenizer>& tokenizer,
                           telemetry::Logger& log,
                           std::unique_ptr<membership::Membership> members)
    : values_(values),
      log_(log),
      below_launcher_(below_launcher),
      roles_(replica_roles(values).value()),
      slots_(roles_.size()),
      source_(std::move(members)) {
  std::vector<std::string> places(roles_.size());
  if (source_ == nullptr) places = named_places(values);
  for (std::size_t i = 0; i < places.size(); ++i) {
    auto replica = std::make_unique<Replica>();
    replica->shard = places.size() == 1 ? "the shard" : "the shard of replica " + std::to_string(i);
    replica->connector = std::make_unique<ShardConnector>(
        values, places[i], below_launcher, tokenizer, log, [r = replica.get()] { r->bell.ring(); });
    replica->is_wanted = replica->joins = source_ == nullptr;
    replica->role = roles_[i];
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
  COXSWAIN_RETURN_IF_ERROR(below_launcher_ ? connect_all() : connect_any());
  for (const auto& replica : replicas_) {
    if (replica->is_there) continue;
    replica->info = info_;
    replica->runner = std::make_shared<AbsentRunner>(info_);
    base::MutexLock lock(mu_);
    replica->health = Status(Code::kUnavailable, replica->shard + " is not there");
  }
  return {};
}

Status ReplicaGroup::connect_all() {
  for (std::size_t i = 0; i < n_present_; ++i)
    COXSWAIN_RETURN_IF_ERROR(
        take_runner(*replicas_[i], replicas_[i]->connector->connect_patiently()));
  return {};
}

Status ReplicaGroup::connect_any() {
  if (source_ != nullptr) {
    COXSWAIN_RETURN_IF_ERROR(source_->start([this](const auto& members) { note_members(members); },
                                            [this](const Status& status) { note_source(status); }));
  }
  const TimePoint deadline = Clock::now() + kPatience;
  for (;;) {
    Status status = connect_each();
    if (status.ok()) return {};
    const bool waits = status.code() == Code::kUnavailable && Clock::now() < deadline;
    if (source_ == nullptr && !waits) return status;
    log_.warn_limited("connect",
                      kWaitingLogged,
                      "waiting for a shard",
                      {{"reason", std::string_view(status.message())}});
    base::MutexLock lock(mu_);
    members_changed_.wait_for(lock, kPause, [this]() REQUIRES(mu_) { return any_news_; });
  }
}

// All at the same time: one that does not answer keeps no other waiting.
Status ReplicaGroup::connect_each() {
  std::vector<std::pair<Replica*, std::future<Result<ShardConnector::Runner>>>> tries;
  {
    base::MutexLock lock(mu_);
    any_news_ = false;
    if (source_ != nullptr) follow_members();
    for (const auto& replica : replicas_) {
      if (!replica->is_wanted) continue;
      tries.emplace_back(replica.get(), std::async(std::launch::async, [r = replica.get()] {
                           return r->connector->connect();
                         }));
    }
  }
  Status failure(Code::kUnavailable, why_nobody());
  bool any = false;
  for (auto& [replica, runner] : tries) {
    Status status = take_runner(*replica, runner.get());
    any = any || status.ok();
    if (status.ok()) continue;
    // What an option names and is wrong is the option's fault; a list may have what belongs to others.
    if (source_ == nullptr && status.code() != Code::kUnavailable) return status;
    log_.warn_limited(replica->shard,
                      kWaitingLogged,
                      replica->shard + " is not there",
                      {{"reason", std::string_view(status.message())}});
    failure = std::move(status);
  }
  return any ? Status() : failure;
}

Status ReplicaGroup::take_runner(Replica& replica, Result<ShardConnector::Runner> runner) {
  if (!runner.ok()) return runner.status();
  const RunnerInfo info = runner.value()->info();
  const bool is_first =
      std::ranges::none_of(replicas_, [](const auto& other) { return other->is_there; });
  if (is_first) info_ = info;
  COXSWAIN_RETURN_IF_ERROR(fleet::check_same_model(replica.shard, info, info_));
  replica.runner = std::move(runner).value();
  replica.info = info;
  replica.is_there = true;
  replica.connector->keep();
  base::MutexLock lock(mu_);
  replica.joins = false;
  return {};
}

void ReplicaGroup::note_members(const membership::Members& members) {
  {
    base::MutexLock lock(mu_);
    members_ = members;
    any_news_ = true;
    if (follows_) follow_members();
  }
  members_changed_.notify_all();
}

void ReplicaGroup::note_source(const Status& status) {
  if (status.ok()) {
    log_.info("the list of members is kept up to date again");
  } else {
    log_.warn("the list of members cannot be kept up to date, the last one holds",
              {{"reason", std::string_view(status.message())}});
  }
}

void ReplicaGroup::follow_members() {
  std::vector<bool> is_up;
  is_up.reserve(replicas_.size());
  for (const auto& replica : replicas_)
    is_up.push_back(fleet_ != nullptr && replica->health.code() != Code::kUnavailable);
  const MemberSlots::Changes changes = slots_.take(members_, is_up);
  for (const std::size_t i : changes.left) {
    Replica& replica = *replicas_[i];
    log_.info("a member has left",
              {{"member", std::string_view(slots_.slots()[i].member.name)},
               {"replica", std::uint64_t{i}}});
    replica.is_wanted = replica.joins = false;
    if (fleet_ != nullptr) static_cast<void>(fleet_->dismiss(i));
  }
  for (const std::size_t i : changes.came) {
    Replica& replica = *replicas_[i];
    const membership::Member& member = slots_.slots()[i].member;
    log_.info("a member has come",
              {{"member", std::string_view(member.name)},
               {"address", std::string_view(member.address)},
               {"role", membership::name_of(member.role)},
               {"replica", std::uint64_t{i}}});
    replica.connector->set_place(std::string(rpc::kAddressScheme) + member.address);
    replica.role = role_of(member);
    replica.is_wanted = replica.joins = true;
    n_shown_ = std::max(n_shown_, i + 1);
    if (fleet_ != nullptr && !replica.connector->is_current())
      static_cast<void>(fleet_->dismiss(i));
    replica.bell.ring();
  }
  for (const std::string& name : changes.left_out) {
    log_.warn("a member has to wait until another one leaves",
              {{"member", std::string_view(name)},
               {"members_max", std::uint64_t{values_.get<"members-max">()}}});
  }
}

fleet::Role ReplicaGroup::role_of(const membership::Member& member) const {
  if (values_.get<"disaggregation">() == "off") return fleet::Role::kMixed;
  switch (member.role) {
    case membership::Role::kPrefill:
      return fleet::Role::kPrefill;
    case membership::Role::kDecode:
      return fleet::Role::kDecode;
    case membership::Role::kMixed:
      break;
  }
  return fleet::Role::kMixed;
}

// Where members come and go, while there is none.
std::string ReplicaGroup::why_nobody() const {
  if (source_ == nullptr) return "no shard is named";
  const membership::SourceStatus status = source_->status();
  return status.is_known || status.last_failure.empty() ? "there is no member yet"
                                                        : status.last_failure;
}

Result<request::TokenLimits> ReplicaGroup::resolve_limits(const request::TokenLimitOptions& asked) {
  std::optional<request::TokenLimits> all;
  for (const auto& replica : replicas_) {
    COXSWAIN_ASSIGN_OR_RETURN(replica->limits, request::resolve_limits(asked, replica->info));
    request::TokenLimits& own = replica->limits;
    if (!replica->is_there && !scales()) {
      // It may have more room than those that are there.
      if (!asked.batch_total_tokens_max)
        own.batch_total_tokens_max = std::numeric_limits<std::uint32_t>::max();
      continue;
    }
    if (!all) {
      all = own;
      continue;
    }
    all->input_tokens_max = std::min(all->input_tokens_max, own.input_tokens_max);
    all->total_tokens_max = std::min(all->total_tokens_max, own.total_tokens_max);
    all->batch_total_tokens_max += own.batch_total_tokens_max;
  }
  return *all;
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
      .role = replica.role,
      .present = replica.is_there};
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
      std::make_unique<rpc::FleetTransport>(names_machines(values_), log_));
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
            .on_state = [this, i](const Status& s) { note_health(i, s); },
            .metrics = metrics_,
            .up = &replica.metrics->replica_up(),
            .log = log_,
            .health_asked = health_asked,
            .on_stuck = [&replica] { replica.connector->end_stuck_shard(); },
            .shard = replica.shard,
            .wanted = [this, i] { return wants(i); },
            .outdated = [&replica] { return !replica.connector->is_current(); },
            .on_connected = [&replica] { replica.connector->keep(); },
            .is_there = replica.is_there},
        replica.info,
        fleet::ReplicaSupervisor::Options{});
  }
  if (autoscaler_) autoscaler_->start();
  if (source_ == nullptr) return;
  base::MutexLock lock(mu_);
  follows_ = true;
  follow_members();
}

bool ReplicaGroup::wants(std::size_t index) const {
  if (autoscaler_) return autoscaler_->wants(index);
  base::MutexLock lock(mu_);
  return replicas_[index]->is_wanted;
}

void ReplicaGroup::note_health(std::size_t index, const Status& status) {
  Replica& replica = *replicas_[index];
  base::MutexLock lock(mu_);
  if (status.ok() && replica.joins && replica.connector->is_current()) {
    replica.joins = false;
    static_cast<void>(fleet_->admit(index, replica.role));
  }
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
  for (const auto& replica : replicas_) {
    out.health.push_back(replica->health);
    out.addresses.push_back(replica->connector->place());
  }
  if (source_ == nullptr) return out;
  MembersView& members = out.members.emplace(
      MembersView{.source = values_.get<"membership">(), .status = source_->status()});
  for (const MemberSlots::Slot& slot : slots_.slots())
    members.replicas.push_back({.name = slot.member.name, .is_listed = slot.is_taken});
  members.replicas.resize(n_shown_);
  out.status.replicas.resize(n_shown_);
  out.health.resize(n_shown_);
  return out;
}

std::vector<ReplicaMemory> ReplicaGroup::memory() const {
  const char* own = std::getenv(kStatusFileVariable);  // of a launcher, whose folder has all
  const std::string path = own == nullptr ? "" : own;
  const std::string folder = path.substr(0, std::min(path.rfind('/'), path.size()));
  const fleet::FleetStatus status = fleet_->status();
  std::vector<ReplicaMemory> out;
  std::size_t n = replicas_.size();
  if (source_ != nullptr) {
    base::MutexLock lock(mu_);
    n = n_shown_;
  }
  for (std::size_t i = 0; i < n; ++i) {
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
  {
    base::MutexLock lock(mu_);
    follows_ = false;
  }
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
