#include "router/pace.h"

#include <algorithm>
#include <cmath>

namespace coxswain::router {
namespace {

constexpr double kHalfLifeSeconds = 20;

}  // namespace

std::chrono::seconds retry_after(double n_waiting, std::optional<double> per_second) {
  if (!per_second) return kRetryAfterMin;
  const double seconds = (n_waiting + 1) / *per_second;
  const auto low = static_cast<double>(kRetryAfterMin.count());
  const auto high = static_cast<double>(kRetryAfterMax.count());
  return std::chrono::seconds(std::lround(std::ceil(std::clamp(seconds, low, high))));
}

std::chrono::seconds Pace::refuse(const Status& why, TimePoint now) {
  if (why.kind() == ErrorKind::kOverloaded && is_full()) {
    const base::MutexLock lock(mu_);
    if (!full_since_) full_since_ = now;
  }
  return retry_after(n_waiting(), per_second(now));
}

void Pace::note_end(std::size_t n_sequences, TimePoint now) {
  const bool full = is_full();
  const base::MutexLock lock(mu_);
  if (full_since_) {
    measured_ = measured_until(now);
    measured_.n_sequences += static_cast<double>(n_sequences);
  }
  full_since_ = full ? std::optional(now) : std::nullopt;
}

std::optional<double> Pace::per_second(TimePoint now) const {
  const base::MutexLock lock(mu_);
  const Measured measured = measured_until(now);
  if (measured.n_sequences == 0 || measured.seconds == 0) return std::nullopt;
  return measured.n_sequences / measured.seconds;
}

// Both shrink alike, so that their ratio is a mean over time with the latest counting most.
Pace::Measured Pace::measured_until(TimePoint now) const {
  if (!full_since_) return measured_;
  const double seconds = std::max(std::chrono::duration<double>(now - *full_since_).count(), 0.0);
  const double kept = std::exp2(-seconds / kHalfLifeSeconds);
  return {.n_sequences = measured_.n_sequences * kept,
          .seconds = measured_.seconds * kept + seconds};
}

}  // namespace coxswain::router
