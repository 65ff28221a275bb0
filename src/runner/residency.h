#pragma once
// Residency: how far the weights of a model are that is served while they arrive. One thread publishes, what it has
// published is there for good; a step waits at the layer that is not there yet.
//
// Thread rule: one loader; everything else from any thread.

#include <atomic>
#include <cstdint>
#include <utility>

#include <coxswain/status.h>

#include "base/mutex.h"

namespace coxswain::runner {

class Residency {
 public:
  // As model::OnLayers: n is the embedding and layers [0, n), the number of layers + 1 all.
  void publish(std::uint32_t n) {
    {
      const base::MutexLock lock(mu_);
      ready_.store(n, std::memory_order_release);
    }
    changed_.notify_all();
  }
  // What is not there will not come; for all who wait.
  void fail(Status why) {
    {
      const base::MutexLock lock(mu_);
      if (failure_.ok()) failure_ = std::move(why);
    }
    changed_.notify_all();
  }

  std::uint32_t ready() const { return ready_.load(std::memory_order_acquire); }
  Status failure() const {
    const base::MutexLock lock(mu_);
    return failure_;
  }
  // Until n are there. Errors: those of fail().
  Status wait_for(std::uint32_t n) {
    if (ready() >= n) return {};
    base::MutexLock lock(mu_);
    changed_.wait(lock, [&]() REQUIRES(mu_) { return ready() >= n || !failure_.ok(); });
    return ready() >= n ? Status() : failure_;
  }

 private:
  std::atomic<std::uint32_t> ready_{0};
  mutable base::Mutex mu_;
  base::CondVar changed_;
  Status failure_ GUARDED_BY(mu_);
};

}  // namespace coxswain::runner
