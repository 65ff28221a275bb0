#include "tokenizer/unigram.h"

#include <algorithm>
#include <bit>
#include <limits>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

constexpr double kUnknownPenalty = 10.0;

bool is_set(const std::vector<bool>& flags, TokenId id) {
  return static_cast<std::size_t>(id) < flags.size() && flags[static_cast<std::size_t>(id)];
}

}  // namespace

Unigram::Unigram(const TokenTable& names, UnigramOptions options) : options_(std::move(options)) {
  std::vector<std::pair<std::string_view, std::int32_t>> entries;
  entries.reserve(names.size());
  for (TokenId id = 0; static_cast<std::size_t>(id) < names.id_end(); ++id) {
    const std::string_view name = names.string(id);
    if (name.empty() || is_set(options_.is_excluded, id)) continue;
    entries.emplace_back(name, id);
    n_longest_ = std::max(n_longest_, name.size());
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
  if (options_.rounds_to_float) return encode_word(piece, scratch, out);
  scratch.words.append(piece, out, [&] { encode_word(piece, scratch, out); });
}

// Of the best way to each node only the length of its last token is kept, and scores only as far
// back as a token reaches: memory of one length a byte.
template <typename Length>
void Unigram::fill_lattice(std::string_view piece, ModelScratch& scratch, Length* lengths) const {
  std::fill_n(lengths, piece.size() + 1, Length{0});
  const std::size_t mask = std::bit_ceil(std::min(n_longest_, piece.size()) + 1) - 1;
  auto& scores = scratch.scores;  // [node & mask]
  scores.assign(mask + 1, 0);
  const double unk_score = options_.rounds_to_float
                               ? static_cast<double>(static_cast<float>(options_.min_score) -
                                                     static_cast<float>(kUnknownPenalty))
                               : options_.min_score - kUnknownPenalty;
  const auto offer = [&](std::size_t end, std::size_t n_bytes, double score) {
    double& best = scores[end & mask];
    if (lengths[end] != 0 && !(score > best)) return;
    best = options_.rounds_to_float ? static_cast<double>(static_cast<float>(score)) : score;
    lengths[end] = static_cast<Length>(n_bytes);
  };
  for (std::size_t at = 0; at < piece.size();) {
    const double here = scores[at & mask];
    const std::size_t length = code_point_at(piece, at).n_bytes;
    bool has_character = false;
    trie_.visit_prefixes(piece.substr(at), [&](std::size_t n_bytes, std::int32_t id) {
      const double score = is_set(options_.is_user_defined, id)
                               ? static_cast<double>(n_bytes) * options_.max_score - 0.1
                               : options_.scores[static_cast<std::size_t>(id)];
      offer(at + n_bytes, n_bytes, score + here);
      has_character = has_character || n_bytes == length;
    });
    if (!has_character) {
      const double sum = unk_score + here;
      offer(at + length,
            length,
            options_.rounds_to_float ? static_cast<double>(static_cast<float>(sum)) : sum);
    }
    at += length;
  }
}

void Unigram::append_unknown(std::string_view text, std::vector<PieceToken>& out) const {
  const auto byte_token = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  if (options_.byte_fallback &&
      std::all_of(text.begin(), text.end(), [&](char byte) { return byte_token(byte) >= 0; })) {
    for (const char byte : text) out.push_back({byte_token(byte), 1});
    return;
  }
  out.push_back({options_.unk.value_or(-1), static_cast<std::uint32_t>(text.size())});
}

TokenId Unigram::token_of(std::string_view text) const {
  TokenId out = options_.unk.value_or(-1);
  trie_.visit_prefixes(text, [&](std::size_t n_bytes, std::int32_t id) {
    if (n_bytes == text.size()) out = id;
  });
  return out;
}

template <typename Length>
void Unigram::encode_with(std::string_view piece,
                          ModelScratch& scratch,
                          std::vector<PieceToken>& out) const {
  scratch.lattice.resize((piece.size() + 1) * sizeof(Length));
  auto* const lengths = reinterpret_cast<Length*>(scratch.lattice.data());
  fill_lattice(piece, scratch, lengths);
  // From the end to the start: each node of the best way gets the length of the token behind it.
  Length behind = 0;
  for (std::size_t at = piece.size();;) {
    const Length before = lengths[at];
    lengths[at] = behind;
    if (at == 0) break;
    behind = before;
    at -= before;
  }
  const auto is_unknown = [&](TokenId id) {
    return id < 0 || (options_.unk && id == *options_.unk);
  };
  for (std::size_t at = 0; at < piece.size(); scratch.drain(out)) {
    std::size_t n_bytes = lengths[at];
    const TokenId id = token_of(piece.substr(at, n_bytes));
    if (!is_unknown(id)) {
      out.push_back({id, static_cast<std::uint32_t>(n_bytes)});
      at += n_bytes;
      continue;
    }
    while (options_.fuse_unk && at + n_bytes < piece.size()) {
      const std::size_t next = lengths[at + n_bytes];
      if (!is_unknown(token_of(piece.substr(at + n_bytes, next)))) break;
      n_bytes += next;
    }
    append_unknown(piece.substr(at, n_bytes), out);
    at += n_bytes;
  }
}

void Unigram::encode_word(std::string_view piece,
                          ModelScratch& scratch,
                          std::vector<PieceToken>& out) const {
  if (n_longest_ <= std::numeric_limits<std::uint8_t>::max()) {
    encode_with<std::uint8_t>(piece, scratch, out);
  } else {
    encode_with<std::uint32_t>(piece, scratch, out);
  }
}

}  // namespace coxswain::tokenizer
