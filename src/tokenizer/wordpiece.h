#pragma once
// WordPiece (longest token first, from the left) and WordLevel (a word is a token or unknown).
//
// Thread rule: immutable.

#include <optional>
#include <string>
#include <vector>

#include "tokenizer/byte_trie.h"
#include "tokenizer/model.h"
#include "tokenizer/token_table.h"

namespace coxswain::tokenizer {

struct WordPieceOptions {
  TokenId unk = 0;
  std::string continuing_prefix = "##";  // written before a token inside a word
  std::size_t characters_max = 100;      // a longer word is unknown
};

class WordPiece final : public Model {
 public:
  WordPiece(const TokenTable& names, WordPieceOptions options);
  void encode(std::string_view piece,
              ModelScratch& scratch,
              std::vector<PieceToken>& out) const override;

 private:
  WordPieceOptions options_;
  ByteTrie first_;  // tokens that start a word
  ByteTrie inner_;  // tokens inside a word, without the prefix
};

class WordLevel final : public Model {
 public:
  // `names` must outlive this object. Without `unk`, unknown words vanish.
  WordLevel(const TokenTable& names, std::optional<TokenId> unk) : names_(names), unk_(unk) {}
  void encode(std::string_view piece,
              ModelScratch& scratch,
              std::vector<PieceToken>& out) const override;

 private:
  const TokenTable& names_;
  std::optional<TokenId> unk_;
};

}  // namespace coxswain::tokenizer
