#pragma once
// EngineDoor: the way to an Executor's engine for others that may outlive it. ParkedAt: what a ContextPhase stands for.
//
// Thread rule: any thread.

#include <cstdint>
#include <memory>
#include <utility>

#include "base/mutex.h"
#include "batch/handover.h"

namespace coxswain::library {

class EngineDoor {
 public:
  void open(batch::Engine* engine) {
    base::MutexLock lock(mu_);
    engine_ = engine;
  }
  // The engine, which stays until leave(); null once the door is closed: then nothing is to be left.
  batch::Engine* enter() {
    base::MutexLock lock(mu_);
    n_inside_ += engine_ != nullptr ? 1 : 0;
    return engine_;
  }
  void leave() {
    base::MutexLock lock(mu_);
    if (--n_inside_ == 0) left_.notify_all();
  }
  // Waits until everybody has left.
  void close() {
    base::MutexLock lock(mu_);
    engine_ = nullptr;
    left_.wait(lock, [&]() REQUIRES(mu_) { return n_inside_ == 0; });
  }

 private:
  base::Mutex mu_;
  base::CondVar left_;
  batch::Engine* engine_ GUARDED_BY(mu_) = nullptr;
  std::uint32_t n_inside_ GUARDED_BY(mu_) = 0;
};

// With the last of these the blocks are given back.
struct ParkedAt {
  ParkedAt(std::shared_ptr<EngineDoor> at, std::shared_ptr<const batch::ParkedContext> what)
      : door(std::move(at)), parked(std::move(what)) {}
  ~ParkedAt() {
    batch::Engine* engine = door->enter();
    if (engine == nullptr) return;
    batch::release_parked(*engine, *parked);
    door->leave();
  }
  ParkedAt(const ParkedAt&) = delete;
  ParkedAt& operator=(const ParkedAt&) = delete;

  const std::shared_ptr<EngineDoor> door;
  const std::shared_ptr<const batch::ParkedContext> parked;
};

}  // namespace coxswain::library
