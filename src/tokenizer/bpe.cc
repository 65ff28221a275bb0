#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>
#include <tuple>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"
#include "tokenizer/word_ends.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::size_t kScanSymbolsMax = 32;   // up to here scanning beats the heap
constexpr std::size_t kLongWordBytes = 4096;  // room for its symbols is made at once
constexpr std::uint32_t kNoRank = 0xFFFFFFFF;

}  // namespace

// A part of a word, the whole of it if it is not long.
struct Bpe::Part {
  std::string_view text;
  bool is_first = true;
  bool is_last = true;
};

// Adds a symbol for an unknown part, joining it with a pending one if that is asked for.
class Bpe::PendingUnknown {
 public:
  PendingUnknown(std::vector<ModelScratch::Symbol>& symbols, const BpeOptions& options)
      : symbols_(symbols), options_(options) {}

  void add(std::uint32_t n_bytes) {
    if (!options_.unk) return;
    if (n_bytes_ > 0 && options_.fuse_unk) {
      n_bytes_ += n_bytes;
      return;
    }
    flush();
    n_bytes_ = n_bytes;
  }
  void flush() {
    if (n_bytes_ > 0) symbols_.push_back({*options_.unk, n_bytes_, -1, -1});
    n_bytes_ = 0;
  }

 private:
  std::vector<ModelScratch::Symbol>& symbols_;
  const BpeOptions& options_;
  std::uint32_t n_bytes_ = 0;
};

void MergeTable::reserve(std::size_t n_merges) {
  const std::size_t n_slots = std::bit_ceil(std::max<std::size_t>(n_merges + n_merges / 2, 16));
  if (n_slots <= slots_.size()) return;
  const std::vector<Entry> old = std::move(slots_);
  slots_.assign(n_slots, Entry());
  n_merges_ = 0;
  for (const Entry& entry : old) {
    if (entry.key != kEmpty)
      set(static_cast<TokenId>(entry.key >> 32),
          static_cast<TokenId>(entry.key),
          entry.rank,
          entry.id);
  }
}

void MergeTable::set(TokenId left, TokenId right, std::uint32_t rank, TokenId id) {
  if ((n_merges_ + 1) * 3 > slots_.size() * 2) reserve(std::max<std::size_t>(n_merges_ * 2, 16));
  const std::uint64_t key = key_of(left, right);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = place(key) & mask;
  while (slots_[at].key != kEmpty && slots_[at].key != key) at = (at + 1) & mask;
  if (slots_[at].key == kEmpty) ++n_merges_;
  slots_[at] = {key, rank, id};
  const auto highest = static_cast<std::size_t>(std::max(left, right));
  if (highest >= is_taken_.size()) is_taken_.resize(highest + 1 + highest / 2);
  is_taken_[static_cast<std::size_t>(left)] = is_taken_[static_cast<std::size_t>(right)] = true;
}

Bpe::Bpe(const TokenTable& names, MergeTable merges, BpeOptions options)
    : names_(names), merges_(std::move(merges)), options_(std::move(options)) {
  std::string name;
  for (char32_t c = 0; c < kTableEnd; ++c) {
    name.clear();
    append_utf8(name, c);
    character_ids_[c] = names.find_or(name, -1);
  }
  byte_ids_.fill(-1);
  for (unsigned value = 0; value < 256; ++value) {
    const auto byte = static_cast<unsigned char>(value);
    if (options_.reads_bytes) {
      byte_ids_[value] = character_ids_[byte_to_character(byte)];
    } else if (options_.byte_fallback) {
      byte_ids_[value] = names.find_or(byte_token_name(byte), -1);
    }
  }
  cuts_words_ = finds_word_ends();
}

bool Bpe::finds_word_ends() const {
  if (options_.reads_bytes || options_.ignore_merges || !options_.continuing_prefix.empty() ||
      !options_.word_suffix.empty())
    return false;
  if (!names_.find(kMetaspaceUtf8)) return false;
  for (TokenId id = 0; static_cast<std::size_t>(id) < names_.id_end(); ++id) {
    if (crosses_words(names_.string(id))) return false;
  }
  return true;
}

void Bpe::encode(std::string_view piece,
                 ModelScratch& scratch,
                 std::vector<PieceToken>& out) const {
  const auto encode_word = [&](std::string_view word) {
    scratch.words.append(word, out, [&] { merge_word(word, scratch, out); });
  };
  if (!cuts_words_) return encode_word(piece);
  for_each_word(piece, [&](std::string_view word) {
    encode_word(word);
    scratch.drain(out);
  });
}

// The token that a word is; -1 if it is none.
TokenId Bpe::whole_token(std::string_view word, ModelScratch& scratch) const {
  if (word.size() > names_.longest_bytes()) return -1;
  if (!options_.reads_bytes) return names_.find_or(word, -1);
  scratch.text.clear();
  append_byte_characters(scratch.text, word);
  return names_.find_or(scratch.text, -1);
}

void Bpe::merge_word(std::string_view word,
                     ModelScratch& scratch,
                     std::vector<PieceToken>& out) const {
  if (options_.ignore_merges) {
    const TokenId id = whole_token(word, scratch);
    if (id >= 0) {
      out.push_back({id, static_cast<std::uint32_t>(word.size())});
      return;
    }
  }
  if (word.size() > kLongWordBytes) return merge_long(word, scratch, out);
  scratch.symbols.clear();
  PendingUnknown unknown(scratch.symbols, options_);
  make_symbols({word}, unknown, scratch);
  if (scratch.symbols.size() <= kScanSymbolsMax) {
    merge_few(scratch);
  } else {
    merge_many(scratch);
  }
  for (const ModelScratch::Symbol& symbol : scratch.symbols) {
    if (symbol.n_bytes == 0) continue;
    out.push_back({symbol.id, symbol.n_bytes});
    scratch.drain(out);
  }
}

void Bpe::merge_long(std::string_view word,
                     ModelScratch& scratch,
                     std::vector<PieceToken>& out) const {
  LongWord long_word;
  bool has_room = false;
  PendingUnknown unknown(scratch.symbols, options_);
  for (std::size_t at = 0; at < word.size();) {
    std::size_t end = std::min(at + kLongWordBytes, word.size());
    while (!options_.reads_bytes && end < word.size() && is_continuation(word[end])) --end;
    scratch.symbols.clear();
    make_symbols({word.substr(at, end - at), at == 0, end == word.size()}, unknown, scratch);
    at = end;
    for (const ModelScratch::Symbol& symbol : scratch.symbols) {
      if (!merges_.takes(symbol.id)) {  // nothing merges across it
        finish_long(long_word, scratch, out);
        out.push_back({symbol.id, symbol.n_bytes});
        scratch.drain(out);
        continue;
      }
      if (!has_room && long_word.size() >= kLongWordBytes) {
        long_word.reserve(options_.reads_bytes ? word.size() : count_characters(word));
        has_room = true;
      }
      long_word.push_wide(symbol.id, symbol.n_bytes);
    }
  }
  finish_long(long_word, scratch, out);
}

// Merges what is there, appends its tokens and clears it.
void Bpe::finish_long(LongWord& long_word,
                      ModelScratch& scratch,
                      std::vector<PieceToken>& out) const {
  const std::size_t n = long_word.size();
  const auto merge_at = [&](std::size_t left) -> const MergeTable::Entry* {
    const std::size_t right = long_word.next(left);
    return right < n ? merges_.find(long_word.id(left), long_word.id(right)) : nullptr;
  };
  RankQueue queue(n);
  const auto offer = [&](std::size_t left) {
    const MergeTable::Entry* entry = merge_at(left);
    if (entry != nullptr) queue.push(entry->rank, static_cast<std::uint32_t>(left));
  };
  const auto find = [&](std::uint32_t rank, std::size_t from) {
    while (from < n && !long_word.is_start(from)) ++from;
    for (; from < n; from = long_word.next(from)) {
      const MergeTable::Entry* entry = merge_at(from);
      if (entry != nullptr && entry->rank == rank) return static_cast<std::uint32_t>(from);
    }
    return RankQueue::kNone;
  };
  for (std::size_t i = 0; i < n; i = long_word.next(i)) offer(i);
  for (auto [rank, at] = queue.pop(find); at != RankQueue::kNone;
       std::tie(rank, at) = queue.pop(find)) {
    if (!long_word.is_start(at)) continue;
    const MergeTable::Entry* entry = merge_at(at);
    if (entry == nullptr || entry->rank != rank) continue;
    long_word.join(at, long_word.next(at), entry->id);
    if (at > 0) offer(long_word.previous(at));
    offer(at);
  }
  for (std::size_t i = 0; i < n; i = long_word.next(i)) {
    out.push_back({long_word.id(i), long_word.n_bytes(i)});
    scratch.drain(out);
  }
  long_word.clear();
}

void Bpe::make_symbols(const Part& part, PendingUnknown& unknown, ModelScratch& scratch) const {
  if (options_.reads_bytes) {
    make_byte_symbols(part, unknown, scratch);
  } else {
    make_character_symbols(part, unknown, scratch);
  }
  if (part.is_last) unknown.flush();
}

void Bpe::make_byte_symbols(const Part& part,
                            PendingUnknown& unknown,
                            ModelScratch& scratch) const {
  scratch.symbols.reserve(part.text.size());
  for (const char byte : part.text) {
    const TokenId id = byte_ids_[static_cast<unsigned char>(byte)];
    if (id < 0) {
      unknown.add(1);
      continue;
    }
    unknown.flush();
    scratch.symbols.push_back({id, 1, -1, -1});
  }
}

void Bpe::make_character_symbols(const Part& part,
                                 PendingUnknown& unknown,
                                 ModelScratch& scratch) const {
  const std::string_view text = part.text;
  const bool is_plain = options_.continuing_prefix.empty() && options_.word_suffix.empty();
  for (std::size_t at = 0; at < text.size();) {
    const auto [value, length] = code_point_at(text, at);
    std::string_view character = text.substr(at, length);
    if (!is_plain) {
      scratch.text.clear();
      if (at > 0 || !part.is_first) scratch.text += options_.continuing_prefix;
      scratch.text += character;
      if (at + length == text.size() && part.is_last) scratch.text += options_.word_suffix;
      character = scratch.text;
    }
    at += length;
    const TokenId id =
        is_plain && value < kTableEnd ? character_ids_[value] : names_.find_or(character, -1);
    if (id >= 0) {
      unknown.flush();
      scratch.symbols.push_back({id, length, -1, -1});
      continue;
    }
    const auto has_token = [&](char byte) {
      return byte_ids_[static_cast<unsigned char>(byte)] >= 0;
    };
    if (options_.byte_fallback && std::all_of(character.begin(), character.end(), has_token)) {
      // An unknown part that waits stays waiting, as in the reference.
      for (const char byte : character)
        scratch.symbols.push_back({byte_ids_[static_cast<unsigned char>(byte)], 1, -1, -1});
      continue;
    }
    unknown.add(length);
  }
}

void Bpe::merge_few(ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  auto& ranks = scratch.ranks;    // [i]: of symbols i and i + 1
  auto& merged = scratch.merged;  // [i]: what they become
  std::size_t n = symbols.size();
  ranks.assign(n, kNoRank);
  merged.assign(n, 0);
  const auto look_up = [&](std::size_t i) {
    const MergeTable::Entry* entry = merges_.find(symbols[i].id, symbols[i + 1].id);
    ranks[i] = entry == nullptr ? kNoRank : entry->rank;
    merged[i] = entry == nullptr ? 0 : entry->id;
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

void Bpe::offer(const ModelScratch& scratch, MergeQueue& queue, std::int32_t left) const {
  if (left < 0) return;
  const ModelScratch::Symbol& symbol = scratch.symbols[static_cast<std::size_t>(left)];
  if (symbol.next < 0) return;
  const TokenId right = scratch.symbols[static_cast<std::size_t>(symbol.next)].id;
  const MergeTable::Entry* entry = merges_.find(symbol.id, right);
  if (entry != nullptr) queue.push({entry->rank, static_cast<std::uint32_t>(left), entry->id});
}

void Bpe::merge_many(ModelScratch& scratch) const {
  auto& symbols = scratch.symbols;
  MergeQueue queue;
  const auto n = static_cast<std::int32_t>(symbols.size());
  for (std::int32_t i = 0; i < n; ++i) {
    symbols[static_cast<std::size_t>(i)].previous = i - 1;
    symbols[static_cast<std::size_t>(i)].next = i + 1 < n ? i + 1 : -1;
  }
  for (std::int32_t i = 0; i < n; ++i) offer(scratch, queue, i);
  while (!queue.empty()) {
    const MergeQueue::Merge top = queue.pop();
    ModelScratch::Symbol& left = symbols[top.position];
    if (left.n_bytes == 0 || left.next < 0) continue;
    ModelScratch::Symbol& right = symbols[static_cast<std::size_t>(left.next)];
    const MergeTable::Entry* entry = merges_.find(left.id, right.id);
    if (entry == nullptr || entry->id != top.id) continue;  // the pair has changed since
    left.id = top.id;
    left.n_bytes += right.n_bytes;
    right.n_bytes = 0;
    left.next = right.next;
    if (left.next >= 0)
      symbols[static_cast<std::size_t>(left.next)].previous =
          static_cast<std::int32_t>(top.position);
    offer(scratch, queue, left.previous);
    offer(scratch, queue, static_cast<std::int32_t>(top.position));
  }
}

}  // namespace coxswain::tokenizer
