#pragma once
// Watchdog: whether steps still come while there is work. Late means max(5 s, 20 x the median of
// the last 64 steps).
//
// Thread rule: one thread writes, any thread calls check().

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string>

#include <coxswain/status.h>
#include <coxswain/types.h>

namespace coxswain::batch {

class Watchdog {
 public:
  // Work begins where there was none.
  void work(TimePoint now) { since_.store(count(now), std::memory_order_relaxed); }
  void idle() { since_.store(kIdle, std::memory_order_relaxed); }
  void step_finished(TimePoint now, std::chrono::nanoseconds duration) {
    durations_[n_++ % kHistory] = duration;
    auto sorted = durations_;
    const auto n = static_cast<std::ptrdiff_t>(std::min(n_, kHistory));
    std::nth_element(sorted.begin(), sorted.begin() + n / 2, sorted.begin() + n);
    median_ns_.store(sorted[static_cast<std::size_t>(n / 2)].count(), std::memory_order_relaxed);
    work(now);
  }

  // Errors: kDeadlineExceeded/kHealthcheck, with the time since the last step. Not kUnavailable:
  // the runner is late, not lost, and a long prompt on a slow machine is legitimate.
  Status check(TimePoint now) const {
    const TimePoint::rep since = since_.load(std::memory_order_relaxed);
    if (since == kIdle) return {};
    const std::chrono::nanoseconds waited = now.time_since_epoch() - TimePoint::duration(since);
    const std::chrono::nanoseconds usual(median_ns_.load(std::memory_order_relaxed));
    if (waited <= std::max<std::chrono::nanoseconds>(kStepTimeMin, usual * kStepTimeFactor))
      return {};
    const auto ms = std::chrono::duration_cast<std::chrono::milliseconds>(waited).count();
    return {Code::kDeadlineExceeded,
            ErrorKind::kHealthcheck,
            "no step has finished for " + std::to_string(ms) + " ms"};
  }

 private:
  static constexpr std::size_t kHistory = 64;
  static constexpr std::chrono::seconds kStepTimeMin{5};
  static constexpr int kStepTimeFactor = 20;
  static constexpr TimePoint::rep kIdle = -1;
  static TimePoint::rep count(TimePoint t) { return t.time_since_epoch().count(); }

  std::array<std::chrono::nanoseconds, kHistory> durations_{};
  std::size_t n_ = 0;
  std::atomic<std::int64_t> median_ns_{0};
  std::atomic<TimePoint::rep> since_{kIdle};
};

}  // namespace coxswain::batch
