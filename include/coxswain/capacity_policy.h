#pragma once
// CapacityPolicy: what a request must find in the KV cache to begin, and what happens when blocks run out. It decides
// who runs when, never what a request yields.

#include <cstdint>

namespace coxswain {

enum class CapacityPolicy : std::uint8_t {
  // Room for the prompt and all new tokens: what has begun is never paused for room.
  kGuaranteedNoEvict,
  // Room for what is known; when blocks run out the newest of the lowest priority is paused, and computed again later.
  kMaxUtilization,
  // As kGuaranteedNoEvict, and requests begin together: while one of a batch decodes nobody joins it.
  kStaticBatch,
  // Room for what is known now, and for what all are expected to produce by the lengths of those that have finished;
  // when blocks run out all the same one is paused as under kMaxUtilization, and fewer are let in for a while.
  kAdaptive,
};

}  // namespace coxswain
