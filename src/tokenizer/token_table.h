#pragma once
// TokenTable: strings <-> ids. The strings lie in one block, the index is a flat hash table.
//
// Thread rule: immutable once filled.

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/function_ref.h"

namespace coxswain::tokenizer {

// A hash for short strings; not for adversaries: tables built from files bound their own probing.
inline std::uint64_t hash_bytes(std::string_view bytes) {
  constexpr std::uint64_t kMultiplier = 0x9E3779B97F4A7C15ULL;
  const auto load = [](const char* at, std::size_t n) {
    std::uint64_t word = 0;
    std::memcpy(&word, at, n);
    return word;
  };
  const auto mix = [](std::uint64_t a, std::uint64_t b) {
    const std::uint64_t product = (a ^ b) * kMultiplier;
    return product ^ product >> 29;
  };
  const char* at = bytes.data();
  std::size_t left = bytes.size();
  std::uint64_t hash = bytes.size() * kMultiplier;
  for (; left >= 8; left -= 8, at += 8) hash = mix(hash, load(at, 8));
  if (left >= 4) {
    hash = mix(hash, load(at, 4) | load(at + left - 4, 4) << 32);
  } else if (left > 0) {
    const auto byte = [&](std::size_t i) {
      return static_cast<std::uint64_t>(static_cast<unsigned char>(at[i]));
    };
    hash = mix(hash, byte(0) | byte(left / 2) << 8 | byte(left - 1) << 16);
  }
  return mix(hash, hash >> 32);
}

class TokenTable {
 public:
  TokenTable() = default;

  void reserve(std::size_t n_tokens, std::size_t n_bytes);

  // Gives `token` the id. False if the id has a token or the token an id.
  bool add(std::string_view token, TokenId id) { return add(token, id, hash_bytes(token)); }
  // The same with the token's hash_bytes().
  bool add(std::string_view token, TokenId id, std::uint64_t hash);

  std::optional<TokenId> find(std::string_view token) const {
    const std::int32_t id = find_or(token, -1);
    return id < 0 ? std::nullopt : std::optional<TokenId>(id);
  }
  TokenId find_or(std::string_view token, TokenId fallback) const {
    return find_or(token, hash_bytes(token), fallback);
  }
  TokenId find_or(std::string_view token, std::uint64_t hash, TokenId fallback) const {
    if (slots_.empty()) return fallback;
    const std::size_t mask = slots_.size() - 1;
    for (std::size_t at = hash & mask;; at = (at + 1) & mask) {
      const Slot& slot = slots_[at];
      if (slot.id < 0) return fallback;
      if (slot.tag == static_cast<std::uint32_t>(hash >> 32) && slot.length == token.size() &&
          std::string_view(bytes_.data() + slot.begin, slot.length) == token)
        return slot.id;
    }
  }

  // Starts to load what add() or find_or() with this hash will read.
  void prefetch(std::uint64_t hash) const {
    if (!slots_.empty()) __builtin_prefetch(&slots_[hash & (slots_.size() - 1)]);
  }

  // The same once that is there: starts to load the string that a token is compared with.
  void prefetch_string(std::uint64_t hash) const {
    if (!slots_.empty())
      __builtin_prefetch(bytes_.data() + slots_[hash & (slots_.size() - 1)].begin);
  }

  // Empty for an id without a token.
  std::string_view string(TokenId id) const {
    if (id < 0 || static_cast<std::size_t>(id) >= places_.size()) return {};
    const Place place = places_[static_cast<std::size_t>(id)];
    return std::string_view(bytes_).substr(place.begin, place.length);
  }
  bool has(TokenId id) const {
    return id >= 0 && static_cast<std::size_t>(id) < places_.size() &&
           places_[static_cast<std::size_t>(id)].is_set;
  }

  std::size_t id_end() const { return places_.size(); }  // highest id + 1
  std::size_t size() const { return n_tokens_; }         // number of tokens
  std::size_t longest_bytes() const { return n_longest_; }

 private:
  struct Place {
    std::uint32_t begin = 0;
    std::uint32_t length : 31 = 0;
    std::uint32_t is_set : 1 = 0;
  };
  // Has the string's place too: a look-up touches two cache lines, not three.
  struct Slot {
    std::int32_t id = -1;
    std::uint32_t tag = 0;
    std::uint32_t begin = 0;
    std::uint32_t length = 0;
  };
  void grow(std::size_t n_slots);

  std::string bytes_;
  std::vector<Place> places_;  // [id]
  std::vector<Slot> slots_;    // power of two, at most half full
  std::size_t n_tokens_ = 0;
  std::size_t n_longest_ = 0;
};

// Adds tokens in batches, so that the table's memory is on its way before it is needed: a large
// vocabulary is read in half the time.
class TokenQueue {
 public:
  // Gets a token that the table refused, in the order of add(); what it returns ends everything.
  using Refused = base::FunctionRef<Status(std::string_view token, TokenId id)>;
  // REQUIRES: both outlive this object.
  TokenQueue(TokenTable& table, Refused refused) : table_(table), refused_(refused) {}

  Status add(std::string_view token, TokenId id);
  // Adds what still waits. REQUIRES: called at the end.
  Status flush();

 private:
  static constexpr std::size_t kTokens = 32;
  struct Entry {
    std::uint64_t hash = 0;
    TokenId id = 0;
    std::uint32_t end = 0;  // in text_
  };
  TokenTable& table_;
  Refused refused_;
  std::array<Entry, kTokens> entries_;
  std::string text_;
  std::size_t n_ = 0;
};

}  // namespace coxswain::tokenizer
