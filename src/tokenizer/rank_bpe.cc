#include "tokenizer/rank_bpe.h"

#include <algorithm>
#include <utility>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kUnusedDepthMax = 64;
constexpr TokenId kNoToken = -2;  // symbols below: a character (or byte) without a token

bool is_set(const std::vector<bool>& flags, TokenId id) {
  return id >= 0 && static_cast<std::size_t>(id) < flags.size() &&
         flags[static_cast<std::size_t>(id)];
}

}  // namespace

RankBpe::RankBpe(const TokenTable& strings, RankBpeOptions options)
    : MergeModel(options.reads_bytes), strings_(strings), options_(std::move(options)) {
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
  const TokenId blank = strings_.find_or(kMetaspaceUtf8, -1);
  // A blank that ends as unknown joins the unknown characters of the word before.
  if (!options_.byte_fallback && (blank < 0 || is_set(options_.is_unused, blank))) return false;
  for (TokenId id = 0; static_cast<std::size_t>(id) < strings_.id_end(); ++id) {
    if (crosses_words(strings_.string(id))) return false;
  }
  return true;
}

bool RankBpe::merges(TokenId symbol) const {
  return !is_set(options_.is_user_defined, symbol);
}

std::size_t RankBpe::make_symbols(std::string_view word,
                                  std::size_t begin,
                                  std::size_t end,
                                  ModelScratch& scratch) const {
  std::size_t at = begin;
  while (at < end) {
    const std::string_view rest = word.substr(at);
    ModelScratch::Symbol symbol;
    if (!user_defined_.empty()) {
      user_defined_.visit_prefixes(rest, [&](std::size_t n_bytes, std::int32_t id) {
        symbol = {id, static_cast<std::uint32_t>(n_bytes)};
      });
    }
    if (symbol.n_bytes == 0) {
      const CodePoint c = options_.reads_bytes ? CodePoint{static_cast<unsigned char>(rest[0]), 1}
                                               : code_point_at(rest, 0);
      const TokenId unknown = kNoToken - static_cast<TokenId>(c.value);
      symbol = {strings_.find_or(rest.substr(0, c.n_bytes), unknown), c.n_bytes};
    }
    scratch.symbols.push_back(symbol);
    at += symbol.n_bytes;
  }
  return at;
}

void RankBpe::append_symbol(std::string& out, TokenId symbol) const {
  if (symbol > kNoToken) {
    out.append(strings_.string(symbol));
  } else if (options_.reads_bytes) {
    out.push_back(static_cast<char>(kNoToken - symbol));
  } else {
    append_utf8(out, static_cast<char32_t>(kNoToken - symbol));
  }
}

RankedMerge RankBpe::look_up(TokenId left, TokenId right, ModelScratch& scratch) const {
  if (!merges(left) || !merges(right)) return {};
  scratch.text.clear();
  append_symbol(scratch.text, left);
  append_symbol(scratch.text, right);
  const TokenId id = strings_.find_or(scratch.text, -1);
  return id < 0 ? RankedMerge() : RankedMerge{options_.ranks[static_cast<std::size_t>(id)], id};
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
