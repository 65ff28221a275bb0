#pragma once
// RestartPolicy: when to start a dead child again. A pure function of the times of death.
//
// Waits 0, 1, 2, 4 ... 30 s; five deaths within 60 s mean that starting again does not help. A
// child that lived for the whole window begins with no wait again.
//
// Thread rule: one thread.

#include <chrono>
#include <cstddef>
#include <deque>
#include <optional>

#include <coxswain/types.h>

namespace coxswain::supervise {

struct RestartLimits {
  std::size_t deaths_max = 5;
  std::chrono::seconds window{60};
  std::chrono::seconds delay_max{30};
};

class RestartPolicy {
 public:
  explicit RestartPolicy(RestartLimits limits = {}) : limits_(limits) {}

  // Notes a death at `now`. Returns the time of the next start, or nothing if it is time to give up.
  std::optional<TimePoint> on_death(TimePoint now);

 private:
  RestartLimits limits_;
  std::deque<TimePoint> deaths_;  // within the window
};

}  // namespace coxswain::supervise
