#pragma once
// ManagerStats: the statistics of one iteration, key for key as the JSON object of TensorRT-LLM's batch manager and as
// the gauges of Triton's backend (docs/batch-manager.md), and why the head of the queue waits.
//
// Thread rule: values and pure functions; StatsCollector belongs to one thread.

#include <cstddef>
#include <cstdint>
#include <string>

#include <coxswain/batch_manager.h>
#include <coxswain/stats.h>

namespace coxswain::manager {

struct ManagerStats {
  bool is_v1 = false;
  std::uint64_t iteration = 0;  // that served a request; 0 = none yet
  std::int64_t unix_seconds = 0;
  std::size_t n_active = 0;  // requests that were served in it
  std::uint32_t n_max = 0;
  std::uint32_t n_empty_slots = 0;  // kV1: of the batch that runs, those whose request has ended
  IterationStats step = {};         // nothing is scheduled in one that computed nothing
};

class StatsCollector {
 public:
  explicit StatsCollector(BatchingType type) : is_v1_(type == BatchingType::kV1) {}

  // Counts on. `n_max`: 0 = no limit.
  ManagerStats next(const IterationStats& step, std::size_t n_active, std::uint32_t n_max);

 private:
  const bool is_v1_;
  std::uint64_t iteration_ = 0;
  std::uint32_t n_slots_ = 0;  // of the batch that runs
};

// `%m-%d-%Y %H:%M:%S` of the local time.
std::string timestamp_of(std::int64_t unix_seconds);
std::string json_of(const ManagerStats& stats);
// In Prometheus' text format.
std::string gauges_of(const ManagerStats& stats);

}  // namespace coxswain::manager
