#pragma once
// How alike two words are, for "did you mean".
//
// Thread rule: pure function.

#include <cstddef>
#include <string_view>

namespace coxswain::base {

// How many bytes must be inserted, removed, replaced or swapped with their neighbour to get from `a` to `b`. Takes time
// and memory proportional to the product of their lengths: callers bound them.
std::size_t edit_distance(std::string_view a, std::string_view b);

}  // namespace coxswain::base
