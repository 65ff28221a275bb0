#include "base/thread_pool.h"

#include <algorithm>
#include <chrono>
#include <numeric>
#include <pthread.h>
#include <random>
#include <sched.h>
#include <system_error>

#if defined(__x86_64__)
#include <immintrin.h>
#endif

#include "base/cpu_topology.h"
#include "base/fatal.h"
#include "base/float_mode.h"
#include "base/thread_name.h"

namespace coxswain::base {
namespace {

// About 50 us on current machines: longer than the gap between two regions of a step, shorter than
// a person notices.
constexpr int kSpinIterations = 2000;

void cpu_relax() {
#if defined(__x86_64__)
  _mm_pause();
#endif
}

}  // namespace

ThreadPool::ThreadPool(std::size_t n_threads, std::span<const int> cpus) {
  for (std::size_t worker = 1; worker < n_threads; ++worker) {
    try {
      workers_.emplace_back([this, worker] {
        name_thread("compute-" + std::to_string(worker));
        worker_loop(worker);
      });
    } catch (const std::system_error&) {
      fatal("the system gives no further thread to the thread pool; use fewer threads");
    }
    if (worker < cpus.size()) bind_to_cpu(workers_.back(), cpus[worker]);
  }
}

ThreadPool::~ThreadPool() {
  {
    base::MutexLock lock(mu_);
    stop_.store(true);
  }
  wake_.notify_all();
  for (std::thread& worker : workers_) worker.join();
}

void ThreadPool::work(std::size_t worker) {
  const Task& task = *task_;
  for (std::size_t i = next_.fetch_add(1); i < n_tasks_; i = next_.fetch_add(1)) task(i, worker);
}

void ThreadPool::run(std::size_t n_tasks, Task task) {
  if (n_tasks == 0) return;
  if (shuffle_seed_ != 0) return run_shuffled(n_tasks, task);
  run_ascending(n_tasks, task);
}

void ThreadPool::run_shuffled(std::size_t n_tasks, Task task) {
  std::vector<std::size_t> order(n_tasks);
  std::iota(order.begin(), order.end(), std::size_t{0});
  std::shuffle(order.begin(), order.end(), std::mt19937_64(shuffle_seed_));
  if (++shuffle_seed_ == 0) shuffle_seed_ = 1;
  run_ascending(n_tasks, [&](std::size_t i, std::size_t worker) { task(order[i], worker); });
}

void ThreadPool::run_ascending(std::size_t n_tasks, Task task) {
  const FloatMode mode;
  if (workers_.empty() || n_tasks == 1) {
    for (std::size_t i = 0; i < n_tasks; ++i) task(i, 0);
    return;
  }
  // Nobody is inside: the fields may change.
  task_ = &task;
  n_tasks_ = n_tasks;
  next_.store(0);
  const std::uint64_t number = (region_.load() >> 32) + 1;
  region_.store((number << 32) | kOpen);
  if (parked_.load() != 0) {
    base::MutexLock lock(mu_);
    wake_.notify_all();
  }
  work(0);
  // Every task is taken. Whoever comes now stays outside; those inside finish what they took.
  region_.fetch_and(~kOpen);
  while ((region_.load() & kInside) != 0) cpu_relax();
}

// Joins an open region that this worker has not been in.
bool ThreadPool::enter(std::uint32_t& seen) {
  std::uint64_t region = region_.load();
  while ((region & kOpen) != 0 && static_cast<std::uint32_t>(region >> 32) != seen) {
    if (region_.compare_exchange_weak(region, region + 1)) {
      seen = static_cast<std::uint32_t>(region >> 32);
      return true;
    }
  }
  return false;
}

void ThreadPool::worker_loop(std::size_t worker) {
  const FloatMode mode;
  std::uint32_t seen = 0;
  const auto called = [&] {
    const std::uint64_t region = region_.load();
    return ((region & kOpen) != 0 && static_cast<std::uint32_t>(region >> 32) != seen) ||
           stop_.load();
  };
  for (;;) {
    for (int i = 0; i < kSpinIterations && !called(); ++i) cpu_relax();
    if (!called()) {
      base::MutexLock lock(mu_);
      parked_.fetch_add(1);
      wake_.wait(lock, called);
      parked_.fetch_sub(1);
    }
    if (stop_.load()) return;
    if (!enter(seen)) continue;
    work(worker);
    region_.fetch_sub(1);
  }
}

}  // namespace coxswain::base
