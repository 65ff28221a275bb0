#include "tokenizer/unigram.h"

#include <algorithm>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10.0;
constexpr std::uint32_t kUnreached = 0xFFFFFFFF;

bool is_set(const std::vector<bool>& flags, TokenId id) {
  return static_cast<std::size_t>(id) < flags.size() && flags[static_cast<std::size_t>(id)];
}

}  // namespace

Unigram::Unigram(const TokenTable& names, UnigramOptions options) : options_(std::move(options)) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  entries.reserve(names.size());
  for (TokenId id = 0; static_cast<std::size_t>(id) < names.id_end(); ++id) {
    const std::string_view name = names.string(id);
    if (!name.empty() && !is_set(options_.is_excluded, id)) entries.emplace_back(name, id);
  }
  trie_ = ByteTrie(std::move(entries));
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_ids_[byte] = options_.byte_fallback
                          ? names.find_or(byte_token_name(static_cast<unsigned char>(byte)), -1)
                          : -1;
}

void Unigram::encode(std::string_view piece,
                     ModelScratch& scratch,
                     std::vector<PieceToken>& out) const {
  // Float arithmetic over a whole sentence depends on what stands before: no cache there.
  if (piece.size() > WordCache::kWordBytesMax || options_.rounds_to_float)
    return encode_word(piece, scratch, out);
  const std::uint64_t hash = hash_bytes(piece);
  if (const WordCache::Entry* entry = scratch.words.find(piece, hash)) {
    out.insert(out.end(), entry->tokens.begin(), entry->tokens.begin() + entry->n_tokens);
    return;
  }
  const std::size_t first = out.size();
  encode_word(piece, scratch, out);
  scratch.words.store(piece, hash, out.data() + first, out.size() - first);
}

void Unigram::fill_lattice(std::string_view piece, ModelScratch& scratch) const {
  auto& lattice = scratch.lattice;
  lattice.assign(piece.size() + 1, {0, kUnreached, -1});
  const double unk_score = options_.rounds_to_float
                               ? static_cast<double>(static_cast<float>(options_.min_score) -
                                                     static_cast<float>(kUnknownPenalty))
                               : options_.min_score - kUnknownPenalty;
  const auto offer = [&](std::size_t end, std::size_t begin, double score, TokenId id) {
    auto& node = lattice[end];
    if (node.begin != kUnreached && !(score > node.score)) return;
    node = {options_.rounds_to_float ? static_cast<double>(static_cast<float>(score)) : score,
            static_cast<std::uint32_t>(begin),
            id};
  };
  for (std::size_t at = 0; at < piece.size();) {
    const double here = lattice[at].score;
    const std::size_t length = code_point_at(piece, at).n_bytes;
    bool has_character = false;
    trie_.visit_prefixes(piece.substr(at), [&](std::size_t n_bytes, std::int32_t id) {
      const double score = is_set(options_.is_user_defined, id)
                               ? static_cast<double>(n_bytes) * options_.max_score - 0.1
                               : options_.scores[static_cast<std::size_t>(id)];
      offer(at + n_bytes, at, score + here, id);
      has_character = has_character || n_bytes == length;
    });
    if (!has_character) {
      const double sum = unk_score + here;
      offer(at + length,
            at,
            options_.rounds_to_float ? static_cast<double>(static_cast<float>(sum)) : sum,
            options_.unk.value_or(-1));
    }
    at += length;
  }
}

void Unigram::append_unknown(std::string_view text, std::vector<PieceToken>& out) const {
  const auto token_of = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (options_.byte_fallback &&
      std::all_of(text.begin(), text.end(), [&](char byte) { return token_of(byte) >= 0; })) {
    for (const char byte : text) out.push_back({token_of(byte), 1});
    return;
  }
  out.push_back({options_.unk.value_or(-1), static_cast<std::uint32_t>(text.size())});
}

void Unigram::encode_word(std::string_view piece,
                          ModelScratch& scratch,
                          std::vector<PieceToken>& out) const {
  fill_lattice(piece, scratch);
  const std::size_t first = out.size();
  std::size_t end = piece.size();
  while (end > 0) {  // from the end to the start
    const auto& node = scratch.lattice[end];
    out.push_back({node.id, static_cast<std::uint32_t>(end - node.begin)});
    end = node.begin;
  }
  std::reverse(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  const auto is_unknown = [&](const PieceToken& token) {
    return token.id < 0 || (options_.unk && token.id == *options_.unk);
  };
  if (std::none_of(out.begin() + static_cast<std::ptrdiff_t>(first), out.end(), is_unknown)) return;
  const std::vector<PieceToken> tokens(out.begin() + static_cast<std::ptrdiff_t>(first), out.end());
  out.resize(first);
  std::size_t at = 0;
  for (std::size_t i = 0; i < tokens.size();) {
    std::size_t n_bytes = tokens[i].n_bytes;
    if (!is_unknown(tokens[i])) {
      out.push_back(tokens[i++]);
      at += n_bytes;
      continue;
    }
    for (++i; options_.fuse_unk && i < tokens.size() && is_unknown(tokens[i]); ++i)
      n_bytes += tokens[i].n_bytes;
    append_unknown(piece.substr(at, n_bytes), out);
    at += n_bytes;
  }
}

}  // namespace coxswain::tokenizer
