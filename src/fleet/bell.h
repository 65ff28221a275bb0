#pragma once
// Bell: wakes the one thread that waits at it. A ring that nobody waits for is kept; many are one.
//
// Thread rule: ring() from any thread, wait() from one.

#include <chrono>
#include <optional>

#include "base/mutex.h"

namespace coxswain::fleet {

class Bell {
 public:
  void ring() {
    {
      base::MutexLock lock(mu_);
      rung_ = true;
    }
    rings_.notify_one();
  }

  // Until a ring, but no longer than `limit`; none is for ever.
  void wait(std::optional<std::chrono::milliseconds> limit) {
    base::MutexLock lock(mu_);
    const auto rung = [this]() REQUIRES(mu_) { return rung_; };
    if (limit) {
      rings_.wait_for(lock, *limit, rung);
    } else {
      rings_.wait(lock, rung);
    }
    rung_ = false;
  }

 private:
  base::Mutex mu_;
  base::CondVar rings_;
  bool rung_ GUARDED_BY(mu_) = false;
};

}  // namespace coxswain::fleet
