#pragma once
// KvCache: which sequence holds which KV blocks, and which prefixes are there to be used again.
// Accounting only: ids, never bytes.
//
// A sequence holds a KvLease: one block table per KV group. Tables grow by whole blocks of
// block_tokens positions, in all groups or in none. When a block is computed in full the owner
// publishes it; other sequences then share it. A shared block is never written: a sequence writes
// only behind its prefix, and a prefix is whole blocks only. A lease that ends while submitted
// steps still name its blocks leaves them retiring until retire(step).
//
// Groups with a window give blocks back once every position in them has left the window (the table entry becomes
// kReleasedBlock), but for those at the front that hold sink tokens, which every position sees. What was published
// stays cached there as long as nobody needs the room, and is evicted block by block, by priority: first those that
// left the window of the only sequence that had them, the one that left last, then by last use.
// So a prefix can be used up to any block where every window group still has the blocks that the next position sees.
// Blocks of sink tokens are cached and evicted as the others; a sequence gives them back last.
//
// Of the block behind a prefix a sequence may share the beginning only: it gets a block of its own, into which the
// shared one is copied before its first row runs (take_copies), and computes the rest. fork() gives a second sequence
// what a first one holds in the same way.
//
// Thread rule: one engine thread. The cache outlives its leases.

#include <algorithm>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include <coxswain/kv_events.h>
#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/keyed_hash.h"
#include "base/numbers.h"
#include "kvcache/block_pool.h"
#include "kvcache/prefix_index.h"

namespace coxswain::kvcache {

struct KvGroupOptions {
  std::uint32_t n_blocks = 0;       // that may be leased: ids 1..n_blocks
  std::uint32_t window_tokens = 0;  // 0 = every position is kept
  std::uint32_t sink_tokens = 0;    // beside a window: the first positions, which are kept
};

struct KvCacheOptions {
  std::uint32_t block_tokens = 16;  // a power of two
  std::vector<KvGroupOptions> groups = {};
  bool prefix_caching = true;
  bool partial_reuse = false;  // of a part of a block: whoever computes can copy blocks
  bool events = false;         // take_events()
  std::vector<std::uint32_t> tier_blocks = {};  // KvEvent::tier_blocks
  base::HashKey hash_key{};                     // secret, drawn once per process
};

// A block, as its events have it, that a level behind the cache has, or has no longer.
struct TierNote {
  std::uint64_t hash = 0;
  std::uint64_t parent = 0;
  std::span<const TokenId> tokens = {};
  std::uint32_t priority = 0;
  std::uint32_t groups = 0;  // of which it is there: a bit for each
  std::uint32_t level = 0;   // 0: in none
};

// Keys and values of block `from` go to block `to`, both of one group.
struct BlockCopy {
  std::uint32_t group = 0;
  BlockId from = 0;
  BlockId to = 0;

  friend bool operator==(const BlockCopy&, const BlockCopy&) = default;
};

class KvCache;

// What one sequence holds. Move-only; destroying it gives everything back.
class KvLease {
 public:
  KvLease() = default;
  KvLease(KvLease&& other) noexcept;
  KvLease& operator=(KvLease&& other) noexcept;
  KvLease(const KvLease&) = delete;
  KvLease& operator=(const KvLease&) = delete;
  ~KvLease() { reset(); }

  explicit operator bool() const { return cache_ != nullptr; }
  void reset();

  // [n_blocks()], entries of a window group may be kReleasedBlock.
  std::span<const BlockId> table(std::size_t group) const { return tables_[group]; }
  std::uint32_t n_blocks() const {
    return static_cast<std::uint32_t>(tables_.empty() ? 0 : tables_[0].size());
  }
  std::uint32_t n_published() const { return n_published_; }
  // Positions behind the table that the next block brings with it: it is to be copied, in part (take_copies).
  std::uint32_t n_partial() const { return partial_.n_tokens; }
  // Blocks of `group` that have left the window: entries [released_end - n_released, released_end) of the table.
  std::uint32_t n_released(std::size_t group) const { return n_released_[group]; }
  std::uint32_t released_end(std::size_t group) const;
  // Of the first n blocks, those that are held.
  std::uint32_t n_held(std::size_t group, std::uint32_t n) const;

  // A plan that names these blocks is about to be submitted.
  void mark_used(std::uint64_t step) { last_step_ = step; }

 private:
  friend class KvCache;
  KvCache* cache_ = nullptr;
  std::vector<std::vector<BlockId>> tables_;  // per group
  std::vector<std::uint32_t> n_released_;     // per group
  std::string identity_;
  PrefixIndex::Node cursor_;  // the node of block n_published_ - 1, or none
  // Blocks at the front that the index has (this one or an equal one).
  std::uint32_t n_published_ = 0;
  std::uint64_t last_step_ = 0;
  // What is still to be copied into block `index`. The lease holds the sources until then.
  struct Partial {
    std::uint32_t index = 0;
    std::uint32_t n_tokens = 0;         // 0: nothing
    std::vector<BlockId> sources = {};  // per group; kReleasedBlock: none is needed
  };
  Partial partial_;
};

// What the index could give a new sequence, without taking it.
struct PrefixProbe {
  std::uint32_t n_blocks = 0;
  // Per group, empty for n_blocks == 0: blocks that the lease would hold, and by how many it lowers available().
  std::vector<std::uint32_t> n_held = {};
  std::vector<std::uint32_t> n_taken = {};
  // Of the block behind them, how many tokens a copy would give, and by how much it lowers available() per group until
  // it is done. Empty for n_partial == 0.
  std::uint32_t n_partial = 0;
  std::vector<std::uint32_t> n_copied = {};
  std::uint64_t next_key = 0;  // of the first whole block behind it; 0 if there is none

  friend bool operator==(const PrefixProbe&, const PrefixProbe&) = default;
};

// What somebody who waits remembers of his prefix from one look to the next: the nodes that were there. Only leaves
// are evicted, so all up to the last one that is still there are right. For one cache, one identity, and tokens that
// at most grow.
struct PrefixMemo {
  std::vector<PrefixIndex::Node> path = {};
};

class KvCache {
 public:
  explicit KvCache(const KvCacheOptions& options);
  KvCache(const KvCache&) = delete;
  KvCache& operator=(const KvCache&) = delete;

  std::uint32_t block_tokens() const { return block_tokens_; }
  std::size_t n_groups() const { return pools_.size(); }
  std::uint32_t window_tokens(std::size_t group) const { return windows_[group]; }
  KvGroupOptions group_options(std::size_t group) const {
    return {.n_blocks = pools_[group].counts().total,
            .window_tokens = windows_[group],
            .sink_tokens = sink_tokens_[group]};
  }
  bool prefix_caching() const { return prefix_caching_; }
  // The position behind a prefix of n_blocks sees the blocks of sink tokens and those from here on.
  std::uint32_t seen_from(std::size_t group, std::uint32_t n_blocks) const {
    if (windows_[group] == 0) return 0;
    const std::uint32_t n = base::ceil_div(windows_[group] - 1, block_tokens_);
    return std::max(n_blocks - std::min(n_blocks, n), std::min(n_blocks, n_sinks(group)));
  }
  // Blocks of sink tokens, which stay beside the window; of a group that keeps every position 0.
  std::uint32_t n_sinks(std::size_t group) const {
    return base::ceil_div(sink_tokens_[group], block_tokens_);
  }
  std::uint32_t blocks_for(std::uint32_t n_tokens) const {
    return base::ceil_div(n_tokens, block_tokens_);
  }

  // The longest cached prefix of `tokens` that can be used and leaves at least one token to compute.
  // What `memo` has is not looked up again.
  PrefixProbe probe(std::string_view identity,
                    std::span<const TokenId> tokens,
                    PrefixMemo& memo) const;
  PrefixProbe probe(std::string_view identity, std::span<const TokenId> tokens) const {
    PrefixMemo memo;
    return probe(identity, tokens, memo);
  }
  // A lease that starts with that prefix (`use_prefix`) or with nothing. Without `use_partial` whole blocks only.
  KvLease open(std::string_view identity,
               std::span<const TokenId> tokens,
               bool use_prefix,
               PrefixMemo memo = {},
               bool use_partial = true,
               const RetentionRule& rule = {});
  // Whether no window group has given back what the position behind the first n_tokens of `source` sees.
  bool can_fork(const KvLease& source, std::uint32_t n_tokens) const;
  // A second lease on the first n_tokens positions of `source`, rows for which have been submitted: it shares their
  // whole blocks, and the last one, if it is a part, is to be copied. Takes no block. No lease unless can_fork().
  KvLease fork(const KvLease& source, std::uint32_t n_tokens);
  // What step `step` copies before its rows run, one after the other, so that n_partial() positions are there. Once;
  // nothing if there is nothing to copy. REQUIRES: grown by the block.
  std::vector<BlockCopy> take_copies(KvLease& lease, std::uint64_t step);
  // Key of the block that `lease` will publish next, as in PrefixProbe. REQUIRES: that block is
  // whole in `tokens`.
  std::uint64_t next_key(const KvLease& lease, std::span<const TokenId> tokens) const;

  // The tables get n_blocks entries, cached blocks being evicted as needed.
  // Errors: kResourceExhausted; nothing has then changed.
  Status grow(KvLease& lease, std::uint32_t n_blocks);
  // The same for blocks whose keys and values come from elsewhere (an import): window groups take only those that the
  // position behind n_blocks sees, and give back the others.
  Status extend(KvLease& lease, std::uint32_t n_blocks);
  // Gives back the last blocks: the tables keep n_blocks. Of a lease that is written no more.
  void shrink(KvLease& lease, std::uint32_t n_blocks);
  // Window groups: gives back blocks that no position >= `position` can see, those of [0, computed) alone: what is
  // not computed is not published either. True if a table changed.
  bool release_before(KvLease& lease, std::uint32_t position, std::uint32_t computed);
  // The keys and values of `computed`, all tokens of the sequence so far, are there: shares its whole blocks.
  void publish(KvLease& lease, std::span<const TokenId> computed, const RetentionRule& rule = {});
  // The time is `now`: priorities whose time is over end. There is no clock inside. In a window group such a block is
  // then the first of the default priority to go.
  void advance(TimePoint now);
  // Steps up to `step` have retired.
  void retire(std::uint64_t step);

  // What has become of cached blocks since the last call, without ids; nothing unless KvCacheOptions::events.
  bool has_events() const { return !pending_events_.empty(); }
  std::vector<KvEvent> take_events() { return std::exchange(pending_events_, {}); }
  bool makes_events() const { return events_; }
  // The hashes that events have of the whole blocks of `tokens`, behind that of the identity.
  std::vector<std::uint64_t> event_hashes(std::string_view identity,
                                          std::span<const TokenId> tokens) const;
  // What becomes of blocks behind the cache is told, too.
  void note_tier(const TierNote& note);

  // Blocks that grow() can hand out now: free ones and cached ones that can be evicted.
  std::uint32_t available(std::size_t group) const {
    const BlockPool& pool = pools_[group];
    return pool.n_free() + (windows_[group] > 0 ? pool.counts().cached : index_.n_evictable());
  }
  // Blocks that come back if `lease` ends (at once, or when steps retire).
  std::uint32_t reclaimable(const KvLease& lease, std::size_t group) const;
  // The same if all of `leases` end: what they share among themselves, too.
  std::uint32_t reclaimable(std::span<const KvLease* const> leases, std::size_t group) const;
  const BlockCounts& counts(std::size_t group) const { return pools_[group].counts(); }

  // Empty, or which invariant is broken.
  std::string check() const;

 private:
  friend class KvLease;
  void release(KvLease& lease);
  void drop(std::size_t group, BlockId id, std::uint64_t last_step, bool evict_first = false);
  Status no_room(std::size_t group, std::uint32_t n_blocks) const;
  bool evict_from(std::size_t group);
  bool evict_node();
  void forget(std::size_t group, BlockId id);
  bool has_room_for(std::uint64_t n_nodes);
  // kv_cache_events.cc; they do nothing without KvCacheOptions::events.
  KvEvent& event(KvEvent::Kind kind, std::size_t group, std::uint64_t parent = 0);
  void tell_created();
  void tell_stored(PrefixIndex::Node node, std::size_t group);
  void tell_removed(std::size_t group, std::uint64_t hash);
  void tell_updated(PrefixIndex::Node node, std::uint32_t priority_before);
  void note_tier(const TierNote& note, std::size_t group);
  // Whether the group tells of the blocks of nodes: window groups, and the first of the others for all of these.
  bool tells(std::size_t group) const;

  void retain(PrefixIndex::Node node, const RetentionRule& rule, std::uint32_t index);
  void set_priority(PrefixIndex::Node node, bool evict_first);
  void share_block(const KvLease& lease, std::size_t group, PrefixIndex::Node node);
  std::uint32_t match(std::string_view identity,
                      std::span<const TokenId> tokens,
                      PrefixMemo& memo) const;
  std::uint32_t n_usable(std::span<const PrefixIndex::Node> path) const;
  PrefixIndex::Part match_part(std::string_view identity,
                               std::span<const TokenId> tokens,
                               std::span<const PrefixIndex::Node> path) const;
  std::ptrdiff_t count_idle(std::size_t group, std::span<const PrefixIndex::Node> nodes) const;
  void hold_source(KvLease& lease, std::size_t group, BlockId id);
  void drop_sources(KvLease& lease, std::uint64_t last_step);
  PrefixIndex::Node& node_of(std::size_t group, BlockId id) { return nodes_[group][id - 1]; }
  std::span<const TokenId> block_of(std::span<const TokenId> tokens, std::uint32_t index) const {
    return tokens.subspan(std::size_t{index} * block_tokens_, block_tokens_);
  }

  const std::uint32_t block_tokens_;
  bool prefix_caching_ = false;
  bool partial_reuse_ = false;
  std::vector<std::uint32_t> windows_;      // per group
  std::vector<std::uint32_t> sink_tokens_;  // per group, 0 without a window
  std::vector<BlockPool> pools_;            // per group
  // Per group and block: the node that names it.
  std::vector<std::vector<PrefixIndex::Node>> nodes_;
  PrefixIndex index_;
  const bool events_;
  std::vector<KvEvent> pending_events_;
  // As it was told last.
  struct Told {
    bool cached = false;
    std::uint32_t level = 0;  // behind the cache; 0: in none
    std::uint32_t priority = 0;
  };
  std::vector<std::unordered_map<std::uint64_t, Told>> told_;  // per group, by hash
  const std::vector<std::uint32_t> tier_blocks_;
  // Where no group keeps its blocks nodes outlive them: at most so many.
  std::uint64_t n_nodes_max_ = 0;
};

}  // namespace coxswain::kvcache
