#pragma once
// Model: the step that turns one piece of text into ids. BPE, Unigram, WordPiece or WordLevel.
//
// Thread rule: a model is immutable; a ModelScratch belongs to one call at a time.

#include <array>
#include <cstdint>
#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

#include "base/function_ref.h"
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

  // Appends the tokens of `word`: those of the last time, or what encode() appends. REQUIRES: not
  // empty; encode() appends the same whatever `out` has.
  template <typename Encode>
  void append(std::string_view word, std::vector<PieceToken>& out, Encode encode) {
    if (word.size() > kWordBytesMax) return encode();
    const std::uint64_t hash = hash_bytes(word);
    if (const Entry* entry = find(word, hash)) {
      out.insert(out.end(), entry->tokens.begin(), entry->tokens.begin() + entry->n_tokens);
      return;
    }
    const std::size_t first = out.size();
    encode();
    // There are less if those of the words before were handed on meanwhile.
    if (out.size() >= first) store(word, hash, std::span(out).subspan(first));
  }

 private:
  static constexpr std::size_t kTokensMax = 6;
  static constexpr std::size_t kEntries = 1 << 14;

  struct Entry {
    std::array<char, kWordBytesMax> word{};
    std::array<PieceToken, kTokensMax> tokens{};
    std::uint8_t n_bytes = 0;  // 0: unused
    std::uint8_t n_tokens = 0;
  };

  const Entry* find(std::string_view word, std::uint64_t hash) const {
    if (entries_.empty()) return nullptr;
    const Entry& entry = entries_[hash & (kEntries - 1)];
    return entry.n_bytes == word.size() &&
                   std::memcmp(entry.word.data(), word.data(), word.size()) == 0
               ? &entry
               : nullptr;
  }
  void store(std::string_view word, std::uint64_t hash, std::span<const PieceToken> tokens);

  std::vector<Entry> entries_;  // made at the first store
};

// What two neighbours become; no rank: they do not merge.
inline constexpr std::uint32_t kNoRank = 0xFFFFFFFF;
struct RankedMerge {
  std::uint32_t rank = kNoRank;
  TokenId id = -1;
};

// Pairs of symbols that were looked up before, as WordCache. REQUIRES: no symbol is -1.
class MergeCache {
 public:
  template <typename LookUp>
  RankedMerge find(TokenId left, TokenId right, LookUp look_up) {
    if (entries_.empty()) entries_.resize(kEntries);
    const std::uint64_t key = static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
                              static_cast<std::uint32_t>(right);
    Entry& entry = entries_[key * 0x9E3779B97F4A7C15ULL >> kShift];
    if (entry.key != key) entry = {key, look_up()};
    return entry.merge;
  }

 private:
  static constexpr int kShift = 52;
  static constexpr std::size_t kEntries = std::size_t{1} << (64 - kShift);
  struct Entry {
    std::uint64_t key = ~std::uint64_t{0};
    RankedMerge merge;
  };
  std::vector<Entry> entries_;  // made at the first look-up
};

// Takes tokens of a long piece while the rest of it is still being encoded.
class TokenSpill {
 public:
  using Take = base::FunctionRef<void(std::span<const PieceToken>)>;
  explicit TokenSpill(Take take) : take_(take) {}

  // Hands on all but the last of many tokens, which may still grow.
  void drain(std::vector<PieceToken>& tokens) const {
    constexpr std::size_t kTokens = 2048;
    if (tokens.size() < kTokens) return;
    take_(std::span(tokens).first(tokens.size() - 1));
    tokens.erase(tokens.begin(), tokens.end() - 1);
  }

 private:
  Take take_;
};

// Buffers that calls reuse.
struct ModelScratch {
  struct Symbol {
    TokenId id = 0;
    std::uint32_t n_bytes = 0;
  };
  WordCache words;
  MergeCache merges;
  std::vector<Symbol> symbols;
  std::vector<std::uint32_t> ranks;
  std::vector<TokenId> merged;
  std::uint32_t unknown_bytes = 0;  // of an unknown part that may still grow
  std::string text;
  std::vector<double> scores;         // of a lattice's nodes near the current one
  std::vector<char> lattice;          // how long the last token of the best way to each node is
  const TokenSpill* spill = nullptr;  // of this call, may be nullptr

  void drain(std::vector<PieceToken>& tokens) const {
    if (spill != nullptr) spill->drain(tokens);
  }
};

class Model {
 public:
  virtual ~Model() = default;
  // Appends the tokens of `piece`, which is not empty; those of a long one may have gone to
  // scratch.spill before. REQUIRES: `out` is empty; valid UTF-8, unless the model reads bytes.
  virtual void encode(std::string_view piece,
                      ModelScratch& scratch,
                      std::vector<PieceToken>& out) const = 0;
};

}  // namespace coxswain::tokenizer
