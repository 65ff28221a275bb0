#pragma once
// Carriers: threads that wait for bytes, as many as have been on their way at once. So nothing waits behind a machine
// that does not answer.
//
// Thread rule: run() and the end, by one thread.

#include <cstddef>
#include <deque>
#include <functional>
#include <thread>
#include <vector>

#include "base/mutex.h"

namespace coxswain::batch {

class Carriers {
 public:
  using Work = std::function<void()>;

  Carriers() = default;
  ~Carriers() { stop(); }
  Carriers(const Carriers&) = delete;
  Carriers& operator=(const Carriers&) = delete;

  // At once, beside all that runs.
  void run(Work work);
  // Waits for all of it. Nothing is run after that.
  void stop();

 private:
  void loop();

  base::Mutex mu_;
  base::CondVar news_;
  std::deque<Work> waiting_ GUARDED_BY(mu_);
  std::size_t n_idle_ GUARDED_BY(mu_) = 0;  // one at least for each that waits
  bool ends_ GUARDED_BY(mu_) = false;
  std::vector<std::thread> threads_;
};

}  // namespace coxswain::batch
