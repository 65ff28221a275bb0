#pragma once
// What a request must keep to besides its sampling parameters, and what is filled in for it: lengths, stop strings,
// seeds, the number of new tokens. For the router and for programs that talk to the engine directly.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::request {

struct RequestLimits {
  std::uint32_t input_tokens_max = 1024;
  std::uint32_t total_tokens_max = 2048;  // prompt and answer
  std::uint32_t best_of_max = 2;
  std::uint32_t n_max = 16;
  std::uint32_t stop_sequences_max = 4;
  std::size_t stop_bytes_max = 1024;
  std::uint32_t top_n_tokens_max = 5;
  std::uint32_t vocab_size = 0;  // width of the logits; ids of requests are checked against it
};

// Errors: kInvalidArgument with kind kValidation and the field `stop`.
Status check_stop_sequences(std::span<const std::string> stops, const RequestLimits& limits);

// As many tokens as were asked for, at most what there is room for behind the prompt.
std::uint32_t resolve_max_new_tokens(std::optional<std::uint32_t> asked,
                                     std::size_t n_prompt,
                                     const RequestLimits& limits);

enum class LengthFault : std::uint8_t {
  kNone,
  kTotal,   // prompt and answer are above total_tokens_max
  kPrompt,  // the prompt is above input_tokens_max
};
// Without `max_new_tokens` the prompt alone is looked at.
LengthFault find_length_fault(std::size_t n_prompt,
                              std::optional<std::uint64_t> max_new_tokens,
                              const RequestLimits& limits);

// A seed for each of `n` sequences: consecutive ones from `asked`, or drawn ones.
std::vector<std::uint64_t> resolve_seeds(std::optional<std::uint64_t> asked,
                                         std::size_t n,
                                         const std::function<std::uint64_t()>& draw);

}  // namespace coxswain::request
