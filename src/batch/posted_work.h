#pragma once
// PostedWork: what other threads have for the thread of an EngineCore that no Engine drives (Engine::post()).
//
// Thread rule: post() from any thread; the rest belongs to the core's.

#include <functional>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "batch/engine_core.h"

namespace coxswain::batch {

class PostedWork {
 public:
  // `wake` is called behind each post(), on its thread.
  explicit PostedWork(std::function<void()> wake = [] {}) : wake_(std::move(wake)) {}

  void post(EngineWork work) EXCLUDES(mu_) {
    {
      base::MutexLock lock(mu_);
      work_.push_back(std::move(work));
    }
    posted_.notify_all();
    wake_();
  }

  // True if there was some.
  bool run(EngineCore& core) EXCLUDES(mu_) {
    std::vector<EngineWork> work;
    {
      base::MutexLock lock(mu_);
      work = std::exchange(work_, {});
    }
    for (const EngineWork& each : work) each(core);
    return !work.empty();
  }

  // Until there is some, or `until`.
  void wait(TimePoint until) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    posted_.wait_until(lock, until, [&]() REQUIRES(mu_) { return !work_.empty(); });
  }

 private:
  const std::function<void()> wake_;
  base::Mutex mu_;
  base::CondVar posted_;
  std::vector<EngineWork> work_ GUARDED_BY(mu_);
};

}  // namespace coxswain::batch
