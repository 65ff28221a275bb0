#pragma once
// Byte-pair encoding without a list of merges: two neighbours may merge if what they are together
// is a token, and the token of lowest rank merges first, leftmost first among equals.
//
// tiktoken's rank files work so on bytes (the rank is the id), SentencePiece's BPE models on
// characters (the rank is the order of scores). A long word is merged in about four bytes a
// symbol (long_word.h). Thread rule: immutable.

#include <array>
#include <optional>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/long_word.h"
#include "tokenizer/model.h"
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

class RankBpe final : public Model {
 public:
  static constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

  // `strings`: what each token stands for in the pieces; must outlive this object.
  RankBpe(const TokenTable& strings, RankBpeOptions options);

  void encode(std::string_view piece,
              ModelScratch& scratch,
              std::vector<PieceToken>& out) const override;

 private:
  void merge_word(std::string_view word, ModelScratch& scratch, std::vector<PieceToken>& out) const;
  void merge_long(std::string_view word, ModelScratch& scratch, std::vector<PieceToken>& out) const;
  void finish_long(LongWord& long_word, ModelScratch& scratch, std::vector<PieceToken>& out) const;
  std::string_view text_of(TokenId cell, std::string& buffer) const;
  struct First;
  First first_symbol(std::string_view text) const;
  void make_symbols(std::string_view word, ModelScratch& scratch) const;
  void merge(std::string_view word, ModelScratch& scratch) const;
  void append(std::string_view symbol, TokenId id, std::vector<PieceToken>& out) const;
  void append_unused(std::string_view symbol,
                     TokenId id,
                     std::size_t depth,
                     std::vector<PieceToken>& out) const;
  TokenId mergeable(std::string_view text) const;
  bool finds_word_ends() const;

  const TokenTable& strings_;
  RankBpeOptions options_;
  std::vector<TokenId> id_of_rank_;  // [rank]; -1 where several tokens have it
  ByteTrie user_defined_;
  std::array<TokenId, 256> byte_ids_{};  // of <0x..>; -1 = none
  bool cuts_words_ = false;
};

}  // namespace coxswain::tokenizer
