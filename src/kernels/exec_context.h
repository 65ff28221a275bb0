#pragma once
// ExecContext: where kernels run. Today the thread pool of one runner; a device's table will find its stream here.
// Whoever runs a model makes one and hands it down; nothing above the kernels names what is inside.
//
// Thread rule: one step at a time, as ThreadPool::run().

#include <cstddef>
#include <span>

#include "base/thread_pool.h"

namespace coxswain::kernels {

class StepProfile;

class ExecContext {
 public:
  // n_threads counts the calling thread; `cpus` as in ThreadPool.
  explicit ExecContext(std::size_t n_threads, std::span<const int> cpus = {})
      : pool_(n_threads, cpus) {}

  // Workers that may run tasks of one kernel at the same time: what scratch is sized by.
  std::size_t n_threads() const { return pool_.n_threads(); }

  // Threads of the host, for kernels of a CPU set and for work on results that lie on the host (sampling).
  base::ThreadPool& pool() { return pool_; }

  // Which must outlive the context; null, the default: none (step_profile.h).
  void set_profile(StepProfile* profile) { profile_ = profile; }
  StepProfile* profile() const { return profile_; }

 private:
  base::ThreadPool pool_;
  StepProfile* profile_ = nullptr;
};

}  // namespace coxswain::kernels
