#pragma once
// An attachment of kind kHidden, little-endian: the residual stream between two layers, float32 [n_positions,
// hidden_size] in the order of a plan's rows, then u64 xxh3 of these bytes (StepPlan::hidden_in, hidden_out).
//
// Thread rule: pure functions.

#include <cstdint>

namespace coxswain {

constexpr std::uint64_t hidden_attachment_bytes(std::uint64_t n_positions,
                                                std::uint64_t hidden_size) {
  return n_positions * hidden_size * sizeof(float) + sizeof(std::uint64_t);
}

}  // namespace coxswain
