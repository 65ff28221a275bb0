#pragma once
// TokenMasks: which tokens of a vocabulary may follow, for a grammar and all sequences that use it.
//
// The automaton is walked, not tabled: sets of states are made as texts reach them, each with a row of its transitions
// that fills as bytes are read and the mask of its tokens once it was asked for. Both are kept up to a bound and then
// made anew, so that no grammar grows without limit and no answer depends on what was asked before.
//
// Thread rule: methods from any thread. A Position belongs to one.

#include <cstddef>
#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "grammar/program.h"
#include "grammar/token_trie.h"

namespace coxswain::grammar {

inline constexpr std::size_t kForcedBytesMax = 64;

class TokenMasks {
 public:
  // Where a text stands in the grammar. A value: copies go their own ways.
  class Position {
   public:
    Position() = default;

   private:
    friend class TokenMasks;
    std::uint32_t set_ = 0;
    std::uint32_t generation_ = 0;
    std::vector<std::uint32_t> key_ = {};  // the set, spelled so that it outlives the tables
  };

  TokenMasks(Program program, std::shared_ptr<const TokenTrie> trie);
  ~TokenMasks();
  TokenMasks(const TokenMasks&) = delete;
  TokenMasks& operator=(const TokenMasks&) = delete;

  Position begin() const;
  // False, and `position` as it was, where the text leaves the grammar.
  bool advance(Position& position, std::string_view bytes) const;
  // False also for a token that has no bytes.
  bool advance(Position& position, TokenId token) const;
  // The text up to here is whole.
  bool is_whole(const Position& position) const;
  // It is whole, and no byte may follow.
  bool is_at_end(const Position& position) const;
  // The tokens that may follow; end tokens are the caller's to add where the text is whole. kResourceExhausted where
  // the grammar is in too many states at once.
  Result<std::shared_ptr<const TokenMask>> mask(const Position& position) const;
  // What has to follow, as far as no other byte may, in up to `n_max` tokens: the longest that spell it. The text has
  // at most kForcedBytesMax bytes.
  void find_forced(const Position& position, std::size_t n_max, std::vector<TokenId>& ids) const;
  // Whether mask() has it at hand; false is no promise that it has not.
  bool has_mask(const Position& position) const;

 private:
  class Tables;
  std::shared_ptr<const TokenTrie> trie_;
  std::unique_ptr<Tables> tables_;
};

}  // namespace coxswain::grammar
