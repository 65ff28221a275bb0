#pragma once
// MergeModel: byte-pair encoding (Sennrich et al. 2016), whatever says which pairs merge. The adjacent pair of lowest
// rank merges first, the leftmost among equals, until no pair has a merge.
//
// Words are remembered in the scratch's cache. A word of few symbols is merged by scanning; a longer one by a queue of
// ranks in nearly linear time and less than five bytes a symbol (long_word.h). Where no token has a blank (U+2581)
// after another character, merges cannot cross from one word to the next, and a long text is cut there.
//
// A class of rules derives from MergeModel of itself and has
//   TokenId whole_token(word, scratch)              the token that a word is without any merge; -1 = none
//   size_t make_symbols(word, begin, end, scratch)  appends the symbols of bytes [begin, end), and of those behind that
//                                                   belong to the last one, to scratch.symbols; returns where it ended
//   RankedMerge merge_of(left, right, scratch)      what two neighbours become
//   bool merges(symbol)                             false: nothing merges across it
//   void emit(text, symbol, out)                    appends the tokens of a symbol that is left, and of its text
// A symbol is a token's id or a negative number of the rules. Thread rule: immutable.

#include <algorithm>
#include <string_view>
#include <tuple>
#include <vector>

#include "tokenizer/long_word.h"
#include "tokenizer/model.h"
#include "tokenizer/unicode.h"
#include "tokenizer/word_ends.h"

namespace coxswain::tokenizer {

template <typename Rules>
class MergeModel : public Model {
 public:
  void encode(std::string_view piece,
              ModelScratch& scratch,
              std::vector<PieceToken>& out) const final {
    const auto encode_word = [&](std::string_view word) {
      scratch.words.append(word, out, [&] { merge_word(word, scratch, out); });
    };
    if (!cuts_words_) return encode_word(piece);
    for_each_word(piece, [&](std::string_view word) {
      encode_word(word);
      scratch.drain(out);
    });
  }

 protected:
  explicit MergeModel(bool reads_bytes) : reads_bytes_(reads_bytes) {}

  bool reads_bytes_ = false;  // symbols are bytes, not characters
  bool cuts_words_ = false;   // no token crosses from one word to the next

 private:
  static constexpr std::size_t kScanSymbolsMax = 96;   // up to here scanning beats the queue
  static constexpr std::size_t kLongWordBytes = 4096;  // room for its symbols is made at once

  const Rules& rules() const { return static_cast<const Rules&>(*this); }

  void merge_word(std::string_view word,
                  ModelScratch& scratch,
                  std::vector<PieceToken>& out) const {
    if (const TokenId id = rules().whole_token(word, scratch); id >= 0) {
      out.push_back({id, static_cast<std::uint32_t>(word.size())});
      return;
    }
    scratch.symbols.clear();
    const std::size_t end =
        rules().make_symbols(word, 0, std::min(word.size(), kLongWordBytes), scratch);
    if (end < word.size() || scratch.symbols.size() > kScanSymbolsMax)
      return merge_long(word, end, scratch, out);
    merge_few(scratch);
    std::size_t at = 0;
    for (const ModelScratch::Symbol& symbol : scratch.symbols) {
      rules().emit(word.substr(at, symbol.n_bytes), symbol.id, out);
      at += symbol.n_bytes;
    }
  }

  void merge_few(ModelScratch& scratch) const {
    auto& symbols = scratch.symbols;
    auto& ranks = scratch.ranks;    // [i]: of symbols i and i + 1
    auto& merged = scratch.merged;  // [i]: what they become
    std::size_t n = symbols.size();
    ranks.assign(n, kNoRank);
    merged.assign(n, 0);
    const auto look_up = [&](std::size_t i) {
      const RankedMerge merge = rules().merge_of(symbols[i].id, symbols[i + 1].id, scratch);
      ranks[i] = merge.rank;
      merged[i] = merge.id;
    };
    for (std::size_t i = 0; i + 1 < n; ++i) look_up(i);
    while (n > 1) {
      const auto best =
          std::min_element(ranks.begin(), ranks.begin() + static_cast<std::ptrdiff_t>(n - 1));
      if (*best == kNoRank) break;
      const auto i = static_cast<std::size_t>(best - ranks.begin());
      const auto after = static_cast<std::ptrdiff_t>(i + 1);
      symbols[i].id = merged[i];
      symbols[i].n_bytes += symbols[i + 1].n_bytes;
      symbols.erase(symbols.begin() + after);
      ranks.erase(ranks.begin() + after);
      merged.erase(merged.begin() + after);
      --n;
      ranks[i] = kNoRank;
      if (i + 1 < n) look_up(i);
      if (i > 0) look_up(i - 1);
    }
  }

  // REQUIRES: scratch.symbols has the symbols of the word up to byte `end`.
  void merge_long(std::string_view word,
                  std::size_t end,
                  ModelScratch& scratch,
                  std::vector<PieceToken>& out) const {
    LongWord part;       // between two symbols that nothing merges across
    std::size_t at = 0;  // its begin in the word
    const auto emit = [&](TokenId symbol, std::uint32_t n_bytes) {
      rules().emit(word.substr(at, n_bytes), symbol, out);
      at += n_bytes;
      scratch.drain(out);
    };
    const auto finish_part = [&] {
      merge_part(part, scratch);
      for (std::size_t i = 0; i < part.size(); i = part.next(i)) emit(part.id(i), part.n_bytes(i));
      part.clear();
    };
    for (;;) {
      for (const ModelScratch::Symbol& symbol : scratch.symbols) {
        if (!rules().merges(symbol.id)) {
          finish_part();
          emit(symbol.id, symbol.n_bytes);
          continue;
        }
        if (part.size() == kLongWordBytes)
          part.reserve(reads_bytes_ ? word.size() : count_characters(word));
        part.push(symbol.id, symbol.n_bytes);
      }
      if (end == word.size()) break;
      scratch.symbols.clear();
      end = rules().make_symbols(word, end, std::min(word.size(), end + kLongWordBytes), scratch);
    }
    finish_part();
  }

  void merge_part(LongWord& part, ModelScratch& scratch) const {
    const std::size_t n = part.size();
    const auto merge_at = [&](std::size_t left) {
      const std::size_t right = part.next(left);
      return right < n ? rules().merge_of(part.id(left), part.id(right), scratch) : RankedMerge();
    };
    RankQueue queue(n);
    const auto offer = [&](std::size_t left) {
      const RankedMerge merge = merge_at(left);
      if (merge.rank != kNoRank) queue.push(merge.rank, static_cast<std::uint32_t>(left));
    };
    const auto find = [&](std::uint32_t rank, std::size_t from) {
      while (from < n && !part.is_start(from)) ++from;
      for (; from < n; from = part.next(from)) {
        if (merge_at(from).rank == rank) return static_cast<std::uint32_t>(from);
      }
      return RankQueue::kNone;
    };
    for (std::size_t i = 0; i < n; i = part.next(i)) offer(i);
    for (auto [rank, at] = queue.pop(find); at != RankQueue::kNone;
         std::tie(rank, at) = queue.pop(find)) {
      if (!part.is_start(at)) continue;
      const RankedMerge merge = merge_at(at);
      if (merge.rank != rank) continue;  // one of the two has grown since
      part.join(at, part.next(at), merge.id);
      if (at > 0) offer(part.previous(at));
      offer(at);
    }
  }
};

}  // namespace coxswain::tokenizer
