#include "fleet/replica_supervisor.h"

#include <algorithm>
#include <utility>

#include "base/thread_name.h"
#include "fleet/same_model.h"

namespace coxswain::fleet {
namespace {

constexpr std::chrono::minutes kStuckLogged{1};

}  // namespace

ReplicaSupervisor::ReplicaSupervisor(Parts parts, RunnerInfo expected, Options options)
    : parts_(std::move(parts)),
      expected_(std::move(expected)),
      options_(options),
      backoff_(options.backoff_first),
      was_up_(parts_.is_there),
      was_away_(!parts_.is_there),
      lost_at_(Clock::now()),
      probe_(parts_.engine, options.probe_interval),
      thread_([this] {
        base::name_thread("replica");
        loop();
      }) {}

void ReplicaSupervisor::stop() {
  stop_ = true;
  parts_.bell.ring();
  if (thread_.joinable()) thread_.join();
}

void ReplicaSupervisor::loop() {
  while (!stop_) parts_.bell.wait(look());
}

std::optional<std::chrono::milliseconds> ReplicaSupervisor::look() {
  Status state = parts_.engine.healthy();
  const bool lost = !parts_.engine.stats().runner_up || state.code() == Code::kUnavailable ||
                    (parts_.outdated && parts_.outdated());
  std::optional<std::chrono::milliseconds> pause;
  if (lost && parts_.wanted && !parts_.wanted()) return stay_away();
  if (lost) {
    if (state.ok()) state = Status(Code::kUnavailable, parts_.shard + " is lost");
    if (was_up_) {
      parts_.log.error(parts_.shard + " is lost", {{"reason", state.message()}});
      lost_at_ = Clock::now();
    }
    was_up_ = false;
    parts_.on_state(state);
    state = reconnect();
    if (state.ok()) {
      parts_.log.info("connected to " + parts_.shard + (was_away_ ? "" : " again"));
      backoff_ = options_.backoff_first;
      was_up_ = true;
      probe_.forget();
      if (parts_.metrics != nullptr && !was_away_) parts_.metrics->replica_restarts.add();
      was_away_ = false;
    } else {
      parts_.log.debug("no shard yet", {{"reason", state.message()}});
      note_stuck(state);
      pause = backoff_;
      backoff_ = std::min(backoff_ * 2, options_.backoff_max);
    }
  }
  note_probe(state);
  if (parts_.up != nullptr) parts_.up->set(state.ok() ? 1 : 0);
  parts_.on_state(state);
  const bool goes_on = !state.ok() || (parts_.health_asked && parts_.health_asked());
  if (!pause && goes_on) pause = options_.poll_interval;
  return pause;
}

// Until the bell rings.
std::optional<std::chrono::milliseconds> ReplicaSupervisor::stay_away() {
  was_up_ = false;
  was_away_ = true;
  lost_at_ = Clock::now();
  backoff_ = options_.backoff_first;
  probe_.forget();
  if (parts_.up != nullptr) parts_.up->set(0);
  parts_.on_state(Status(Code::kUnavailable, parts_.shard + " is not there"));
  return std::nullopt;
}

void ReplicaSupervisor::note_stuck(const Status& why) {
  const TimePoint now = Clock::now();
  const bool is_stuck = now - lost_at_ >= options_.stuck_patience;
  // What waiting does not mend is told at once.
  if (is_stuck || why.code() != Code::kUnavailable) {
    parts_.log.warn_limited(parts_.shard,
                            kStuckLogged,
                            parts_.shard + " cannot be used",
                            {{"reason", std::string_view(why.message())}});
  }
  if (!is_stuck) return;
  lost_at_ = now;
  if (parts_.on_stuck) parts_.on_stuck();
}

// A stock shard may know no prompt of one token.
void ReplicaSupervisor::note_probe(Status& state) {
  if (!parts_.health_asked || !expected_.capabilities.takes_ids) return;
  const Status probed = probe_.look(Clock::now(), state.ok() && parts_.health_asked());
  if (probed.ok() != probe_was_ok_) {
    probe_was_ok_ = probed.ok();
    if (probed.ok()) parts_.log.info("a probe went well again");
    if (!probed.ok()) parts_.log.error("the health probe failed", {{"reason", probed.message()}});
  }
  if (state.ok()) state = probed;
}

Status ReplicaSupervisor::reconnect() {
  auto runner = parts_.connect();
  if (!runner.ok()) return runner.status();
  COXSWAIN_RETURN_IF_ERROR(check_same_model("the new shard", runner.value()->info(), expected_));
  parts_.engine.replace_runner(std::move(runner).value());
  if (parts_.on_connected) parts_.on_connected();
  return {};
}

}  // namespace coxswain::fleet
