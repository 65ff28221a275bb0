#include "tokenizer/token_table.h"

#include <algorithm>
#include <bit>
#include <utility>

namespace coxswain::tokenizer {

void TokenTable::reserve(std::size_t n_tokens, std::size_t n_bytes) {
  bytes_.reserve(n_bytes);
  places_.reserve(n_tokens);
  grow(std::bit_ceil(std::max<std::size_t>(n_tokens * 2, 16)));
}

bool TokenTable::add(std::string_view token, TokenId id, std::uint64_t hash) {
  if (id < 0 || has(id)) return false;
  if ((n_tokens_ + 1) * 2 > slots_.size()) grow(std::max<std::size_t>(slots_.size() * 2, 16));
  const auto tag = static_cast<std::uint32_t>(hash >> 32);
  const std::size_t mask = slots_.size() - 1;
  std::size_t at = hash & mask;
  for (; slots_[at].id >= 0; at = (at + 1) & mask) {
    if (slots_[at].tag == tag && string(slots_[at].id) == token) return false;
  }
  const auto index = static_cast<std::size_t>(id);
  if (index >= places_.size()) places_.resize(index + 1);
  places_[index].begin = static_cast<std::uint32_t>(bytes_.size());
  places_[index].length = static_cast<std::uint32_t>(token.size()) & 0x7FFFFFFFU;
  places_[index].is_set = 1;
  bytes_.append(token);
  n_longest_ = std::max(n_longest_, token.size());
  ++n_tokens_;
  slots_[at] = {id, tag, places_[index].begin, places_[index].length};
  return true;
}

Status TokenQueue::add(std::string_view token, TokenId id) {
  text_.append(token);
  const std::uint64_t hash = hash_bytes(token);
  table_.prefetch(hash);
  entries_[n_++] = {hash, id, static_cast<std::uint32_t>(text_.size())};
  return n_ == kTokens ? flush() : Status();
}

Status TokenQueue::flush() {
  std::size_t begin = 0;
  const std::size_t n = std::exchange(n_, 0);
  for (std::size_t i = 0; i < n; ++i) {
    const Entry& entry = entries_[i];
    const std::string_view token = std::string_view(text_).substr(begin, entry.end - begin);
    begin = entry.end;
    if (!table_.add(token, entry.id, entry.hash))
      COXSWAIN_RETURN_IF_ERROR(refused_(token, entry.id));
  }
  text_.clear();
  return {};
}

void TokenTable::grow(std::size_t n_slots) {
  if (n_slots <= slots_.size()) return;
  const std::vector<Slot> old = std::move(slots_);
  slots_.assign(n_slots, Slot());
  const std::size_t mask = slots_.size() - 1;
  for (const Slot& slot : old) {
    if (slot.id < 0) continue;
    std::size_t at = hash_bytes(string(slot.id)) & mask;
    while (slots_[at].id >= 0) at = (at + 1) & mask;
    slots_[at] = slot;
  }
}

}  // namespace coxswain::tokenizer
