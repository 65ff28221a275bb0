#pragma once
// Philox4x32-10: a counter-based random generator (Salmon, Moraes, Dror, Shaw: "Parallel random
// numbers: as easy as 1, 2, 3", SC 2011).
//
// A draw is a pure function of (seed, position, purpose). So the n-th token of a request gets the
// same number whatever ran before or beside it, on any replica, after any pause.

#include <array>
#include <cstdint>

namespace coxswain::sampling {

using PhiloxCounter = std::array<std::uint32_t, 4>;
using PhiloxKey = std::array<std::uint32_t, 2>;

// Ten rounds, as published; test vectors in philox_test.cc.
PhiloxCounter philox4x32_10(PhiloxCounter counter, PhiloxKey key);

// What a number is drawn for. Values are part of what a seed means: append only.
enum class DrawPurpose : std::uint32_t {
  kToken = 0,       // the token at a position
  kTopChoices = 1,  // whether XTC acts there
};

// Uniform in [0, 1), a multiple of 2^-53.
double uniform_draw(std::uint64_t seed, std::uint64_t position, DrawPurpose purpose);

}  // namespace coxswain::sampling
