#pragma once
// MemoryPlan: who gets which bytes, decided before the cache is taken. Load never takes more than it says.
//
//   available = weights + workspace + kv + draft model or heads + reserve (+ unused)
//
// Each KV group has blocks of its own. Groups that keep every position have one for each block of a request, groups
// with a window what their window needs: the cache is divided for requests of total_tokens_max, or, if that is not
// given, of its sink tokens and kWindowsOfARequest windows (or position_max).
//
// The reserve is for everything else of the machine's processes: router, text, connections.
//
// Thread rule: values and pure functions.

#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

namespace coxswain::runner {

// How many windows long a request is taken to be if nobody says so.
inline constexpr std::uint32_t kWindowsOfARequest = 8;

struct MemoryRequest {
  std::uint64_t available_bytes = 0;      // before anything of the runner is taken
  std::uint64_t weight_bytes = 0;         // of this process alone
  std::uint64_t shared_weight_bytes = 0;  // of all sharers together
  std::uint32_t sharers = 1;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t draft_bytes = 0;     // all of what guesses tokens
  std::vector<KvGroup> groups = {};  // kind, window and bytes_per_block
  std::uint32_t block_tokens = 0;
  std::string kv_type = {};  // name, for to_lines()
  // Asked for: blocks of each group, block 0 included, or bytes; 0 and 0 = as much as is useful and there.
  std::uint32_t kv_blocks = 0;
  std::uint64_t kv_bytes = 0;
  double kv_fraction = 1.0;            // of what is there, at most; (0, 1]
  std::uint32_t total_tokens_max = 0;  // of one request; 0 = what fits, up to position_max
  std::uint32_t position_max = 0;      // of the model
  std::uint32_t batch_size_max = 0;
  std::uint32_t row_tokens_max = 0;  // of one sequence in one step
};

struct MemoryPlan {
  std::uint64_t available_bytes = 0;
  std::uint64_t weight_bytes = 0;  // with a part of what is shared
  std::uint64_t shared_weight_bytes = 0;
  std::uint32_t sharers = 1;
  std::uint64_t workspace_bytes = 0;
  std::uint64_t draft_bytes = 0;
  std::uint64_t kv_bytes = 0;
  std::uint64_t reserve_bytes = 0;
  std::vector<KvGroup> groups = {};  // n_blocks, too: block 0 included, which is never leased
  std::uint64_t kv_tokens = 0;       // kv_capacity_tokens() for the longest request
  std::uint32_t block_tokens = 0;
  std::string kv_type = {};
  std::uint32_t total_tokens_max = 0;  // resolved: never more than the cache serves

  // For the start-up block, one line each.
  std::vector<std::string> to_lines() const;
};

// Bytes left alone for everything that is not planned.
std::uint64_t reserve_bytes_of(std::uint64_t available_bytes);

// Errors: kResourceExhausted; the message says how much is missing and which option to lower.
Result<MemoryPlan> plan_memory(const MemoryRequest& request);

// Whether a process that could share its weights can have a copy of its own, and as much again stays beside `kv_bytes`,
// which were asked for.
bool has_room_for_own_weights(std::uint64_t available_bytes,
                              std::uint64_t weight_bytes_min,
                              std::uint64_t kv_bytes);

// A check before the weights are read, when only their least size is known. Errors: as plan_memory.
Status check_weights_fit(std::uint64_t available_bytes, std::uint64_t weight_bytes_min);

// "1.50 GiB", "12.0 MiB", "512 B"
std::string format_bytes(std::uint64_t bytes);

}  // namespace coxswain::runner
