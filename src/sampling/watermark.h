#pragma once
// The watermark of text-generation-inference (Kirchenbauer et al. 2023, arXiv 2301.10226): the token before chooses
// half of the vocabulary, whose scores rise. Who knows the rule sees that a text took too many of them.
//
// The choice is the one that TGI makes on a CPU with its default gamma and delta: a permutation of the vocabulary,
// drawn from MT19937 with the id of the token before in its seed.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <span>

#include <coxswain/types.h>

#include "sampling/candidates.h"

namespace coxswain::sampling {

inline constexpr double kWatermarkGamma = 0.5;  // the share of the vocabulary
inline constexpr float kWatermarkDelta = 2.0F;  // added to its scores

// The first ids of the permutation that `previous` stands for, gamma of all; they lie in `room`.
// `room`: [vocabulary], overwritten.
std::span<const std::uint32_t> green_ids(TokenId previous,
                                         double gamma,
                                         std::span<std::uint32_t> room);

// score + delta, for each green id that is a candidate.
void apply_watermark(CandidateSet& set, std::span<const std::uint32_t> green, float delta);

}  // namespace coxswain::sampling
