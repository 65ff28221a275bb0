#pragma once
// BlockPool: the block ids of one KV group and the state of each.
//
//   free --take--> leased --last reference dropped--> [retiring --retire(step)-->] cached | free
//                    ^                                     |                          |
//                    '------------- add_ref (prefix hit) --'--------------------------'
//
//   free      on the free stack
//   leased    at least one sequence holds it
//   retiring  nobody holds it, but a submitted step still names it
//   cached    nobody holds it, and the prefix index names it; in order: which one to evict next, by priority, then as
//             they came to rest
//
// free + cached + leased + retiring = total, always (check()).
//
// Ids are 1..n_blocks: block 0 is kept for health probes of stock routers and is not part of the
// total. The pool owns ids, not bytes. Thread rule: one engine thread.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/retention.h>
#include <coxswain/types.h>

namespace coxswain::kvcache {

struct BlockCounts {
  std::uint32_t total = 0;
  std::uint32_t free = 0;
  std::uint32_t cached = 0;
  std::uint32_t leased = 0;
  std::uint32_t retiring = 0;

  friend bool operator==(const BlockCounts&, const BlockCounts&) = default;
};

class BlockPool {
 public:
  // Only with `in_order` is there an order of the cached blocks: first_cached().
  BlockPool(std::uint32_t n_blocks, bool in_order);

  std::uint32_t n_free() const { return static_cast<std::uint32_t>(free_.size()); }
  const BlockCounts& counts() const;
  std::uint32_t references(BlockId id) const { return block(id).references; }
  bool busy(BlockId id) const { return block(id).references > 0 || block(id).retiring; }

  // A free block with one reference. REQUIRES: n_free() > 0.
  BlockId take();
  // One more holder. True if the block was cached before. REQUIRES: not free.
  bool add_ref(BlockId id);
  // One holder less; `last_step` is the last submitted step that named the block for that holder. A block that comes
  // to be cached is the last one of its priority to evict, or the first one if `evict_first`.
  // True if the block came to rest at once (false: still held, or retiring).
  bool drop_ref(BlockId id, std::uint64_t last_step, bool evict_first = false);
  // Steps up to `step` have retired. Returns the blocks that came to rest.
  std::vector<BlockId> retire(std::uint64_t step);

  // Whether the prefix index names the block. REQUIRES for marking: leased.
  void mark_indexed(BlockId id, std::uint32_t priority = kRetentionPriorityDefault);
  // A cached one is then the last one of that priority to evict, or the first one if `evict_first`. REQUIRES: indexed.
  void set_priority(BlockId id, std::uint32_t priority, bool evict_first);
  // The index forgets the block; a cached one becomes free.
  void unmark_indexed(BlockId id);
  // The cached block to evict next, 0 if there is none.
  BlockId first_cached() const;

  // Empty, or what is wrong: recounts every block.
  std::string check() const;

 private:
  struct Links {
    BlockId next = 0;
    BlockId previous = 0;
  };
  struct Block {
    std::uint32_t references = 0;
    std::uint32_t retiring_at = 0;  // its place in retiring_
    bool indexed = false;
    bool retiring = false;
    bool evict_first = false;
    std::uint8_t priority = kRetentionPriorityDefault;
    std::uint64_t busy_until = 0;  // last submitted step that names it through a dropped reference
  };
  Block& block(BlockId id) { return blocks_[id - 1]; }
  const Block& block(BlockId id) const { return blocks_[id - 1]; }
  void begin_retiring(BlockId id);
  void end_retiring(BlockId id);
  void rest(BlockId id);
  bool is_cached(BlockId id) const { return block(id).indexed && !busy(id); }
  // Both ends of the ring of the cached blocks of a priority.
  BlockId ends_of(std::uint32_t priority) const {
    return static_cast<BlockId>(blocks_.size()) + 1 + priority;
  }
  void link_cached(BlockId id);
  void unlink_cached(BlockId id);

  bool in_order_ = false;
  std::vector<Block> blocks_;      // [n_blocks], index = id - 1
  std::vector<BlockId> free_;      // a stack: the block freed last is the warmest
  std::vector<BlockId> retiring_;  // what sequences that ended held while steps still name it
  std::vector<Links> links_;       // by id, of cached blocks; behind them the ends of the rings
  // A bit for each ring that has blocks.
  std::array<std::uint64_t, kRetentionPriorityMax / 64 + 1> cached_levels_{};
  mutable BlockCounts counts_;
  std::uint64_t retired_step_ = 0;
};

}  // namespace coxswain::kvcache
