#include "kvspill/memory_store.h"

#include <utility>

#include "kvspill/block_file.h"

namespace coxswain::kvspill {

using batch::BlockKey;
using batch::TierBlock;
using batch::TierPlace;

TierPlace MemoryStore::find(const BlockKey& key) const {
  base::MutexLock lock(mu_);
  const TierIndex::Entry* entry = index_.find(key);
  if (entry == nullptr) return {};
  return {.groups = entry->groups, .priority = entry->priority};
}

void MemoryStore::touch(const BlockKey& key) {
  base::MutexLock lock(mu_);
  index_.touch(key);
}

void MemoryStore::remove(const BlockKey& key) {
  index_.remove(key);
  held_.erase(key);
}

std::uint64_t MemoryStore::capacity(std::uint64_t block_bytes) const {
  return bytes_max_ / size_of(block_bytes, layout_.block_tokens);
}

Status MemoryStore::put(const TierBlock& block,
                        std::string_view bytes,
                        std::vector<BlockKey>& gone) {
  const std::uint64_t size = size_of(bytes.size(), block.tokens.size());
  if (size > bytes_max_) {
    return {Code::kResourceExhausted,
            "a block takes " + std::to_string(size) + " bytes, `kv_host_bytes_max` is " +
                std::to_string(bytes_max_)};
  }
  Held held{.tokens = block.tokens, .bytes = std::string(bytes)};
  base::MutexLock lock(mu_);
  remove(block.key);
  for (auto first = index_.first_to_go(); first && index_.n_bytes() + size > bytes_max_;
       first = index_.first_to_go()) {
    gone.push_back(*first);
    remove(*first);
  }
  index_.put(block.key, {.bytes = size, .priority = block.priority, .groups = block.groups});
  held_[block.key] = std::move(held);
  return {};
}

Result<std::string> MemoryStore::get(const TierBlock& block) {
  base::MutexLock lock(mu_);
  const TierIndex::Entry* entry = index_.find(block.key);
  if (entry == nullptr || (block.groups & ~entry->groups) != 0)
    return Status(Code::kNotFound, "the block has gone meanwhile");
  const Held& held = held_.at(block.key);
  if (held.tokens == block.tokens)
    return select_groups(layout_, entry->groups, held.bytes, block.groups);
  remove(block.key);
  ++n_refused_;
  return invalid_argument("holds a block of other tokens");
}

StoreCounts MemoryStore::counts() const {
  base::MutexLock lock(mu_);
  return {.blocks = index_.n_blocks(), .bytes = index_.n_bytes(), .refused = n_refused_};
}

}  // namespace coxswain::kvspill
