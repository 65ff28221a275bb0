#pragma once
// What an engine tells about each step (an iteration): counts of the step, of the KV cache and of each request, and why
// the head of the queue waits. Plain values. The terms are those of TensorRT-LLM's Executor (IterationStats,
// RequestStats, KvCacheStats), so that programs which read those find each field.
//
// Times are those of the engine's clock; a number of blocks counts the entries of block tables, once for all KV groups,
// where nothing else is said.

#include <array>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

namespace coxswain {

// Why the first of those that wait was not admitted to a step.
enum class WaitReason : std::uint8_t {
  kNone,            // nobody waits
  kNoBlocks,        // the KV cache has too few blocks beside what runs and what is reserved
  kBatchFull,       // as many sequences run as may
  kTokenBudget,     // the prompt tokens of the step went to others
  kPolicy,          // the capacity policy, or TGI's waiting_served_ratio, holds it back
  kStalled,         // its client does not read
  kInFlight,        // paused, and its last token is not there yet
  kSharedPrefix,    // its next block is being computed for another sequence
  kNoAdapterPages,  // its adapter has no room beside those that are in use
};
inline constexpr std::array<std::string_view, 9> kWaitReasonNames{"none",
                                                                  "no_blocks",
                                                                  "batch_full",
                                                                  "token_budget",
                                                                  "policy",
                                                                  "stalled",
                                                                  "in_flight",
                                                                  "shared_prefix",
                                                                  "no_adapter_pages"};
constexpr std::string_view name_of(WaitReason reason) {
  return kWaitReasonNames[static_cast<std::size_t>(reason)];
}

// Blocks taken and found since the start of the engine, or of one request.
struct BlockUse {
  std::uint64_t allocated = 0;      // taken from the pool (allocTotalBlocks)
  std::uint64_t allocated_new = 0;  // of these, without evicting a cached one (allocNewBlocks)
  std::uint64_t reused = 0;         // found in the cache at an admission
  std::uint64_t missed = 0;         // of the context at an admission, not found

  double hit_rate() const {
    const std::uint64_t n = reused + missed;
    return n == 0 ? 0.0 : static_cast<double>(reused) / static_cast<double>(n);
  }
  friend bool operator==(const BlockUse&, const BlockUse&) = default;
};

// The memory and the files behind the KV cache (ExecutorOptions::kv_host_bytes_max, kv_spill_path) since the engine
// began. A block is that of all groups.
struct KvTierStats {
  std::uint64_t blocks_offloaded = 0;         // kept, in memory or files
  std::uint64_t blocks_onboarded = 0;         // brought back into the cache
  std::uint64_t memory_blocks_onboarded = 0;  // of these, from memory
  std::uint64_t paused_blocks_offloaded = 0;  // of those kept, of sequences that were paused
  std::uint64_t paused_blocks_onboarded = 0;  // of those brought back, for sequences that go on
  std::uint64_t blocks_refused = 0;           // not what they should be: removed, computed again
  std::uint64_t blocks_skipped = 0;           // not kept: too many on their way, or a full disk
  std::uint64_t blocks_held = 0;              // in files now
  std::uint64_t bytes_held = 0;               // of these files
  std::uint64_t memory_blocks_held = 0;       // in memory now
  std::uint64_t memory_bytes_held = 0;        // that these take

  friend bool operator==(const KvTierStats&, const KvTierStats&) = default;
};

// Blocks as they stand at the end of the step, summed over the KV groups.
struct KvCacheStats {
  std::uint32_t blocks_max = 0;
  std::uint32_t blocks_free = 0;  // can be handed out: cached prefixes that nobody uses among them
  std::uint32_t blocks_used = 0;
  std::uint32_t block_tokens = 0;
  BlockUse use;
  KvTierStats tier = {};
};

// One step whose result has arrived. A step counts what was planned for it; `n_active` and `n_queued` are of its end.
struct IterationStats {
  std::uint64_t iteration = 0;  // the number of the step: counts up, with holes where a step failed
  TimePoint ended_at{};
  std::chrono::nanoseconds duration{};  // since its submission, or since the result before it
  std::uint32_t n_new_active = 0;       // requests in a step for the first time
  std::chrono::nanoseconds new_active_queue_time{};  // that these waited, summed
  std::uint32_t n_active = 0;                        // running and paused
  std::uint32_t n_queued = 0;                        // never in a step
  std::uint32_t n_completed = 0;                     // ended since the last one, in whatever way
  std::uint32_t batch_size_max = 0;                  // that a step may have now, also of n_active
  std::uint32_t prompt_tokens_max = 0;  // that a step may have beside this one's decodes
  // In-flight batching:
  std::uint32_t n_scheduled = 0;   // rows of the step
  std::uint32_t n_context = 0;     // of these, parts of a prompt or of a context computed again
  std::uint32_t n_generation = 0;  // the others
  std::uint32_t n_paused = 0;      // that gave their blocks back since the step before was planned
  std::uint32_t n_context_tokens = 0;  // of the n_context rows
  std::uint32_t n_decoded_tokens = 0;  // that the step yielded
  KvCacheStats kv;
  WaitReason wait = WaitReason::kNone;

  // (avgNumDecodedTokensPerIter)
  double decoded_tokens_mean() const {
    return n_generation == 0 ? 0.0 : static_cast<double>(n_decoded_tokens) / n_generation;
  }
};

enum class RequestStage : std::uint8_t { kQueued, kContext, kGeneration, kComplete };

// One request as it stands at the end of a step. Times that have not come are those of a default TimePoint.
struct RequestStats {
  RequestId id{};
  RequestStage stage = RequestStage::kQueued;
  std::uint32_t context_position = 0;  // positions computed, cached ones among them
  std::uint32_t n_generated_tokens = 0;
  std::uint32_t n_token_iterations = 0;  // steps that yielded these
  bool scheduled = false;                // has a row in this step
  bool paused = false;
  BlockUse use;
  TimePoint arrived_at{};
  TimePoint scheduled_at{};  // for the first time
  TimePoint first_token_at{};
  TimePoint last_token_at{};
  std::uint64_t first_iteration = 0;  // that yielded a token; 0 = none yet
  std::uint64_t last_iteration = 0;

  double decoded_tokens_mean() const {
    return n_token_iterations == 0 ? 0.0
                                   : static_cast<double>(n_generated_tokens) / n_token_iterations;
  }
};

// The requests of one step: those that are not answered, and those that it ended.
struct RequestStatsOfIteration {
  std::uint64_t iteration = 0;
  std::vector<RequestStats> requests;
};

}  // namespace coxswain
