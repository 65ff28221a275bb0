#pragma once
// Unigram language model (Kudo 2018): the segmentation of highest total score, by dynamic
// programming over the bytes of the piece.
//
// Two references differ in arithmetic and in the rules for marked tokens; UnigramOptions says which
// is followed. Thread rule: immutable.

#include <array>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "tokenizer/byte_trie.h"
#include "tokenizer/model.h"
#include "tokenizer/token_table.h"

namespace coxswain::tokenizer {

struct UnigramOptions {
  std::vector<double> scores;         // [id]
  std::vector<bool> is_excluded;      // [id], may be empty: tokens that never match
  std::vector<bool> is_user_defined;  // [id], may be empty: tokens that always win
  std::optional<TokenId> unk;
  bool fuse_unk = true;
  bool byte_fallback = false;
  // The best score is rounded to float at every byte, as the SentencePiece library does; otherwise double.
  bool rounds_to_float = false;
  double min_score = 0;  // an unknown character costs 10 more
  double max_score = 0;
};

class Unigram final : public Model {
 public:
  // `names` must outlive this object.
  Unigram(const TokenTable& names, UnigramOptions options);

  void encode(std::string_view piece,
              ModelScratch& scratch,
              std::vector<PieceToken>& out) const override;

 private:
  void encode_word(std::string_view piece,
                   ModelScratch& scratch,
                   std::vector<PieceToken>& out) const;
  template <typename Length>
  void encode_with(std::string_view piece,
                   ModelScratch& scratch,
                   std::vector<PieceToken>& out) const;
  template <typename Length>
  void fill_lattice(std::string_view piece, ModelScratch& scratch, Length* lengths) const;
  TokenId token_of(std::string_view text) const;
  void append_unknown(std::string_view text, std::vector<PieceToken>& out) const;

  UnigramOptions options_;
  ByteTrie trie_;
  std::size_t n_longest_ = 4;            // bytes of the longest token, or of a character
  std::array<TokenId, 256> byte_ids_{};  // of <0x..>; -1 = none
};

}  // namespace coxswain::tokenizer
