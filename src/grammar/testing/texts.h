#pragma once
// For tests: what a grammar lets through, text by text.
// Thread rule: pure functions.

#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <vector>

#include "grammar/program.h"
#include "grammar/token_masks.h"

namespace coxswain::grammar::testing {

// A vocabulary of these texts: the id is the place.
inline std::shared_ptr<const TokenTrie> trie_of(const std::vector<std::string>& tokens) {
  return std::make_shared<const TokenTrie>(
      tokens.size(), [&](TokenId id) { return tokens[static_cast<std::size_t>(id)]; });
}

// Walks texts byte by byte, without tokens.
class Acceptor {
 public:
  explicit Acceptor(const Program& program) : masks_(program, trie_of({})) {}

  bool accepts(std::string_view text) const {
    TokenMasks::Position at = masks_.begin();
    return masks_.advance(at, text) && masks_.is_whole(at);
  }
  // Whether a whole text may begin so.
  bool begins(std::string_view text) const {
    TokenMasks::Position at = masks_.begin();
    return masks_.advance(at, text);
  }

 private:
  TokenMasks masks_;
};

inline bool is_allowed(const TokenMask& mask, TokenId id) {
  return (mask[static_cast<std::size_t>(id) / 64] >> (id % 64) & 1) != 0;
}

// Every whole text of at most n_tokens tokens that the masks let through.
inline std::set<std::string> texts_by_masks(const Program& program,
                                            const std::vector<std::string>& tokens,
                                            std::size_t n_tokens) {
  const TokenMasks masks(program, trie_of(tokens));
  struct Open {
    TokenMasks::Position at;
    std::string text;
  };
  std::set<std::string> out;
  std::vector<Open> open = {{masks.begin(), ""}};
  for (std::size_t n = 0; n <= n_tokens; ++n) {
    std::vector<Open> longer;
    for (const Open& one : open) {
      if (masks.is_whole(one.at)) out.insert(one.text);
      const auto mask = masks.mask(one.at);
      for (TokenId id = 0; n < n_tokens && id < static_cast<TokenId>(tokens.size()); ++id) {
        if (!is_allowed(*mask.value(), id)) continue;
        Open next = one;
        if (!masks.advance(next.at, id)) std::abort();  // the mask has said that it may
        next.text += tokens[static_cast<std::size_t>(id)];
        longer.push_back(std::move(next));
      }
    }
    open = std::move(longer);
  }
  return out;
}

// Every text of at most n characters of `alphabet`.
inline std::vector<std::string> all_texts(std::string_view alphabet, std::size_t n) {
  std::vector<std::string> out = {""};
  for (std::size_t begin = 0; n > 0; --n) {
    const std::size_t end = out.size();
    for (std::size_t i = begin; i < end; ++i) {
      for (const char c : alphabet) out.push_back(out[i] + c);
    }
    begin = end;
  }
  return out;
}

}  // namespace coxswain::grammar::testing
