#pragma once
// TokenTrie: the texts of a vocabulary as a tree of bytes, laid out in the order of a walk so that a subtree can be
// passed over in one step.
//
// Tokens without bytes are not in it: no text may spell them. A special token has kSpecialToken and its spelling, so
// that a grammar may ask for it, and no text of characters does: the byte is in none.
//
// Thread rule: immutable; const methods from any thread.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

#include "grammar/text_groups.h"

namespace coxswain::grammar {

inline constexpr char kSpecialToken = '\xff';

// A bit for each token of the vocabulary, the lowest id in the lowest bit of the first word.
using TokenMask = std::vector<std::uint64_t>;

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
    // Of the longest text from this byte on to the end of a token of the subtree, where the byte begins a character.
    std::uint8_t characters = 0;
  };

  // token_bytes(id) for each id of [0, n_tokens): the bytes that it adds to a text; empty: never allowed. A token of
  // more than 255 bytes has none here.
  TokenTrie(std::size_t n_tokens, const std::function<std::string(TokenId)>& token_bytes);

  std::size_t n_tokens() const { return n_tokens_; }  // of the vocabulary
  // What a token adds; empty: not in the tree.
  std::string_view bytes(TokenId id) const;
  // The token of the most bytes that `text` begins with.
  std::optional<TokenId> longest(std::string_view text) const;
  std::span<const NodeEntry> nodes() const { return nodes_; }
  std::span<const TokenId> tokens() const { return tokens_; }
  // What texts of the subtree are spelled with from the node's byte on; only kBrokenGroup where the byte
  // stands within a character.
  TextGroups groups(std::size_t node) const { return groups_[node]; }
  // The first token in the order of tokens() behind the subtree of a node.
  std::uint32_t end_token(std::size_t node) const {
    const std::size_t end = nodes_[node].end;
    return end < nodes_.size() ? nodes_[end].first_token
                               : static_cast<std::uint32_t>(tokens_.size());
  }
  // Children of the root, ascending.
  struct FirstNode {
    std::uint32_t node = 0;
    std::uint8_t byte = 0;
  };
  std::span<const FirstNode> first_nodes() const { return first_nodes_; }
  // Tokens whose texts are plain (text_groups.h), so many that they are kept apart: where all of them may follow,
  // only the others are walked.
  struct OtherNode {
    std::uint32_t node = 0;
    std::uint32_t end = 0;  // of others(): the first behind its subtree
    bool has_tokens = false;
  };
  // Nodes on the way to tokens that are not plain, ascending; `has_tokens`: they end here.
  std::span<const OtherNode> others() const { return others_; }
  // The plain ones by their places in tokens(), ascending, and their bits.
  std::span<const std::uint32_t> plain_tokens() const { return plain_tokens_; }
  const TokenMask& plain() const { return plain_.back(); }
  // Of those of up to so many characters.
  const TokenMask& plain_up_to(std::size_t n_characters) const {
    return plain_[std::min(n_characters, plain_.size() - 1)];
  }
  // How many of each come before a node; behind the last node: all.
  struct Before {
    std::uint32_t plain_tokens = 0;
    std::uint32_t others = 0;
  };
  const Before& before(std::size_t node) const { return before_[node]; }
  // The bits of tokens().
  const TokenMask& all() const { return all_; }

 private:
  void find_groups();
  void find_plain(std::span<const std::uint8_t> plain_characters);

  std::size_t n_tokens_ = 0;
  std::string text_;                  // of all tokens, one after the other
  std::vector<std::uint32_t> begin_;  // [n_tokens + 1] into text_
  std::vector<NodeEntry> nodes_;
  std::vector<TokenId> tokens_;
  std::vector<TextGroups> groups_;  // [node]
  std::vector<FirstNode> first_nodes_;
  std::vector<OtherNode> others_;
  std::vector<std::uint32_t> plain_tokens_;
  std::vector<TokenMask> plain_;  // [characters], as far as there are such tokens
  std::vector<Before> before_;    // [node], and behind the last
  TokenMask all_;
};

}  // namespace coxswain::grammar
