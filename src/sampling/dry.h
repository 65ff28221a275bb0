#pragma once
// DRY ("don't repeat yourself"): the better a token would go on with a repetition, the lower its score.
// p-e-w 2024, https://github.com/oobabooga/text-generation-webui/pull/5677; formula in docs/sampling.md.
//
// A pure function of the parameters, prompt and output, read as one text of ids.
//
// Thread rule: pure functions; a scratch belongs to one thread at a time.

#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/types.h>

#include "sampling/candidates.h"
#include "sampling/forbidden_tokens.h"

namespace coxswain::sampling {

// `length` tokens at the end of a text stood in it before, and `id` came behind them then.
struct Repetition {
  TokenId id = 0;
  std::uint32_t length = 0;

  friend bool operator==(const Repetition&, const Repetition&) = default;
};

// False: no request of these parameters looks for repetitions.
bool wants_repetitions(const SamplingParams& params);

struct RepetitionScratch {
  std::vector<TokenId> reversed;
  std::vector<std::uint32_t> lengths;
};

// The longest repetition of each id, of at least dry_allowed_length tokens, into `found`, ascending ids, each once.
// `breaks`: for every token of the history, whether no repetition reaches over it; empty: none is of that kind. Linear
// in the tokens that are looked at. REQUIRES: wants_repetitions(params).
void find_repetitions(const TokenHistory& history,
                      std::span<const std::uint8_t> breaks,
                      const SamplingParams& params,
                      RepetitionScratch& scratch,
                      std::vector<Repetition>& found);

// score - dry_multiplier * dry_base ^ (length - dry_allowed_length)
void apply_dry(CandidateSet& set,
               std::span<const Repetition> repetitions,
               const SamplingParams& params);

}  // namespace coxswain::sampling
