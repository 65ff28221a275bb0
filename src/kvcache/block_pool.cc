#include "kvcache/block_pool.h"

#include <algorithm>
#include <bit>
#include <cassert>
#include <utility>

namespace coxswain::kvcache {

BlockPool::BlockPool(std::uint32_t n_blocks, bool in_order)
    : in_order_(in_order),
      blocks_(n_blocks),
      links_(std::size_t{n_blocks} + kRetentionPriorityMax + 2) {
  for (std::uint32_t priority = 0; priority <= kRetentionPriorityMax; ++priority)
    links_[ends_of(priority)] = {.next = ends_of(priority), .previous = ends_of(priority)};
  free_.reserve(n_blocks);
  for (BlockId id = n_blocks; id >= 1; --id) free_.push_back(id);  // lowest id on top
  counts_.total = n_blocks;
}

const BlockCounts& BlockPool::counts() const {
  counts_.free = n_free();
  counts_.retiring = static_cast<std::uint32_t>(retiring_.size());
  return counts_;
}

BlockId BlockPool::take() {
  assert(!free_.empty());
  const BlockId id = free_.back();
  free_.pop_back();
  block(id).references = 1;
  ++counts_.leased;
  return id;
}

bool BlockPool::add_ref(BlockId id) {
  Block& b = block(id);
  const bool was_cached = is_cached(id);
  if (b.references++ > 0) return false;
  ++counts_.leased;
  if (b.retiring) end_retiring(id);
  if (was_cached) unlink_cached(id);
  return was_cached;
}

bool BlockPool::drop_ref(BlockId id, std::uint64_t last_step, bool evict_first) {
  Block& b = block(id);
  assert(b.references > 0);
  b.evict_first = evict_first;
  b.busy_until = std::max(b.busy_until, last_step);
  if (--b.references > 0) return false;
  --counts_.leased;
  if (b.busy_until > retired_step_) {
    begin_retiring(id);
    return false;
  }
  rest(id);
  return true;
}

void BlockPool::begin_retiring(BlockId id) {
  block(id).retiring = true;
  block(id).retiring_at = static_cast<std::uint32_t>(retiring_.size());
  retiring_.push_back(id);
}

// The last one takes its place: a long prefix that is taken up again costs one move per block.
void BlockPool::end_retiring(BlockId id) {
  Block& b = block(id);
  assert(b.retiring && retiring_[b.retiring_at] == id);
  b.retiring = false;
  const BlockId last = retiring_.back();
  retiring_[b.retiring_at] = last;
  block(last).retiring_at = b.retiring_at;
  retiring_.pop_back();
}

std::vector<BlockId> BlockPool::retire(std::uint64_t step) {
  retired_step_ = std::max(retired_step_, step);
  std::vector<BlockId> rested;
  const std::vector<BlockId> before = std::exchange(retiring_, {});
  for (const BlockId id : before) {
    if (block(id).busy_until > retired_step_) {
      begin_retiring(id);
      continue;
    }
    block(id).retiring = false;
    rest(id);
    rested.push_back(id);
  }
  return rested;
}

void BlockPool::rest(BlockId id) {
  if (block(id).indexed) {
    link_cached(id);
  } else {
    free_.push_back(id);
  }
}

void BlockPool::link_cached(BlockId id) {
  ++counts_.cached;
  if (!in_order_) return;
  const std::uint32_t priority = block(id).priority;
  const BlockId ends = ends_of(priority);
  const BlockId next = block(id).evict_first ? links_[ends].next : ends;
  const BlockId previous = links_[next].previous;
  links_[id] = {.next = next, .previous = previous};
  links_[next].previous = id;
  links_[previous].next = id;
  cached_levels_[priority / 64] |= std::uint64_t{1} << priority % 64;
}

BlockId BlockPool::first_cached() const {
  for (std::uint32_t word = 0; word < cached_levels_.size(); ++word) {
    if (cached_levels_[word] == 0) continue;
    return links_[ends_of(word * 64 +
                          static_cast<std::uint32_t>(std::countr_zero(cached_levels_[word])))]
        .next;
  }
  return 0;
}

void BlockPool::set_priority(BlockId id, std::uint32_t priority, bool evict_first) {
  assert(block(id).indexed);
  const bool cached = is_cached(id);
  if (cached) unlink_cached(id);
  block(id).priority = static_cast<std::uint8_t>(priority);
  block(id).evict_first = evict_first;
  if (cached) link_cached(id);
}

void BlockPool::unlink_cached(BlockId id) {
  --counts_.cached;
  if (!in_order_) return;
  const Links at = std::exchange(links_[id], {});
  links_[at.next].previous = at.previous;
  links_[at.previous].next = at.next;
  const std::uint32_t priority = block(id).priority;
  if (at.next == at.previous && at.next == ends_of(priority))
    cached_levels_[priority / 64] &= ~(std::uint64_t{1} << priority % 64);
}

void BlockPool::mark_indexed(BlockId id, std::uint32_t priority) {
  assert(block(id).references > 0 && !block(id).indexed);
  block(id).priority = static_cast<std::uint8_t>(priority);
  block(id).indexed = true;
}

void BlockPool::unmark_indexed(BlockId id) {
  assert(block(id).indexed);
  if (is_cached(id)) {
    unlink_cached(id);
    free_.push_back(id);
  }
  block(id).indexed = false;
}

std::string BlockPool::check() const {
  BlockCounts seen{.total = static_cast<std::uint32_t>(blocks_.size())};
  std::vector<bool> on_stack(blocks_.size() + 1);
  for (const BlockId id : free_) {
    if (id == 0 || id > blocks_.size()) return "free stack holds block " + std::to_string(id);
    if (on_stack[id]) return "block " + std::to_string(id) + " is free twice";
    on_stack[id] = true;
  }
  for (BlockId id = 1; id <= blocks_.size(); ++id) {
    const Block& b = block(id);
    const bool idle = b.references == 0 && !b.retiring && !b.indexed;
    if (idle != on_stack[id]) return "block " + std::to_string(id) + " has no state";
    if (b.references > 0) {
      if (b.retiring) return "block " + std::to_string(id) + " is leased and retiring";
      ++seen.leased;
    } else if (b.retiring) {
      ++seen.retiring;
    } else if (b.indexed) {
      ++seen.cached;
    } else {
      ++seen.free;
    }
  }
  for (std::size_t i = 0; i < retiring_.size(); ++i) {
    const Block& b = block(retiring_[i]);
    if (!b.retiring || b.retiring_at != i)
      return "block " + std::to_string(retiring_[i]) + " is not where it retires";
  }
  std::uint32_t n_linked = 0;
  for (std::uint32_t priority = 0; priority <= kRetentionPriorityMax; ++priority) {
    const BlockId ends = ends_of(priority);
    const bool any = (cached_levels_[priority / 64] >> priority % 64 & 1U) != 0;
    if (any != (links_[ends].next != ends)) return "a priority's ring is not as it is noted";
    for (BlockId id = links_[ends].next; id != ends; id = links_[id].next) {
      if (id > blocks_.size() || !is_cached(id) || block(id).priority != priority)
        return "block " + std::to_string(id) + " is linked and not cached";
      if (++n_linked > seen.cached) return "a ring of cached blocks does not end";
    }
  }
  if (in_order_ && n_linked != seen.cached) return "cached blocks are not linked";
  if (seen != counts()) return "counters differ from a recount";
  if (seen.free + seen.cached + seen.leased + seen.retiring != seen.total)
    return "blocks are not conserved";
  return {};
}

}  // namespace coxswain::kvcache
