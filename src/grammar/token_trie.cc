#include "grammar/token_trie.h"

#include <algorithm>
#include <limits>
#include <numeric>

namespace coxswain::grammar {
namespace {

constexpr std::size_t kTokenBytesMax = 255;

}  // namespace

TokenTrie::TokenTrie(std::size_t n_tokens, const std::function<std::string(TokenId)>& token_bytes)
    : n_tokens_(n_tokens) {
  begin_.reserve(n_tokens + 1);
  for (std::size_t i = 0; i < n_tokens; ++i) {
    begin_.push_back(static_cast<std::uint32_t>(text_.size()));
    const std::string bytes = token_bytes(static_cast<TokenId>(i));
    if (bytes.size() <= kTokenBytesMax) text_ += bytes;
  }
  begin_.push_back(static_cast<std::uint32_t>(text_.size()));

  std::vector<TokenId> order(n_tokens);
  std::iota(order.begin(), order.end(), 0);
  std::erase_if(order, [&](TokenId id) { return bytes(id).empty(); });
  std::sort(order.begin(), order.end(), [&](TokenId a, TokenId b) {
    const int less = bytes(a).compare(bytes(b));
    return less != 0 ? less < 0 : a < b;
  });

  // In the order of the texts every node is met once, behind its parent; `open` is the path to the last one.
  std::vector<std::size_t> open;
  std::string_view last;
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back())
      nodes_[open.back()].end = static_cast<std::uint32_t>(nodes_.size());
  };
  for (const TokenId id : order) {
    const std::string_view text = bytes(id);
    const auto same = static_cast<std::size_t>(
        std::mismatch(text.begin(), text.end(), last.begin(), last.end()).first - text.begin());
    close_to(same);
    for (std::size_t depth = same; depth < text.size(); ++depth) {
      open.push_back(nodes_.size());
      nodes_.push_back({.first_token = static_cast<std::uint32_t>(tokens_.size()),
                        .last_token = static_cast<std::uint32_t>(tokens_.size()),
                        .byte = static_cast<std::uint8_t>(text[depth]),
                        .depth = static_cast<std::uint8_t>(depth + 1)});
    }
    tokens_.push_back(id);
    nodes_[open.back()].last_token = static_cast<std::uint32_t>(tokens_.size());
    last = text;
  }
  close_to(0);
  find_groups();
  for (std::size_t i = 0; i < nodes_.size(); i = nodes_[i].end)
    first_nodes_.push_back({static_cast<std::uint32_t>(i), nodes_[i].byte});
  all_.assign((n_tokens + 63) / 64, 0);
  for (const TokenId id : tokens_) {
    const auto i = static_cast<std::size_t>(id);
    all_[i / 64] |= std::uint64_t{1} << (i % 64);
  }
}

void TokenTrie::find_groups() {
  // By depth; n_left is 0 between characters and behind a broken one.
  std::vector<Utf8Place> path(kTokenBytesMax + 1);
  std::vector<std::uint8_t> within(nodes_.size(), 0);
  groups_.assign(nodes_.size(), 0);
  std::vector<std::uint8_t> plain_characters(nodes_.size(), 0);  // 0: the path is not plain
  struct Spelled {                                               // of the path
    TextGroups groups = 0;
    std::size_t characters = 0;
  };
  std::vector<Spelled> spelled(kTokenBytesMax + 1);
  constexpr TextGroups kBroken = TextGroups{1} << kBrokenGroup;
  constexpr TextGroups kManyBytes = TextGroups{1} << kManyBytesGroup;
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    const NodeEntry& node = nodes_[i];
    const Utf8Place before = path[node.depth - 1U];
    Utf8Place& place = path[node.depth];
    within[i] = before.n_left > 0 ? 1 : 0;
    if (within[i] != 0) {
      const bool fits = before.first <= node.byte && node.byte <= before.last;
      place = fits ? behind_byte(before) : Utf8Place{};
      if (!fits) groups_[i] = kBroken;
    } else if (node.byte < 0x80) {
      place = {};
      groups_[i] = TextGroups{1} << ascii_group(node.byte);
    } else {
      place = behind_lead(node.byte);
      groups_[i] = place.n_left > 0 ? kManyBytes : kBroken;
    }
    const Spelled& parent = spelled[node.depth - 1U];
    spelled[node.depth] = {parent.groups | groups_[i], parent.characters + 1U - within[i]};
    const Spelled& path_text = spelled[node.depth];
    if ((path_text.groups & ~kPlainGroups) == 0 && path_text.characters <= kPlainCharactersMax)
      plain_characters[i] = static_cast<std::uint8_t>(path_text.characters);
  }
  find_plain(plain_characters);
  // From the leaves up: a node stands before its children.
  std::vector<std::uint32_t> parents(kTokenBytesMax + 1);
  std::vector<std::uint32_t> parent_of(nodes_.size(), 0);
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    parents[nodes_[i].depth] = static_cast<std::uint32_t>(i);
    parent_of[i] = parents[nodes_[i].depth - 1U];
  }
  for (std::size_t i = nodes_.size(); i-- > 0;) {
    nodes_[i].characters = static_cast<std::uint8_t>(nodes_[i].characters + 1 - within[i]);
    if (nodes_[i].depth == 1) continue;
    NodeEntry& parent = nodes_[parent_of[i]];
    parent.characters = std::max(parent.characters, nodes_[i].characters);
    groups_[parent_of[i]] |= groups_[i];
  }
  for (std::size_t i = 0; i < nodes_.size(); ++i) {
    if (within[i] != 0) groups_[i] = kBroken;
  }
}

void TokenTrie::find_plain(std::span<const std::uint8_t> plain_characters) {
  plain_.assign(1, TokenMask((n_tokens_ + 63) / 64, 0));
  std::vector<std::uint32_t> path;  // nodes to here
  std::vector<std::uint32_t> open;  // those of them that are in others_, as its numbers
  const auto close_to = [&](std::size_t depth) {
    for (; open.size() > depth; open.pop_back())
      others_[open.back()].end = static_cast<std::uint32_t>(others_.size());
  };
  for (std::uint32_t i = 0; i < nodes_.size(); ++i) {
    const NodeEntry& node = nodes_[i];
    path.resize(node.depth - 1U);
    path.push_back(i);
    close_to(node.depth - 1U);
    before_.push_back({static_cast<std::uint32_t>(plain_tokens_.size()), 0});
    if (node.first_token == node.last_token) continue;
    if (const std::size_t n = plain_characters[i]; n > 0) {
      if (plain_.size() <= n) plain_.resize(n + 1, TokenMask(plain_.front().size(), 0));
      for (std::uint32_t t = node.first_token; t < node.last_token; ++t) {
        plain_tokens_.push_back(t);
        const auto id = static_cast<std::size_t>(tokens_[t]);
        plain_[n][id / 64] |= std::uint64_t{1} << (id % 64);
      }
      continue;
    }
    for (std::size_t depth = open.size(); depth < path.size(); ++depth) {
      open.push_back(static_cast<std::uint32_t>(others_.size()));
      others_.push_back({.node = path[depth]});
    }
    others_.back().has_tokens = true;
  }
  close_to(0);
  for (std::size_t n = 1; n < plain_.size(); ++n) {
    for (std::size_t word = 0; word < plain_[n].size(); ++word)
      plain_[n][word] |= plain_[n - 1][word];
  }
  before_.push_back({static_cast<std::uint32_t>(plain_tokens_.size()), 0});
  // Nodes on the way are known only when what they lead to is met.
  for (std::size_t i = 0, n = 0; i < before_.size(); ++i) {
    while (n < others_.size() && others_[n].node < i) ++n;
    before_[i].others = static_cast<std::uint32_t>(n);
  }
}

std::string_view TokenTrie::bytes(TokenId id) const {
  const auto i = static_cast<std::size_t>(id);
  if (id < 0 || i >= n_tokens_) return {};
  return std::string_view(text_).substr(begin_[i], begin_[i + 1] - begin_[i]);
}

std::optional<TokenId> TokenTrie::longest(std::string_view text) const {
  std::optional<TokenId> out;
  std::size_t end = nodes_.size();  // of the siblings
  std::size_t i = 0;
  for (const char byte : text) {
    while (i < end && nodes_[i].byte != static_cast<std::uint8_t>(byte)) i = nodes_[i].end;
    if (i >= end) break;
    if (nodes_[i].first_token < nodes_[i].last_token) out = tokens_[nodes_[i].first_token];
    end = nodes_[i].end;
    ++i;
  }
  return out;
}

}  // namespace coxswain::grammar
