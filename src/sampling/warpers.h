#pragma once
// Warpers remove unlikely candidates. Each keeps at least one, and is off (a no-op) at its neutral value.
//
// Names and formulas follow text-generation-inference and the transformers library:
//   top-k
//   top-p      nucleus sampling (Holtzman et al. 2020)
//   typical-p  locally typical sampling (Meister et al. 2023)
//   min-p      Nguyen et al. 2024
//   epsilon, eta  Hewitt et al. 2022
//   top-n-sigma   Tang et al. 2024, arXiv 2411.07641
//   XTC           p-e-w 2024, https://github.com/oobabooga/text-generation-webui/pull/6335
//
// Thread rule: pure functions of the set. None of them allocates.

#include <cstddef>

#include "sampling/candidates.h"

namespace coxswain::sampling {

// Scores of at least the k-th largest stay, ties included. k = 0: off.
void keep_top_k(CandidateSet& set, std::size_t k);

// The shortest list of best candidates (ties: lowest ids first) whose probability reaches p. p >= 1: off.
void keep_top_p(CandidateSet& set, float p);

// In the order of |-log p_i - entropy|: the shortest list whose probability reaches mass, and what
// ties with its last. mass >= 1: off.
void keep_typical(CandidateSet& set, float mass);

// Probability of at least `ratio` times the largest. ratio <= 0: off.
void keep_min_p(CandidateSet& set, float ratio);

// Probability of at least epsilon; the best stays. epsilon <= 0: off.
void keep_epsilon(CandidateSet& set, float epsilon);

// Probability of at least min(epsilon, sqrt(epsilon) * exp(-entropy)); the best stays. epsilon <= 0: off.
void keep_eta(CandidateSet& set, float epsilon);

// Scores of at least the largest minus n standard deviations of all scores. n <= 0: off.
void keep_top_n_sigma(CandidateSet& set, float n);

// Of the candidates with a probability of at least `threshold` all but the least likely leave, at a tie all but the one
// with the lowest id. Nothing happens where fewer than two are so likely.
void exclude_top_choices(CandidateSet& set, float threshold);

}  // namespace coxswain::sampling
