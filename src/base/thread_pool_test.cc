#include "base/thread_pool.h"

#include <atomic>
#include <chrono>
#include <cstdint>
#include <numeric>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "base/cpu_topology.h"

#if defined(__x86_64__)
#include <xmmintrin.h>
#endif

namespace coxswain::base {
namespace {

TEST(ThreadPool, EveryTaskRunsOnce) {
  for (const std::size_t n_threads : {1U, 2U, 3U, 5U}) {
    ThreadPool pool(n_threads);
    ASSERT_EQ(pool.n_threads(), n_threads);
    for (const std::size_t n_tasks : {0U, 1U, 2U, 7U, 1000U}) {
      std::vector<int> hits(n_tasks, 0);
      pool.run(n_tasks, [&](std::size_t i, std::size_t worker) {
        ASSERT_LT(worker, n_threads);
        ++hits[i];
      });
      EXPECT_EQ(hits, std::vector<int>(n_tasks, 1));
    }
  }
}

std::vector<std::size_t> order_of(ThreadPool& pool, std::size_t n_tasks) {
  std::vector<std::size_t> order;
  pool.run(n_tasks, [&](std::size_t i, std::size_t) { order.push_back(i); });
  return order;
}

TEST(ThreadPool, ASeedShufflesTheTasksOfEachRegion) {
  ThreadPool pool(1);
  std::vector<std::size_t> ascending(50);
  std::iota(ascending.begin(), ascending.end(), std::size_t{0});
  pool.shuffle_tasks(7);
  const std::vector<std::size_t> first = order_of(pool, 50);
  const std::vector<std::size_t> second = order_of(pool, 50);
  EXPECT_NE(first, ascending);
  EXPECT_NE(first, second);
  pool.shuffle_tasks(7);
  EXPECT_EQ(order_of(pool, 50), first);
  pool.shuffle_tasks(0);
  EXPECT_EQ(order_of(pool, 50), ascending);
}

TEST(ThreadPool, ShuffledTasksRunOnceOnEveryNumberOfThreads) {
  for (const std::size_t n_threads : {1U, 2U, 3U}) {
    ThreadPool pool(n_threads);
    pool.shuffle_tasks(3);
    for (std::size_t n_tasks = 0; n_tasks < 70; ++n_tasks) {
      std::vector<int> hits(n_tasks, 0);
      pool.run(n_tasks, [&](std::size_t i, std::size_t worker) {
        ASSERT_LT(worker, n_threads);
        ++hits[i];
      });
      ASSERT_EQ(hits, std::vector<int>(n_tasks, 1));
    }
  }
}

TEST(ThreadPool, ManyRegionsInARowSeeEachOthersWrites) {
  ThreadPool pool(3, allowed_cpus());
  std::vector<std::uint64_t> values(64, 0);
  for (int round = 0; round < 20000; ++round) {
    pool.run(values.size(), [&](std::size_t i, std::size_t) { values[i] += 1; });
  }
  for (const std::uint64_t value : values) EXPECT_EQ(value, 20000U);
}

TEST(ThreadPool, ParkedWorkersWakeUp) {
  ThreadPool pool(2);
  for (int round = 0; round < 5; ++round) {
    // Long enough to park; only the outcome is checked.
    std::this_thread::sleep_for(std::chrono::milliseconds(5));
    std::atomic<int> sum{0};
    pool.run(100, [&](std::size_t, std::size_t) { sum.fetch_add(1); });
    EXPECT_EQ(sum.load(), 100);
  }
}

// A region needs nobody but the caller: here the other worker is held inside a task until the
// caller has done all others.
TEST(ThreadPool, AHeldWorkerDelaysItsOwnTaskOnly) {
  ThreadPool pool(2);
  std::atomic<int> done{0};
  std::atomic<bool> taken{false};
  const auto caller = std::this_thread::get_id();
  pool.run(100, [&](std::size_t, std::size_t worker) {
    EXPECT_EQ(worker == 0, std::this_thread::get_id() == caller);
    if (worker != 0 && !taken.exchange(true)) {
      while (done.load() < 99) std::this_thread::yield();
    }
    done.fetch_add(1);
  });
  EXPECT_EQ(done.load(), 100);
}

// Whoever calls binds himself; workers without a CPU in the list stay free.
TEST(ThreadPool, WorkersAreBoundToTheirCpus) {
  const std::vector<int> cpus = allowed_cpus();
  if (cpus.size() < 2) GTEST_SKIP() << "needs two CPUs";
  ThreadPool pool(3, std::span(cpus).first(2));
  std::vector<std::vector<int>> of_worker(3);
  std::atomic<int> inside{0};
  pool.run(3, [&](std::size_t, std::size_t worker) {
    of_worker[worker] = allowed_cpus();
    inside.fetch_add(1);
    while (inside.load() < 3) std::this_thread::yield();  // so that each worker takes one
  });
  EXPECT_EQ(of_worker[0], cpus);
  EXPECT_EQ(of_worker[1], std::vector{cpus[1]});
  EXPECT_EQ(of_worker[2], cpus);
}

#if defined(__x86_64__)
// The host's own arithmetic reaches no task, and is as before afterwards.
TEST(ThreadPool, TasksComputeInOneModeWhateverTheHostHasSet) {
  constexpr std::uint32_t kModes = 0xFFC0;  // all but the flags of what has happened
  const std::uint32_t before = _mm_getcsr();
  const std::uint32_t odd = 0xDFC0;  // flush to zero, subnormals are zero, rounding up
  _mm_setcsr(odd);
  for (const std::size_t n_threads : {1U, 3U}) {
    ThreadPool pool(n_threads);  // its threads inherit the mode
    for (const std::size_t n_tasks : {1U, 64U}) {
      std::vector<std::uint32_t> seen(n_tasks);
      pool.run(n_tasks, [&](std::size_t i, std::size_t) {
        seen[i] = _mm_getcsr() & kModes;
        // So that every thread takes some.
        std::this_thread::sleep_for(std::chrono::microseconds(100));
      });
      EXPECT_EQ(seen, std::vector<std::uint32_t>(n_tasks, 0x1F80));
      EXPECT_EQ(_mm_getcsr() & kModes, odd);
    }
  }
  _mm_setcsr(before);
}
#endif

// Workers that come late must never run a task of a region that has ended, or run one twice.
TEST(ThreadPool, TinyRegionsRunEveryTaskOnce) {
  ThreadPool pool(4);
  for (int round = 0; round < 50000; ++round) {
    std::atomic<int> hits[3] = {};
    pool.run(3, [&](std::size_t i, std::size_t) { hits[i].fetch_add(1); });
    for (const std::atomic<int>& hit : hits) ASSERT_EQ(hit.load(), 1);
  }
}

}  // namespace
}  // namespace coxswain::base
