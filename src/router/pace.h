#pragma once
// Pace: how fast sequences leave a full house, and so when whoever is refused should come again.
//
// Only time in which the house is full counts: from a refusal to the next end of a request, and from there on as long
// as some wait for a step or no permit is free. What a quiet hour or a single request took says nothing about a queue.
// Older times count less: their weight halves with every 20 s of full house.
//
// Thread rule: any thread.

#include <chrono>
#include <cstddef>
#include <optional>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/mutex.h"
#include "router/permits.h"
#include "telemetry/metrics.h"

namespace coxswain::router {

inline constexpr std::chrono::seconds kRetryAfterMin{1};
inline constexpr std::chrono::seconds kRetryAfterMax{60};

// Until `n_waiting` sequences and one more have left, in whole seconds, between the two bounds. Empty `per_second`:
// none is known, which is the least.
std::chrono::seconds retry_after(double n_waiting, std::optional<double> per_second);

class Pace {
 public:
  // Both outlive it. Null metrics: nobody is known to wait.
  Pace(const PermitPool& permits, const telemetry::Metrics* metrics)
      : permits_(permits), metrics_(metrics) {}

  // Somebody is refused because of `why`. After how long to come again.
  std::chrono::seconds refuse(const Status& why, TimePoint now);
  // A request has left and its permits with it. `n_sequences`: those that made room for others by their end, none of
  // one that never had its turn.
  void note_end(std::size_t n_sequences, TimePoint now);
  // Sequences that leave a full house in a second; empty before any did.
  std::optional<double> per_second(TimePoint now) const;

 private:
  struct Measured {
    double n_sequences = 0;
    double seconds = 0;
  };
  bool is_full() const { return permits_.free() == 0 || n_waiting() > 0; }
  double n_waiting() const { return metrics_ == nullptr ? 0 : metrics_->queue_size.value(); }
  Measured measured_until(TimePoint now) const REQUIRES(mu_);

  const PermitPool& permits_;
  const telemetry::Metrics* const metrics_;
  mutable base::Mutex mu_;
  Measured measured_ GUARDED_BY(mu_);
  std::optional<TimePoint> full_since_ GUARDED_BY(mu_);  // that is not in measured_ yet
};

}  // namespace coxswain::router
