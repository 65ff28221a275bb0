#include "fleet/autoscaler.h"

#include <algorithm>
#include <string_view>
#include <variant>

#include "base/thread_name.h"

namespace coxswain::fleet {
namespace {

using std::chrono::milliseconds;

std::size_t index_of(ReplicaLife life) {
  return static_cast<std::size_t>(life.replica);
}

}  // namespace

Autoscaler::Autoscaler(Parts parts, AutoscalerOptions options, std::size_t n_present)
    : parts_(std::move(parts)),
      options_(options),
      places_(parts_.fleet.n_replicas()),
      warm_since_(parts_.fleet.n_replicas()),
      history_(options_.window, Clock::duration(options_.tick) / 2),
      start_s_(options_.measured.start_s) {
  base::MutexLock lock(mu_);
  for (std::size_t i = n_present; i < places_.size(); ++i)
    places_[i] = {.presence = Presence::kAbsent, .up = false};
  if (can_rest()) parts_.fleet.when_none_serves(Status());
}

void Autoscaler::start() {
  thread_ = std::thread([this] {
    base::name_thread("autoscaler");
    while (!stop_) bell_.wait(tick(Clock::now()));
  });
}

void Autoscaler::stop() {
  stop_ = true;
  bell_.ring();
  if (thread_.joinable()) thread_.join();
}

std::optional<milliseconds> Autoscaler::tick(TimePoint now) {
  base::MutexLock lock(mu_);
  hear(now);
  const std::vector<bool> up = parts_.up();
  for (std::size_t i = 0; i < places_.size(); ++i) places_[i].up = up[i];
  open_started(parts_.fleet.status(), now);
  const FleetStatus status = parts_.fleet.status();
  const FleetLoad load = parts_.fleet.load(now, options_.window);
  history_.add({.at = now,
                .arrived_tokens = load.arrived_tokens,
                .arrived_squares = load.arrived_squares,
                .used_blocks = used_blocks(status)});
  const Plan plan = fleet::plan(
      config_for(status, load), memory_, snapshot_of(now, status, load, history_, places_));
  if (!options_.dry_run) memory_ = plan.memory;  // what is not done needs no pause
  inputs_ = plan.inputs;
  decide(plan, now);
  end_warm(parts_.fleet.status(), now);
  if (is_quiet(status, plan)) return std::nullopt;
  return options_.tick;
}

void Autoscaler::hear(TimePoint now) {
  for (const ProcessNews& news : parts_.processes.news()) {
    ReplicaPlace& place = places_[news.replica];
    if (news.what != ProcessNews::What::kReady) place.presence = Presence::kAbsent;
    if (news.what == ProcessNews::What::kFailed) note_failed_start(news.replica, now);
    parts_.on_process(news.replica);
  }
}

// They are copies of one program on one machine: once so many have failed, none is tried before the pause is over.
void Autoscaler::note_failed_start(std::size_t replica, TimePoint now) {
  ++n_failed_starts_;
  parts_.log.error(
      "a replica did not start",
      {{"replica", std::uint64_t{replica}}, {"failed_in_a_row", std::uint64_t{n_failed_starts_}}});
  places_[replica].blocked_until = now + options_.start_pause;
  if (!fails() || !can_rest()) return;
  for (ReplicaPlace& place : places_)
    if (place.presence == Presence::kAbsent) place.blocked_until = now + options_.start_pause;
  parts_.fleet.when_none_serves({Code::kUnavailable,
                                 ErrorKind::kUnavailable,
                                 "no replica can be started: " + std::to_string(n_failed_starts_) +
                                     " starts in a row have failed"});
}

// A fleet whose starts fail has no reason to give up its last replica, and tries until it has one.
PlannerConfig Autoscaler::config_for(const FleetStatus& status, const FleetLoad& load) const {
  Measured what = options_.measured;
  what.start_s = start_s_;
  PlannerConfig out = measured(options_.planner, what, status, load);
  if (!fails()) return out;
  out.prefill_min = std::max(out.prefill_min, 1U);
  out.decode_min = std::max(out.decode_min, 1U);
  return out;
}

// What has been started, and answers, is given work.
void Autoscaler::open_started(const FleetStatus& status, TimePoint now) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    ReplicaPlace& place = places_[i];
    if (place.presence != Presence::kStarting || !place.up) continue;
    place.presence = Presence::kPresent;
    const std::chrono::duration<double> took = now - place.started;
    if (options_.measures_start) start_s_ = took.count();
    n_failed_starts_ = 0;
    if (can_rest()) parts_.fleet.when_none_serves(Status());
    Status opened = parts_.fleet.set_role(i, place.role);
    if (!opened.ok()) parts_.log.warn(opened.message(), {{"replica", std::uint64_t{i}}});
    opened = parts_.fleet.cancel_drain(i);
    parts_.log.info(
        "a replica has been started",
        {{"replica", std::uint64_t{i}},
         {"incarnation", status.replicas[i].incarnation},
         {"took_ms", std::int64_t{std::chrono::duration_cast<milliseconds>(took).count()}}});
  }
}

void Autoscaler::decide(const Plan& plan, TimePoint now) {
  decided_ = false;
  std::vector<std::pair<Choice, ReplicaId>> told;
  for (const Decision& decision : plan.decisions) {
    const std::pair what{decision.choice, decision.replica.replica};
    const bool again = std::ranges::find(told_, what) != told_.end();
    told.push_back(what);
    std::string outcome = "dry run";
    if (!options_.dry_run) {
      const Status done = carry_out(decision, now);
      outcome = done.ok() ? "done" : done.message();
    }
    if (again && outcome != "done") continue;
    decided_ = true;
    const std::string text = text_of(decision);
    parts_.log.info("planner",
                    {{"decision", std::string_view(text)}, {"outcome", std::string_view(outcome)}});
    if (decisions_.size() == kDecisionsKept) decisions_.pop_front();
    decisions_.push_back({.at = now, .decision = decision, .outcome = std::move(outcome)});
  }
  told_ = std::move(told);
}

Status Autoscaler::carry_out(const Decision& decision, TimePoint now) {
  const std::size_t replica = index_of(decision.replica);
  if (const auto* load = std::get_if<Load>(&decision.command))
    return begin_start(replica, load->role, now);
  if (const auto* role = std::get_if<SetRole>(&decision.command)) {
    COXSWAIN_RETURN_IF_ERROR(parts_.fleet.set_role(replica, role->role));
    return decision.choice == Choice::kReuseWarm ? parts_.fleet.cancel_drain(replica) : Status();
  }
  if (const auto* drain = std::get_if<BeginDrain>(&decision.command))
    return parts_.fleet.begin_drain(replica, drain->deadline);
  if (std::holds_alternative<CancelDrain>(decision.command))
    return parts_.fleet.cancel_drain(replica);
  // Assists and unloading are of executors that load parameters from peers.
  return internal_error("no replica of these processes can do that");
}

Status Autoscaler::begin_start(std::size_t replica, Role role, TimePoint now) {
  COXSWAIN_RETURN_IF_ERROR(parts_.processes.start(replica));
  const auto takes =
      std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(start_s_));
  places_[replica] = {.presence = Presence::kStarting,
                      .up = false,
                      .role = role,
                      .started = now,
                      .start_ends = now + takes};
  parts_.on_process(replica);
  return {};
}

// What has been empty for long enough has no process any more.
void Autoscaler::end_warm(const FleetStatus& status, TimePoint now) {
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const bool warm = places_[i].presence == Presence::kPresent && is_warm(status.replicas[i]);
    if (!warm || options_.dry_run) {
      warm_since_[i].reset();
      continue;
    }
    if (!warm_since_[i]) warm_since_[i] = now;
    if (now - *warm_since_[i] < options_.warm_ttl) continue;
    const Status stopped = parts_.processes.stop(i);
    if (!stopped.ok()) {
      parts_.log.warn(stopped.message(), {{"replica", std::uint64_t{i}}});
      continue;
    }
    warm_since_[i].reset();
    places_[i].presence = Presence::kEnding;
    parts_.log.info(
        "a replica that nobody needs ends",
        {{"replica", std::uint64_t{i}},
         {"warm_ms", std::int64_t{options_.warm_ttl.count()}},
         {"left", std::uint64_t{n_places(Presence::kPresent) + n_places(Presence::kStarting)}}});
  }
}

// Nothing is asked for, nothing is under way, and the window is as empty as it will be.
bool Autoscaler::is_quiet(const FleetStatus& status, const Plan& plan) const {
  if (status.n_requests > 0 || decided_ || history_.peak_blocks() > 0 ||
      history_.peak_tokens_per_s() > 0.0)
    return false;
  const bool changes = plan.inputs.prefill.delta != 0 || plan.inputs.decode.delta != 0;
  if (options_.dry_run) return !changes || !plan.decisions.empty();
  if (changes) return false;
  for (std::size_t i = 0; i < places_.size(); ++i) {
    const ReplicaPlace& place = places_[i];
    const bool serves = place.presence == Presence::kPresent && place.up &&
                        status.replicas[i].drain.phase == DrainPhase::kNo;
    if (!serves && place.presence != Presence::kAbsent) return false;
  }
  return true;
}

bool Autoscaler::wants(std::size_t replica) const {
  base::MutexLock lock(mu_);
  const Presence presence = places_[replica].presence;
  return presence == Presence::kStarting || presence == Presence::kPresent;
}

std::size_t Autoscaler::n_places(Presence presence) const {
  return static_cast<std::size_t>(std::ranges::count(places_, presence, &ReplicaPlace::presence));
}

std::string_view Autoscaler::state() const {
  const auto serves = [](const ReplicaPlace& place) {
    return place.presence == Presence::kPresent && place.up;
  };
  if (std::ranges::any_of(places_, serves)) return "serving";
  if (fails()) return "failing";
  const bool none = n_places(Presence::kPresent) + n_places(Presence::kStarting) == 0;
  return none ? "zero" : "starting";
}

AutoscalerView Autoscaler::view() const {
  AutoscalerView out{.dry_run = options_.dry_run,
                     .replicas_min = options_.planner.prefill_min,
                     .replicas_max = options_.planner.prefill_max};
  base::MutexLock lock(mu_);
  out.inputs = inputs_;
  out.state = state();
  out.n_failed_starts = n_failed_starts_;
  for (const ReplicaPlace& place : places_) out.presences.push_back(place.presence);
  out.decisions.assign(decisions_.begin(), decisions_.end());
  return out;
}

}  // namespace coxswain::fleet
