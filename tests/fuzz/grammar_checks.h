#pragma once
// What must hold of every grammar, whatever language it was written in.
//
// Thread rule: pure functions.

#include <cstddef>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/fuzz_input.h"
#include "grammar/token_masks.h"

namespace coxswain::fuzz {

// Every byte, and longer texts in subtrees that masks pass over.
inline std::shared_ptr<const grammar::TokenTrie> small_vocabulary() {
  constexpr TokenId kTokens = 256 + 3 * 95;
  return std::make_shared<const grammar::TokenTrie>(kTokens, [](TokenId id) {
    if (id < 256) return std::string(1, static_cast<char>(id));
    const char c = static_cast<char>(' ' + (id - 256) % 95);
    switch ((id - 256) / 95) {
      case 0:
        return std::string("a") + c;
      case 1:
        return std::string("a\xC3\xA9") + c + "t";
      default:
        return std::string(" ") + c + c;
    }
  });
}

inline bool allows(const grammar::TokenMask& mask, TokenId id) {
  return ((mask[static_cast<std::size_t>(id) / 64] >> (id % 64)) & 1) != 0;
}

struct Walk {
  std::string text = {};
  bool is_at_end = false;  // nothing may follow
  bool is_whole = false;
};

// Goes where the masks lead, by the tokens that `draw` picks: each bit is what a walk over the token's bytes says.
inline Walk walk(grammar::Program program, Draw& draw, std::size_t n_tokens) {
  const auto trie = small_vocabulary();
  const grammar::TokenMasks masks(std::move(program), trie);
  auto at = masks.begin();
  Walk out;
  for (std::size_t i = 0; i < n_tokens; ++i) {
    const auto mask = masks.mask(at);
    if (!mask.ok()) return out;  // in too many states at once
    std::vector<TokenId> next;
    for (TokenId id = 0; id < static_cast<TokenId>(trie->n_tokens()); ++id) {
      auto there = at;
      const bool follows = masks.advance(there, id);
      require(allows(**mask, id) == follows, "the mask says what can be read");
      if (follows) next.push_back(id);
    }
    out.is_at_end = next.empty();
    out.is_whole = masks.is_whole(at);
    if (out.is_at_end) return out;
    const TokenId chosen = next[draw.below(next.size())];
    require(masks.advance(at, chosen), "what the mask allows can be read");
    out.text += trie->bytes(chosen);
  }
  return out;
}

// Of what a compiler answers: an error says why, and a program travels.
inline bool travels(const Result<grammar::Program>& program) {
  if (!program.ok()) {
    require(!program.status().message().empty(), "an error says why");
    return false;
  }
  const std::string bytes = program->to_bytes();
  const auto again = grammar::Program::from_bytes(bytes);
  require(again.ok() && again->to_bytes() == bytes, "a program travels");
  return true;
}

}  // namespace coxswain::fuzz
