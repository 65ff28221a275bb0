// Random operations on a KvCache against a naive model that keeps every prefix as a plain vector.

#include <algorithm>
#include <array>
#include <map>
#include <optional>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "kvcache/kv_cache.h"

namespace coxswain::kvcache {
namespace {

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

bool begins_with(const Key& key, const Key& start) {
  return key.first == start.first && key.second.size() >= start.second.size() &&
         std::equal(start.second.begin(), start.second.end(), key.second.begin());
}

class Model {
 public:
  Model(std::uint64_t seed, std::uint32_t block_tokens, const std::vector<KvGroupOptions>& groups)
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

  void step() {
    ++now_;
    cache_.advance(time());
    expire();
    switch (pick(9)) {
      case 0:
      case 1:
        open();
        break;
      case 2:
      case 3:
      case 4:
        extend();
        break;
      case 5:
        close();
        break;
      case 6:
        submit();
        break;
      case 7:
        fork();
        break;
      default:
        retire();
        break;
    }
    ASSERT_EQ(cache_.check(), "");
    compare_counts();
    look(waiters_[pick(waiters_.size())]);
  }

  void finish() {
    holders_.clear();
    cache_.retire(submitted_);
    retired_ = submitted_;
    ASSERT_EQ(cache_.check(), "");
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      EXPECT_EQ(cache_.counts(g).leased, 0U);
      EXPECT_EQ(cache_.counts(g).retiring, 0U);
      EXPECT_EQ(cache_.available(g), cache_.counts(g).total);
    }
  }
  std::uint64_t n_hits() const { return n_hits_; }
  std::uint64_t n_evicted() const { return n_evicted_; }
  std::uint64_t n_refused() const { return n_refused_; }
  std::uint64_t n_shortened() const { return n_shortened_; }
  std::uint64_t n_refilled() const { return n_refilled_; }
  std::uint64_t n_remembered() const { return n_remembered_; }
  std::uint64_t n_parts() const { return n_parts_; }
  std::uint64_t n_forks() const { return n_forks_; }
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
  // Positions p - window + 1 to p - 1, seen from the position p behind n blocks.
  std::uint32_t n_seen(std::size_t g, std::uint32_t n) const {
    if (!is_window(g)) return n;
    std::uint32_t seen = 0;
    while (seen < n && (seen == 0 ? groups_[g].window_tokens > 1
                                  : seen * block_ < groups_[g].window_tokens - 1))
      ++seen;
    return seen;
  }
  bool usable(const Holder& h, std::uint32_t n) const {
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::uint32_t i = n - n_seen(g, n); i < n; ++i) {
        if (index_.at(h.key(i)).blocks[g] == kReleasedBlock) return false;
      }
    }
    return true;
  }

  TimePoint time() const { return TimePoint(std::chrono::milliseconds(1000 + now_)); }

  // A few ranges, priorities and times.
  Retention retention() {
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

  void expire() {
    for (auto& [key, node] : index_) {
      if (node.expires_at == 0 || node.expires_at > now_) continue;
      node.priority = kRetentionPriorityDefault;
      node.duration = node.expires_at = 0;
      ++n_expired_;
      for (std::size_t g = 0; g < groups_.size(); ++g) {
        if (node.blocks[g] != kReleasedBlock && rest_[g].contains(node.blocks[g]))
          rest_[g][node.blocks[g]] = {.evict_first = true, .since = now_};
      }
    }
  }

  // As the holder's request says of block i.
  void retain(const Holder& h, std::uint32_t i) {
    Node& node = index_.at(h.key(i));
    const auto said = h.rule().at(i * block_);
    if (!said) return;
    node.priority = said->priority;
    node.duration = static_cast<std::uint64_t>(said->duration.count());
    const bool pinned = !all_windows() && held(h.key(i));
    node.expires_at = pinned || node.duration == 0 ? 0 : now_ + node.duration;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (node.blocks[g] != kReleasedBlock && rest_[g].contains(node.blocks[g]))
        rest_[g][node.blocks[g]] = {.evict_first = false, .since = now_};
    }
  }

  // What a memo knows from before must still be so. Its owner may have got more tokens meanwhile.
  void look(Waiter& w) {
    if (w.tokens.size() < 20 && pick(8) == 0) w.tokens.push_back(static_cast<TokenId>(pick(2)));
    n_remembered_ += w.memo.path.size();
    ASSERT_EQ(cache_.probe(w.identity, w.tokens, w.memo), cache_.probe(w.identity, w.tokens));
  }

  void open() {
    if (holders_.size() >= 6) return;
    Waiter fresh;
    fresh.identity = pick(4) == 0 ? "b" : "a";
    for (std::uint64_t i = 1 + pick(14); i > 0; --i)
      fresh.tokens.push_back(static_cast<TokenId>(pick(2)));
    std::swap(fresh, waiters_[pick(waiters_.size())]);
    if (fresh.tokens.empty()) return;
    Holder h;
    h.block_tokens = block_;
    h.identity = fresh.identity;
    h.tokens = fresh.tokens;
    std::uint32_t depth = 0;
    std::uint32_t expected = 0;
    while ((depth + 1) * block_ < h.tokens.size() && index_.contains(h.key(depth))) {
      ++depth;
      if (usable(h, depth)) expected = depth;
    }
    n_shortened_ += expected < depth ? 1 : 0;
    const PrefixProbe probe = cache_.probe(h.identity, h.tokens);
    ASSERT_EQ(probe.n_blocks, expected);
    const bool use_partial = pick(8) > 0;
    const Part part = part_behind(h, expected);
    ASSERT_EQ(probe.n_partial, part.n_tokens);
    std::vector<std::uint32_t> available;
    for (std::size_t g = 0; g < groups_.size(); ++g) available.push_back(cache_.available(g));
    h.retention = retention();
    h.lease = cache_.open(h.identity, h.tokens, true, std::move(fresh.memo), use_partial, h.rule());
    ASSERT_EQ(h.lease.n_blocks(), expected);
    ASSERT_EQ(h.lease.n_partial(), use_partial ? part.n_tokens : 0);
    if (h.lease.n_partial() > 0) h.sources = part.blocks;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (expected > 0) {
        EXPECT_EQ(probe.n_held[g], n_seen(g, expected));
      }
      EXPECT_EQ(
          (expected > 0 ? probe.n_taken[g] : 0) + (h.lease.n_partial() > 0 ? probe.n_copied[g] : 0),
          available[g] - cache_.available(g));
      if (!h.sources.empty()) rest_[g].erase(h.sources[g]);
      for (std::uint32_t i = 0; i < expected; ++i) {
        const BlockId id = h.lease.table(g)[i];
        ASSERT_EQ(id == kReleasedBlock, i < expected - n_seen(g, expected));
        if (id == kReleasedBlock) continue;
        ASSERT_EQ(content_[g].at(id), h.key(i)) << "a prefix hit with other content";
        rest_[g].erase(id);
      }
    }
    for (std::uint32_t i = 0; i < expected; ++i) index_[h.key(i)].shared = true;
    n_hits_ += expected;
    h.computed = expected * block_ + h.lease.n_partial();
    n_parts_ += h.lease.n_partial();
    h.n_published = expected;
    if (expected > 0) h.cursor = index_[h.key(expected - 1)].id;
    holders_.push_back(std::move(h));
    for (std::uint32_t i = 0; i < expected; ++i) retain(holders_.back(), i);
  }

  struct Part {
    std::uint32_t n_tokens = 0;
    std::vector<BlockId> blocks;
  };
  // Of the nodes behind n blocks of h, the one that begins most alike; of its neighbours in order, the greater one.
  Part part_behind(const Holder& h, std::uint32_t n) const {
    const std::size_t first = std::size_t{n} * block_;
    if (h.tokens.size() < first + 2) return {};
    const std::size_t end = std::min<std::size_t>(h.tokens.size() - 1, first + block_ - 1);
    const Key query = h.begin(static_cast<std::uint32_t>(end));
    std::size_t most = 0;
    std::size_t found = 0;
    const Node* node = nullptr;
    for (const auto& [key, candidate] : index_) {
      if (key.second.size() != first + block_ || !begins_with(key, h.begin(n * block_))) continue;
      const auto n_alike = static_cast<std::size_t>(
          std::ranges::mismatch(key.second, query.second).in1 - key.second.begin());
      most = std::max(most, n_alike);
      if (n_alike <= first || (key > query && n_alike <= found)) continue;
      node = &candidate;
      found = n_alike;
      if (key > query) break;
    }
    EXPECT_TRUE(node == nullptr ? most <= first : found == most) << "not the longest part";
    if (node == nullptr) return {};
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      if (groups_[g].window_tokens != 1 && node->blocks[g] == kReleasedBlock) return {};
    }
    return {.n_tokens = static_cast<std::uint32_t>(found - first), .blocks = node->blocks};
  }

  // A second sequence that begins as another one, somewhere in what that has computed.
  void fork() {
    if (holders_.empty() || holders_.size() >= 6) return;
    const Holder& source = holders_[pick(holders_.size())];
    if (source.computed == 0 || !source.sources.empty()) return;
    const auto n_tokens =
        pick(2) == 0 ? source.computed : static_cast<std::uint32_t>(1 + pick(source.computed));
    const std::uint32_t n_whole = n_tokens / block_;
    bool there = true;
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::uint32_t p = 0; p < n_tokens; ++p) {
        const bool seen = !is_window(g) || p + groups_[g].window_tokens > n_tokens;
        there &= !seen || source.lease.table(g)[p / block_] != kReleasedBlock;
      }
    }
    Holder h;
    h.block_tokens = block_;
    h.identity = source.identity;
    h.retention = source.retention;
    h.tokens.assign(source.tokens.begin(), source.tokens.begin() + n_tokens);
    h.lease = cache_.fork(source.lease, n_tokens);
    ASSERT_EQ(static_cast<bool>(h.lease), there);
    if (!there) return;
    h.computed = n_tokens;
    if (source.n_published <= n_whole) {
      h.n_published = source.n_published;
      h.cursor = source.cursor;
    }
    ASSERT_EQ(h.lease.n_blocks(), n_whole);
    ASSERT_EQ(h.lease.n_partial(), n_tokens % block_);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::uint32_t i = 0; i < n_whole; ++i) {
        ASSERT_EQ(h.lease.table(g)[i], source.lease.table(g)[i]);
        for (auto& [key, node] : index_)
          node.shared |= node.blocks[g] != kReleasedBlock && node.blocks[g] == h.lease.table(g)[i];
      }
      if (n_tokens % block_ != 0) h.sources.push_back(source.lease.table(g)[n_whole]);
    }
    ++n_forks_;
    holders_.push_back(std::move(h));
  }

  // What the lease has copied is the beginning of the block that it goes on with.
  void copy(Holder& h) {
    const std::uint64_t step = h.sources.empty() ? submitted_ : ++submitted_;
    const std::vector<BlockCopy> copies = cache_.take_copies(h.lease, step);
    ASSERT_EQ(h.lease.n_partial(), 0U);
    std::size_t n = 0;
    for (std::size_t g = 0; g < h.sources.size(); ++g) {
      const BlockId from = h.sources[g];
      if (from == kReleasedBlock) continue;
      const BlockId to = h.lease.table(g)[h.computed / block_];
      ASSERT_LT(n, copies.size());
      ASSERT_EQ(copies[n++], (BlockCopy{static_cast<std::uint32_t>(g), from, to}));
      ASSERT_TRUE(begins_with(content_[g].at(from), h.begin(h.computed))) << "another content";
      content_[g][to] = h.begin(h.computed);
      busy_until_[g][from] = std::max(busy_until_[g][from], step);
      rest_[g][from] = {.evict_first = false, .since = 0};
    }
    ASSERT_EQ(n, copies.size());
    h.sources.clear();
  }

  // Computes a few tokens more: gives back what has left the window, grows the table, writes, publishes.
  void extend() {
    if (holders_.empty()) return;
    Holder& h = holders_[pick(holders_.size())];
    while (h.tokens.size() <= h.computed || pick(3) == 0)
      h.tokens.push_back(static_cast<TokenId>(pick(2)));
    const auto end =
        static_cast<std::uint32_t>(h.computed + 1 + pick(h.tokens.size() - h.computed));
    slide(h);
    const std::uint32_t before = h.lease.n_blocks();
    const std::uint32_t need = std::max(before, cache_.blocks_for(end)) - before;
    bool fits = true;
    std::uint32_t n_nodes = 0;  // to evict
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      fits &= need <= cache_.available(g);
      const std::uint32_t free = cache_.counts(g).free;
      if (!is_window(g) && need > free) n_nodes = std::max(n_nodes, need - free);
    }
    const Status status = cache_.grow(h.lease, cache_.blocks_for(end));
    ASSERT_EQ(status.ok(), fits);
    if (!fits) {
      ++n_refused_;
      return;
    }
    forget_evicted(h, before, n_nodes);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::uint32_t i = before; i < h.lease.n_blocks(); ++i)
        expect_exclusive(h, g, h.lease.table(g)[i]);
    }
    copy(h);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::uint32_t i = h.computed / block_; i * block_ < end; ++i)
        content_[g][h.lease.table(g)[i]] = h.begin(std::min(end, (i + 1) * block_));
    }
    h.computed = end;
    cache_.publish(h.lease, std::span(h.tokens).first(end), h.rule());
    publish(h);
    ASSERT_EQ(h.lease.n_published(), h.n_published);
  }

  void slide(Holder& h) {
    std::vector<std::vector<BlockId>> tables;
    for (std::size_t g = 0; g < groups_.size(); ++g)
      tables.emplace_back(h.lease.table(g).begin(), h.lease.table(g).end());
    cache_.release_before(h.lease, h.computed, h.computed);
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (std::uint32_t i = 0; i < h.lease.n_blocks(); ++i) {
        const bool out =
            is_window(g) && (i + 1) * block_ + groups_[g].window_tokens <= h.computed + 1;
        ASSERT_EQ(h.lease.table(g)[i], out ? kReleasedBlock : tables[g][i]);
        if (!out || tables[g][i] == kReleasedBlock) continue;
        const Node* node = node_of(g, tables[g][i]);
        dropped(h, g, tables[g][i], node != nullptr && !node->shared);
      }
    }
  }

  const Node* node_of(std::size_t g, BlockId id) const {
    for (const auto& [key, node] : index_) {
      if (node.blocks[g] == id) return &node;
    }
    return nullptr;
  }

  void dropped(const Holder& h, std::size_t g, BlockId id, bool evict_first) {
    busy_until_[g][id] = std::max(busy_until_[g][id], h.last_step);
    rest_[g][id] = {.evict_first = evict_first, .since = 0};
  }

  bool busy(std::size_t g, BlockId id) const {
    if (busy_until_[g].contains(id) && busy_until_[g].at(id) > retired_) return true;
    return std::ranges::any_of(holders_, [&](const Holder& h) { return names(h, g, id); });
  }
  static bool names(const Holder& h, std::size_t g, BlockId id) {
    return std::ranges::count(h.lease.table(g), id) > 0 ||
           (!h.sources.empty() && h.sources[g] == id);
  }

  void expect_exclusive(const Holder& owner, std::size_t g, BlockId id) const {
    for (const Holder& h : holders_) {
      if (&h == &owner) continue;
      EXPECT_FALSE(names(h, g, id)) << "two sequences would write a block";
    }
    EXPECT_FALSE(busy_until_[g].contains(id) && busy_until_[g].at(id) > retired_)
        << "a retiring block was handed out";
    EXPECT_EQ(node_of(g, id), nullptr) << "a cached block was handed out";
  }

  // The index learns what h has computed: a node for each block, and blocks of window groups that nodes miss.
  void publish(Holder& h) {
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
  bool held(const Key& start) const {
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
  void forget_evicted(const Holder& h, std::uint32_t before, std::uint32_t n_nodes) {
    std::vector<std::set<BlockId>> given(groups_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      const auto table = h.lease.table(g);
      given[g].insert(table.begin() + before, table.end());
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
  bool goes_in_order(const std::map<Key, Node>& nodes, const std::set<Key>& gone) {
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

  static bool has_block(const Node& node) {
    return std::ranges::any_of(node.blocks, [](BlockId id) { return id != kReleasedBlock; });
  }

  // Not noted yet: since this operation.
  std::uint64_t since(const Rest& rest) const { return rest.since == 0 ? now_ : rest.since; }

  // Those that left the window of their only sequence go first, the others by last use.
  void forget_window_blocks(std::size_t g, const std::set<BlockId>& given) {
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

  void close() {
    if (holders_.empty()) return;
    const std::size_t i = pick(holders_.size());
    for (std::size_t g = 0; g < groups_.size(); ++g) {
      for (const BlockId id : holders_[i].lease.table(g)) {
        if (id != kReleasedBlock) dropped(holders_[i], g, id, false);
      }
      const auto& sources = holders_[i].sources;
      if (!sources.empty() && sources[g] != kReleasedBlock)
        dropped(holders_[i], g, sources[g], false);
    }
    std::swap(holders_[i], holders_.back());
    holders_.pop_back();
  }

  void submit() {
    if (submitted_ - retired_ >= 2) return;
    ++submitted_;
    for (Holder& h : holders_) {
      if (pick(2) == 0) continue;
      h.lease.mark_used(submitted_);
      h.last_step = submitted_;
    }
  }

  void retire() {
    if (retired_ < submitted_) cache_.retire(++retired_);
  }

  // Leased and retiring by recount; remembers since when each node and each block is unused.
  void compare_counts() {
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
  std::uint64_t n_expired_ = 0;
};

TEST(KvCacheRandom, AgreesWithTheNaiveModel) {
  const std::vector<std::vector<KvGroupOptions>> shapes = {
      {{.n_blocks = 17}, {.n_blocks = 20}},
      {{.n_blocks = 24}, {.n_blocks = 14, .window_tokens = 5}},
      {{.n_blocks = 17}, {.n_blocks = 24, .window_tokens = 6}, {.n_blocks = 9, .window_tokens = 1}},
      {{.n_blocks = 16, .window_tokens = 5}},
      {{.n_blocks = 16, .window_tokens = 4}, {.n_blocks = 14, .window_tokens = 2}}};
  std::uint64_t n_shortened = 0;
  std::uint64_t n_refilled = 0;
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    const auto& groups = shapes[seed % shapes.size()];
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed, seed % 2 == 0 ? 4 : 2, groups);
    for (int i = 0; i < 5'000; ++i) {
      ASSERT_NO_FATAL_FAILURE(model.step()) << "operation " << i;
      if (HasFailure()) return;
    }
    model.finish();
    EXPECT_GT(model.n_hits(), 20U);
    EXPECT_GT(model.n_evicted(), 100U);
    EXPECT_GT(model.n_refused(), 10U);
    EXPECT_GT(model.n_remembered(), 20U);
    EXPECT_GT(model.n_parts(), 20U);
    EXPECT_GT(model.n_forks(), 20U);
    EXPECT_GT(model.n_expired(), 20U);
    n_shortened += model.n_shortened();
    n_refilled += model.n_refilled();
  }
  EXPECT_GT(n_shortened, 100U);
  EXPECT_GT(n_refilled, 100U);
}

}  // namespace
}  // namespace coxswain::kvcache
