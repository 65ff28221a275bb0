#include "batch/carriers.h"

#include <utility>

#include "base/thread_name.h"

namespace coxswain::batch {

void Carriers::run(Work work) {
  {
    base::MutexLock lock(mu_);
    waiting_.push_back(std::move(work));
    if (waiting_.size() <= n_idle_) {
      news_.notify_one();
      return;
    }
  }
  threads_.emplace_back([this] {
    base::name_thread("carrier");
    loop();
  });
}

void Carriers::stop() {
  {
    base::MutexLock lock(mu_);
    ends_ = true;
  }
  news_.notify_all();
  for (std::thread& each : threads_) each.join();
  threads_.clear();
}

void Carriers::loop() {
  for (;;) {
    Work work;
    {
      base::MutexLock lock(mu_);
      ++n_idle_;
      news_.wait(lock, [this]() REQUIRES(mu_) { return ends_ || !waiting_.empty(); });
      --n_idle_;
      if (waiting_.empty()) return;
      work = std::move(waiting_.front());
      waiting_.pop_front();
    }
    work();
  }
}

}  // namespace coxswain::batch
