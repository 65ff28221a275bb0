#include "tokenizer/rank_bpe.h"

#include <algorithm>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/merge_queue.h"
#include "tokenizer/unicode.h"
#include "tokenizer/word_ends.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kUnusedDepthMax = 64;

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
}

bool RankBpe::finds_word_ends() const {
  if (!strings_.find(kMetaspaceUtf8) && !options_.byte_fallback) return false;
  for (TokenId id = 0; static_cast<std::size_t>(id) < strings_.id_end(); ++id) {
    if (crosses_words(strings_.string(id))) return false;
  }
  return true;
}

void RankBpe::encode(std::string_view piece,
                     ModelScratch& scratch,
                     std::vector<PieceToken>& out) const {
  if (!cuts_words_) return encode_word(piece, scratch, out);
  for_each_word(piece, [&](std::string_view word) {
    encode_word(word, scratch, out);
    scratch.drain(out);
  });
}

void RankBpe::encode_word(std::string_view word,
                          ModelScratch& scratch,
                          std::vector<PieceToken>& out) const {
  if (word.size() > WordCache::kWordBytesMax) return merge_word(word, scratch, out);
  const std::uint64_t hash = hash_bytes(word);
  if (const WordCache::Entry* entry = scratch.words.find(word, hash)) {
    out.insert(out.end(), entry->tokens.begin(), entry->tokens.begin() + entry->n_tokens);
    return;
  }
  const std::size_t first = out.size();
  merge_word(word, scratch, out);
  scratch.words.store(word, hash, out.data() + first, out.size() - first);
}

TokenId RankBpe::mergeable(std::string_view text) const {
  const TokenId id = strings_.find_or(text, -1);
  return id >= 0 && options_.ranks[static_cast<std::size_t>(id)] != kNoRank ? id : -1;
}

void RankBpe::make_symbols(std::string_view word, ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  symbols.clear();
  for (std::size_t at = 0; at < word.size();) {
    std::size_t length = options_.reads_bytes ? 1 : code_point_at(word, at).n_bytes;
    TokenId id = -1;
    std::size_t frozen = 0;
    if (!user_defined_.empty()) {
      user_defined_.visit_prefixes(word.substr(at), [&](std::size_t n_bytes, std::int32_t found) {
        frozen = n_bytes;
        id = found;
      });
    }
    if (frozen > 0) length = frozen;
    if (frozen == 0) id = strings_.find_or(word.substr(at, length), -1);
    symbols.push_back({id, static_cast<std::uint32_t>(length), -1, -1});
    at += length;
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
