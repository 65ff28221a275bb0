#pragma once
// BlockStore: one level of the tier: bytes of blocks by their keys, up to a bound. What goes first says TierIndex.
//
// The bytes of a block are those of its groups (TierBlock::groups), as block_bytes() counts them.
//
// Thread rule: put() and get() from one thread; the others from any.

#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "batch/block_tier.h"

namespace coxswain::kvspill {

struct StoreCounts {
  std::uint64_t blocks = 0;
  std::uint64_t bytes = 0;
  std::uint64_t refused = 0;  // were not what they should be, and are gone
};

class BlockStore {
 public:
  virtual ~BlockStore() = default;

  // What it has of the block, without a level.
  virtual batch::TierPlace find(const batch::BlockKey& key) const = 0;
  // It is the last one to go of its priority.
  virtual void touch(const batch::BlockKey& key) = 0;
  // In the place of what is there of the block; others make room. Errors: whatever keeps it from being kept. `gone`
  // gets those that are there no longer.
  virtual Status put(const batch::TierBlock& block,
                     std::string_view bytes,
                     std::vector<batch::BlockKey>& gone) = 0;
  // Of block.groups, checked. Errors: kNotFound; else it was not right, and is gone.
  virtual Result<std::string> get(const batch::TierBlock& block) = 0;
  virtual StoreCounts counts() const = 0;
  // How many blocks of so many bytes there is room for, at least.
  virtual std::uint64_t capacity(std::uint64_t block_bytes) const = 0;
};

}  // namespace coxswain::kvspill
