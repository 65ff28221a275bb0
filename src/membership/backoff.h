#pragma once
// Backoff: pauses that grow while something fails, each other than those of the neighbours who fail with us.
//
// Thread rule: one owner.

#include <algorithm>
#include <chrono>

#include "base/random.h"

namespace coxswain::membership {

inline constexpr std::chrono::milliseconds kPauseMin{200};
inline constexpr std::chrono::milliseconds kPauseMax{10'000};

class Backoff {
 public:
  // Between half of a span and the whole; the span begins at kPauseMin and doubles up to kPauseMax.
  std::chrono::milliseconds next() {
    const auto half = static_cast<std::uint64_t>(span_.count() / 2);
    span_ = std::min(span_ * 2, kPauseMax);
    return std::chrono::milliseconds(half + base::random_u64() % (half + 1));
  }
  void reset() { span_ = kPauseMin; }

 private:
  std::chrono::milliseconds span_ = kPauseMin;
};

}  // namespace coxswain::membership
