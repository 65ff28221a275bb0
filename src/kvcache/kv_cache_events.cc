// KvCache: what it tells of cached blocks (coxswain/kv_events.h).

#include <algorithm>

#include "kvcache/kv_cache.h"

namespace coxswain::kvcache {

bool KvCache::tells(std::size_t group) const {
  return windows_[group] > 0 ||
         std::ranges::find(windows_, 0U) == windows_.begin() + static_cast<std::ptrdiff_t>(group);
}

// The last event of the group, if it is one that can go on, or a new one.
KvEvent& KvCache::event(KvEvent::Kind kind, std::size_t group, std::uint64_t parent) {
  const std::size_t n_looked_at = std::min(pending_events_.size(), pools_.size());
  for (auto it = pending_events_.rbegin();
       it != pending_events_.rbegin() + static_cast<std::ptrdiff_t>(n_looked_at);
       ++it) {
    if (it->kv_group != group) continue;
    if (it->kind != kind || kind == KvEvent::Kind::kCreated) break;
    if (kind != KvEvent::Kind::kStored || it->blocks.back().hash == parent) return *it;
    break;
  }
  return pending_events_.emplace_back(KvEvent{.kind = kind,
                                              .kv_group = static_cast<std::uint32_t>(group),
                                              .window_tokens = windows_[group],
                                              .parent = parent});
}

void KvCache::tell_created() {
  for (std::size_t g = 0; events_ && g < pools_.size(); ++g) {
    if (!tells(g)) continue;
    KvEvent& created = event(KvEvent::Kind::kCreated, g);
    created.n_blocks = pools_[g].counts().total;
    created.tier_blocks = tier_blocks_;
  }
}

std::vector<std::uint64_t> KvCache::event_hashes(std::string_view identity,
                                                 std::span<const TokenId> tokens) const {
  std::vector<std::uint64_t> out{PrefixIndex::root_chain(identity)};
  for (std::uint32_t i = 0; i < tokens.size() / block_tokens_; ++i)
    out.push_back(PrefixIndex::next_chain(out.back(), block_of(tokens, i)));
  return out;
}

void KvCache::tell_stored(PrefixIndex::Node node, std::size_t group) {
  if (!events_ || !tells(group)) return;
  const std::uint64_t hash = index_.chain(node);
  Told& told = told_[group][hash];
  const Told before = told;
  told = {.cached = true, .level = before.level, .priority = index_.priority(node)};
  if (before.level > 0) {
    event(KvEvent::Kind::kUpdated, group)
        .blocks.push_back({.hash = hash,
                           .priority = index_.priority(node),
                           .priority_before = before.priority,
                           .cache_level_before = before.level});
    return;
  }
  const auto tokens = index_.tokens(node);
  event(KvEvent::Kind::kStored, group, index_.parent_chain(node))
      .blocks.push_back({.hash = hash,
                         .tokens = {tokens.begin(), tokens.end()},
                         .priority = index_.priority(node)});
}

void KvCache::tell_removed(std::size_t group, std::uint64_t hash) {
  if (!events_ || !tells(group)) return;
  // Two blocks may have one hash: then the first one that goes takes what is known of both.
  const auto known = told_[group].find(hash);
  if (known == told_[group].end() || known->second.level == 0) {
    told_[group].erase(hash);
    event(KvEvent::Kind::kRemoved, group).blocks.push_back({.hash = hash});
    return;
  }
  Told& told = known->second;
  told.cached = false;
  event(KvEvent::Kind::kUpdated, group)
      .blocks.push_back({.hash = hash,
                         .priority = told.priority,
                         .priority_before = told.priority,
                         .cache_level = told.level});
}

void KvCache::tell_updated(PrefixIndex::Node node, std::uint32_t priority_before) {
  const std::uint32_t priority = index_.priority(node);
  if (!events_ || priority == priority_before) return;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (!tells(g) || index_.blocks(node)[g] == kReleasedBlock) continue;
    if (const auto known = told_[g].find(index_.chain(node)); known != told_[g].end())
      known->second.priority = priority;
    event(KvEvent::Kind::kUpdated, g)
        .blocks.push_back(
            {.hash = index_.chain(node), .priority = priority, .priority_before = priority_before});
  }
}

void KvCache::note_tier(const TierNote& note) {
  for (std::size_t g = 0; events_ && g < pools_.size(); ++g) {
    if (tells(g)) note_tier(note, g);
  }
}

void KvCache::note_tier(const TierNote& note, std::size_t group) {
  const std::uint32_t level = (note.groups >> group & 1U) != 0 ? note.level : 0;
  const auto known = told_[group].find(note.hash);
  if (known == told_[group].end()) {
    if (level == 0) return;
    told_[group][note.hash] = {.level = level, .priority = note.priority};
    event(KvEvent::Kind::kStored, group, note.parent)
        .blocks.push_back({.hash = note.hash,
                           .tokens = {note.tokens.begin(), note.tokens.end()},
                           .priority = note.priority,
                           .cache_level = level});
    return;
  }
  const Told before = known->second;
  known->second.level = level;
  if (before.cached || before.level == level) return;
  if (level == 0) {
    told_[group].erase(known);
    event(KvEvent::Kind::kRemoved, group).blocks.push_back({.hash = note.hash});
    return;
  }
  event(KvEvent::Kind::kUpdated, group)
      .blocks.push_back({.hash = note.hash,
                         .priority = before.priority,
                         .priority_before = before.priority,
                         .cache_level = level,
                         .cache_level_before = before.level});
}

}  // namespace coxswain::kvcache
