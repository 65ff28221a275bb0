#include "kvcache/prefix_index.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace coxswain::kvcache {

PrefixIndex::PrefixIndex(std::vector<bool> is_window, const base::HashKey& key, bool chains)
    : is_window_(std::move(is_window)),
      n_full_(static_cast<std::uint32_t>(std::ranges::count(is_window_, false))),
      key_(key),
      chains_(chains) {}

std::uint64_t PrefixIndex::root_chain(std::string_view identity) {
  return base::sip_hash(std::as_bytes(std::span(identity)), {}, base::kSip24);
}

std::uint64_t PrefixIndex::next_chain(std::uint64_t above, std::span<const TokenId> tokens) {
  return base::sip_hash(std::as_bytes(tokens), {above, 0}, base::kSip24);
}

PrefixIndex::Node PrefixIndex::find_root(std::string_view identity) const {
  const auto it = roots_.find(identity);
  if (it == roots_.end()) return {};
  return {it->second, entries_[it->second].uid};
}

PrefixIndex::Node PrefixIndex::root(std::string_view identity) {
  if (const Node found = find_root(identity)) return found;
  const std::uint32_t slot = new_slot();
  entries_[slot].identity = std::string(identity);
  if (chains_) entries_[slot].chain = root_chain(identity);
  roots_.emplace(entries_[slot].identity, slot);
  return {slot, entries_[slot].uid};
}

std::uint64_t PrefixIndex::child_key(Node parent, std::span<const TokenId> tokens) const {
  return base::sip_hash(std::as_bytes(tokens), {key_[0] ^ parent.uid, key_[1]}, base::kSip24);
}

std::uint64_t PrefixIndex::first_key(std::string_view identity,
                                     std::span<const TokenId> tokens) const {
  const std::uint64_t above =
      base::sip_hash(std::as_bytes(std::span(identity)), key_, base::kSip24);
  return base::sip_hash(std::as_bytes(tokens), {key_[0] ^ above, key_[1]}, base::kSip24);
}

PrefixIndex::Node PrefixIndex::find_child(Node parent, std::span<const TokenId> tokens) const {
  const auto [first, last] = children_.equal_range(child_key(parent, tokens));
  for (auto it = first; it != last; ++it) {
    const Entry& e = entries_[it->second];
    if (e.parent == parent.slot && std::ranges::equal(e.tokens, tokens)) return {it->second, e.uid};
  }
  return {};
}

std::vector<std::uint32_t>::const_iterator PrefixIndex::place_of(
    std::uint32_t parent, std::span<const TokenId> tokens) const {
  return std::ranges::lower_bound(
      entries_[parent].children,
      tokens,
      std::ranges::lexicographical_compare,
      [&](std::uint32_t slot) { return std::span(entries_[slot].tokens); });
}

// In the order of their tokens those that begin most alike are neighbours.
PrefixIndex::Part PrefixIndex::find_part(Node parent, std::span<const TokenId> tokens) const {
  Part best;
  const auto look = [&](std::uint32_t slot) {
    const Entry& e = entries_[slot];
    const auto n =
        static_cast<std::uint32_t>(std::ranges::mismatch(e.tokens, tokens).in1 - e.tokens.begin());
    if (n > best.n_tokens) best = {.node = {slot, e.uid}, .n_tokens = n};
  };
  const auto& children = entries_[parent.slot].children;
  const auto place = place_of(parent.slot, tokens);
  if (place != children.end()) look(*place);
  if (place != children.begin()) look(*std::prev(place));
  return best;
}

std::uint32_t PrefixIndex::new_slot() {
  std::uint32_t slot = 0;
  if (free_slots_.empty()) {
    slot = static_cast<std::uint32_t>(entries_.size());
    entries_.emplace_back();
  } else {
    slot = free_slots_.back();
    free_slots_.pop_back();
    entries_[slot] = Entry{};
  }
  entries_[slot].uid = next_uid_++;
  return slot;
}

PrefixIndex::Node PrefixIndex::insert(Node parent, std::span<const TokenId> tokens) {
  assert(alive(parent) && !find_child(parent, tokens));
  const std::uint32_t slot = new_slot();
  Entry& e = entries_[slot];
  e.parent = parent.slot;
  e.tokens.assign(tokens.begin(), tokens.end());
  e.blocks.assign(is_window_.size(), kReleasedBlock);
  e.hash = child_key(parent, tokens);
  if (chains_) e.chain = next_chain(entry(parent).chain, tokens);
  e.busy = n_full_;
  children_.emplace(e.hash, slot);
  ++n_nodes_;
  const auto place = place_of(parent.slot, tokens);
  entries_[parent.slot].children.insert(place, slot);
  if (e.busy > 0) {
    pin_upwards(parent.slot);
  } else {
    ++n_evictable_;
  }
  return {slot, e.uid};
}

// Whether nothing keeps the node any longer.
bool PrefixIndex::is_bare(const Entry& e) const {
  return e.parent != kNoSlot && e.children.empty() &&
         std::ranges::all_of(e.blocks, [](BlockId id) { return id == kReleasedBlock; });
}

void PrefixIndex::clear_block(Node node, std::size_t group) {
  assert(is_window_[group]);
  entry(node).blocks[group] = kReleasedBlock;
  for (std::uint32_t slot = node.slot; is_bare(entries_[slot]);) {
    const std::uint32_t parent = entries_[slot].parent;
    --n_nodes_;
    --n_evictable_;
    remove(slot);
    slot = parent;
  }
}

bool PrefixIndex::alive(Node node) const {
  return node && node.slot < entries_.size() && entries_[node.slot].uid == node.uid;
}

void PrefixIndex::add_busy(Node node) {
  Entry& e = entry(node);
  if (e.busy++ > 0 || e.pinned_children > 0) return;
  --n_evictable_;
  stop_expiry(node.slot);
  refresh_leaf(node.slot);
  pin_upwards(e.parent);
}

void PrefixIndex::drop_busy(Node node) {
  Entry& e = entry(node);
  assert(e.busy > 0);
  if (--e.busy > 0 || e.pinned_children > 0) return;
  note_unpinned(node.slot);
  refresh_leaf(node.slot);
  unpin_upwards(e.parent);
}

// The node in `slot` has one more pinned child. Stops where the state above does not change.
void PrefixIndex::pin_upwards(std::uint32_t slot) {
  while (slot != kNoSlot) {
    Entry& e = entries_[slot];
    const bool was_pinned = e.busy > 0 || e.pinned_children > 0;
    ++e.pinned_children;
    refresh_leaf(slot);
    if (was_pinned || e.parent == kNoSlot) return;
    --n_evictable_;
    stop_expiry(slot);
    slot = e.parent;
  }
}

void PrefixIndex::unpin_upwards(std::uint32_t slot) {
  while (slot != kNoSlot) {
    Entry& e = entries_[slot];
    assert(e.pinned_children > 0);
    --e.pinned_children;
    if (e.busy > 0 || e.pinned_children > 0 || e.parent == kNoSlot) return;
    note_unpinned(slot);
    refresh_leaf(slot);
    slot = e.parent;
  }
}

void PrefixIndex::note_unpinned(std::uint32_t slot) {
  ++n_evictable_;
  entries_[slot].unpinned_at = ++tick_;
  start_expiry(slot);
}

void PrefixIndex::start_expiry(std::uint32_t slot) {
  Entry& e = entries_[slot];
  if (e.retention.duration.count() == 0) return;
  e.expires_at = now_ + e.retention.duration;
  expiring_.emplace(e.expires_at, slot);
}

void PrefixIndex::stop_expiry(std::uint32_t slot) {
  Entry& e = entries_[slot];
  if (e.expires_at == TimePoint{}) return;
  expiring_.erase({e.expires_at, slot});
  e.expires_at = {};
}

void PrefixIndex::set_retention(Node node, const BlockRetention& retention) {
  Entry& e = entry(node);
  stop_expiry(node.slot);
  if (e.evictable_leaf) evictable_leaves_.erase(rank_of(node.slot));
  e.retention = retention;
  if (e.evictable_leaf) evictable_leaves_.insert(rank_of(node.slot));
  if (!pinned(node)) start_expiry(node.slot);
}

std::vector<PrefixIndex::Expired> PrefixIndex::expire(TimePoint now) {
  now_ = now;
  std::vector<Expired> out;
  while (!expiring_.empty() && expiring_.begin()->first <= now) {
    const std::uint32_t slot = expiring_.begin()->second;
    out.push_back(
        {.node = {slot, entries_[slot].uid}, .priority_before = entries_[slot].retention.priority});
    set_retention(out.back().node, {});
  }
  return out;
}

// Keeps the set of evictable leaves in step with an entry that changed.
void PrefixIndex::refresh_leaf(std::uint32_t slot) {
  Entry& e = entries_[slot];
  const bool want = n_full_ > 0 && e.parent != kNoSlot && e.children.empty() && e.busy == 0;
  if (want == e.evictable_leaf) return;
  if (want) {
    evictable_leaves_.insert(rank_of(slot));
  } else {
    evictable_leaves_.erase(rank_of(slot));
  }
  e.evictable_leaf = want;
}

PrefixIndex::Evicted PrefixIndex::evict() {
  if (evictable_leaves_.empty()) return {};
  const std::uint32_t slot = std::get<2>(*evictable_leaves_.begin());
  Evicted out{.blocks = std::move(entries_[slot].blocks), .chain = entries_[slot].chain};
  evictable_leaves_.erase(evictable_leaves_.begin());
  --n_evictable_;
  --n_nodes_;
  remove(slot);
  return out;
}

void PrefixIndex::remove(std::uint32_t slot) {
  const std::uint32_t parent = entries_[slot].parent;
  const auto [first, last] = children_.equal_range(entries_[slot].hash);
  children_.erase(std::find_if(first, last, [&](const auto& c) { return c.second == slot; }));
  auto& siblings = entries_[parent].children;
  siblings.erase(place_of(parent, entries_[slot].tokens));
  stop_expiry(slot);
  entries_[slot] = Entry{};
  free_slots_.push_back(slot);
  if (!siblings.empty()) return;
  if (entries_[parent].parent != kNoSlot) {
    refresh_leaf(parent);
    return;
  }
  roots_.erase(entries_[parent].identity);
  entries_[parent] = Entry{};
  free_slots_.push_back(parent);
}

std::uint32_t PrefixIndex::count_blocks(std::size_t group) const {
  return static_cast<std::uint32_t>(std::ranges::count_if(entries_, [&](const Entry& e) {
    return e.parent != kNoSlot && e.blocks[group] != kReleasedBlock;
  }));
}

std::string PrefixIndex::check() const {
  std::vector<std::uint32_t> n_children(entries_.size());
  std::vector<std::uint32_t> n_pinned(entries_.size());
  std::uint32_t n_nodes = 0;
  std::uint32_t n_evictable = 0;
  std::size_t n_leaves = 0;
  std::size_t n_expiring = 0;
  for (const Entry& e : entries_) {
    if (e.uid == 0 || e.parent == kNoSlot) continue;
    const bool is_pinned = e.busy > 0 || e.pinned_children > 0;
    ++n_nodes;
    ++n_children[e.parent];
    if (is_pinned) ++n_pinned[e.parent];
    if (!is_pinned) ++n_evictable;
    if (e.blocks.size() != is_window_.size()) return "a node does not name one block per group";
    for (std::size_t g = 0; g < e.blocks.size(); ++g) {
      if (!is_window_[g] && e.blocks[g] == kReleasedBlock) return "a node misses a block";
    }
    if (is_bare(e)) return "a node without block and child is left";
    if (e.evictable_leaf != (n_full_ > 0 && e.children.empty() && e.busy == 0))
      return "a leaf is not where it should be";
    n_leaves += e.evictable_leaf ? 1 : 0;
    const bool expires = e.expires_at != TimePoint{};
    n_expiring += expires ? 1 : 0;
    if (expires != (!is_pinned && e.retention.duration.count() > 0))
      return "the time of a priority does not run as it should";
  }
  const auto tokens_of = [&](std::uint32_t slot) { return std::span(entries_[slot].tokens); };
  for (std::size_t slot = 0; slot < entries_.size(); ++slot) {
    const Entry& e = entries_[slot];
    if (e.uid == 0) continue;
    if (e.children.size() != n_children[slot]) return "a child count differs from a recount";
    if (!std::ranges::is_sorted(e.children, std::ranges::lexicographical_compare, tokens_of))
      return "children are not in order";
    if (std::ranges::any_of(e.children,
                            [&](std::uint32_t c) { return entries_[c].parent != slot; }))
      return "a child names another parent";
    if (e.pinned_children != n_pinned[slot]) return "a pin count differs from a recount";
    if (e.parent == kNoSlot && e.children.empty()) return "an empty root is left";
  }
  if (n_nodes != n_nodes_ || n_nodes != children_.size())
    return "the node count differs from a recount";
  if (n_evictable != n_evictable_) return "the evictable count differs from a recount";
  if (n_expiring != expiring_.size()) return "priorities that expire differ from a recount";
  if (n_leaves != evictable_leaves_.size()) return "the leaf set differs from a recount";
  return {};
}

}  // namespace coxswain::kvcache
