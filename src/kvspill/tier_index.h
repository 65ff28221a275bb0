#pragma once
// TierIndex: which blocks a store has, and which of them goes first: that of the lowest priority, of several the one
// that was used longest ago.
//
// Thread rule: none of its own.

#include <cstdint>
#include <map>
#include <optional>
#include <set>
#include <tuple>

#include "batch/block_tier.h"

namespace coxswain::kvspill {

class TierIndex {
 public:
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint32_t priority = 0;
    std::uint32_t groups = 0;  // as TierBlock has them
    std::uint64_t used_at = 0;
  };

  // Null if it is not there.
  const Entry* find(const batch::BlockKey& key) const;
  // In the place of a former one; used last.
  void put(const batch::BlockKey& key, Entry entry);
  void remove(const batch::BlockKey& key);
  void touch(const batch::BlockKey& key);
  std::optional<batch::BlockKey> first_to_go() const;

  std::uint64_t n_blocks() const { return entries_.size(); }
  std::uint64_t n_bytes() const { return n_bytes_; }

 private:
  using Rank = std::tuple<std::uint32_t, std::uint64_t, batch::BlockKey>;

  std::map<batch::BlockKey, Entry> entries_;
  std::set<Rank> ranks_;  // (priority, used_at, key): the first one goes first
  std::uint64_t n_bytes_ = 0;
  std::uint64_t n_uses_ = 0;
};

}  // namespace coxswain::kvspill
