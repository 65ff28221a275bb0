#include "kvcache/kv_cache.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace coxswain::kvcache {

KvLease::KvLease(KvLease&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      tables_(std::move(other.tables_)),
      n_released_(std::move(other.n_released_)),
      identity_(std::move(other.identity_)),
      cursor_(other.cursor_),
      n_published_(other.n_published_),
      last_step_(other.last_step_) {}

KvLease& KvLease::operator=(KvLease&& other) noexcept {
  if (this == &other) return *this;
  reset();
  cache_ = std::exchange(other.cache_, nullptr);
  tables_ = std::move(other.tables_);
  n_released_ = std::move(other.n_released_);
  identity_ = std::move(other.identity_);
  cursor_ = other.cursor_;
  n_published_ = other.n_published_;
  last_step_ = other.last_step_;
  return *this;
}

void KvLease::reset() {
  if (cache_ == nullptr) return;
  cache_->release(*this);
  cache_ = nullptr;
  tables_.clear();
  n_released_.clear();
  cursor_ = {};
  n_published_ = 0;
  last_step_ = 0;
}

KvCache::KvCache(const KvCacheOptions& options)
    : block_tokens_(options.block_tokens),
      prefix_caching_(options.prefix_caching),
      index_(static_cast<std::uint32_t>(options.groups.size()), options.hash_key) {
  for (const KvGroupOptions& group : options.groups) {
    windows_.push_back(group.window_tokens);
    pools_.emplace_back(group.n_blocks);
    nodes_.emplace_back(group.n_blocks);
    if (group.window_tokens > 0) prefix_caching_ = false;
  }
}

PrefixProbe KvCache::probe(std::string_view identity, std::span<const TokenId> tokens) const {
  PrefixProbe out;
  if (!prefix_caching_ || tokens.empty()) return out;
  PrefixIndex::Node node = index_.find_root(identity);
  const auto n_max = static_cast<std::uint32_t>((tokens.size() - 1) / block_tokens_);
  if (!node && n_max > 0) out.next_key = index_.first_key(identity, block_of(tokens, 0));
  while (node && out.n_blocks < n_max) {
    const auto block = block_of(tokens, out.n_blocks);
    const PrefixIndex::Node child = index_.find_child(node, block);
    if (!child) {
      out.next_key = index_.child_key(node, block);
      break;
    }
    ++out.n_blocks;
    if (!index_.pinned(child)) ++out.n_unpinned;
    node = child;
  }
  return out;
}

KvLease KvCache::open(std::string_view identity, std::span<const TokenId> tokens, bool use_prefix) {
  KvLease lease;
  lease.cache_ = this;
  lease.tables_.resize(pools_.size());
  lease.n_released_.resize(pools_.size());
  lease.identity_ = std::string(identity);
  if (!prefix_caching_ || !use_prefix || tokens.empty()) return lease;
  PrefixIndex::Node node = index_.find_root(identity);
  const auto n_max = static_cast<std::uint32_t>((tokens.size() - 1) / block_tokens_);
  while (node && lease.n_published_ < n_max) {
    node = index_.find_child(node, block_of(tokens, lease.n_published_));
    if (!node) break;
    for (std::size_t g = 0; g < pools_.size(); ++g) {
      const BlockId id = index_.blocks(node)[g];
      if (pools_[g].add_ref(id)) index_.add_busy(node);
      lease.tables_[g].push_back(id);
    }
    lease.cursor_ = node;
    ++lease.n_published_;
  }
  return lease;
}

std::uint64_t KvCache::next_key(const KvLease& lease, std::span<const TokenId> tokens) const {
  if (!prefix_caching_) return 0;
  const auto block = block_of(tokens, lease.n_published_);
  const bool at_root = lease.n_published_ == 0;
  const PrefixIndex::Node parent = at_root ? index_.find_root(lease.identity_) : lease.cursor_;
  if (index_.alive(parent)) return index_.child_key(parent, block);
  return at_root ? index_.first_key(lease.identity_, block) : 0;
}

bool KvCache::evict_one() {
  const std::vector<BlockId> blocks = index_.evict();
  for (std::size_t g = 0; g < blocks.size(); ++g) {
    node_of(g, blocks[g]) = {};
    pools_[g].free_cached(blocks[g]);
  }
  return !blocks.empty();
}

Status KvCache::grow(KvLease& lease, std::uint32_t n_blocks) {
  assert(lease.cache_ == this);
  if (n_blocks <= lease.n_blocks()) return {};
  const std::uint32_t n_new = n_blocks - lease.n_blocks();
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (available(g) < n_new) {
      return {Code::kResourceExhausted,
              "KV group " + std::to_string(g) + " has " + std::to_string(available(g)) +
                  " blocks to give, " + std::to_string(n_new) + " are needed"};
    }
  }
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    while (pools_[g].n_free() < n_new && evict_one()) {
    }
    assert(pools_[g].n_free() >= n_new);
    for (std::uint32_t i = 0; i < n_new; ++i) lease.tables_[g].push_back(pools_[g].take());
  }
  return {};
}

bool KvCache::release_before(KvLease& lease, std::uint32_t position) {
  bool changed = false;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (windows_[g] == 0 || position < windows_[g]) continue;
    // A token at `position` sees [position - window + 1, position].
    const std::uint32_t n_out =
        std::min((position - windows_[g] + 1) / block_tokens_, lease.n_blocks());
    for (std::uint32_t& i = lease.n_released_[g]; i < n_out; ++i) {
      drop(g, std::exchange(lease.tables_[g][i], kReleasedBlock), lease.last_step_);
      changed = true;
    }
  }
  return changed;
}

void KvCache::publish(KvLease& lease, std::span<const TokenId> computed) {
  if (!prefix_caching_) return;
  const auto n_whole = static_cast<std::uint32_t>(computed.size() / block_tokens_);
  if (lease.n_published_ >= n_whole) return;
  // An equal prefix was evicted.
  if (lease.n_published_ > 0 && !index_.alive(lease.cursor_)) lease.n_published_ = 0;
  std::vector<BlockId> ids(pools_.size());
  while (lease.n_published_ < n_whole) {
    const auto tokens = block_of(computed, lease.n_published_);
    const bool at_root = lease.n_published_ == 0;
    PrefixIndex::Node parent = at_root ? index_.find_root(lease.identity_) : lease.cursor_;
    PrefixIndex::Node node = parent ? index_.find_child(parent, tokens) : PrefixIndex::Node{};
    if (!node) {
      // Below a prefix that nobody uses a node would pin blocks that others count as available.
      if (!at_root && !index_.pinned(parent)) return;
      if (at_root) parent = index_.root(lease.identity_);
      for (std::size_t g = 0; g < pools_.size(); ++g) ids[g] = lease.tables_[g][lease.n_published_];
      node = index_.insert(parent, tokens, ids);
      for (std::size_t g = 0; g < pools_.size(); ++g) {
        pools_[g].mark_indexed(ids[g]);
        node_of(g, ids[g]) = node;
      }
    }
    lease.cursor_ = node;
    ++lease.n_published_;
  }
}

void KvCache::drop(std::size_t group, BlockId id, std::uint64_t last_step) {
  const bool rested = pools_[group].drop_ref(id, last_step);
  if (rested && node_of(group, id)) index_.drop_busy(node_of(group, id));
}

void KvCache::release(KvLease& lease) {
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    auto& table = lease.tables_[g];
    for (std::size_t i = table.size(); i-- > lease.n_released_[g];)
      drop(g, table[i], lease.last_step_);
  }
}

void KvCache::retire(std::uint64_t step) {
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    for (const BlockId id : pools_[g].retire(step)) {
      if (node_of(g, id)) index_.drop_busy(node_of(g, id));
    }
  }
}

std::uint32_t KvCache::reclaimable(const KvLease& lease, std::size_t group) const {
  const auto& table = lease.tables_[group];
  const auto live = std::span(table).subspan(lease.n_released_[group]);
  return static_cast<std::uint32_t>(
      std::ranges::count_if(live, [&](BlockId id) { return pools_[group].references(id) == 1; }));
}

std::string KvCache::check() const {
  if (std::string wrong = index_.check(); !wrong.empty()) return "prefix index: " + wrong;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const std::string where = "KV group " + std::to_string(g) + ": ";
    if (std::string wrong = pools_[g].check(); !wrong.empty()) return where + wrong;
    std::uint32_t n_indexed = 0;
    for (BlockId id = 1; id <= pools_[g].counts().total; ++id) {
      const PrefixIndex::Node node = nodes_[g][id - 1];
      if (!node) continue;
      ++n_indexed;
      if (!index_.alive(node) || index_.blocks(node)[g] != id)
        return where + "a block names a node that does not name it";
      if (pools_[g].busy(id) && !index_.pinned(node))
        return where + "a block in use could be evicted";
    }
    if (n_indexed != index_.n_nodes()) return where + "the index names blocks that do not know it";
    if (pools_[g].counts().cached < index_.n_evictable())
      return where + "more evictable nodes than cached blocks";
  }
  return {};
}

}  // namespace coxswain::kvcache
