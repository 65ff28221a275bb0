#pragma once
// QueuedByPriority: how many requests wait, by what their priority is against the default of 0.
//
// Thread rule: values.

#include <cstdint>

namespace coxswain::batch {

struct QueuedByPriority {
  std::uint32_t low = 0;  // below 0
  std::uint32_t normal = 0;
  std::uint32_t high = 0;  // above 0

  std::uint32_t& of(std::int32_t priority) {
    return priority < 0 ? low : priority > 0 ? high : normal;
  }
  friend bool operator==(const QueuedByPriority&, const QueuedByPriority&) = default;
};

}  // namespace coxswain::batch
