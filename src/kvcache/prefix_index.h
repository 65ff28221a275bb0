#pragma once
// PrefixIndex: which computed blocks hold the keys and values of which tokens.
//
// A tree for each identity (adapter, salt, rope variant, kernel set: bytes the caller composes). A
// node is one whole block of tokens after its parent's, and names one block id for each KV group.
// Two prefixes are the same only if identity and tokens are equal; a keyed hash finds candidates
// and decides nothing.
//
// Groups that keep every position hold the tree: a node names a block of each of them as long as it is there, and is
// busy while one of these is leased or retiring. It is pinned while it or a node below it is busy. Only unpinned leaves
// are evicted, by priority, then the one that became unpinned first; so heads of prefixes live longer than tails, and
// every unpinned node can be reached by evicting leaves.
//
// A priority may hold for a time: it runs while the node is unpinned (where nothing is pinned: since it was given).
//
// The block of a window group comes and goes by itself (set_block, clear_block): kReleasedBlock where there is none.
// Where all groups have windows nothing is pinned; a node goes when it has neither a block nor a child.
//
// Thread rule: one engine thread.

#include <cstdint>
#include <functional>
#include <set>
#include <span>
#include <string>
#include <string_view>
#include <tuple>
#include <unordered_map>
#include <utility>
#include <vector>

#include <coxswain/types.h>

#include "base/keyed_hash.h"
#include "kvcache/retention_rule.h"

namespace coxswain::kvcache {

class PrefixIndex {
 public:
  // Names a node; stays comparable after the node is gone (uid is never used twice).
  struct Node {
    std::uint32_t slot = 0;
    std::uint64_t uid = 0;  // 0 = none
    explicit operator bool() const { return uid != 0; }
    friend bool operator==(const Node&, const Node&) = default;
  };

  // is_window: for each KV group. With `chains` nodes have a chain().
  PrefixIndex(std::vector<bool> is_window, const base::HashKey& key, bool chains = false);

  Node find_root(std::string_view identity) const;
  Node find_child(Node parent, std::span<const TokenId> tokens) const;
  // The child of `parent` that begins as `tokens` do for longest, and for how many; no node if none begins so.
  struct Part {
    Node node;
    std::uint32_t n_tokens = 0;
  };
  Part find_part(Node parent, std::span<const TokenId> tokens) const;
  // What find_child looks up. Equal for equal children of one parent.
  std::uint64_t child_key(Node parent, std::span<const TokenId> tokens) const;
  // The same below a root that is not there yet.
  std::uint64_t first_key(std::string_view identity, std::span<const TokenId> tokens) const;

  Node root(std::string_view identity);  // creates it; a root without children must get one at once
  // A new node, busy unless all groups have windows. REQUIRES: no such child; groups without a window get their
  // blocks, which are leased, at once (set_block).
  Node insert(Node parent, std::span<const TokenId> tokens);

  bool alive(Node node) const;
  bool pinned(Node node) const { return entry(node).busy > 0 || entry(node).pinned_children > 0; }
  std::span<const BlockId> blocks(Node node) const { return entry(node).blocks; }
  // Whether a node may be put below this one: if nobody uses it, that would pin blocks that others count as free.
  bool takes_children(Node node) const { return n_full_ == 0 || pinned(node); }
  // Hashes as coxswain/kv_events.h has them: of an identity, and of the tokens of a block behind it or another.
  static std::uint64_t root_chain(std::string_view identity);
  static std::uint64_t next_chain(std::uint64_t above, std::span<const TokenId> tokens);
  // That of identity and all tokens up to the node's last. 0 without chains.
  std::uint64_t chain(Node node) const { return entry(node).chain; }
  std::uint64_t parent_chain(Node node) const { return entries_[entry(node).parent].chain; }
  std::span<const TokenId> tokens(Node node) const { return entry(node).tokens; }
  // More than one sequence has had these tokens.
  bool shared(Node node) const { return entry(node).shared; }
  void mark_shared(Node node) { entry(node).shared = true; }

  std::uint32_t priority(Node node) const { return entry(node).retention.priority; }
  void set_retention(Node node, const BlockRetention& retention);
  // The time is `now`. Those whose time is over and that have the default priority again.
  struct Expired {
    Node node;
    std::uint32_t priority_before = 0;
  };
  std::vector<Expired> expire(TimePoint now);

  // Clearing is for window groups and may remove the node, and nodes above it.
  void set_block(Node node, std::size_t group, BlockId id) { entry(node).blocks[group] = id; }
  void clear_block(Node node, std::size_t group);

  // One of the node's blocks is held or named by a step now, or is no longer. Of groups without a window.
  void add_busy(Node node);
  void drop_busy(Node node);

  std::uint32_t n_nodes() const { return n_nodes_; }          // roots not counted
  std::uint32_t n_evictable() const { return n_evictable_; }  // unpinned nodes
  // Takes out the leaf of the lowest priority, of these the one that has been unpinned longest; its blocks, one per
  // group, and its chain. Empty if all are pinned. REQUIRES: a group without a window.
  struct Evicted {
    std::vector<BlockId> blocks;
    std::uint64_t chain = 0;
  };
  Evicted evict();

  std::uint32_t count_blocks(std::size_t group) const;  // counts anew
  // Empty, or what is wrong.
  std::string check() const;

 private:
  static constexpr std::uint32_t kNoSlot = 0xFFFFFFFFU;
  struct Entry {
    std::uint64_t uid = 0;
    std::uint32_t parent = kNoSlot;
    std::uint32_t pinned_children = 0;
    std::uint32_t busy = 0;  // blocks of groups without a window in use
    std::uint64_t unpinned_at = 0;
    std::uint64_t hash = 0;
    std::uint64_t chain = 0;
    BlockRetention retention;
    TimePoint expires_at{};  // in expiring_ if it is not the default
    bool evictable_leaf = false;
    bool shared = false;
    std::vector<TokenId> tokens;
    std::vector<BlockId> blocks;
    std::vector<std::uint32_t> children;  // slots, in the order of their tokens
    std::string identity;                 // roots only
  };
  Entry& entry(Node node) { return entries_[node.slot]; }
  const Entry& entry(Node node) const { return entries_[node.slot]; }
  std::uint32_t new_slot();
  void pin_upwards(std::uint32_t slot);
  void unpin_upwards(std::uint32_t slot);
  void refresh_leaf(std::uint32_t slot);
  void note_unpinned(std::uint32_t slot);
  void start_expiry(std::uint32_t slot);
  void stop_expiry(std::uint32_t slot);
  void remove(std::uint32_t slot);
  // Of the children of `parent`, the first whose tokens are not less.
  std::vector<std::uint32_t>::const_iterator place_of(std::uint32_t parent,
                                                      std::span<const TokenId> tokens) const;

  bool is_bare(const Entry& e) const;

  const std::vector<bool> is_window_;  // per group
  const std::uint32_t n_full_;         // groups without a window
  const base::HashKey key_;
  const bool chains_;
  std::vector<Entry> entries_;
  std::vector<std::uint32_t> free_slots_;
  struct HashText {
    using is_transparent = void;
    std::size_t operator()(std::string_view text) const {
      return std::hash<std::string_view>()(text);
    }
  };
  std::unordered_map<std::string, std::uint32_t, HashText, std::equal_to<>> roots_;
  std::unordered_multimap<std::uint64_t, std::uint32_t> children_;  // child_key -> slot
  using LeafRank = std::tuple<std::uint32_t, std::uint64_t, std::uint32_t>;
  LeafRank rank_of(std::uint32_t slot) const {
    return {entries_[slot].retention.priority, entries_[slot].unpinned_at, slot};
  }
  std::set<LeafRank> evictable_leaves_;                     // (priority, unpinned_at, slot)
  std::set<std::pair<TimePoint, std::uint32_t>> expiring_;  // (expires_at, slot)
  TimePoint now_{};
  std::uint64_t next_uid_ = 1;
  std::uint64_t tick_ = 0;
  std::uint32_t n_nodes_ = 0;
  std::uint32_t n_evictable_ = 0;
};

}  // namespace coxswain::kvcache
