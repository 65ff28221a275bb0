#pragma once
// How many tokens beyond one a row may yield (Row::n_draft_max): what the runner guesses of any text, and, where a
// grammar binds the sequence, text that the grammar forces. A runner need not use the room.
//
// Thread rule: pure functions.

#include <algorithm>
#include <cstdint>

namespace coxswain::request {

inline constexpr std::uint32_t kForcedTokensMax = 8;

// The most that a row may have, of a runner with Capabilities::draft_tokens_max.
inline std::uint32_t draft_room(std::uint32_t draft_tokens_max, bool has_grammar) {
  return has_grammar ? std::max(draft_tokens_max, kForcedTokensMax) : draft_tokens_max;
}

}  // namespace coxswain::request
