#pragma once
// TokenTrie: the texts of a vocabulary as a tree of bytes, laid out in the order of a walk so that a subtree can be
// passed over in one step.
//
// Tokens without bytes are not in it: no text may spell them. A special token has kSpecialToken and its spelling, so
// that a grammar may ask for it, and no text of characters does: the byte is in none.
//
// Thread rule: immutable; const methods from any thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::grammar {

inline constexpr char kSpecialToken = '\xff';

class TokenTrie {
 public:
  // Children follow their parent; `end` is the first node behind the subtree.
  struct NodeEntry {
    std::uint32_t end = 0;
    // [first_token, last_token) of tokens() are spelled by the path to here.
    std::uint32_t first_token = 0;
    std::uint32_t last_token = 0;
    std::uint8_t byte = 0;
    std::uint8_t depth = 0;  // 1 below the root, which is not a node
  };

  // token_bytes(id) for each id of [0, n_tokens): the bytes that it adds to a text; empty: never allowed. A token of
  // more than 255 bytes has none here.
  TokenTrie(std::size_t n_tokens, const std::function<std::string(TokenId)>& token_bytes);

  std::size_t n_tokens() const { return n_tokens_; }  // of the vocabulary
  // What a token adds; empty: not in the tree.
  std::string_view bytes(TokenId id) const;
  std::span<const NodeEntry> nodes() const { return nodes_; }
  std::span<const TokenId> tokens() const { return tokens_; }

 private:
  std::size_t n_tokens_ = 0;
  std::string text_;                  // of all tokens, one after the other
  std::vector<std::uint32_t> begin_;  // [n_tokens + 1] into text_
  std::vector<NodeEntry> nodes_;
  std::vector<TokenId> tokens_;
};

}  // namespace coxswain::grammar
