#pragma once
// Byte-pair encoding (Sennrich et al. 2016): merge the adjacent pair of lowest rank, leftmost
// first, until no pair has a merge.
//
// A word of up to 32 symbols is merged by scanning; a longer one by a heap, O(n log n). Words are
// remembered in the scratch's cache. Where no token has a blank (U+2581) after another character,
// merges cannot cross from one word to the next, and a long text is cut there.
// Thread rule: immutable.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "tokenizer/long_word.h"
#include "tokenizer/merge_queue.h"
#include "tokenizer/model.h"
#include "tokenizer/token_table.h"

namespace coxswain::tokenizer {

// (left, right) -> rank and merged token; a flat hash table.
class MergeTable {
 public:
  struct Entry {
    std::uint64_t key = kEmpty;
    std::uint32_t rank = 0;
    TokenId id = 0;
  };

  void reserve(std::size_t n_merges);
  // Starts to load what set() or find() will read.
  void prefetch(TokenId left, TokenId right) const {
    if (!slots_.empty())
      __builtin_prefetch(&slots_[place(key_of(left, right)) & (slots_.size() - 1)]);
  }
  // A pair that is there already gets the new rank.
  void set(TokenId left, TokenId right, std::uint32_t rank, TokenId id);
  const Entry* find(TokenId left, TokenId right) const {
    if (slots_.empty()) return nullptr;
    const std::uint64_t key = key_of(left, right);
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = place(key) & mask;; at = (at + 1) & mask) {
      if (slots_[at].key == key) return &slots_[at];
      if (slots_[at].key == kEmpty) return nullptr;
    }
  }
  std::size_t size() const { return n_merges_; }
  // Whether a token is part of any merge.
  bool takes(TokenId id) const {
    return static_cast<std::size_t>(id) < is_taken_.size() &&
           is_taken_[static_cast<std::size_t>(id)];
  }

 private:
  static constexpr std::uint64_t kEmpty = 0xFFFFFFFFFFFFFFFFULL;
  static std::uint64_t key_of(TokenId left, TokenId right) {
    return static_cast<std::uint64_t>(static_cast<std::uint32_t>(left)) << 32 |
           static_cast<std::uint32_t>(right);
  }
  static std::size_t place(std::uint64_t key) {
    const std::uint64_t product = key * 0x9E3779B97F4A7C15ULL;
    return product ^ product >> 32;
  }

  std::vector<Entry> slots_;
  std::size_t n_merges_ = 0;
  std::vector<bool> is_taken_;  // [id]
};

struct BpeOptions {
  bool reads_bytes = false;  // pieces are raw bytes; the vocabulary is written in the byte alphabet
  bool byte_fallback = false;     // an unknown character becomes the tokens <0x..> of its bytes
  bool ignore_merges = false;     // a piece that is a token is that token
  bool fuse_unk = false;          // neighbouring unknown characters are one unknown token
  std::optional<TokenId> unk;     // none: unknown characters vanish
  std::string continuing_prefix;  // before every character of a word but the first
  std::string word_suffix;        // after the last character of a word
};

class Bpe final : public Model {
 public:
  // `names` must outlive this object. With reads_bytes, tokens with a character outside the byte
  // alphabet cannot match.
  Bpe(const TokenTable& names, MergeTable merges, BpeOptions options);

  void encode(std::string_view piece,
              ModelScratch& scratch,
              std::vector<PieceToken>& out) const override;

 private:
  void merge_word(std::string_view word, ModelScratch& scratch, std::vector<PieceToken>& out) const;
  class PendingUnknown;
  struct Part;
  void make_symbols(const Part& part, PendingUnknown& unknown, ModelScratch& scratch) const;
  void make_byte_symbols(const Part& part, PendingUnknown& unknown, ModelScratch& scratch) const;
  void make_character_symbols(const Part& part,
                              PendingUnknown& unknown,
                              ModelScratch& scratch) const;
  void merge_long(std::string_view word, ModelScratch& scratch, std::vector<PieceToken>& out) const;
  void finish_long(LongWord& long_word, ModelScratch& scratch, std::vector<PieceToken>& out) const;
  void merge_few(ModelScratch& scratch) const;
  void merge_many(ModelScratch& scratch) const;
  void offer(const ModelScratch& scratch, MergeQueue& queue, std::int32_t left) const;
  TokenId whole_token(std::string_view word, ModelScratch& scratch) const;
  bool finds_word_ends() const;

  const TokenTable& names_;
  MergeTable merges_;
  BpeOptions options_;
  static constexpr char32_t kTableEnd = 0x180;      // the byte alphabet lies below
  std::array<TokenId, kTableEnd> character_ids_{};  // -1 = none
  std::array<TokenId, 256>
      byte_ids_{};  // reads_bytes: a byte's token; otherwise its <0x..>; -1 = none
  bool cuts_words_ = false;
};

}  // namespace coxswain::tokenizer
