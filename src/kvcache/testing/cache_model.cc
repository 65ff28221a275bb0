// CacheModel: the operations.

#include "kvcache/testing/cache_model.h"

#include <algorithm>

namespace coxswain::kvcache::testing {

void CacheModel::step() {
  ++now_;
  cache_.advance(time());
  expire();
  switch (pick(10)) {
    case 0:
    case 1:
      open();
      break;
    case 2:
    case 3:
    case 4:
      compute();
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
    case 8:
      import();
      break;
    default:
      retire();
      break;
  }
  ASSERT_EQ(cache_.check(), "");
  compare_counts();
  look(waiters_[pick(waiters_.size())]);
}

void CacheModel::finish() {
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

bool CacheModel::usable(const Holder& h, std::uint32_t n) const {
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::uint32_t i = 0; i < n; ++i) {
      if (sees(g, n, i) && index_.at(h.key(i)).blocks[g] == kReleasedBlock) return false;
    }
  }
  return true;
}

void CacheModel::open() {
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
    std::uint32_t n_held = 0;
    EXPECT_EQ(
        (expected > 0 ? probe.n_taken[g] : 0) + (h.lease.n_partial() > 0 ? probe.n_copied[g] : 0),
        available[g] - cache_.available(g));
    if (!h.sources.empty()) rest_[g].erase(h.sources[g]);
    for (std::uint32_t i = 0; i < expected; ++i) {
      const BlockId id = h.lease.table(g)[i];
      ASSERT_EQ(id != kReleasedBlock, sees(g, expected, i));
      if (id == kReleasedBlock) continue;
      ++n_held;
      ASSERT_EQ(content_[g].at(id), h.key(i)) << "a prefix hit with other content";
      rest_[g].erase(id);
    }
    if (expected > 0) {
      EXPECT_EQ(probe.n_held[g], n_held);
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

// Of the nodes behind n blocks of h, the one that begins most alike; of its neighbours in order, the greater one.
CacheModel::Part CacheModel::part_behind(const Holder& h, std::uint32_t n) const {
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
    const bool seen = groups_[g].window_tokens != 1 || n * block_ < groups_[g].sink_tokens;
    if (seen && node->blocks[g] == kReleasedBlock) return {};
  }
  return {.n_tokens = static_cast<std::uint32_t>(found - first), .blocks = node->blocks};
}

// A second sequence that begins as another one, somewhere in what that has computed.
void CacheModel::fork() {
  if (holders_.empty() || holders_.size() >= 6) return;
  const Holder& source = holders_[pick(holders_.size())];
  if (source.computed == 0 || !source.sources.empty()) return;
  const auto n_tokens =
      pick(2) == 0 ? source.computed : static_cast<std::uint32_t>(1 + pick(source.computed));
  const std::uint32_t n_whole = n_tokens / block_;
  bool there = true;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::uint32_t p = 0; p < n_tokens; ++p) {
      const bool seen =
          !is_window(g) || p < groups_[g].sink_tokens || p + groups_[g].window_tokens > n_tokens;
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
void CacheModel::copy(Holder& h) {
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
void CacheModel::compute() {
  if (holders_.empty()) return;
  Holder& h = holders_[pick(holders_.size())];
  while (h.tokens.size() <= h.computed || pick(3) == 0)
    h.tokens.push_back(static_cast<TokenId>(pick(2)));
  const auto end = static_cast<std::uint32_t>(h.computed + 1 + pick(h.tokens.size() - h.computed));
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

// Whole blocks come from elsewhere: a window group takes those alone that the position behind them sees.
void CacheModel::import() {
  if (holders_.empty()) return;
  Holder& h = holders_[pick(holders_.size())];
  if (!h.sources.empty() || h.computed % block_ != 0) return;
  const std::uint32_t before = h.lease.n_blocks();
  const auto n_blocks = static_cast<std::uint32_t>(before + 1 + pick(4));
  while (h.tokens.size() < std::size_t{n_blocks} * block_)
    h.tokens.push_back(static_cast<TokenId>(pick(2)));
  bool fits = true;
  std::uint32_t n_nodes = 0;  // to evict
  std::vector<std::vector<BlockId>> tables;
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    tables.emplace_back(h.lease.table(g).begin(), h.lease.table(g).end());
    std::uint32_t need = 0;
    for (std::uint32_t i = before; i < n_blocks; ++i) need += sees(g, n_blocks, i) ? 1 : 0;
    fits &= need <= cache_.available(g);
    const std::uint32_t free = cache_.counts(g).free;
    if (!is_window(g) && need > free) n_nodes = std::max(n_nodes, need - free);
  }
  ASSERT_EQ(cache_.extend(h.lease, n_blocks).ok(), fits);
  ASSERT_EQ(h.lease.n_blocks(), fits ? n_blocks : before);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::uint32_t i = 0; i < before; ++i) {
      const bool out = fits && !sees(g, n_blocks, i);
      ASSERT_EQ(h.lease.table(g)[i], out ? kReleasedBlock : tables[g][i]);
      if (out && tables[g][i] != kReleasedBlock) dropped(h, g, tables[g][i], false);
    }
  }
  if (!fits) {
    ++n_refused_;
    return;
  }
  forget_evicted(h, before, n_nodes);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::uint32_t i = before; i < n_blocks; ++i) {
      const BlockId id = h.lease.table(g)[i];
      ASSERT_EQ(id != kReleasedBlock, sees(g, n_blocks, i));
      if (id == kReleasedBlock) continue;
      expect_exclusive(h, g, id);
      content_[g][id] = h.key(i);
    }
  }
  n_imported_ += n_blocks - before;
  h.computed = n_blocks * block_;
  cache_.publish(h.lease, std::span(h.tokens).first(h.computed), h.rule());
  publish(h);
  ASSERT_EQ(h.lease.n_published(), h.n_published);
}

void CacheModel::slide(Holder& h) {
  std::vector<std::vector<BlockId>> tables;
  for (std::size_t g = 0; g < groups_.size(); ++g)
    tables.emplace_back(h.lease.table(g).begin(), h.lease.table(g).end());
  cache_.release_before(h.lease, h.computed, h.computed);
  for (std::size_t g = 0; g < groups_.size(); ++g) {
    for (std::uint32_t i = 0; i < h.lease.n_blocks(); ++i) {
      const bool out = is_window(g) && i * block_ >= groups_[g].sink_tokens &&
                       (i + 1) * block_ + groups_[g].window_tokens <= h.computed + 1;
      ASSERT_EQ(h.lease.table(g)[i], out ? kReleasedBlock : tables[g][i]);
      if (!out || tables[g][i] == kReleasedBlock) continue;
      const Node* node = node_of(g, tables[g][i]);
      dropped(h, g, tables[g][i], node != nullptr && !node->shared);
    }
  }
}

const CacheModel::Node* CacheModel::node_of(std::size_t g, BlockId id) const {
  for (const auto& [key, node] : index_) {
    if (node.blocks[g] == id) return &node;
  }
  return nullptr;
}

void CacheModel::expect_exclusive(const Holder& owner, std::size_t g, BlockId id) const {
  for (const Holder& h : holders_) {
    if (&h == &owner) continue;
    EXPECT_FALSE(names(h, g, id)) << "two sequences would write a block";
  }
  EXPECT_FALSE(busy_until_[g].contains(id) && busy_until_[g].at(id) > retired_)
      << "a retiring block was handed out";
  EXPECT_EQ(node_of(g, id), nullptr) << "a cached block was handed out";
}

void CacheModel::close() {
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

void CacheModel::submit() {
  if (submitted_ - retired_ >= 2) return;
  ++submitted_;
  for (Holder& h : holders_) {
    if (pick(2) == 0) continue;
    h.lease.mark_used(submitted_);
    h.last_step = submitted_;
  }
}

}  // namespace coxswain::kvcache::testing
