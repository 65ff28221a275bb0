#pragma once
// The kind "sampling" of coxswain-conformance: every file of DIR/goldens/sampling.
//
//   single-*, chain-*
//     Scores after one or several steps, the ids that stay, log-probabilities, the best n.
//
//   logprobs
//     Log-softmax and the best n of raw logits.
//
//   distributions
//     Chi-square test of seeded draws against exact probabilities.
//
// Formats: goldens/README-formats.md beside the data.
//
// Thread rule: one thread.

#include "conformance/conformance.h"

namespace coxswain::conformance {

ConformanceCounts run_sampling_conformance(const ConformanceOptions& options);

}  // namespace coxswain::conformance
