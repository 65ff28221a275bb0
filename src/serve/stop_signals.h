#pragma once
// StopSignals: SIGTERM, SIGINT and the end of the launcher, as one event that a process waits for.
//
//   until serve()    there is nothing to clean up: a request to stop ends the process at once, with code 0
//   after serve()    the first request wakes wait(), and the process stops things itself; further ones ask for haste
//   within a time    a request that gives one ends the process then, with code 0, if this object still lives
//
// A thread of its own takes the signals, so nothing runs in a signal handler. SIGUSR1 asks for a
// dump of the state while the process waits; what SIGHUP asks for is an option.
//
// Thread rule: made after hold_signals() and before any other thread, one object in a process; methods from any thread.

#include <chrono>
#include <functional>
#include <optional>
#include <string>
#include <string_view>
#include <thread>

#include <coxswain/types.h>

#include "base/mutex.h"

namespace coxswain::serve {

// Keeps SIGTERM, SIGINT, SIGHUP and SIGUSR1 waiting until a thread of this process takes them, and ignores
// SIGPIPE. First thing in main(), before any other thread: by default each of them
// kills, and the exit code would be wrong.
void hold_signals();

class StopSignals {
 public:
  struct Options {
    // Time to end after the first signal; without one the process takes the time that it needs.
    std::optional<std::chrono::milliseconds> grace;
    // Called with what asked for the first stop, before anything ends: "Signal 15", or the reason
    // of request_stop(). It must not call this object.
    std::function<void(std::string_view reason)> on_stop{};
    // Called for SIGHUP, before or after serve(). It must not call this object.
    std::function<void()> on_hangup{};
  };
  explicit StopSignals(Options options);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on the process stops things itself.
  void serve();
  // The same as a signal. With `end_within` the process ends in that time, whatever else it waits for.
  void request_stop(std::string_view reason,
                    std::optional<std::chrono::milliseconds> end_within = std::nullopt);
  // Returns once a stop was asked for. Until then SIGUSR1 calls `dump`, which must not call this object.
  void wait(std::function<void()> dump);
  // How often a stop was asked for.
  int n_requests() const;

 private:
  void watch();
  // The next signal; 0 once the time to end is over.
  int next_signal();
  void dump_state();

  const Options options_;
  mutable base::Mutex mu_;
  base::CondVar asked_;
  std::function<void()> dump_ GUARDED_BY(mu_);
  std::optional<TimePoint> deadline_ GUARDED_BY(mu_);
  bool serving_ GUARDED_BY(mu_) = false;
  bool over_ GUARDED_BY(mu_) = false;  // the object is being destroyed
  int n_requests_ GUARDED_BY(mu_) = 0;
  std::thread thread_;
};

}  // namespace coxswain::serve
