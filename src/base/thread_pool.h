#pragma once
// ThreadPool: runs one parallel region at a time over n tasks, for kernels.
//
// The calling thread works too (worker 0). Tasks are handed out dynamically in ascending order, so
// a core that another program takes away slows one task, not the region. Between regions workers
// spin for a short while, then park; an idle pool uses no CPU. Nothing allocates in run().
//
// Results must not depend on which worker ran a task: split outputs, never a sum. Tasks run in FloatMode on every
// thread, the caller's included.
//
// Thread rule: run() is called by one thread at a time and not from inside a task.

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <span>
#include <thread>
#include <vector>

#include "base/function_ref.h"
#include "base/mutex.h"

namespace coxswain::base {

class ThreadPool {
 public:
  // n_threads counts the caller; 1 means no extra thread. Worker i > 0 is bound to the CPU cpus[i], if there is one;
  // the caller binds itself.
  explicit ThreadPool(std::size_t n_threads, std::span<const int> cpus = {});
  ~ThreadPool();
  ThreadPool(const ThreadPool&) = delete;
  ThreadPool& operator=(const ThreadPool&) = delete;

  std::size_t n_threads() const { return workers_.size() + 1; }

  // Calls task(index, worker) for every index in [0, n_tasks), worker in [0, n_threads()). Returns
  // when all are done; what the tasks wrote is then visible to the caller.
  void run(std::size_t n_tasks, FunctionRef<void(std::size_t index, std::size_t worker)> task);

  // For tests of results that must not depend on the order of tasks: each later region hands its tasks out in an order
  // of its own, drawn from `seed`. 0: ascending again. Such regions allocate. REQUIRES: no region is running.
  void shuffle_tasks(std::uint64_t seed) { shuffle_seed_ = seed; }

 private:
  using Task = FunctionRef<void(std::size_t, std::size_t)>;
  void run_shuffled(std::size_t n_tasks, Task task);
  void run_ascending(std::size_t n_tasks, Task task);
  void worker_loop(std::size_t worker);
  void work(std::size_t worker);
  bool enter(std::uint32_t& seen);

  std::vector<std::thread> workers_;
  // Guards no data: a thread that parks and one that wakes it do not miss each other.
  Mutex mu_;
  CondVar wake_;
  std::atomic<bool> stop_{false};
  std::atomic<std::size_t> parked_{0};
  std::size_t n_tasks_ = 0;
  const Task* task_ = nullptr;
  std::uint64_t shuffle_seed_ = 0;  // of the next region; 0: no order is drawn

  // The number of the region (upper half), whether it takes workers (kOpen) and how many are inside (the rest).
  static constexpr std::uint64_t kOpen = std::uint64_t{1} << 31;
  static constexpr std::uint64_t kInside = kOpen - 1;
  alignas(64) std::atomic<std::uint64_t> region_{0};
  alignas(64) std::atomic<std::size_t> next_{0};
};

}  // namespace coxswain::base
