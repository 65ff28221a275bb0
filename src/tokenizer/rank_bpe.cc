#include "tokenizer/rank_bpe.h"

#include <algorithm>
#include <tuple>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/merge_queue.h"
#include "tokenizer/unicode.h"
#include "tokenizer/word_ends.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kUnusedDepthMax = 64;
constexpr std::size_t kLongWordBytes = 4096;

bool is_set(const std::vector<bool>& flags, TokenId id) {
  return id >= 0 && static_cast<std::size_t>(id) < flags.size() &&
         flags[static_cast<std::size_t>(id)];
}

}  // namespace

RankBpe::RankBpe(const TokenTable& strings, RankBpeOptions options)
    : strings_(strings), options_(std::move(options)) {
  std::vector<std::pair<std::string_view, std::int32_t>> user_defined;
  for (TokenId id = 0; static_cast<std::size_t>(id) < strings.id_end(); ++id) {
    if (is_set(options_.is_user_defined, id) && !strings.string(id).empty())
      user_defined.emplace_back(strings.string(id), id);
  }
  user_defined_ = ByteTrie(std::move(user_defined));
  for (unsigned byte = 0; byte < 256; ++byte)
    byte_ids_[byte] = options_.byte_fallback
                          ? strings.find_or(byte_token_name(static_cast<unsigned char>(byte)), -1)
                          : -1;
  cuts_words_ = !options_.reads_bytes && finds_word_ends();
  id_of_rank_.reserve(options_.ranks.size());
  for (std::size_t id = 0; id < options_.ranks.size(); ++id) {
    const std::size_t rank = options_.ranks[id];
    if (rank >= options_.ranks.size()) continue;  // no rank; the others are dense
    constexpr TokenId kNobody = -2;
    if (rank >= id_of_rank_.size()) id_of_rank_.resize(rank + 1, kNobody);
    id_of_rank_[rank] = id_of_rank_[rank] == kNobody ? static_cast<TokenId>(id) : -1;
  }
}

bool RankBpe::finds_word_ends() const {
  const TokenId blank = strings_.find_or(kMetaspaceUtf8, -1);
  // A blank that ends as unknown joins the unknown characters of the word before.
  if (!options_.byte_fallback && (blank < 0 || is_set(options_.is_unused, blank))) return false;
  for (TokenId id = 0; static_cast<std::size_t>(id) < strings_.id_end(); ++id) {
    if (crosses_words(strings_.string(id))) return false;
  }
  return true;
}

void RankBpe::encode(std::string_view piece,
                     ModelScratch& scratch,
                     std::vector<PieceToken>& out) const {
  const auto encode_word = [&](std::string_view word) {
    scratch.words.append(word, out, [&] { merge_word(word, scratch, out); });
  };
  if (!cuts_words_) return encode_word(piece);
  for_each_word(piece, [&](std::string_view word) {
    encode_word(word);
    scratch.drain(out);
  });
}

TokenId RankBpe::mergeable(std::string_view text) const {
  const TokenId id = strings_.find_or(text, -1);
  return id >= 0 && options_.ranks[static_cast<std::size_t>(id)] != kNoRank ? id : -1;
}

// The symbol that a text starts with.
struct RankBpe::First {
  TokenId id = -1;
  std::uint32_t n_bytes = 0;
  bool is_user_defined = false;
};

RankBpe::First RankBpe::first_symbol(std::string_view text) const {
  First out;
  if (!user_defined_.empty()) {
    user_defined_.visit_prefixes(text, [&](std::size_t n_bytes, std::int32_t found) {
      out = {found, static_cast<std::uint32_t>(n_bytes), true};
    });
    if (out.is_user_defined) return out;
  }
  out.n_bytes = options_.reads_bytes ? 1 : code_point_at(text, 0).n_bytes;
  out.id = strings_.find_or(text.substr(0, out.n_bytes), -1);
  return out;
}

void RankBpe::make_symbols(std::string_view word, ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  for (std::size_t at = 0; at < word.size();) {
    const First first = first_symbol(word.substr(at));
    symbols.push_back({first.id, first.n_bytes, -1, -1});
    at += first.n_bytes;
  }
  const auto n = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < n; ++i) {
    symbols[static_cast<std::size_t>(i)].previous = i - 1;
    symbols[static_cast<std::size_t>(i)].next = i + 1 < n ? i + 1 : -1;
  }
}

void RankBpe::merge(std::string_view word, ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& begins = scratch.ranks;  // [symbol]: where it begins in the word
  begins.resize(symbols.size());
  std::uint32_t at = 0;
  for (std::size_t i = 0; i < symbols.size(); ++i) {
    begins[i] = at;
    at += symbols[i].n_bytes;
  }
  MergeQueue queue;
  const auto is_frozen = [&](const ModelScratch::Symbol& symbol) {
    return is_set(options_.is_user_defined, symbol.id);
  };
  const auto offer = [&](std::int32_t left) {
    if (left < 0) return;
    const auto index = static_cast<std::size_t>(left);
    const ModelScratch::Symbol& symbol = symbols[index];
    if (symbol.next < 0) return;
    const ModelScratch::Symbol& right = symbols[static_cast<std::size_t>(symbol.next)];
    if (is_frozen(symbol) || is_frozen(right)) return;
    const TokenId id = mergeable(word.substr(begins[index], symbol.n_bytes + right.n_bytes));
    if (id < 0) return;
    queue.push(
        {options_.ranks[static_cast<std::size_t>(id)], static_cast<std::uint32_t>(left), id});
  };
  for (std::size_t i = 0; i < symbols.size(); ++i) offer(static_cast<std::int32_t>(i));
  while (!queue.empty()) {
    const MergeQueue::Merge top = queue.pop();
    ModelScratch::Symbol& left = symbols[top.position];
    if (left.n_bytes == 0 || left.next < 0) continue;
    ModelScratch::Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    if (left.n_bytes + right.n_bytes != strings_.string(top.id).size())
      continue;  // one of the two has grown since
    left.id = top.id;
    left.n_bytes += right.n_bytes;
    right.n_bytes = 0;
    left.next = right.next;
    if (left.next >= 0)
      symbols[static_cast<std::size_t>(left.next)].previous =
          static_cast<std::int32_t>(top.position);
    offer(left.previous);
    offer(static_cast<std::int32_t>(top.position));
  }
}

void RankBpe::merge_word(std::string_view word,
                         ModelScratch& scratch,
                         std::vector<PieceToken>& out) const {
  if (options_.whole_first) {
    const TokenId id = strings_.find_or(word, -1);
    if (id >= 0) {
      out.push_back({id, static_cast<std::uint32_t>(word.size())});
      return;
    }
  }
  if (word.size() > kLongWordBytes) return merge_long(word, scratch, out);
  make_symbols(word, scratch);
  merge(word, scratch);
  std::size_t at = 0;
  for (const ModelScratch::Symbol& symbol : scratch.symbols) {
    if (symbol.n_bytes == 0) continue;
    append_unused(word.substr(at, symbol.n_bytes), symbol.id, 0, out);
    at += symbol.n_bytes;
    scratch.drain(out);
  }
}

// A symbol in a LongWord is its id, or what it is itself if it is no token.
std::string_view RankBpe::text_of(TokenId cell, std::string& buffer) const {
  if (cell >= 0) return strings_.string(cell);
  buffer.clear();
  const auto character = static_cast<char32_t>(-(cell + 1));
  if (options_.reads_bytes) {
    buffer.push_back(static_cast<char>(character));
  } else {
    append_utf8(buffer, character);
  }
  return buffer;
}

void RankBpe::merge_long(std::string_view word,
                         ModelScratch& scratch,
                         std::vector<PieceToken>& out) const {
  LongWord long_word;
  const std::size_t n_symbols = options_.reads_bytes ? word.size() : count_characters(word);
  for (std::size_t at = 0; at < word.size();) {
    const std::string_view rest = word.substr(at);
    const First first = first_symbol(rest);
    at += first.n_bytes;
    if (first.is_user_defined) {  // nothing merges with it
      finish_long(long_word, scratch, out);
      out.push_back({first.id, first.n_bytes});
      scratch.drain(out);
      continue;
    }
    if (long_word.size() == kLongWordBytes) long_word.reserve_ids(n_symbols);
    const char32_t character =
        options_.reads_bytes ? static_cast<unsigned char>(rest[0]) : code_point_at(rest, 0).value;
    long_word.push(first.id >= 0 ? first.id : -static_cast<TokenId>(character) - 1);
  }
  finish_long(long_word, scratch, out);
}

// Merges what is there, appends its tokens and clears it.
void RankBpe::finish_long(LongWord& long_word,
                          ModelScratch& scratch,
                          std::vector<PieceToken>& out) const {
  const std::size_t n = long_word.size();
  std::string left_buffer;
  std::string right_buffer;
  const auto parts_at = [&](std::size_t left, std::size_t right) {
    return std::pair(text_of(long_word.id(left), left_buffer),
                     text_of(long_word.id(right), right_buffer));
  };
  const auto is_frozen = [&](std::size_t at) {
    return is_set(options_.is_user_defined, long_word.id(at));
  };
  const auto merge_at = [&](std::size_t at) -> TokenId {
    const std::size_t next = long_word.next(at);
    if (next >= n || is_frozen(at) || is_frozen(next)) return -1;
    const auto [left, right] = parts_at(at, next);
    scratch.text.assign(left).append(right);
    return mergeable(scratch.text);
  };
  const auto rank_of = [&](TokenId id) { return options_.ranks[static_cast<std::size_t>(id)]; };
  RankQueue queue(n);
  const auto offer = [&](std::size_t at) {
    const TokenId id = merge_at(at);
    if (id >= 0) queue.push(rank_of(id), static_cast<std::uint32_t>(at));
  };
  const auto find = [&](std::uint32_t rank, std::size_t from) {
    const TokenId wanted = id_of_rank_[rank];
    const std::string_view text = wanted >= 0 ? strings_.string(wanted) : std::string_view();
    const auto has_merge = [&](std::size_t at) {
      if (wanted < 0) {
        const TokenId id = merge_at(at);
        return id >= 0 && rank_of(id) == rank;
      }
      const std::size_t next = long_word.next(at);
      if (next >= n || is_frozen(at) || is_frozen(next)) return false;
      const auto [left, right] = parts_at(at, next);
      return left.size() + right.size() == text.size() && text.starts_with(left) &&
             text.ends_with(right);
    };
    while (from < n && !long_word.is_start(from)) ++from;
    for (; from < n; from = long_word.next(from)) {
      if (has_merge(from)) return static_cast<std::uint32_t>(from);
    }
    return RankQueue::kNone;
  };
  for (std::size_t at = 0; at < n; ++at) offer(at);
  for (auto [rank, at] = queue.pop(find); at != RankQueue::kNone;
       std::tie(rank, at) = queue.pop(find)) {
    if (!long_word.is_start(at)) continue;
    const TokenId id = merge_at(at);
    if (id < 0 || rank_of(id) != rank) continue;  // one of the two has grown since
    long_word.join(at, long_word.next(at), id);
    if (at > 0) offer(long_word.previous(at));
    offer(at);
  }
  for (std::size_t at = 0; at < n; at = long_word.next(at)) {
    const TokenId cell = long_word.id(at);
    append_unused(text_of(cell, left_buffer), std::max(cell, -1), 0, out);
    scratch.drain(out);
  }
  long_word.clear();
}

void RankBpe::append_unused(std::string_view symbol,
                            TokenId id,
                            std::size_t depth,
                            std::vector<PieceToken>& out) const {
  if (!is_set(options_.is_unused, id) || depth == kUnusedDepthMax) return append(symbol, id, out);
  // Split where the two parts merge first.
  std::size_t best = 0;
  std::uint32_t best_rank = kNoRank;
  for (std::size_t cut = 1; cut < symbol.size(); ++cut) {
    if (is_continuation(symbol[cut])) continue;
    const auto rank_of = [&](std::string_view part) {
      const TokenId part_id = strings_.find_or(part, -1);
      return part_id < 0 ? kNoRank : options_.ranks[static_cast<std::size_t>(part_id)];
    };
    const std::uint32_t rank =
        std::max(rank_of(symbol.substr(0, cut)), rank_of(symbol.substr(cut)));
    if (rank < best_rank || best == 0) {
      best = cut;
      best_rank = rank;
    }
  }
  if (best == 0) return append(symbol, -1, out);
  append_unused(
      symbol.substr(0, best), strings_.find_or(symbol.substr(0, best), -1), depth + 1, out);
  append_unused(symbol.substr(best), strings_.find_or(symbol.substr(best), -1), depth + 1, out);
}

void RankBpe::append(std::string_view symbol, TokenId id, std::vector<PieceToken>& out) const {
  const auto n_bytes = static_cast<std::uint32_t>(symbol.size());
  if (id >= 0) {
    out.push_back({id, n_bytes});
    return;
  }
  const auto has_token = [&](char byte) {
    return byte_ids_[static_cast<unsigned char>(byte)] >= 0;
  };
  if (options_.byte_fallback && std::all_of(symbol.begin(), symbol.end(), has_token)) {
    for (const char byte : symbol) out.push_back({byte_ids_[static_cast<unsigned char>(byte)], 1});
    return;
  }
  if (!options_.unk) return;
  if (!out.empty() && out.back().id == *options_.unk && !options_.byte_fallback) {
    out.back().n_bytes += n_bytes;  // a run of unknown characters is one token
  } else {
    out.push_back({*options_.unk, n_bytes});
  }
}

}  // namespace coxswain::tokenizer
