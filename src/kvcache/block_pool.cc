#include "kvcache/block_pool.h"

#include <algorithm>
#include <cassert>
#include <utility>

namespace coxswain::kvcache {

BlockPool::BlockPool(std::uint32_t n_blocks) : blocks_(n_blocks) {
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
  const BlockId next = block(id).evict_first ? cached_.next : 0;
  const BlockId previous = links(next).previous;
  block(id).links = {.next = next, .previous = previous};
  links(next).previous = id;
  links(previous).next = id;
  ++counts_.cached;
}

void BlockPool::unlink_cached(BlockId id) {
  const Links at = block(id).links;
  links(at.next).previous = at.previous;
  links(at.previous).next = at.next;
  block(id).links = {};
  --counts_.cached;
}

void BlockPool::mark_indexed(BlockId id) {
  assert(block(id).references > 0 && !block(id).indexed);
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
  for (BlockId id = cached_.next; id != 0 && n_linked <= seen.cached; id = block(id).links.next) {
    if (!is_cached(id)) return "block " + std::to_string(id) + " is linked and not cached";
    ++n_linked;
  }
  if (n_linked != seen.cached) return "cached blocks are not linked";
  if (seen != counts()) return "counters differ from a recount";
  if (seen.free + seen.cached + seen.leased + seen.retiring != seen.total)
    return "blocks are not conserved";
  return {};
}

}  // namespace coxswain::kvcache
