#pragma once
// Model: the step that turns one piece of text into ids. BPE, Unigram, WordPiece or WordLevel.
//
// Thread rule: a model is immutable; a ModelScratch belongs to one call at a time.

#include <array>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

#include "tokenizer/token_table.h"

namespace coxswain::tokenizer {

// A token and how many bytes of the piece it covers.
struct PieceToken {
  TokenId id = 0;
  std::uint32_t n_bytes = 0;
};

// Pieces that were encoded before and what they became: a table of fixed size in which a newcomer
// takes the place of what hashes to the same entry.
class WordCache {
 public:
  static constexpr std::size_t kWordBytesMax = 32;
  static constexpr std::size_t kTokensMax = 6;

  struct Entry {
    std::array<char, kWordBytesMax> word{};
    std::array<PieceToken, kTokensMax> tokens{};
    std::uint8_t n_bytes = 0;  // 0: unused
    std::uint8_t n_tokens = 0;
  };

  // nullptr if the word is not there. REQUIRES: 0 < word.size() <= kWordBytesMax.
  const Entry* find(std::string_view word, std::uint64_t hash) const {
    if (entries_.empty()) return nullptr;
    const Entry& entry = entries_[hash & (kEntries - 1)];
    return entry.n_bytes == word.size() &&
                   std::memcmp(entry.word.data(), word.data(), word.size()) == 0
               ? &entry
               : nullptr;
  }
  void store(std::string_view word,
             std::uint64_t hash,
             const PieceToken* tokens,
             std::size_t n_tokens);

 private:
  static constexpr std::size_t kEntries = 1 << 14;
  std::vector<Entry> entries_;  // made at the first store
};

// Buffers that calls reuse.
struct ModelScratch {
  struct Symbol {
    TokenId id = 0;
    std::uint32_t n_bytes = 0;
    std::int32_t previous = -1;
    std::int32_t next = -1;
  };
  WordCache words;
  std::vector<Symbol> symbols;
  std::vector<std::uint32_t> ranks;
  std::vector<TokenId> merged;
  std::string text;
  struct LatticeNode {
    double score = 0;
    std::uint32_t begin = 0;
    TokenId id = -1;
  };
  std::vector<LatticeNode> lattice;
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the tokens of `piece`, which is not empty. REQUIRES: valid UTF-8, unless the model
  // reads bytes.
  virtual void encode(std::string_view piece,
                      ModelScratch& scratch,
                      std::vector<PieceToken>& out) const = 0;
};

}  // namespace coxswain::tokenizer
