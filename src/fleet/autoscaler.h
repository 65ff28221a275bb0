#pragma once
// Autoscaler: looks at a fleet now and then, asks the planner what it needs, and has it done: roles and drains by the
// fleet, processes by whoever starts them. docs/fleet.md.
//
// An absent replica is drained and its engine's runner answers nothing. A start: the process loads, somebody connects,
// then the replica gets its role and work. An end: it is drained; empty for warm_ttl, and not wanted again, its process
// ends. A start that failed is not tried again for start_pause. What it is told not to do (dry_run) it only says.
//
// Where the planner's least is zero the last replica ends, too, and requests wait in the fleet until one has started.
// Once kStartsTried starts in a row have failed, those that wait and those that come are refused while none serves, and
// it goes on trying until one serves.
//
// It sleeps while nobody asks for anything and nothing is left to be changed. Whoever knows better rings its bell.
//
// Thread rule: start() begins a thread; tick() is that thread's, or the only caller's. The other methods from any.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <deque>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "base/mutex.h"
#include "fleet/bell.h"
#include "fleet/fleet.h"
#include "fleet/plan/load_history.h"
#include "fleet/plan/planner.h"
#include "fleet/snapshot.h"
#include "telemetry/log.h"

namespace coxswain::fleet {

// What has become of a replica's process.
struct ProcessNews {
  enum class What : std::uint8_t { kReady, kEnded, kFailed };
  std::size_t replica = 0;
  What what = What::kReady;
};

// Starts and ends processes of replicas. Of the autoscaler's thread.
class ProcessStarter {
 public:
  virtual ~ProcessStarter() = default;
  // Only asks for it; news() tells. Errors: kUnavailable.
  virtual Status start(std::size_t replica) = 0;
  virtual Status stop(std::size_t replica) = 0;
  // What there is to be told, without waiting.
  virtual std::vector<ProcessNews> news() = 0;
};

struct AutoscalerOptions {
  PlannerConfig planner;
  Measured measured;
  bool measures_start = true;  // else measured.start_s holds
  bool dry_run = false;
  std::chrono::milliseconds tick{500};
  std::chrono::milliseconds window{10'000};  // of rates, peaks and latencies
  std::chrono::milliseconds warm_ttl{30'000};
  std::chrono::milliseconds start_pause{10'000};
};

// A decision, and what came of it.
struct DecisionRecord {
  TimePoint at{};
  Decision decision;
  std::string outcome;  // "done", "dry run", or why not
};

struct AutoscalerView {
  bool dry_run = false;
  std::uint32_t replicas_min = 0;
  std::uint32_t replicas_max = 0;
  std::string_view state = "serving";  // or none does: "zero", "starting", "failing"
  std::uint32_t n_failed_starts = 0;   // since one went well
  PlanInputs inputs = {};              // of the last look
  std::vector<Presence> presences = {};
  std::vector<DecisionRecord> decisions = {};  // the last of them, the newest last
};

class Autoscaler {
 public:
  static constexpr std::size_t kDecisionsKept = 64;
  static constexpr std::uint32_t kStartsTried = 3;

  struct Parts {
    Fleet& fleet;
    ProcessStarter& processes;
    // Whether each replica's shard answers.
    std::function<std::vector<bool>()> up;
    // There is a process to connect to, or none any more.
    std::function<void(std::size_t replica)> on_process;
    telemetry::Logger& log;
  };

  // The first `n_present` replicas have processes.
  Autoscaler(Parts parts, AutoscalerOptions options, std::size_t n_present);
  ~Autoscaler() { stop(); }
  Autoscaler(const Autoscaler&) = delete;
  Autoscaler& operator=(const Autoscaler&) = delete;

  void start();
  void stop();
  void ring() { bell_.ring(); }

  // Looks once. Returns how long nothing is to be done, unless the bell rings.
  std::optional<std::chrono::milliseconds> tick(TimePoint now);

  // Whether the replica is to have a process.
  bool wants(std::size_t replica) const;
  AutoscalerView view() const;

 private:
  void hear(TimePoint now) REQUIRES(mu_);
  void note_failed_start(std::size_t replica, TimePoint now) REQUIRES(mu_);
  PlannerConfig config_for(const FleetStatus& status, const FleetLoad& load) const REQUIRES(mu_);
  void open_started(const FleetStatus& status, TimePoint now) REQUIRES(mu_);
  void decide(const Plan& plan, TimePoint now) REQUIRES(mu_);
  Status carry_out(const Decision& decision, TimePoint now) REQUIRES(mu_);
  Status begin_start(std::size_t replica, Role role, TimePoint now) REQUIRES(mu_);
  void end_warm(const FleetStatus& status, TimePoint now) REQUIRES(mu_);
  bool is_quiet(const FleetStatus& status, const Plan& plan) const REQUIRES(mu_);
  // Requests may wait while no replica serves.
  bool can_rest() const { return options_.planner.prefill_min == 0 && !options_.dry_run; }
  bool fails() const REQUIRES(mu_) { return n_failed_starts_ >= kStartsTried; }
  std::size_t n_places(Presence presence) const REQUIRES(mu_);
  std::string_view state() const REQUIRES(mu_);

  const Parts parts_;
  const AutoscalerOptions options_;
  Bell bell_;
  mutable base::Mutex mu_;
  std::vector<ReplicaPlace> places_ GUARDED_BY(mu_);
  std::vector<std::optional<TimePoint>> warm_since_ GUARDED_BY(mu_);
  LoadHistory history_ GUARDED_BY(mu_);
  PlannerMemory memory_ GUARDED_BY(mu_);
  PlanInputs inputs_ GUARDED_BY(mu_);
  double start_s_ GUARDED_BY(mu_);
  std::uint32_t n_failed_starts_ GUARDED_BY(mu_) = 0;  // in a row
  std::deque<DecisionRecord> decisions_ GUARDED_BY(mu_);
  bool decided_ GUARDED_BY(mu_) = false;  // something that was not decided the last time
  // Of the last look: what is decided again is not told again.
  std::vector<std::pair<Choice, ReplicaId>> told_ GUARDED_BY(mu_);
  std::atomic<bool> stop_{false};
  std::thread thread_;
};

}  // namespace coxswain::fleet
