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
    if (tells(g)) event(KvEvent::Kind::kCreated, g).n_blocks = pools_[g].counts().total;
  }
}

void KvCache::tell_stored(PrefixIndex::Node node, std::size_t group) {
  if (!events_ || !tells(group)) return;
  const auto tokens = index_.tokens(node);
  event(KvEvent::Kind::kStored, group, index_.parent_chain(node))
      .blocks.push_back({.hash = index_.chain(node),
                         .tokens = {tokens.begin(), tokens.end()},
                         .priority = index_.priority(node)});
}

void KvCache::tell_removed(std::size_t group, std::uint64_t hash) {
  if (events_ && tells(group))
    event(KvEvent::Kind::kRemoved, group).blocks.push_back({.hash = hash});
}

void KvCache::tell_updated(PrefixIndex::Node node, std::uint32_t priority_before) {
  const std::uint32_t priority = index_.priority(node);
  if (!events_ || priority == priority_before) return;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (!tells(g) || index_.blocks(node)[g] == kReleasedBlock) continue;
    event(KvEvent::Kind::kUpdated, g)
        .blocks.push_back(
            {.hash = index_.chain(node), .priority = priority, .priority_before = priority_before});
  }
}

}  // namespace coxswain::kvcache
