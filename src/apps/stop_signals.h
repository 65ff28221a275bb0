#pragma once
// StopSignals: SIGTERM, SIGINT and the end of the launcher, as one event that main() waits for.
//
// SIGHUP is ignored, SIGPIPE too. A thread of its own takes the signals, so nothing runs in a
// signal handler. Before serve() there is nothing to clean up and the process ends at once; after
// it main() has `grace` to end by itself.
//
// Thread rule: made first thing in main(), before any other thread, for threads inherit which
// signals are blocked.

#include <chrono>
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
  // Returns once the process is to stop.
  void wait();
  // The same as SIGTERM, from any thread.
  void stop(std::string_view reason);

 private:
  struct Impl;
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::apps
