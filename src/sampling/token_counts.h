#pragma once
// TokenCounts: how often each token occurs in the context of one request, for the penalties.
//
// A pure function of prompt and output ids, so it is rebuilt at will. Only requests with a penalty
// keep one (see needs_token_counts() in sampler.h).
//
// Thread rule: belongs to the thread that owns the sequence.

#include <cstddef>
#include <cstdint>
#include <span>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::sampling {

class TokenCounts {
 public:
  struct Entry {
    TokenId id = 0;
    std::uint32_t in_context = 0;  // prompt and output
    std::uint32_t in_output = 0;
  };

  // Starts over with `prompt`. Room for `n_output_max` more distinct ids is taken now, so that
  // add() does not allocate.
  void reset(std::span<const TokenId> prompt, std::size_t n_output_max);

  // One produced token.
  void add(TokenId id);

  std::span<const Entry> entries() const { return entries_; }  // ascending ids, each once
  std::size_t context_length() const { return context_length_; }

 private:
  std::vector<Entry> entries_;
  std::size_t context_length_ = 0;
};

}  // namespace coxswain::sampling
