#pragma once
// Byte-pair encoding without a list of merges: two neighbours may merge if what they are together
// is a token, and the token of lowest rank merges first, leftmost first among equals.
//
// tiktoken's rank files work so on bytes (the rank is the id), SentencePiece's BPE models on
// characters (the rank is the order of scores); merge_model.h says how. Thread rule: immutable.

#include <algorithm>
#include <array>
#include <optional>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/merge_model.h"
#include "tokenizer/token_table.h"

namespace coxswain::tokenizer {

struct RankBpeOptions {
  bool reads_bytes = false;          // symbols are bytes, not characters
  std::vector<std::uint32_t> ranks;  // [id]; kNoRank = never made by a merge
  std::vector<bool> is_unused;  // [id], may be empty: merged through, but split again at the end
  std::vector<bool> is_user_defined;  // [id], may be empty: one symbol from the start, never merged
  std::optional<TokenId> unk;
  bool byte_fallback = false;  // unknown characters become the tokens <0x..> of their bytes
  bool whole_first = false;    // a piece that is a token is that token
};

class RankBpe final : public MergeModel<RankBpe> {
 public:
  // `strings`: what each token stands for in the pieces; must outlive this object.
  RankBpe(const TokenTable& strings, RankBpeOptions options);

 private:
  friend class MergeModel<RankBpe>;
  TokenId whole_token(std::string_view word, ModelScratch&) const {
    return options_.whole_first ? strings_.find_or(word, -1) : -1;
  }
  std::size_t make_symbols(std::string_view word,
                           std::size_t begin,
                           std::size_t end,
                           ModelScratch& scratch) const;
  RankedMerge merge_of(TokenId left, TokenId right, ModelScratch& scratch) const {
    return scratch.merges.find(left, right, [&] { return look_up(left, right, scratch); });
  }
  bool merges(TokenId symbol) const;
  void emit(std::string_view text, TokenId symbol, std::vector<PieceToken>& out) const {
    append_unused(text, std::max(symbol, -1), 0, out);
  }
  RankedMerge look_up(TokenId left, TokenId right, ModelScratch& scratch) const;
  void append_symbol(std::string& out, TokenId symbol) const;
  void append(std::string_view text, TokenId id, std::vector<PieceToken>& out) const;
  void append_unused(std::string_view text,
                     TokenId id,
                     std::size_t depth,
                     std::vector<PieceToken>& out) const;
  bool finds_word_ends() const;

  const TokenTable& strings_;
  RankBpeOptions options_;
  ByteTrie user_defined_;
  std::array<TokenId, 256> byte_ids_{};  // of <0x..>; -1 = none
};

}  // namespace coxswain::tokenizer
