#pragma once
// MemoryStore: blocks in the memory of this process, as they are: a copy costs less than to make them smaller. The
// bound counts the bytes of blocks and tokens and what it takes to find them.
//
// Thread rule: block_store.h.

#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/kv_layout.h>
#include <coxswain/types.h>

#include "base/mutex.h"
#include "kvspill/block_store.h"
#include "kvspill/tier_index.h"

namespace coxswain::kvspill {

class MemoryStore final : public BlockStore {
 public:
  // Beside its bytes, of each block.
  static constexpr std::uint64_t kOverheadBytes = 384;

  MemoryStore(std::uint64_t bytes_max, KvLayout layout)
      : bytes_max_(bytes_max), layout_(std::move(layout)) {}

  batch::TierPlace find(const batch::BlockKey& key) const override;
  void touch(const batch::BlockKey& key) override;
  // Errors: kResourceExhausted, naming the bound.
  Status put(const batch::TierBlock& block,
             std::string_view bytes,
             std::vector<batch::BlockKey>& gone) override;
  Result<std::string> get(const batch::TierBlock& block) override;
  StoreCounts counts() const override;
  std::uint64_t capacity(std::uint64_t block_bytes) const override;

 private:
  struct Held {
    std::vector<TokenId> tokens;
    std::string bytes;
  };
  static std::uint64_t size_of(std::uint64_t n_bytes, std::uint64_t n_tokens) {
    return n_bytes + n_tokens * sizeof(TokenId) + kOverheadBytes;
  }
  void remove(const batch::BlockKey& key) REQUIRES(mu_);

  const std::uint64_t bytes_max_;
  const KvLayout layout_;
  mutable base::Mutex mu_;
  TierIndex index_ GUARDED_BY(mu_);
  std::map<batch::BlockKey, Held> held_ GUARDED_BY(mu_);
  std::uint64_t n_refused_ GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::kvspill
