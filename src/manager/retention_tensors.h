#pragma once
// The tensors of a request that say which of its cached blocks are kept longer, by the names of Triton's backend:
// ranges of the prompt as columns of four tensors, and the generated tokens.
//
// Thread rule: values.

#include <cstdint>
#include <optional>
#include <span>

#include <coxswain/named_tensor.h>
#include <coxswain/retention.h>
#include <coxswain/status.h>

namespace coxswain::manager {

// Views of the request's tensors; empty where there is none.
struct RetentionTensors {
  std::span<const std::int32_t> starts = {};
  std::span<const std::int32_t> ends = {};          // -1: to the end of the prompt
  std::span<const std::int32_t> priorities = {};    // 0 to 100
  std::span<const std::int32_t> durations_ms = {};  // -1: for good
  std::optional<std::int32_t> decode_priority = {};
  std::optional<std::int32_t> decode_duration_ms = {};  // -1: for good

  // What the numbers must be besides (ranges that do not overlap, limits) is the engine's rule.
  // Errors: kInvalidArgument naming the tensor: columns of different lengths; a negative number, -1 above not counted.
  Result<Retention> retention() const;
};

}  // namespace coxswain::manager
