#pragma once
// Supervisor: starts services in order, waits until each is ready, restarts what dies, and stops
// all of them in reverse order.
//
// States of a service (kTransitions in supervisor.cc is the whole relation):
//
//   waiting -> starting -> ready -> backing_off -> starting ...     -> stopping -> stopped
//
//   waiting      the services it comes after are not ready yet; no process
//   starting     a process runs, ready() has not been true yet
//   ready        a process runs and serves; one that a signal holds for too long is killed
//   backing_off  its process died after it had served, or did not start again; the next start has a time
//   stopping     told to end (SIGTERM), SIGKILL follows at its deadline
//   stopped      no process, none will be started unless it is wanted again
//
// A process that ends before it was ever ready ends the whole run with kStartFailed; one that dies
// too often, with kGaveUp. Shutdown (SIGTERM, SIGINT or request_stop()): the highest group is told
// first; the next one when that is gone or its share of the grace is used. A second signal halves
// what is left of the grace. Everything is over by the end of the grace. SIGUSR1 reports every
// service to on_state and is passed on to those that are ready.
//
// A service that is not wanted (want()) has no process: nobody waits for it, and its end is no death.
//
// Thread rule: one thread; it must be the one that called block_signals(), and live as long as the process.

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "supervise/child_process.h"
#include "supervise/restart_policy.h"

namespace coxswain::supervise {

enum class Stream : std::uint8_t { kStdout, kStderr };

struct ServiceSpec {
  ChildSpec child;
  // Polled while starting. Called with the process running.
  std::function<bool()> ready;
  // Run before every start (removing a stale socket).
  std::function<void()> before_start = [] {};
  // No process until want() says so.
  bool waits_to_be_wanted = false;
  // Once it is ready, a SIGHUP that is not a reason to stop is passed on to it.
  bool takes_hangup = false;
  // Run once, before it is told to end because everything does.
  std::function<void()> before_stop = [] {};
};

struct SupervisorEvents {
  std::function<void(const std::string& service, Stream stream, std::string_view line)> on_line;
  // A process is started.
  std::function<void(const std::string& service)> on_start;
  // One is still not ready: called every SupervisorOptions::waiting_interval.
  std::function<void(const std::string& service)> on_waiting;
  // `took`: since its process was started.
  std::function<void(const std::string& service, std::chrono::milliseconds took)> on_ready;
  // `next_start` is empty if the service is not started again.
  std::function<void(const std::string& service,
                     const Exit& exit,
                     std::optional<std::chrono::milliseconds> next_start)>
      on_exit;
  std::function<void(const std::string& service, const Status& status)> on_start_error;
  // One that is not wanted any more has ended; `failed`: one that was wanted has ended before it was ready.
  std::function<void(const std::string& service, bool failed)> on_unwanted;
  // A service that stood still is killed.
  std::function<void(const std::string& service, pid_t pid)> on_held;
  std::function<void(std::string_view signal_name)> on_stop;
  // SIGHUP that is not a reason to stop.
  std::function<void()> on_hangup;
  // Once for each service when the state was asked for (SIGUSR1); `pid` is 0 without a process.
  std::function<void(const std::string& service, std::string_view state, pid_t pid)> on_state;
};

enum class Outcome : std::uint8_t {
  kStopped,      // asked to, everything ended
  kStartFailed,  // a service ended before it was ready; see RunResult::exit
  kGaveUp,       // a service died too often
};

struct RunResult {
  Outcome outcome = Outcome::kStopped;
  std::string service;  // the one at fault
  Exit exit;            // how it ended
  Status status;        // why it could not be started, if it could not
};

struct SupervisorOptions {
  std::chrono::milliseconds grace{90'000};
  // Of the grace, what is kept back for the services that stop last.
  std::chrono::milliseconds reserve{5'000};
  // How long a service may take to end that is not wanted any more.
  std::chrono::milliseconds unwanted_max{10'000};
  // How long a signal (SIGSTOP) may hold a service.
  std::chrono::milliseconds held_max{10'000};
  // Between two calls of on_waiting for a service.
  std::chrono::milliseconds waiting_interval{10'000};
  // SIGHUP ends everything as SIGTERM does.
  bool hangup_stops = false;
  RestartLimits restarts{};
};

class Supervisor {
 public:
  // Blocks SIGTERM, SIGINT, SIGHUP, SIGUSR1 and SIGCHLD in this thread, so that run() receives
  // them, and ignores SIGPIPE. Call before any thread is started.
  static void block_signals();

  Supervisor(SupervisorOptions options, SupervisorEvents events);
  ~Supervisor();

  // Services of group g start together, once all of the lower groups are ready; they stop together,
  // before the lower groups.
  void add(ServiceSpec spec, int group);

  // Returns when everything has ended.
  RunResult run();
  // Ends run() as SIGTERM would. From a callback only.
  void request_stop();
  // Starts the service's process, if it has none, or ends it. One that `may_fail` and ends before it was ready is not
  // wanted any more, and the run goes on. Does nothing while everything ends. From a callback only.
  void want(const std::string& service, bool wanted, bool may_fail = true);
  // Calls `on_readable` while something can be read from `fd`, which is not owned. Once, before run().
  void watch(int fd, std::function<void()> on_readable);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::supervise
