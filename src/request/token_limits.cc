#include "request/token_limits.h"

#include <algorithm>
#include <limits>
#include <string>

#include <coxswain/kv_layout.h>

namespace coxswain::request {
namespace {

constexpr std::uint32_t kMaxU32 = std::numeric_limits<std::uint32_t>::max();

std::uint32_t clamp_u32(std::uint64_t value) {
  return static_cast<std::uint32_t>(std::min<std::uint64_t>(value, kMaxU32));
}

// What the model and the shard say of one request.
std::uint32_t longest_total(const RunnerInfo& info) {
  std::uint32_t total = kMaxU32;
  if (info.max_position_embeddings > 0) total = std::min(total, info.max_position_embeddings);
  if (info.max_total_tokens > 0) total = std::min(total, info.max_total_tokens);
  return total;
}

Status check_order(const TokenLimits& limits, const RunnerInfo& info) {
  const auto given = [](std::uint32_t a, std::uint32_t b) {
    return " Given: " + std::to_string(a) + " and " + std::to_string(b);
  };
  if (limits.total_tokens_max < 2) {
    return invalid_argument(
        "`max_total_tokens` must be >= 2, a token of a prompt and one of its answer. Given: " +
        std::to_string(limits.total_tokens_max));
  }
  if (limits.input_tokens_max >= limits.total_tokens_max) {
    return invalid_argument("`max_input_tokens` must be < `max_total_tokens`." +
                            given(limits.input_tokens_max, limits.total_tokens_max));
  }
  if (!info.capabilities.plans_chunks &&
      limits.input_tokens_max > limits.batch_prefill_tokens_max) {
    return invalid_argument("`max_batch_prefill_tokens` must be >= `max_input_tokens`." +
                            given(limits.batch_prefill_tokens_max, limits.input_tokens_max));
  }
  if (limits.batch_prefill_tokens_max > limits.batch_total_tokens_max) {
    return invalid_argument("`max_batch_prefill_tokens` must be <= `max_batch_total_tokens`." +
                            given(limits.batch_prefill_tokens_max, limits.batch_total_tokens_max));
  }
  if (limits.total_tokens_max > limits.batch_total_tokens_max) {
    return invalid_argument("`max_total_tokens` must be <= `max_batch_total_tokens`." +
                            given(limits.total_tokens_max, limits.batch_total_tokens_max));
  }
  if (info.max_position_embeddings > 0 && limits.total_tokens_max > info.max_position_embeddings) {
    return invalid_argument(
        "`max_total_tokens` must be <= " + std::to_string(info.max_position_embeddings) +
        ", the positions of the model. Given: " + std::to_string(limits.total_tokens_max));
  }
  return {};
}

}  // namespace

Result<TokenLimits> resolve_limits(const TokenLimitOptions& options, const RunnerInfo& info) {
  TokenLimits out;
  const std::uint64_t longest =
      std::min<std::uint64_t>(options.total_tokens_max.value_or(kMaxU32), longest_total(info));
  const std::uint64_t capacity = kv_capacity_tokens(
      info.kv_groups, info.block_tokens, clamp_u32(longest), options.batch_prefill_tokens_max);
  out.batch_total_tokens_max =
      clamp_u32(std::min(capacity, options.batch_total_tokens_max.value_or(capacity)));
  out.total_tokens_max = clamp_u32(
      options.total_tokens_max.value_or(std::min(longest_total(info), out.batch_total_tokens_max)));
  std::uint64_t default_input = out.total_tokens_max > 0 ? out.total_tokens_max - 1 : 0;
  if (info.max_input_tokens > 0) {
    default_input = std::min<std::uint64_t>(default_input, info.max_input_tokens);
  }
  if (!info.capabilities.plans_chunks && !options.batch_prefill_given) {
    // A prompt that is computed whole must fit into one step.
    default_input = std::min<std::uint64_t>(default_input, options.batch_prefill_tokens_max);
  }
  out.input_tokens_max = clamp_u32(options.input_tokens_max.value_or(default_input));
  out.batch_prefill_tokens_max = options.batch_prefill_tokens_max;
  if (info.capabilities.plans_chunks || !options.batch_prefill_given) {
    out.batch_prefill_tokens_max =
        std::min(out.batch_prefill_tokens_max, out.batch_total_tokens_max);
  }
  COXSWAIN_RETURN_IF_ERROR(check_order(out, info));
  return out;
}

}  // namespace coxswain::request
