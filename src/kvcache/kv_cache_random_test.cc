// Random operations on a KvCache against a naive model that keeps every prefix as a plain vector.

#include <algorithm>
#include <array>
#include <map>
#include <random>
#include <set>

#include <gtest/gtest.h>

#include "kvcache/kv_cache.h"

namespace coxswain::kvcache {
namespace {

using Tokens = std::vector<TokenId>;
using Key = std::pair<std::string, Tokens>;  // identity, all tokens up to the end of a block

constexpr std::uint32_t kBlock = 2;
constexpr std::size_t kGroups = 2;

struct Holder {
  std::string identity;
  Tokens tokens;
  std::uint32_t computed = 0;
  std::uint64_t last_step = 0;
  KvLease lease;

  Key key(std::uint32_t block) const {
    return {identity, Tokens(tokens.begin(), tokens.begin() + (block + 1) * kBlock)};
  }
};

class Model {
 public:
  explicit Model(std::uint64_t seed)
      : rng_(seed),
        cache_({.block_tokens = kBlock,
                .groups = {{.n_blocks = 17}, {.n_blocks = 20}},
                .hash_key = {seed, 5}}) {}

  void step() {
    ++now_;
    switch (pick(8)) {
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
      default:
        retire();
        break;
    }
    ASSERT_EQ(cache_.check(), "");
    compare_counts();
  }

  void finish() {
    holders_.clear();
    cache_.retire(submitted_);
    ASSERT_EQ(cache_.check(), "");
    for (std::size_t g = 0; g < kGroups; ++g) {
      EXPECT_EQ(cache_.counts(g).leased, 0U);
      EXPECT_EQ(cache_.counts(g).retiring, 0U);
      EXPECT_EQ(cache_.available(g), cache_.counts(g).total);
    }
  }
  std::uint64_t n_hits() const { return n_hits_; }
  std::uint64_t n_evicted() const { return n_evicted_; }
  std::uint64_t n_refused() const { return n_refused_; }

 private:
  struct Node {
    std::array<BlockId, kGroups> blocks;
    std::uint64_t released_at = 0;  // when it was last pinned
  };

  std::uint64_t pick(std::uint64_t n) { return rng_() % n; }
  bool present(const Key& key) const {
    Tokens probe = key.second;
    probe.push_back(0);
    return cache_.probe(key.first, probe).n_blocks == key.second.size() / kBlock;
  }

  void open() {
    if (holders_.size() >= 6) return;
    Holder h;
    h.identity = pick(4) == 0 ? "b" : "a";
    for (std::uint64_t i = 1 + pick(12); i > 0; --i)
      h.tokens.push_back(static_cast<TokenId>(pick(2)));
    std::uint32_t expected = 0;
    while ((expected + 1) * kBlock < h.tokens.size() && index_.contains(h.key(expected)))
      ++expected;
    ASSERT_EQ(cache_.probe(h.identity, h.tokens).n_blocks, expected);
    h.lease = cache_.open(h.identity, h.tokens, true);
    ASSERT_EQ(h.lease.n_blocks(), expected);
    for (std::uint32_t i = 0; i < expected; ++i) {
      for (std::size_t g = 0; g < kGroups; ++g) {
        ASSERT_EQ(content_[g][h.lease.table(g)[i]], h.key(i)) << "a prefix hit with other content";
      }
    }
    n_hits_ += expected;
    h.computed = expected * kBlock;
    holders_.push_back(std::move(h));
  }

  // Computes a few tokens more: grows the table, writes, publishes.
  void extend() {
    if (holders_.empty()) return;
    Holder& h = holders_[pick(holders_.size())];
    while (h.tokens.size() <= h.computed || pick(3) == 0)
      h.tokens.push_back(static_cast<TokenId>(pick(2)));
    const auto end =
        static_cast<std::uint32_t>(h.computed + 1 + pick(h.tokens.size() - h.computed));
    const std::uint32_t before = h.lease.n_blocks();
    const std::uint32_t need = std::max(before, cache_.blocks_for(end)) - before;
    const bool fits = need <= cache_.available(0) && need <= cache_.available(1);
    const std::uint32_t n_evict = need == 0 || !fits ? 0 : n_to_evict(need);
    const Status status = cache_.grow(h.lease, cache_.blocks_for(end));
    ASSERT_EQ(status.ok(), fits);
    if (!fits) {
      ++n_refused_;
      return;
    }
    if (n_evict > 0) forget_evicted(n_evict);
    for (std::uint32_t i = before; i < h.lease.n_blocks(); ++i) {
      for (std::size_t g = 0; g < kGroups; ++g) expect_exclusive(h, g, h.lease.table(g)[i]);
    }
    for (std::uint32_t i = h.computed / kBlock; (i + 1) * kBlock <= end; ++i) {
      for (std::size_t g = 0; g < kGroups; ++g) content_[g][h.lease.table(g)[i]] = h.key(i);
    }
    h.computed = end;
    cache_.publish(h.lease, std::span(h.tokens).first(end));
    learn_published(h);
  }

  std::uint32_t n_to_evict(std::uint32_t need) const {
    std::uint32_t n = 0;
    for (std::size_t g = 0; g < kGroups; ++g) {
      const std::uint32_t free = cache_.counts(g).free;
      if (need > free) n = std::max(n, need - free);
    }
    return n;
  }

  void expect_exclusive(const Holder& owner, std::size_t g, BlockId id) const {
    for (const Holder& h : holders_) {
      if (&h == &owner) continue;
      EXPECT_EQ(std::ranges::count(h.lease.table(g), id), 0) << "two sequences would write a block";
    }
    EXPECT_FALSE(busy_until_[g].contains(id) && busy_until_[g].at(id) > retired_)
        << "a retiring block was handed out";
    for (const auto& [key, node] : index_)
      EXPECT_NE(node.blocks[g], id) << "a cached block was handed out";
  }

  void learn_published(const Holder& h) {
    for (std::uint32_t i = 0; (i + 1) * kBlock <= h.computed; ++i) {
      const Key key = h.key(i);
      if (index_.contains(key)) continue;
      if (!present(key)) break;
      index_[key] = Node{.blocks = {h.lease.table(0)[i], h.lease.table(1)[i]}, .released_at = now_};
    }
  }

  bool held(const Node& node) const {
    for (std::size_t g = 0; g < kGroups; ++g) {
      const BlockId id = node.blocks[g];
      if (busy_until_[g].contains(id) && busy_until_[g].at(id) > retired_) return true;
      for (const Holder& h : holders_) {
        if (std::ranges::count(h.lease.table(g), id) > 0) return true;
      }
    }
    return false;
  }

  // Exactly n nodes are gone; none was in use, none has a child left, and none was used later than
  // a leaf that stayed.
  void forget_evicted(std::uint32_t n) {
    std::uint64_t newest_gone = 0;
    std::uint32_t n_gone = 0;
    for (auto it = index_.begin(); it != index_.end();) {
      if (present(it->first)) {
        ++it;
        continue;
      }
      EXPECT_FALSE(held_[it->first]) << "a block in use was evicted";
      newest_gone = std::max(newest_gone, it->second.released_at);
      ++n_gone;
      it = index_.erase(it);
    }
    EXPECT_EQ(n_gone, n);
    n_evicted_ += n_gone;
    for (const auto& [key, node] : index_) {
      const bool leaf = std::ranges::none_of(index_, [&](const auto& other) {
        return other.first.first == key.first && other.first.second.size() > key.second.size() &&
               std::equal(key.second.begin(), key.second.end(), other.first.second.begin());
      });
      if (!leaf || held_[key]) continue;
      EXPECT_LE(newest_gone, node.released_at) << "not the least recently used leaf";
    }
  }

  void close() {
    if (holders_.empty()) return;
    const std::size_t i = pick(holders_.size());
    for (std::size_t g = 0; g < kGroups; ++g) {
      for (const BlockId id : holders_[i].lease.table(g)) {
        busy_until_[g][id] = std::max(busy_until_[g][id], holders_[i].last_step);
      }
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

  // Leased and retiring by recount; remembers since when each node is unused.
  void compare_counts() {
    for (std::size_t g = 0; g < kGroups; ++g) {
      std::set<BlockId> leased;
      for (const Holder& h : holders_)
        leased.insert(h.lease.table(g).begin(), h.lease.table(g).end());
      std::uint32_t retiring = 0;
      for (const auto& [id, until] : busy_until_[g])
        retiring += until > retired_ && !leased.contains(id) ? 1 : 0;
      ASSERT_EQ(cache_.counts(g).leased, leased.size());
      ASSERT_EQ(cache_.counts(g).retiring, retiring);
    }
    std::map<Key, bool> held_now;
    for (auto& [key, node] : index_) {
      if (!held(node)) continue;
      for (std::size_t n = kBlock; n <= key.second.size(); n += kBlock) {
        const Key prefix{
            key.first,
            Tokens(key.second.begin(), key.second.begin() + static_cast<std::ptrdiff_t>(n))};
        held_now[prefix] = true;
      }
    }
    for (auto& [key, node] : index_) {
      if (held_[key] && !held_now[key]) node.released_at = now_;
    }
    held_ = std::move(held_now);
  }

  std::mt19937_64 rng_;
  KvCache cache_;
  std::vector<Holder> holders_;
  std::map<Key, Node> index_;
  std::map<Key, bool> held_;  // pinned after the last operation
  std::array<std::map<BlockId, Key>, kGroups> content_;
  std::array<std::map<BlockId, std::uint64_t>, kGroups> busy_until_;
  std::uint64_t submitted_ = 0;
  std::uint64_t retired_ = 0;
  std::uint64_t now_ = 0;
  std::uint64_t n_hits_ = 0;
  std::uint64_t n_evicted_ = 0;
  std::uint64_t n_refused_ = 0;
};

TEST(KvCacheRandom, AgreesWithTheNaiveModel) {
  for (std::uint64_t seed = 1; seed <= 20; ++seed) {
    SCOPED_TRACE("seed " + std::to_string(seed));
    Model model(seed);
    for (int i = 0; i < 5'000; ++i) {
      ASSERT_NO_FATAL_FAILURE(model.step()) << "operation " << i;
      if (HasFailure()) return;
    }
    model.finish();
    EXPECT_GT(model.n_hits(), 100U);
    EXPECT_GT(model.n_evicted(), 100U);
    EXPECT_GT(model.n_refused(), 10U);
  }
}

}  // namespace
}  // namespace coxswain::kvcache
