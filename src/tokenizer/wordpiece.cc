#include "tokenizer/wordpiece.h"

#include <utility>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {

WordPiece::WordPiece(const TokenTable& names, WordPieceOptions options)
    : options_(std::move(options)) {
  std::vector<std::pair<std::string_view, std::int32_t>> first;
  std::vector<std::pair<std::string_view, std::int32_t>> inner;
  for (TokenId id = 0; static_cast<std::size_t>(id) < names.id_end(); ++id) {
    const std::string_view name = names.string(id);
    if (name.empty()) continue;
    first.emplace_back(name, id);
    if (name.size() > options_.continuing_prefix.size() &&
        name.starts_with(options_.continuing_prefix))
      inner.emplace_back(name.substr(options_.continuing_prefix.size()), id);
  }
  first_ = ByteTrie(std::move(first));
  inner_ = ByteTrie(std::move(inner));
}

void WordPiece::encode(std::string_view piece, ModelScratch&, std::vector<PieceToken>& out) const {
  const auto unknown = [&](std::size_t first) {
    out.resize(first);
    out.push_back({options_.unk, static_cast<std::uint32_t>(piece.size())});
  };
  const std::size_t first = out.size();
  if (count_characters(piece) > options_.characters_max) return unknown(first);
  for (std::size_t at = 0; at < piece.size();) {
    PieceToken longest;
    const ByteTrie& trie = at == 0 ? first_ : inner_;
    trie.visit_prefixes(piece.substr(at), [&](std::size_t n_bytes, std::int32_t id) {
      // A token of broken characters must not end inside one of the text.
      const bool is_whole = at + n_bytes == piece.size() || !is_continuation(piece[at + n_bytes]);
      if (is_whole) longest = {id, static_cast<std::uint32_t>(n_bytes)};
    });
    if (longest.n_bytes == 0) return unknown(first);
    out.push_back(longest);
    at += longest.n_bytes;
  }
}

void WordLevel::encode(std::string_view piece, ModelScratch&, std::vector<PieceToken>& out) const {
  const TokenId id = names_.find_or(piece, unk_.value_or(-1));
  if (id >= 0) out.push_back({id, static_cast<std::uint32_t>(piece.size())});
}

}  // namespace coxswain::tokenizer
