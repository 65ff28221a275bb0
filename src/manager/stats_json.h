#pragma once
// StatsWriter: the statistics of one iteration as the JSON object that TensorRT-LLM's batch manager writes, key for key
// (docs/batch-manager.md), and why the head of the queue waits.
//
// Thread rule: one thread.

#include <cstddef>
#include <cstdint>
#include <string>

#include <coxswain/batch_manager.h>
#include <coxswain/stats.h>

namespace coxswain::manager {

struct IterationOfManager {
  std::uint64_t iteration = 0;
  std::size_t n_active = 0;    // requests that were served in it
  std::uint32_t n_paused = 0;  // of these, paused in it
  std::uint32_t n_max = 0;     // max_num_requests; 0 = no limit
};

class StatsWriter {
 public:
  explicit StatsWriter(BatchingType type) : type_(type) {}

  // `step`: what was computed in the iteration; nothing is scheduled in one that computed nothing.
  std::string json(const IterationStats& step, const IterationOfManager& of);

 private:
  const BatchingType type_;
  std::uint32_t n_slots_ = 0;  // of the batch that runs, kV1 only
};

// `%m-%d-%Y %H:%M:%S` of the local time.
std::string timestamp_of(std::int64_t unix_seconds);

}  // namespace coxswain::manager
