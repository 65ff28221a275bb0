#include "kvcache/kv_cache.h"

#include <algorithm>
#include <cassert>
#include <iterator>
#include <utility>

namespace coxswain::kvcache {
namespace {

// A node takes a few hundred bytes of the host, a block some hundred thousand of the runner.
constexpr std::uint32_t kNodesPerBlock = 8;

std::vector<bool> windows_of(const KvCacheOptions& options) {
  std::vector<bool> out;
  out.reserve(options.groups.size());
  for (const KvGroupOptions& group : options.groups) out.push_back(group.window_tokens > 0);
  return out;
}

}  // namespace

KvLease::KvLease(KvLease&& other) noexcept
    : cache_(std::exchange(other.cache_, nullptr)),
      tables_(std::move(other.tables_)),
      n_released_(std::move(other.n_released_)),
      identity_(std::move(other.identity_)),
      cursor_(other.cursor_),
      n_published_(other.n_published_),
      last_step_(other.last_step_),
      partial_(std::exchange(other.partial_, {})) {}

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
  partial_ = std::exchange(other.partial_, {});
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
  partial_ = {};
}

std::uint32_t KvLease::released_end(std::size_t group) const {
  return cache_->n_sinks(group) + n_released_[group];
}

std::uint32_t KvLease::n_held(std::size_t group, std::uint32_t n) const {
  return n - std::min(n, released_end(group)) + std::min(n, cache_->n_sinks(group));
}

KvCache::KvCache(const KvCacheOptions& options)
    : block_tokens_(options.block_tokens),
      prefix_caching_(options.prefix_caching),
      partial_reuse_(options.partial_reuse),
      index_(windows_of(options), options.hash_key, options.events),
      events_(options.events),
      told_(options.groups.size()),
      tier_blocks_(options.tier_blocks) {
  for (const KvGroupOptions& group : options.groups) {
    windows_.push_back(group.window_tokens);
    sink_tokens_.push_back(group.window_tokens > 0 ? group.sink_tokens : 0);
    pools_.emplace_back(group.n_blocks, group.window_tokens > 0);
    nodes_.emplace_back(group.n_blocks);
    n_nodes_max_ += std::uint64_t{group.n_blocks} * kNodesPerBlock;
  }
  tell_created();
}

// The length of the prefix that open() takes. The memo holds its nodes, and maybe some that cannot be used.
std::uint32_t KvCache::match(std::string_view identity,
                             std::span<const TokenId> tokens,
                             PrefixMemo& memo) const {
  if (!prefix_caching_ || tokens.empty()) return 0;
  const auto n_max = static_cast<std::uint32_t>((tokens.size() - 1) / block_tokens_);
  auto& path = memo.path;
  while (!path.empty() && !index_.alive(path.back())) path.pop_back();
  PrefixIndex::Node node = path.empty() ? index_.find_root(identity) : path.back();
  while (node && path.size() < n_max) {
    node = index_.find_child(node, block_of(tokens, static_cast<std::uint32_t>(path.size())));
    if (node) path.push_back(node);
  }
  return n_usable(path);
}

// Up to the last node where every window group has the blocks that the next position sees. Looks from the end on, at a
// block once, so that a long prefix costs no more than its window.
std::uint32_t KvCache::n_usable(std::span<const PrefixIndex::Node> path) const {
  auto n = static_cast<std::uint32_t>(path.size());
  if (std::ranges::count(windows_, 0U) == std::ssize(windows_)) return n;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    std::uint32_t n_there = 0;
    while (n_there < std::min(n, n_sinks(g)) && index_.blocks(path[n_there])[g] != kReleasedBlock)
      ++n_there;
    if (n_there < n_sinks(g)) n = std::min(n, n_there);
  }
  std::vector<std::uint32_t> there_from(pools_.size(), n);  // per group: as far as looked at
  for (std::size_t g = 0; g < pools_.size();) {
    std::uint32_t& i = there_from[g];
    i = std::min(i, n);
    const std::uint32_t first = windows_[g] == 0 ? n : seen_from(g, n);
    while (i > first && index_.blocks(path[i - 1])[g] != kReleasedBlock) --i;
    if (i <= first) {
      ++g;
      continue;
    }
    n = i - 1;  // a hole: the prefix ends before it
    g = 0;
  }
  return n;
}

// What the block behind `path` shares with the tokens, leaving one to compute: only if each group has the block, or
// none of it will be seen.
PrefixIndex::Part KvCache::match_part(std::string_view identity,
                                      std::span<const TokenId> tokens,
                                      std::span<const PrefixIndex::Node> path) const {
  if (!partial_reuse_ || !prefix_caching_ || tokens.empty()) return {};
  const PrefixIndex::Node above = path.empty() ? index_.find_root(identity) : path.back();
  const std::size_t first = path.size() * block_tokens_;
  if (!above || first + 1 >= tokens.size()) return {};
  const std::size_t n_max = std::min<std::size_t>(tokens.size() - 1 - first, block_tokens_ - 1);
  const PrefixIndex::Part part = index_.find_part(above, tokens.subspan(first, n_max));
  for (std::size_t g = 0; part.node && g < pools_.size(); ++g) {
    const bool seen = windows_[g] != 1 || path.size() < n_sinks(g);
    if (seen && index_.blocks(part.node)[g] == kReleasedBlock) return {};
  }
  return part;
}

PrefixProbe KvCache::probe(std::string_view identity,
                           std::span<const TokenId> tokens,
                           PrefixMemo& memo) const {
  PrefixProbe out{.n_blocks = match(identity, tokens, memo)};
  if (!prefix_caching_ || tokens.empty()) return out;
  if (out.n_blocks < (tokens.size() - 1) / block_tokens_) {
    const auto block = block_of(tokens, out.n_blocks);
    const PrefixIndex::Node above =
        out.n_blocks > 0 ? memo.path[out.n_blocks - 1] : index_.find_root(identity);
    out.next_key = above ? index_.child_key(above, block) : index_.first_key(identity, block);
  }
  if (const auto part = match_part(identity, tokens, std::span(memo.path).first(out.n_blocks));
      part.node) {
    out.n_partial = part.n_tokens;
    for (std::size_t g = 0; g < pools_.size(); ++g) {
      const BlockId id = index_.blocks(part.node)[g];
      const bool idle = windows_[g] == 0 ? !index_.pinned(part.node)
                                         : id != kReleasedBlock && !pools_[g].busy(id);
      out.n_copied.push_back(idle ? 1 : 0);
    }
  }
  if (out.n_blocks == 0) return out;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const auto path = std::span(memo.path).first(out.n_blocks);
    const std::uint32_t from = seen_from(g, out.n_blocks);
    const std::uint32_t n_front = std::min(n_sinks(g), from);
    out.n_held.push_back(n_front + out.n_blocks - from);
    // Above a pinned node all are pinned.
    const auto n_taken =
        windows_[g] == 0
            ? path.end() - std::ranges::partition_point(
                               path, [&](PrefixIndex::Node node) { return index_.pinned(node); })
            : count_idle(g, path.first(n_front)) + count_idle(g, path.subspan(from));
    out.n_taken.push_back(static_cast<std::uint32_t>(n_taken));
  }
  return out;
}

// Nodes whose block of the group nobody has in use.
std::ptrdiff_t KvCache::count_idle(std::size_t group,
                                   std::span<const PrefixIndex::Node> nodes) const {
  return std::ranges::count_if(nodes, [&](PrefixIndex::Node node) {
    return !pools_[group].busy(index_.blocks(node)[group]);
  });
}

KvLease KvCache::open(std::string_view identity,
                      std::span<const TokenId> tokens,
                      bool use_prefix,
                      PrefixMemo memo,
                      bool use_partial,
                      const RetentionRule& rule) {
  KvLease lease;
  lease.cache_ = this;
  lease.tables_.resize(pools_.size());
  lease.n_released_.resize(pools_.size());
  lease.identity_ = std::string(identity);
  if (!use_prefix) return lease;
  const std::uint32_t n_blocks = match(identity, tokens, memo);
  const auto part = use_partial ? match_part(identity, tokens, std::span(memo.path).first(n_blocks))
                                : PrefixIndex::Part{};
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const std::uint32_t from = seen_from(g, n_blocks);
    lease.n_released_[g] = from - std::min(from, n_sinks(g));
    lease.tables_[g].assign(n_blocks, kReleasedBlock);
    for (std::uint32_t i = 0; i < n_blocks; ++i) {
      if (i >= n_sinks(g) && i < from) continue;
      const BlockId id = index_.blocks(memo.path[i])[g];
      if (pools_[g].add_ref(id) && windows_[g] == 0) index_.add_busy(memo.path[i]);
      lease.tables_[g][i] = id;
    }
  }
  for (std::uint32_t i = 0; i < n_blocks; ++i) {
    index_.mark_shared(memo.path[i]);
    retain(memo.path[i], rule, i);
  }
  if (n_blocks > 0) lease.cursor_ = memo.path[n_blocks - 1];
  lease.n_published_ = n_blocks;
  if (!part.node) return lease;
  lease.partial_ = {.index = n_blocks, .n_tokens = part.n_tokens};
  for (std::size_t g = 0; g < pools_.size(); ++g)
    hold_source(lease, g, index_.blocks(part.node)[g]);
  return lease;
}

void KvCache::hold_source(KvLease& lease, std::size_t group, BlockId id) {
  lease.partial_.sources.push_back(id);
  if (id == kReleasedBlock) return;
  if (pools_[group].add_ref(id) && windows_[group] == 0) index_.add_busy(node_of(group, id));
}

void KvCache::drop_sources(KvLease& lease, std::uint64_t last_step) {
  const std::vector<BlockId> sources = std::exchange(lease.partial_, {}).sources;
  for (std::size_t g = 0; g < sources.size(); ++g) {
    if (sources[g] != kReleasedBlock) drop(g, sources[g], last_step);
  }
}

bool KvCache::can_fork(const KvLease& source, std::uint32_t n_tokens) const {
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const std::uint32_t first =
        windows_[g] == 0 || n_tokens < windows_[g] ? 0 : n_tokens - windows_[g] + 1;
    const std::uint32_t end = first < n_tokens ? blocks_for(n_tokens) : 0;
    if (std::max(first / block_tokens_, n_sinks(g)) < std::min(end, source.released_end(g)))
      return false;
  }
  return true;
}

KvLease KvCache::fork(const KvLease& source, std::uint32_t n_tokens) {
  assert(source.cache_ == this && source.partial_.n_tokens == 0 &&
         blocks_for(n_tokens) <= source.n_blocks());
  const std::uint32_t n_whole = n_tokens / block_tokens_;
  if (!can_fork(source, n_tokens)) return {};
  KvLease lease;
  lease.cache_ = this;
  lease.identity_ = source.identity_;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    const auto table = std::span(source.tables_[g]).first(n_whole);
    lease.tables_.emplace_back(table.begin(), table.end());
    lease.n_released_.push_back(n_whole - source.n_held(g, n_whole));
    for (const BlockId id : table) {
      if (id == kReleasedBlock) continue;
      pools_[g].add_ref(id);
      if (node_of(g, id)) index_.mark_shared(node_of(g, id));
    }
  }
  if (source.n_published_ <= n_whole) {
    lease.cursor_ = source.cursor_;
    lease.n_published_ = source.n_published_;
  }
  if (n_tokens % block_tokens_ == 0) return lease;
  lease.partial_ = {.index = n_whole, .n_tokens = n_tokens % block_tokens_};
  for (std::size_t g = 0; g < pools_.size(); ++g) hold_source(lease, g, source.tables_[g][n_whole]);
  return lease;
}

std::vector<BlockCopy> KvCache::take_copies(KvLease& lease, std::uint64_t step) {
  std::vector<BlockCopy> out;
  for (std::size_t g = 0; g < lease.partial_.sources.size(); ++g) {
    const BlockId from = lease.partial_.sources[g];
    if (from == kReleasedBlock) continue;
    out.push_back({.group = static_cast<std::uint32_t>(g),
                   .from = from,
                   .to = lease.tables_[g][lease.partial_.index]});
  }
  drop_sources(lease, step);
  return out;
}

std::uint64_t KvCache::next_key(const KvLease& lease, std::span<const TokenId> tokens) const {
  if (!prefix_caching_) return 0;
  const auto block = block_of(tokens, lease.n_published_);
  const bool at_root = lease.n_published_ == 0;
  const PrefixIndex::Node parent = at_root ? index_.find_root(lease.identity_) : lease.cursor_;
  if (index_.alive(parent)) return index_.child_key(parent, block);
  return at_root ? index_.first_key(lease.identity_, block) : 0;
}

// The index has forgotten the block.
void KvCache::forget(std::size_t group, BlockId id) {
  node_of(group, id) = {};
  pools_[group].unmark_indexed(id);
}

// Room for one block more in `group`.
bool KvCache::evict_from(std::size_t group) {
  if (windows_[group] == 0) return evict_node();
  const BlockId id = pools_[group].first_cached();
  if (id == 0) return false;
  tell_removed(group, index_.chain(node_of(group, id)));
  index_.clear_block(node_of(group, id), group);
  forget(group, id);
  return true;
}

bool KvCache::evict_node() {
  const auto [blocks, chain] = index_.evict();
  for (std::size_t g = 0; g < blocks.size(); ++g) {
    if (blocks[g] == kReleasedBlock) continue;
    tell_removed(g, chain);
    forget(g, blocks[g]);
  }
  return !blocks.empty();
}

Status KvCache::no_room(std::size_t group, std::uint32_t n_blocks) const {
  return {Code::kResourceExhausted,
          "KV group " + std::to_string(group) + " has " + std::to_string(available(group)) +
              " blocks to give, " + std::to_string(n_blocks) + " are needed"};
}

Status KvCache::grow(KvLease& lease, std::uint32_t n_blocks) {
  assert(lease.cache_ == this);
  if (n_blocks <= lease.n_blocks()) return {};
  const std::uint32_t n_new = n_blocks - lease.n_blocks();
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (available(g) < n_new) return no_room(g, n_new);
  }
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    while (pools_[g].n_free() < n_new && evict_from(g)) {
    }
    assert(pools_[g].n_free() >= n_new);
    for (std::uint32_t i = 0; i < n_new; ++i) lease.tables_[g].push_back(pools_[g].take());
  }
  return {};
}

Status KvCache::extend(KvLease& lease, std::uint32_t n_blocks) {
  assert(lease.cache_ == this && lease.partial_.n_tokens == 0);
  const std::uint32_t n_held = lease.n_blocks();
  if (n_blocks <= n_held) return {};
  const auto n_new = [&](std::size_t g) {
    return n_blocks - std::max(n_held, seen_from(g, n_blocks)) +
           base::sub_sat(std::min(n_sinks(g), seen_from(g, n_blocks)), n_held);
  };
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (available(g) < n_new(g)) return no_room(g, n_new(g));
  }
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    auto& table = lease.tables_[g];
    const std::uint32_t from = seen_from(g, n_blocks);
    for (std::uint32_t i = lease.released_end(g); i < std::min(from, n_held); ++i)
      drop(g, std::exchange(table[i], kReleasedBlock), lease.last_step_);
    while (pools_[g].n_free() < n_new(g) && evict_from(g)) {
    }
    assert(pools_[g].n_free() >= n_new(g));
    for (std::uint32_t i = n_held; i < n_blocks; ++i)
      table.push_back(i >= n_sinks(g) && i < from ? kReleasedBlock : pools_[g].take());
    lease.n_released_[g] = std::max(lease.n_released_[g], from - std::min(from, n_sinks(g)));
  }
  return {};
}

// Whoever publishes through it all the same begins at the root again.
void KvCache::shrink(KvLease& lease, std::uint32_t n_blocks) {
  assert(lease.cache_ == this && lease.partial_.n_tokens == 0);
  if (n_blocks >= lease.n_blocks()) return;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    auto& table = lease.tables_[g];
    for (; table.size() > n_blocks; table.pop_back()) {
      if (table.back() != kReleasedBlock) {
        drop(g, table.back(), lease.last_step_);
      } else {
        --lease.n_released_[g];
      }
    }
  }
  lease.n_published_ = 0;
  lease.cursor_ = {};
}

bool KvCache::release_before(KvLease& lease, std::uint32_t position, std::uint32_t computed) {
  bool changed = false;
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (windows_[g] == 0 || position < windows_[g]) continue;
    // A token at `position` sees [position - window + 1, position].
    const std::uint32_t n_out =
        std::min({position - windows_[g] + 1, computed, lease.n_blocks() * block_tokens_}) /
        block_tokens_;
    for (std::uint32_t i = lease.released_end(g); i < n_out; ++i, ++lease.n_released_[g]) {
      const BlockId id = std::exchange(lease.tables_[g][i], kReleasedBlock);
      const PrefixIndex::Node node = node_of(g, id);
      drop(g, id, lease.last_step_, node && !index_.shared(node));
      changed = true;
    }
  }
  return changed;
}

// A group that keeps every position has a block for each node. Where there is none nodes can be more than blocks, and
// prefixes that nobody uses make room.
bool KvCache::has_room_for(std::uint64_t n_nodes) {
  if (std::ranges::find(windows_, 0U) != windows_.end()) return true;
  if (n_nodes > n_nodes_max_) return false;
  std::size_t group = 0;
  while (index_.n_nodes() + n_nodes > n_nodes_max_ && group < pools_.size()) {
    if (!evict_from(group)) ++group;
  }
  return index_.n_nodes() + n_nodes <= n_nodes_max_;
}

// The node names the lease's block, if it has none of the group.
void KvCache::share_block(const KvLease& lease, std::size_t group, PrefixIndex::Node node) {
  const BlockId id = lease.tables_[group][lease.n_published_];
  if (id == kReleasedBlock || index_.blocks(node)[group] != kReleasedBlock) return;
  index_.set_block(node, group, id);
  pools_[group].mark_indexed(id, index_.priority(node));
  node_of(group, id) = node;
  tell_stored(node, group);
}

// What the rule says of block `index`, which the node is, holds from now on.
void KvCache::retain(PrefixIndex::Node node, const RetentionRule& rule, std::uint32_t index) {
  const auto retention = rule.at(index * block_tokens_);
  if (!retention) return;
  const std::uint32_t before = index_.priority(node);
  index_.set_retention(node, *retention);
  tell_updated(node, before);
  set_priority(node, false);
}

// As the index has it, in the pools too.
void KvCache::set_priority(PrefixIndex::Node node, bool evict_first) {
  const auto blocks = index_.blocks(node);
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    if (blocks[g] != kReleasedBlock)
      pools_[g].set_priority(blocks[g], index_.priority(node), evict_first);
  }
}

void KvCache::advance(TimePoint now) {
  for (const auto& [node, priority_before] : index_.expire(now)) {
    set_priority(node, true);
    tell_updated(node, priority_before);
  }
}

void KvCache::publish(KvLease& lease,
                      std::span<const TokenId> computed,
                      const RetentionRule& rule) {
  if (!prefix_caching_) return;
  auto n_whole = static_cast<std::uint32_t>(computed.size() / block_tokens_);
  // A node at the end of which no group has a block would be nobody's.
  const auto is_held = [&](std::uint32_t i) {
    return std::ranges::any_of(lease.tables_,
                               [&](const auto& table) { return table[i] != kReleasedBlock; });
  };
  while (lease.n_published_ < n_whole && !is_held(n_whole - 1)) --n_whole;
  if (lease.n_published_ >= n_whole) return;
  if (!has_room_for(n_whole - lease.n_published_)) return;
  if (lease.n_published_ > 0 && !index_.alive(lease.cursor_)) {  // an equal prefix was evicted
    lease.n_published_ = 0;
    if (!has_room_for(n_whole)) return;
  }
  while (lease.n_published_ < n_whole) {
    const auto tokens = block_of(computed, lease.n_published_);
    const bool at_root = lease.n_published_ == 0;
    PrefixIndex::Node parent = at_root ? index_.find_root(lease.identity_) : lease.cursor_;
    PrefixIndex::Node node = parent ? index_.find_child(parent, tokens) : PrefixIndex::Node{};
    if (node) {
      index_.mark_shared(node);
    } else {
      if (!at_root && !index_.takes_children(parent)) return;
      if (at_root) parent = index_.root(lease.identity_);
      node = index_.insert(parent, tokens);
    }
    retain(node, rule, lease.n_published_);
    for (std::size_t g = 0; g < pools_.size(); ++g) share_block(lease, g, node);
    lease.cursor_ = node;
    ++lease.n_published_;
  }
}

void KvCache::drop(std::size_t group, BlockId id, std::uint64_t last_step, bool evict_first) {
  const bool rested = pools_[group].drop_ref(id, last_step, evict_first);
  if (rested && windows_[group] == 0 && node_of(group, id)) index_.drop_busy(node_of(group, id));
}

void KvCache::release(KvLease& lease) {
  drop_sources(lease, lease.last_step_);
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    auto& table = lease.tables_[g];
    for (std::size_t i = table.size(); i-- > 0;) {
      if (table[i] != kReleasedBlock) drop(g, table[i], lease.last_step_);
    }
  }
}

void KvCache::retire(std::uint64_t step) {
  for (std::size_t g = 0; g < pools_.size(); ++g) {
    for (const BlockId id : pools_[g].retire(step)) {
      if (windows_[g] == 0 && node_of(g, id)) index_.drop_busy(node_of(g, id));
    }
  }
}

std::uint32_t KvCache::reclaimable(const KvLease& lease, std::size_t group) const {
  const auto last_holder = [&](BlockId id) { return pools_[group].references(id) == 1; };
  const auto table = lease.table(group);
  const std::size_t from = std::min<std::size_t>(lease.released_end(group), table.size());
  const auto front = table.first(std::min<std::size_t>(n_sinks(group), from));
  return static_cast<std::uint32_t>(std::ranges::count_if(front, last_holder) +
                                    std::ranges::count_if(table.subspan(from), last_holder));
}

std::uint32_t KvCache::reclaimable(std::span<const KvLease* const> leases,
                                   std::size_t group) const {
  std::vector<BlockId> held;  // once for each reference
  for (const KvLease* lease : leases) {
    std::ranges::copy_if(lease->tables_[group], std::back_inserter(held), [](BlockId id) {
      return id != kReleasedBlock;
    });
    if (lease->partial_.n_tokens > 0 && lease->partial_.sources[group] != kReleasedBlock)
      held.push_back(lease->partial_.sources[group]);
  }
  std::ranges::sort(held);
  std::uint32_t n = 0;
  for (auto begin = held.begin(); begin != held.end();) {
    const auto end = std::upper_bound(begin, held.end(), *begin);
    n += pools_[group].references(*begin) == static_cast<std::size_t>(end - begin) ? 1 : 0;
    begin = end;
  }
  return n;
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
      if (windows_[g] == 0 && pools_[g].busy(id) && !index_.pinned(node))
        return where + "a block in use could be evicted";
    }
    if (n_indexed != index_.count_blocks(g))
      return where + "the index names blocks that do not know it";
    if (windows_[g] == 0 && pools_[g].counts().cached < index_.n_evictable())
      return where + "more evictable nodes than cached blocks";
  }
  if (std::ranges::find(windows_, 0U) == windows_.end() && index_.n_nodes() > n_nodes_max_)
    return "the prefix index has too many nodes";
  return {};
}

}  // namespace coxswain::kvcache
