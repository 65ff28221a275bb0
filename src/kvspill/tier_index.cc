#include "kvspill/tier_index.h"

namespace coxswain::kvspill {

using batch::BlockKey;

const TierIndex::Entry* TierIndex::find(const BlockKey& key) const {
  const auto it = entries_.find(key);
  return it == entries_.end() ? nullptr : &it->second;
}

void TierIndex::put(const BlockKey& key, Entry entry) {
  remove(key);
  entry.used_at = ++n_uses_;
  ranks_.emplace(entry.priority, entry.used_at, key);
  n_bytes_ += entry.bytes;
  entries_.emplace(key, entry);
}

void TierIndex::remove(const BlockKey& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  ranks_.erase({it->second.priority, it->second.used_at, key});
  n_bytes_ -= it->second.bytes;
  entries_.erase(it);
}

void TierIndex::touch(const BlockKey& key) {
  const auto it = entries_.find(key);
  if (it == entries_.end()) return;
  ranks_.erase({it->second.priority, it->second.used_at, key});
  it->second.used_at = ++n_uses_;
  ranks_.emplace(it->second.priority, it->second.used_at, key);
}

std::optional<BlockKey> TierIndex::first_to_go() const {
  if (ranks_.empty()) return std::nullopt;
  return std::get<BlockKey>(*ranks_.begin());
}

}  // namespace coxswain::kvspill
