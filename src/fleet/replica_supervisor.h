#pragma once
// ReplicaSupervisor watches the engine's runner: it keeps a cached state for /health, probes a runner that is idle
// while somebody asks, and, when the runner is lost, connects to its successor, with growing pauses, and hands that one
// to the engine.
//
// It looks when the bell rings, and goes on looking while something is wrong or somebody asks for the health. Otherwise
// it sleeps. Those ring who learn that the runner is lost (the watch on the connection, the engine) or answer /health.
//
// Thread rule: one thread of its own; status() from any thread. The engine must outlive it.

#include <atomic>
#include <chrono>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <thread>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "batch/engine.h"
#include "fleet/bell.h"
#include "fleet/health_probe.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"

namespace coxswain::fleet {

class ReplicaSupervisor {
 public:
  // Connects to the shard that is there now. Errors: why it could not.
  using Connector = std::function<Result<std::shared_ptr<StepRunner>>()>;

  struct Options {
    std::chrono::milliseconds poll_interval{250};  // while it goes on looking
    std::chrono::milliseconds backoff_first{100};
    std::chrono::milliseconds backoff_max{5'000};
    std::chrono::milliseconds probe_interval{1'000};
    std::chrono::milliseconds stuck_patience{10'000};
  };
  struct Parts {
    batch::Engine& engine;
    Bell& bell;
    Connector connect;
    // Told every state, also an unchanged one.
    std::function<void(const Status&)> on_state;
    telemetry::Metrics* metrics = nullptr;
    telemetry::GaugePart* up = nullptr;  // of the metrics, for this replica
    telemetry::Logger& log;
    // True if somebody asked for the health lately. Set: an idle runner is probed then.
    std::function<bool()> health_asked = {};
    // Called when nothing could be connected to for stuck_patience after a loss, and again after as
    // long: a process that stands still does not end by itself.
    std::function<void()> on_stuck = {};
    std::string shard = "the shard";  // what the log calls it
    // False: there is to be no process, so none is looked for, and its absence is no loss. Empty: always.
    std::function<bool()> wanted = {};
    // True: the runner is of a shard that this replica is to have no more, and is replaced as a lost one is.
    std::function<bool()> outdated = {};
    // The engine has the runner that connect() gave last.
    std::function<void()> on_connected = {};
    bool is_there = true;  // false: its first runner is still to come, which is no restart
  };

  // `expected`: what the first runner said about itself; a successor must serve the same model.
  ReplicaSupervisor(Parts parts, RunnerInfo expected, Options options);
  ~ReplicaSupervisor() { stop(); }
  ReplicaSupervisor(const ReplicaSupervisor&) = delete;
  ReplicaSupervisor& operator=(const ReplicaSupervisor&) = delete;

  void stop();

 private:
  void loop();
  // Looks once; returns how long to wait before the next look, unless the bell rings.
  std::optional<std::chrono::milliseconds> look();
  std::optional<std::chrono::milliseconds> stay_away();
  Status reconnect();
  void note_stuck(const Status& why);
  void note_probe(Status& state);

  Parts parts_;
  const RunnerInfo expected_;
  const Options options_;
  std::chrono::milliseconds backoff_;
  bool was_up_;
  bool was_away_;      // because it was not wanted, or has not come yet
  TimePoint lost_at_;  // or when on_stuck was called last
  HealthProbe probe_;
  bool probe_was_ok_ = true;
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace coxswain::fleet
