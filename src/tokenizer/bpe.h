#pragma once
// Byte-pair encoding by a list of merges (merge_model.h says how).
//
// Thread rule: immutable.

#include <array>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/status.h>

#include "tokenizer/merge_model.h"
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
  bool byte_fallback = false;  // an unknown character becomes the tokens <0x..> of its bytes
  bool ignore_merges = false;  // a piece that is a token is that token
  bool fuse_unk = false;       // neighbouring unknown characters are one unknown token
  std::optional<TokenId> unk;  // none: unknown characters vanish
};

class Bpe final : public MergeModel<Bpe> {
 public:
  // `names` must outlive this object. With reads_bytes, tokens with a character outside the byte alphabet cannot match.
  Bpe(const TokenTable& names, MergeTable merges, const BpeOptions& options);

 private:
  friend class MergeModel<Bpe>;
  TokenId whole_token(std::string_view word, ModelScratch& scratch) const;
  std::size_t make_symbols(std::string_view word,
                           std::size_t begin,
                           std::size_t end,
                           ModelScratch& scratch) const;
  RankedMerge merge_of(TokenId left, TokenId right, ModelScratch&) const {
    const MergeTable::Entry* entry = merges_.find(left, right);
    return entry == nullptr ? RankedMerge() : RankedMerge{entry->rank, entry->id};
  }
  bool merges(TokenId id) const { return merges_.takes(id); }
  static void emit(std::string_view text, TokenId id, std::vector<PieceToken>& out) {
    out.push_back({id, static_cast<std::uint32_t>(text.size())});
  }
  std::size_t add_character(std::string_view word, std::size_t at, ModelScratch& scratch) const;
  void add_unknown(std::uint32_t n_bytes, ModelScratch& scratch) const;
  void flush_unknown(ModelScratch& scratch) const;
  bool finds_word_ends() const;

  const TokenTable& names_;
  MergeTable merges_;
  BpeOptions options_;
  static constexpr char32_t kTableEnd = 0x180;      // the byte alphabet lies below
  std::array<TokenId, kTableEnd> character_ids_{};  // -1 = none
  // reads_bytes: a byte's token; otherwise its <0x..>; -1 = none
  std::array<TokenId, 256> byte_ids_{};
};

}  // namespace coxswain::tokenizer
