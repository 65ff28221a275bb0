#pragma once
// Partial selection: the k-th largest value, and the best n of a candidate set, without sorting the
// vocabulary. Thread rule: pure functions. Nothing allocates except the returned list's owner.

#include <cstddef>
#include <cstdint>
#include <span>

#include "sampling/candidates.h"

namespace coxswain::sampling {

// The k-th largest score. Uses the set's float and index scratch. REQUIRES: 1 <= k <= set.size().
float kth_largest(CandidateSet& set, std::size_t k);

// Indices of every candidate whose score is at least the n-th largest, best first, ties by lowest
// id; at most `limit` of them (the ties with the highest ids are left out). The result lies in the
// set's index scratch.
std::span<const std::uint32_t> best_candidates(CandidateSet& set, std::size_t n, std::size_t limit);

}  // namespace coxswain::sampling
