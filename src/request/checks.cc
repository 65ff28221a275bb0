#include "request/checks.h"

#include <algorithm>

namespace coxswain::request {
namespace {

Status refuse_stop(std::string text) {
  return invalid_argument(std::move(text), "stop");
}

}  // namespace

Status check_stop_sequences(std::span<const std::string> stops, const RequestLimits& limits) {
  if (stops.size() > limits.stop_sequences_max) {
    return refuse_stop("`stop` supports up to " + std::to_string(limits.stop_sequences_max) +
                       " stop sequences. Given: " + std::to_string(stops.size()));
  }
  for (const std::string& text : stops) {
    if (text.empty()) return refuse_stop("`stop` cannot have empty strings");
    if (text.size() > limits.stop_bytes_max) {
      return refuse_stop("`stop` strings must have at most " +
                         std::to_string(limits.stop_bytes_max) +
                         " bytes. Given: " + std::to_string(text.size()));
    }
  }
  return {};
}

std::uint32_t resolve_max_new_tokens(std::optional<std::uint32_t> asked,
                                     std::size_t n_prompt,
                                     const RequestLimits& limits) {
  const auto room = static_cast<std::uint32_t>(
      limits.total_tokens_max > n_prompt ? limits.total_tokens_max - n_prompt : 0);
  return std::min(asked.value_or(room), room);
}

LengthFault find_length_fault(std::size_t n_prompt,
                              std::optional<std::uint64_t> max_new_tokens,
                              const RequestLimits& limits) {
  if (max_new_tokens && n_prompt + *max_new_tokens > limits.total_tokens_max) {
    return LengthFault::kTotal;
  }
  if (n_prompt > limits.input_tokens_max) return LengthFault::kPrompt;
  return LengthFault::kNone;
}

std::vector<std::uint64_t> resolve_seeds(std::optional<std::uint64_t> asked,
                                         std::size_t n,
                                         const std::function<std::uint64_t()>& draw) {
  std::vector<std::uint64_t> out(n);
  for (std::size_t i = 0; i < n; ++i) out[i] = asked ? *asked + i : draw();
  return out;
}

}  // namespace coxswain::request
