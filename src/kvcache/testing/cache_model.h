#pragma once
// CacheModel: random operations on a KvCache, compared with a naive model that keeps every prefix as a plain vector.
//
// The operations are in cache_model.cc; what the index should hold, and what should go first, in cache_model_index.cc.
//
// Thread rule: one thread.

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdint>
#include <map>
#include <optional>
#include <random>
#include <set>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "kvcache/kv_cache.h"

namespace coxswain::kvcache::testing {

using Tokens = std::vector<TokenId>;
using Key = std::pair<std::string, Tokens>;  // identity, all tokens up to the end of a block

struct Holder {
  std::uint32_t block_tokens = 0;
  std::string identity;
  Tokens tokens;
  std::uint32_t computed = 0;
  std::uint64_t last_step = 0;
  // Of what it has published: blocks, and the node of the last one.
  std::uint32_t n_published = 0;
  std::uint64_t cursor = 0;
  // Still to be copied into its next block, per group; empty if nothing is.
  std::vector<BlockId> sources;
  Retention retention;
  KvLease lease;

  RetentionRule rule() const { return {.retention = &retention, .n_prompt = 8}; }
  Key begin(std::uint32_t n_tokens) const {
    return {identity, Tokens(tokens.begin(), tokens.begin() + n_tokens)};
  }
  Key key(std::uint32_t block) const { return begin((block + 1) * block_tokens); }
};

inline bool begins_with(const Key& key, const Key& start) {
  return key.first == start.first && key.second.size() >= start.second.size() &&
         std::equal(start.second.begin(), start.second.end(), key.second.begin());
}

class CacheModel {
 public:
  CacheModel(std::uint64_t seed,
             std::uint32_t block_tokens,
             const std::vector<KvGroupOptions>& groups)
      : rng_(seed),
        block_(block_tokens),
        groups_(groups),
        cache_({.block_tokens = block_tokens,
                .groups = groups,
                .partial_reuse = true,
                .hash_key = {seed, 5}}),
        content_(groups.size()),
        busy_until_(groups.size()),
        rest_(groups.size()) {}

  void step();
  void finish();
  std::uint64_t n_hits() const { return n_hits_; }
  std::uint64_t n_evicted() const { return n_evicted_; }
  std::uint64_t n_refused() const { return n_refused_; }
  std::uint64_t n_shortened() const { return n_shortened_; }
  std::uint64_t n_refilled() const { return n_refilled_; }
  std::uint64_t n_remembered() const { return n_remembered_; }
  std::uint64_t n_parts() const { return n_parts_; }
  std::uint64_t n_forks() const { return n_forks_; }
  std::uint64_t n_imported() const { return n_imported_; }  // blocks
  std::uint64_t n_expired() const { return n_expired_; }

 private:
  struct Node {
    std::uint64_t id = 0;
    std::vector<BlockId> blocks;  // per group, kReleasedBlock: none
    bool shared = false;
    std::uint64_t released_at = 0;  // when it was last pinned
    std::uint32_t priority = kRetentionPriorityDefault;
    std::uint64_t duration = 0;    // in operations; 0: for good
    std::uint64_t expires_at = 0;  // 0: not while it is pinned, or never
  };
  // Somebody who has not opened yet.
  struct Waiter {
    std::string identity;
    Tokens tokens;
    PrefixMemo memo;
  };
  // A cached block of a window group.
  struct Rest {
    std::uint32_t priority = kRetentionPriorityDefault;  // as it goes
    bool evict_first = false;
    std::uint64_t since = 0;
  };

  std::uint64_t pick(std::uint64_t n) { return rng_() % n; }
  bool is_window(std::size_t g) const { return groups_[g].window_tokens > 0; }
  bool all_windows() const {
    return std::ranges::all_of(groups_, [](const auto& g) { return g.window_tokens > 0; });
  }
  // Whether the position behind n blocks sees a position of block i.
  bool sees(std::size_t g, std::uint32_t n, std::uint32_t i) const {
    return !is_window(g) || i * block_ < groups_[g].sink_tokens ||
           (i + 1) * block_ + groups_[g].window_tokens > n * block_ + 1;
  }
  bool usable(const Holder& h, std::uint32_t n) const;

  TimePoint time() const { return TimePoint(std::chrono::milliseconds(1000 + now_)); }

  Retention retention();
  void expire();
  void retain(const Holder& h, std::uint32_t i);

  // What a memo knows from before must still be so. Its owner may have got more tokens meanwhile.
  void look(Waiter& w) {
    if (w.tokens.size() < 20 && pick(8) == 0) w.tokens.push_back(static_cast<TokenId>(pick(2)));
    n_remembered_ += w.memo.path.size();
    ASSERT_EQ(cache_.probe(w.identity, w.tokens, w.memo), cache_.probe(w.identity, w.tokens));
  }

  void open();

  struct Part {
    std::uint32_t n_tokens = 0;
    std::vector<BlockId> blocks;
  };
  Part part_behind(const Holder& h, std::uint32_t n) const;
  void fork();
  void copy(Holder& h);
  void compute();
  void import();
  void slide(Holder& h);

  const Node* node_of(std::size_t g, BlockId id) const;

  void dropped(const Holder& h, std::size_t g, BlockId id, bool evict_first) {
    busy_until_[g][id] = std::max(busy_until_[g][id], h.last_step);
    rest_[g][id] = {.evict_first = evict_first, .since = 0};
  }

  // Its priority was set anew. One that a step still names comes to rest later.
  void rested_again(std::size_t g, BlockId id, bool evict_first) {
    rest_[g][id] = {.evict_first = evict_first, .since = busy(g, id) ? 0 : now_};
  }

  bool busy(std::size_t g, BlockId id) const {
    if (busy_until_[g].contains(id) && busy_until_[g].at(id) > retired_) return true;
    return std::ranges::any_of(holders_, [&](const Holder& h) { return names(h, g, id); });
  }
  static bool names(const Holder& h, std::size_t g, BlockId id) {
    return std::ranges::count(h.lease.table(g), id) > 0 ||
           (!h.sources.empty() && h.sources[g] == id);
  }

  void expect_exclusive(const Holder& owner, std::size_t g, BlockId id) const;
  void publish(Holder& h);
  bool held(const Key& start) const;

  void forget_evicted(const Holder& h, std::uint32_t before, std::uint32_t n_nodes);

  bool goes_in_order(const std::map<Key, Node>& nodes, const std::set<Key>& gone);

  static bool has_block(const Node& node) {
    return std::ranges::any_of(node.blocks, [](BlockId id) { return id != kReleasedBlock; });
  }

  // Not noted yet: since this operation.
  std::uint64_t since(const Rest& rest) const { return rest.since == 0 ? now_ : rest.since; }

  void forget_window_blocks(std::size_t g, const std::set<BlockId>& given);
  void close();
  void submit();

  void retire() {
    if (retired_ < submitted_) cache_.retire(++retired_);
  }

  void compare_counts();

  std::mt19937_64 rng_;
  const std::uint32_t block_;
  const std::vector<KvGroupOptions> groups_;
  KvCache cache_;
  std::vector<Holder> holders_;
  std::array<Waiter, 3> waiters_;
  std::map<Key, Node> index_;
  std::map<Key, bool> held_;  // pinned after the last operation
  // Per group:
  std::vector<std::map<BlockId, Key>> content_;
  std::vector<std::map<BlockId, std::uint64_t>> busy_until_;
  std::vector<std::map<BlockId, Rest>> rest_;
  std::uint64_t submitted_ = 0;
  std::uint64_t retired_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t next_node_ = 0;
  std::uint64_t n_hits_ = 0;
  std::uint64_t n_evicted_ = 0;
  std::uint64_t n_refused_ = 0;
  std::uint64_t n_shortened_ = 0;
  std::uint64_t n_refilled_ = 0;
  std::uint64_t n_remembered_ = 0;
  std::uint64_t n_parts_ = 0;
  std::uint64_t n_forks_ = 0;
  std::uint64_t n_imported_ = 0;
  std::uint64_t n_expired_ = 0;
};

}  // namespace coxswain::kvcache::testing
