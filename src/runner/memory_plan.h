#pragma once
// MemoryPlan: who gets which bytes, decided before the cache is taken. Load never takes more than it says.
//
//   available = weights + workspace + kv + reserve (+ unused)
//
// The reserve is for everything else of the machine's processes: router, text, connections.
//
// Thread rule: values and pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::runner {

struct MemoryRequest {
  std::uint64_t available_bytes = 0;  // before anything of the runner is taken
  std::uint64_t weight_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t block_bytes = 0;  // one block of every KV group
  std::uint32_t block_tokens = 0;
  std::uint64_t kv_bytes = 0;          // asked for; 0 = as much as is useful and there
  std::uint32_t total_tokens_max = 0;  // of one request; 0 = what fits, up to position_max
  std::uint32_t position_max = 0;      // of the model
  std::uint32_t batch_size_max = 0;
};

struct MemoryPlan {
  std::uint64_t available_bytes = 0;
  std::uint64_t weight_bytes = 0;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t reserve_bytes = 0;
  std::uint32_t n_blocks = 0;  // block 0 included, which is never leased
  std::uint32_t block_tokens = 0;
  std::uint32_t total_tokens_max = 0;  // resolved: never more than the cache holds

  // Tokens that the leasable blocks hold.
  std::uint64_t kv_tokens() const {
    return n_blocks == 0 ? 0 : std::uint64_t{n_blocks - 1} * block_tokens;
  }
  // For the start-up block, one line each.
  std::vector<std::string> to_lines() const;
};

// Bytes left alone for everything that is not planned.
std::uint64_t reserve_bytes_of(std::uint64_t available_bytes);

// Errors: kResourceExhausted; the message says how much is missing and which option to lower.
Result<MemoryPlan> plan_memory(const MemoryRequest& request);

// A check before the weights are read, when only their least size is known. Errors: as plan_memory.
Status check_weights_fit(std::uint64_t available_bytes, std::uint64_t weight_bytes_min);

// "1.50 GiB", "12.0 MiB", "512 B"
std::string format_bytes(std::uint64_t bytes);

}  // namespace coxswain::runner
