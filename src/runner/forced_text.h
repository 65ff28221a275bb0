#pragma once
// ForcedText: guesses the tokens of a text that the grammar of a sequence forces.
//
// The bytes are certain, how the model cuts them into tokens is not: it may choose any that spell them. Most often it
// takes the longest, as tokenizers do; how often is learned.
//
// Thread rule: belongs to the compute thread.

#include <cstddef>
#include <span>
#include <vector>

#include <coxswain/types.h>

#include "grammar/token_masks.h"
#include "runner/guess_source.h"

namespace coxswain::runner {

class ForcedText {
 public:
  // Up to `n_max` tokens behind `output`, whose place in the grammar this is. What the sequence got since the last
  // guess says how likely the next one is; `chance`, of all sequences, is where each begins, and learns from it too.
  Guess guess(const grammar::TokenMasks& masks,
              const grammar::TokenMasks::Position& place,
              std::span<const TokenId> output,
              std::size_t n_max,
              double& chance);

 private:
  void learn(std::span<const TokenId> output, double& chance);

  std::vector<TokenId> ids_;  // the last guess, for output[begin_, ...)
  std::size_t begin_ = 0;
  double chance_ = 0;  // 0: nothing was guessed yet
};

}  // namespace coxswain::runner
