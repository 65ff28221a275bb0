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
};

}  // namespace coxswain
