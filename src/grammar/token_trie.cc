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
}

std::string_view TokenTrie::bytes(TokenId id) const {
  const auto i = static_cast<std::size_t>(id);
  if (id < 0 || i >= n_tokens_) return {};
  return std::string_view(text_).substr(begin_[i], begin_[i + 1] - begin_[i]);
}

}  // namespace coxswain::grammar
