#pragma once
// Which ids may not come next: those that would complete a bad word or repeat an n-gram, and end tokens while the
// output is shorter than min_new_tokens.
//
// A pure function of the parameters, prompt and output: nothing is kept from token to token. Words and n-grams are
// looked for in prompt and output as one text of ids, as TensorRT-LLM and the transformers library do.
//
// Thread rule: pure functions.

#include <cstddef>
#include <span>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::sampling {

// Prompt and output of a sequence, read as one.
struct TokenHistory {
  std::span<const TokenId> prompt;
  std::span<const TokenId> output;

  std::size_t size() const { return prompt.size() + output.size(); }
  // REQUIRES: position < size().
  TokenId operator[](std::size_t position) const {
    return position < prompt.size() ? prompt[position] : output[position - prompt.size()];
  }
  // Whether it ends with `ids`.
  bool ends_with(std::span<const TokenId> ids) const;
};

// False: nothing is ever forbidden.
bool may_forbid(const SamplingParams& sampling, const StoppingParams& stopping);

// The last id of each word whose others the history ends with. REQUIRES: no word is empty.
void add_bad_words(const TokenHistory& history,
                   std::span<const std::vector<TokenId>> words,
                   std::vector<TokenId>& ids);

// What would complete an n-gram of the history a second time. REQUIRES: n >= 1.
void add_repeated_ngrams(const TokenHistory& history, std::size_t n, std::vector<TokenId>& ids);

// All of them, into `ids`, ascending, each once. `end_ids`: the end tokens of the sequence, none if they are ignored.
void find_forbidden(const TokenHistory& history,
                    const SamplingParams& sampling,
                    const StoppingParams& stopping,
                    std::span<const TokenId> end_ids,
                    std::vector<TokenId>& ids);

}  // namespace coxswain::sampling
