#include "tokenizer/bpe.h"

#include <algorithm>
#include <bit>

#include "tokenizer/byte_alphabet.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
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

Bpe::Bpe(const TokenTable& names, MergeTable merges, const BpeOptions& options)
    : MergeModel(options.reads_bytes),
      names_(names),
      merges_(std::move(merges)),
      options_(options) {
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
  if (options_.reads_bytes || options_.ignore_merges) return false;
  if (!names_.find(kMetaspaceUtf8)) return false;
  for (TokenId id = 0; static_cast<std::size_t>(id) < names_.id_end(); ++id) {
    if (crosses_words(names_.string(id))) return false;
  }
  return true;
}

TokenId Bpe::whole_token(std::string_view word, ModelScratch& scratch) const {
  if (!options_.ignore_merges || word.size() > names_.longest_bytes()) return -1;
  if (!options_.reads_bytes) return names_.find_or(word, -1);
  scratch.text.clear();
  append_byte_characters(scratch.text, word);
  return names_.find_or(scratch.text, -1);
}

// Neighbouring unknown parts may be one symbol, so the last one waits.
void Bpe::add_unknown(std::uint32_t n_bytes, ModelScratch& scratch) const {
  if (!options_.unk) return;
  if (!options_.fuse_unk) flush_unknown(scratch);
  scratch.unknown_bytes += n_bytes;
}

void Bpe::flush_unknown(ModelScratch& scratch) const {
  if (scratch.unknown_bytes == 0) return;
  scratch.symbols.push_back({*options_.unk, scratch.unknown_bytes});
  scratch.unknown_bytes = 0;
}

std::size_t Bpe::make_symbols(std::string_view word,
                              std::size_t begin,
                              std::size_t end,
                              ModelScratch& scratch) const {
  std::size_t at = begin;
  while (at < end) at = add_character(word, at, scratch);
  if (at == word.size()) flush_unknown(scratch);
  return at;
}

// Adds the symbols of the character (or the byte) at `at`; returns where it ends.
std::size_t Bpe::add_character(std::string_view word, std::size_t at, ModelScratch& scratch) const {
  const auto byte_id = [&](char byte) { return byte_ids_[static_cast<unsigned char>(byte)]; };
  TokenId id = -1;
  std::uint32_t n_bytes = 1;
  if (options_.reads_bytes) {
    id = byte_id(word[at]);
  } else {
    const CodePoint c = code_point_at(word, at);
    n_bytes = c.n_bytes;
    id = c.value < kTableEnd ? character_ids_[c.value]
                             : names_.find_or(word.substr(at, n_bytes), -1);
  }
  if (id >= 0) {
    flush_unknown(scratch);
    scratch.symbols.push_back({id, n_bytes});
    return at + n_bytes;
  }
  const std::string_view character = word.substr(at, n_bytes);
  const auto has_token = [&](char byte) { return byte_id(byte) >= 0; };
  if (options_.byte_fallback && std::all_of(character.begin(), character.end(), has_token)) {
    // An unknown part that waits stays waiting, as in the reference.
    for (const char byte : character) scratch.symbols.push_back({byte_id(byte), 1});
  } else {
    add_unknown(n_bytes, scratch);
  }
  return at + n_bytes;
}

}  // namespace coxswain::tokenizer
