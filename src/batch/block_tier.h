#pragma once
// BlockTier: where blocks of prefixes are kept that the KV cache may have lost: a second level behind it. The engine
// hands it blocks of sequences that have ended and asks it for what a prompt can use of them (tier_driver.h). The tier
// moves bytes between its store and the runner's attachments, on a thread of its own.
//
// A key stands for a block and all before it, of one identity (docs/scheduling.md).
//
// Thread rule: any thread for keys, n_known, serves, takes, stats; one engine for the others. `done` is called once, on
// the tier's thread, unless forget_jobs() comes before.

#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include <coxswain/stats.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain::batch {

struct BlockKey {
  std::uint64_t high = 0;
  std::uint64_t low = 0;

  friend auto operator<=>(const BlockKey&, const BlockKey&) = default;
};

struct TierBlock {
  BlockKey key;
  std::vector<TokenId> tokens = {};  // of the block itself
  std::uint32_t priority = 0;        // 0 to 100: lower ones go first (Retention)
};

// A piece on its way: the attachment holds these blocks, in order, in every KV group.
struct TierJob {
  std::shared_ptr<StepRunner> runner = {};
  std::uint64_t attachment = 0;
  std::vector<TierBlock> blocks = {};
  // How many of the blocks, from the front, were kept, or are attached.
  std::function<void(std::uint32_t)> done = [](std::uint32_t) {};
};

class BlockTier {
 public:
  virtual ~BlockTier() = default;

  // Of all whole blocks of `tokens`.
  virtual std::vector<BlockKey> keys(std::string_view identity,
                                     std::span<const TokenId> tokens,
                                     std::uint32_t block_tokens) const = 0;
  // How many blocks from the front are there. They are then the last to go.
  virtual std::uint32_t n_known(std::span<const BlockKey> keys) = 0;
  // Whether its blocks are those of this runner.
  virtual bool serves(const RunnerInfo& info) const = 0;
  // Whether blocks are taken: not where the store cannot be written.
  virtual bool takes() const = 0;

  // Takes the attachment, which a step has made, and keeps its blocks.
  virtual void store(TierJob job) = 0;
  // Attaches what is there of the blocks, checked. Nothing is attached if done() says 0.
  virtual void load(TierJob job) = 0;
  // Of the engine that asks no more: jobs that wait are dropped, one that runs is waited for.
  virtual void forget_jobs() = 0;

  virtual KvTierStats stats() const = 0;
};

}  // namespace coxswain::batch
