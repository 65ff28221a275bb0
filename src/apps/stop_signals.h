#pragma once
// StopSignals: SIGTERM, SIGINT and the end of the launcher, as one event that main() waits for.
//
// A thread of its own takes the signals, so nothing runs in a signal handler. Before serve() there
// is nothing to clean up and the process ends at once; after it main() has `grace` to end by
// itself. SIGUSR1 asks for a dump of the state to the log.
//
// Thread rule: made after hold_signals() and before any other thread.

#include <chrono>
#include <functional>
#include <memory>
#include <string_view>

#include "telemetry/log.h"

namespace coxswain::apps {

class StopSignals {
 public:
  StopSignals(std::chrono::milliseconds grace, telemetry::Logger& log);
  ~StopSignals();
  StopSignals(const StopSignals&) = delete;
  StopSignals& operator=(const StopSignals&) = delete;

  // From now on main() stops things itself.
  void serve();
  // What SIGUSR1 calls from now on, until the process is to stop.
  void set_dump(std::function<void()> dump);
  // Returns once the process is to stop.
  void wait();
  // The same as SIGTERM, from any thread.
  void stop(std::string_view reason);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::apps
