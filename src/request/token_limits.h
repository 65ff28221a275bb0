#pragma once
// TokenLimits: how long requests may be, from what the operator asked for and what the shard can hold.
//
// Thread rule: pure functions.

#include <cstdint>
#include <optional>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

namespace coxswain::request {

// As given; an empty optional is an option that was not set.
struct TokenLimitOptions {
  std::optional<std::uint64_t> input_tokens_max;
  std::optional<std::uint64_t> total_tokens_max;
  std::optional<std::uint64_t> batch_total_tokens_max;
  std::uint32_t batch_prefill_tokens_max = 4096;
  // Lowered to what the cache holds, unless it was given and the shard takes prompts whole only.
  bool batch_prefill_given = false;
};

struct TokenLimits {
  std::uint32_t input_tokens_max = 0;
  std::uint32_t total_tokens_max = 0;
  std::uint32_t batch_prefill_tokens_max = 0;
  // What the KV cache serves at once (kv_capacity_tokens()), or the option if that is less.
  std::uint32_t batch_total_tokens_max = 0;
};

// What was not given is the most that the model and its cache allow.
// Errors: kInvalidArgument with the text that users know.
Result<TokenLimits> resolve_limits(const TokenLimitOptions& options, const RunnerInfo& info);

}  // namespace coxswain::request
