#include "rpc/stock/block_book.h"

#include <algorithm>
#include <string>

namespace coxswain::rpc {

Result<BlockBook::Claim> BlockBook::claim(std::vector<BlockId> table, std::uint32_t n_shared) {
  for (std::size_t i = 0; i < table.size(); ++i) {
    const BlockId id = table[i];
    if (id >= written_.size()) {
      return invalid_argument(
          "`blocks`: " + std::to_string(id) + " is not below " + std::to_string(written_.size()),
          "blocks");
    }
    const bool allowed = i < n_shared ? !written_[id] : is_free(id);
    if (!allowed) {
      return invalid_argument("`blocks`: " + std::to_string(id) + " is in use by another sequence",
                              "blocks");
    }
  }
  std::vector<BlockId> sorted = table;
  std::sort(sorted.begin(), sorted.end());
  if (const auto twice = std::adjacent_find(sorted.begin(), sorted.end()); twice != sorted.end()) {
    return invalid_argument("`blocks`: " + std::to_string(*twice) + " is there twice", "blocks");
  }
  Claim claim{.table = std::move(table), .n_shared = n_shared};
  take(claim);
  return claim;
}

Result<BlockBook::Claim> BlockBook::allocate(std::size_t n) {
  Claim claim;
  for (BlockId id = 0; id < written_.size() && claim.table.size() < n; ++id) {
    if (is_free(id)) claim.table.push_back(id);
  }
  if (claim.table.size() < n) {
    return Status(Code::kResourceExhausted,
                  ErrorKind::kOverloaded,
                  "not enough KV blocks: " + std::to_string(n) + " are needed, " +
                      std::to_string(claim.table.size()) + " are free");
  }
  take(claim);
  return claim;
}

void BlockBook::take(const Claim& claim) {
  for (std::size_t i = 0; i < claim.table.size(); ++i) {
    if (i < claim.n_shared) {
      ++readers_[claim.table[i]];
    } else {
      written_[claim.table[i]] = true;
    }
  }
}

void BlockBook::release(const Claim& claim) {
  for (std::size_t i = 0; i < claim.table.size(); ++i) {
    if (i < claim.n_shared) {
      --readers_[claim.table[i]];
    } else {
      written_[claim.table[i]] = false;
    }
  }
}

}  // namespace coxswain::rpc
