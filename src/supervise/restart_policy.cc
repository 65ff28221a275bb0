#include "supervise/restart_policy.h"

#include <algorithm>

namespace coxswain::supervise {

std::optional<TimePoint> RestartPolicy::on_death(TimePoint now) {
  while (!deaths_.empty() && now - deaths_.front() > limits_.window) deaths_.pop_front();
  deaths_.push_back(now);
  if (deaths_.size() >= limits_.deaths_max) return std::nullopt;
  if (deaths_.size() == 1) return now;
  const auto doubled = std::chrono::seconds{1LL << std::min<std::size_t>(deaths_.size() - 2, 30)};
  return now + std::min(doubled, limits_.delay_max);
}

}  // namespace coxswain::supervise
