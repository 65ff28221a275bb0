#pragma once
// What an Executor says to those who await, and for how long they wait.
//
// Thread rule: pure functions, but wait_until(): under the lock.

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>

#include <coxswain/request.h>
#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/mutex.h"
#include "batch/engine.h"

namespace coxswain::library {

// `timeout` from now on, without end where the clock has none.
inline TimePoint deadline_after(std::chrono::milliseconds timeout) {
  const TimePoint now = Clock::now();
  const auto room = std::chrono::duration_cast<std::chrono::milliseconds>(TimePoint::max() - now);
  return timeout < room ? now + timeout : TimePoint::max();
}

template <typename Predicate>
void wait_until(base::CondVar& changed, base::MutexLock& lock, TimePoint until, Predicate done) {
  if (until == TimePoint::max()) {
    changed.wait(lock, done);
  } else {
    changed.wait_until(lock, until, done);
  }
}

inline Response failed_response(RequestId id, Status status) {
  return {.id = id, .final = true, .status = std::move(status)};
}

inline batch::TokenEvent failure(Status status) {
  batch::TokenEvent out;
  out.final = true;
  out.status = std::move(status);
  return out;
}

inline Response unknown_response(RequestId id) {
  return failed_response(id,
                         {Code::kNotFound,
                          "request " + std::to_string(static_cast<std::uint64_t>(id)) +
                              " is unknown: it was never enqueued, or its final response was "
                              "collected"});
}

}  // namespace coxswain::library
