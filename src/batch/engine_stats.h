#pragma once
// EngineStats: counts of one engine, as plain values.

#include <cstdint>

#include <coxswain/stats.h>
#include <coxswain/types.h>

namespace coxswain::batch {

// accepted = finished + failed + cancelled + queued + running, and
// blocks_total = free + cached + leased + retiring, summed over the KV groups.
struct EngineStats {
  std::uint64_t accepted = 0;
  std::uint64_t finished = 0;
  std::uint64_t failed = 0;
  std::uint64_t cancelled = 0;
  std::uint32_t queued = 0;         // waiting and paused
  std::uint64_t queued_tokens = 0;  // that these hold, counted as queue_tokens_max does
  std::uint32_t running = 0;        // in steps, or about to be answered
  std::uint64_t steps = 0;
  std::uint64_t pauses = 0;
  std::uint64_t prompt_tokens = 0;
  std::uint64_t cached_prompt_tokens = 0;
  std::uint64_t copied_prompt_tokens = 0;  // of these, the beginning of a block
  // Requests that found every block of their prompt that may be found, some tokens, nothing.
  std::uint64_t prefix_hits = 0;
  std::uint64_t prefix_partial_hits = 0;
  std::uint64_t prefix_misses = 0;
  std::uint64_t generated_tokens = 0;
  std::uint32_t blocks_total = 0;
  std::uint32_t blocks_free = 0;
  std::uint32_t blocks_cached = 0;
  std::uint32_t blocks_leased = 0;
  std::uint32_t blocks_retiring = 0;
  KvTierStats tier = {};
  // StepResult::layers_ready of the last step, its end; 0: this runner has not answered yet.
  std::uint32_t layers_ready = 0;
  bool runner_up = true;
  TimePoint last_step_at{};
};

}  // namespace coxswain::batch
