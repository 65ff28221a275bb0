// CacheModel: what the index should hold, since when, and what should go first.

#include <algorithm>

#include "kvcache/testing/cache_model.h"

namespace coxswain::kvcache::testing {

// A few ranges, priorities and times.
Retention CacheModel::retention() {
  Retention out;
  const auto some = [&] { return static_cast<std::uint32_t>(pick(3) * 30); };
  const auto time = [&]() -> std::optional<std::chrono::milliseconds> {
    if (pick(2) == 0) return std::nullopt;
    return std::chrono::milliseconds(1 + pick(30));
  };
  if (pick(2) == 0)
    out.ranges.push_back({.token_end = 1 + static_cast<std::uint32_t>(pick(4)),
                          .priority = some(),
                          .duration = time()});
  if (pick(2) == 0)
    out.ranges.push_back({.token_begin = 4, .priority = some(), .duration = time()});
  if (pick(3) == 0) {
    out.decode_priority = some();
    out.decode_duration = time();
  }
  return out;
}

void CacheModel::expire() {
  for (auto& [key, node] : index_) {
    if (node.expires_at == 0 || node.expires_at > now_) continue;
    node.priority = kRetentionPriorityDefault;
    node.duration = node.expires_at = 0;
    ++n_expired_;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (node.blocks[g] != kReleasedBlock && rest_[g].contains(node.blocks[g]))
        rested_again(g, node.blocks[g], true);
    }
  }
}

// As the holder's request says of block i.
void CacheModel::retain(const Holder& h, std::uint32_t i) {
  Node& node = index_.at(h.key(i));
  const auto said = h.rule().at(i * block_);
  if (!said) return;
  node.priority = said->priority;
  node.duration = static_cast<std::uint64_t>(said->duration.count());
  const bool pinned = !all_windows() && held(h.key(i));
  node.expires_at = pinned || node.duration == 0 ? 0 : now_ + node.duration;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (node.blocks[g] != kReleasedBlock && rest_[g].contains(node.blocks[g]))
      rested_again(g, node.blocks[g], false);
  }
}

// The index learns what h has computed: a node for each block, and blocks of window groups that nodes miss.
void CacheModel::publish(Holder& h) {
  const std::uint32_t n_whole = h.computed / block_;
  if (h.n_published >= n_whole) return;
  if (h.n_published > 0) {
    const auto at = index_.find(h.key(h.n_published - 1));
    if (at == index_.end() || at->second.id != h.cursor) h.n_published = 0;
  }
  for (std::uint32_t i = h.n_published; i < n_whole; ++i) {
    const auto found = index_.find(h.key(i));
    const bool is_new = found == index_.end();
    if (is_new && i > 0 && !all_windows() && !held(h.key(i - 1))) return;
    Node& node = is_new ? index_[h.key(i)] : found->second;
    if (is_new) {
      node = {.id = ++next_node_, .blocks = {}, .released_at = now_};
      node.blocks.assign(groups_.size(), kReleasedBlock);
    } else {
      node.shared = true;
    }
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (node.blocks[g] != kReleasedBlock) continue;
      node.blocks[g] = h.lease.table(g)[i];
      n_refilled_ += !is_new && node.blocks[g] != kReleasedBlock ? 1 : 0;
    }
    h.cursor = node.id;
    h.n_published = i + 1;
    retain(h, i);
  }
}

// Whether a block of the node, or of one below it, is in use: in groups that keep every position.
bool CacheModel::held(const Key& start) const {
  return std::ranges::any_of(index_, [&](const auto& entry) {
    if (!begins_with(entry.first, start)) return false;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (!is_window(g) && busy(g, entry.second.blocks[g])) return true;
    }
    return false;
  });
}

// Blocks that h has been given were free or came out of the index. Of nodes exactly n_nodes are gone; none was in
// use, none has a child left, and none was used later than a leaf that stayed.
void CacheModel::forget_evicted(const Holder& h, std::uint32_t before, std::uint32_t n_nodes) {
  std::vector<std::set<BlockId>> given(groups_.size());
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    const auto table = h.lease.table(g);
    given[g].insert(table.begin() + before, table.end());
    given[g].erase(kReleasedBlock);
  }
  std::set<Key> gone_nodes;
  const std::map<Key, Node> before_it = index_;
  for (auto it = index_.begin(); it != index_.end();) {
    bool gone = false;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      gone |= !is_window(g) && given[g].contains(it->second.blocks[g]);
    if (!gone) {
      ++it;
      continue;
    }
    EXPECT_FALSE(held_[it->first]) << "a block in use was evicted";
    gone_nodes.insert(it->first);
    it = index_.erase(it);
  }
  EXPECT_EQ(gone_nodes.size(), n_nodes);
  n_evicted_ += gone_nodes.size();
  EXPECT_TRUE(goes_in_order(before_it, gone_nodes)) << "not the leaves of the least worth";
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    if (is_window(g)) forget_window_blocks(g, given[g]);
  }
  std::erase_if(index_, [&](const auto& entry) {
    return all_windows() && std::ranges::none_of(index_, [&](const auto& other) {
             return begins_with(other.first, entry.first) && has_block(other.second);
           });
  });
}

// Whether those that are gone can have gone one after the other, each as the least worth of the leaves of its time.
bool CacheModel::goes_in_order(const std::map<Key, Node>& nodes, const std::set<Key>& gone) {
  if (gone.empty()) return true;
  using Rank = std::pair<std::uint32_t, std::uint64_t>;
  std::optional<Rank> least;
  std::vector<Key> next;
  for (const auto& [key, node] : nodes) {
    const auto below = std::next(nodes.find(key));  // sorted: a child follows its parent
    if (held_[key] || (below != nodes.end() && begins_with(below->first, key))) continue;
    const Rank rank{node.priority, node.released_at};
    if (!least || rank < *least) next.clear();
    if (!least || rank <= *least) next.push_back(key);
    if (!least || rank < *least) least = rank;
  }
  return std::ranges::any_of(next, [&](const Key& key) {
    if (!gone.contains(key)) return false;
    std::map<Key, Node> fewer = nodes;
    std::set<Key> left = gone;
    fewer.erase(key);
    left.erase(key);
    return goes_in_order(fewer, left);
  });
}

// Those that left the window of their only sequence go first, the others by last use.
void CacheModel::forget_window_blocks(std::size_t g, const std::set<BlockId>& given) {
  std::vector<Rest> gone;
  for (auto& [key, node] : index_) {
    if (!given.contains(node.blocks[g])) continue;
    gone.push_back(rest_[g].at(node.blocks[g]));
    gone.back().priority = node.priority;
    node.blocks[g] = kReleasedBlock;
  }
  n_evicted_ += gone.size();
  for (const BlockId id : given) rest_[g].erase(id);
  for (const auto& [key, node] : index_) {
    const BlockId id = node.blocks[g];
    if (id == kReleasedBlock || busy(g, id)) continue;
    const Rest stays = rest_[g].at(id);
    for (const Rest& rest : gone) {
      EXPECT_LE(rest.priority, node.priority) << "a block of a lower priority stayed";
      if (rest.evict_first || rest.priority < node.priority) continue;
      EXPECT_FALSE(stays.evict_first) << "a block that was less worth stayed";
      EXPECT_LE(since(rest), since(stays)) << "not the least recently used block";
    }
  }
}

// Leased and retiring by recount; remembers since when each node and each block is unused.
void CacheModel::compare_counts() {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    std::set<BlockId> leased;
    for (const Holder& h : holders_) {
      leased.insert(h.lease.table(g).begin(), h.lease.table(g).end());
      if (!h.sources.empty()) leased.insert(h.sources[g]);
    }
    leased.erase(kReleasedBlock);
    std::uint32_t retiring = 0;
    for (const auto& [id, until] : busy_until_[g])
      retiring += until > retired_ && !leased.contains(id) ? 1 : 0;
    std::uint32_t cached = 0;
    for (const auto& [key, node] : index_)
      cached += node.blocks[g] != kReleasedBlock && !busy(g, node.blocks[g]) ? 1 : 0;
    ASSERT_EQ(cache_.counts(g).leased, leased.size());
    ASSERT_EQ(cache_.counts(g).retiring, retiring);
    ASSERT_EQ(cache_.counts(g).cached, cached);
    for (auto& [id, rest] : rest_[g]) {
      if (rest.since == 0 && !busy(g, id)) rest.since = now_;
    }
  }
  std::map<Key, bool> held_now;
  for (const auto& [key, node] : index_) held_now[key] = held(key);
  for (auto& [key, node] : index_) {
    if (held_now[key]) node.expires_at = 0;
    if (!held_[key] || held_now[key]) continue;
    node.released_at = now_;
    if (node.duration > 0) node.expires_at = now_ + node.duration;
  }
  held_ = std::move(held_now);
}

}  // namespace coxswain::kvcache::testing
