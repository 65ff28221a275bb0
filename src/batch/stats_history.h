#pragma once
// StatsHistory: the statistics of the latest steps, for a program that polls. Each list is bounded, drops its oldest
// entry where it is full, and is emptied by whoever reads it.
//
// Thread rule: the engine thread adds; take_*() from any thread.

#include <cstddef>
#include <deque>
#include <span>
#include <utility>
#include <vector>

#include <coxswain/stats.h>

#include "base/mutex.h"
#include "batch/engine_observer.h"

namespace coxswain::batch {

struct StatsHistoryOptions {
  std::size_t iterations_max = 1000;  // 0 = none are kept
  std::size_t requests_max = 0;       // iterations of which the requests are kept; 0 = none
  std::size_t kv_events_max = 0;      // 0 = none
};

class StatsHistory final : public EngineObserver {
 public:
  explicit StatsHistory(StatsHistoryOptions options) : options_(options) {}

  StatsWanted stats_wanted() const override {
    return {.iterations = options_.iterations_max > 0,
            .requests = options_.requests_max > 0,
            .kv_events = options_.kv_events_max > 0};
  }

  void on_iteration(const IterationStats& iteration,
                    std::span<const RequestStats> requests) override {
    const base::MutexLock lock(mu_);
    if (options_.iterations_max > 0) add(iterations_, iteration, options_.iterations_max);
    if (options_.requests_max > 0) {
      add(requests_,
          {iteration.iteration, {requests.begin(), requests.end()}},
          options_.requests_max);
    }
  }

  void on_kv_events(std::span<KvEvent> events) override {
    const base::MutexLock lock(mu_);
    for (KvEvent& event : events) {
      n_lost_kv_events_ += kv_events_.size() == options_.kv_events_max ? 1 : 0;
      add(kv_events_, std::move(event), options_.kv_events_max);
    }
  }

  // Oldest first; the next call gives what came since.
  std::vector<IterationStats> take_iterations() {
    const base::MutexLock lock(mu_);
    return take(iterations_);
  }
  std::vector<RequestStatsOfIteration> take_requests() {
    const base::MutexLock lock(mu_);
    return take(requests_);
  }

  KvEvents take_kv_events() {
    const base::MutexLock lock(mu_);
    return {.events = take(kv_events_), .n_lost = std::exchange(n_lost_kv_events_, 0)};
  }

 private:
  template <class T>
  static void add(std::deque<T>& list, T value, std::size_t n_max) {
    if (list.size() == n_max) list.pop_front();
    list.push_back(std::move(value));
  }
  template <class T>
  static std::vector<T> take(std::deque<T>& list) {
    std::vector<T> out(std::make_move_iterator(list.begin()), std::make_move_iterator(list.end()));
    list.clear();
    return out;
  }

  const StatsHistoryOptions options_;
  base::Mutex mu_;
  std::deque<IterationStats> iterations_ GUARDED_BY(mu_);
  std::deque<RequestStatsOfIteration> requests_ GUARDED_BY(mu_);
  std::deque<KvEvent> kv_events_ GUARDED_BY(mu_);
  std::uint64_t n_lost_kv_events_ GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::batch
