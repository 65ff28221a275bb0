#pragma once
// BlockTier: where blocks of prefixes are kept that the KV cache may have lost: a second level behind it. The engine
// hands it blocks of sequences that have ended or were paused and asks it for what a context can use of them
// (tier_driver.h). The tier moves bytes between its store and the runner's attachments, on a thread of its own.
//
// A key stands for a block and all before it, of one identity (docs/scheduling.md).
//
// Thread rule: any thread for keys, places, capacity, serves, takes, stats; one engine for the others. `done` is called
// once, on the tier's thread, unless forget_jobs() comes before.

#include <chrono>
#include <compare>
#include <cstdint>
#include <functional>
#include <memory>
#include <span>
#include <string_view>
#include <utility>
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
  std::uint32_t groups = 1;  // a bit for each KV group that has, or shall get, keys and values
};

// Where a block is.
struct TierPlace {
  std::uint32_t groups = 0;  // as TierBlock has them; 0: the block is not there
  std::uint32_t level = 0;   // the fastest that has some of it, as KvEventBlock::cache_level
  std::uint32_t priority = 0;

  friend bool operator==(const TierPlace&, const TierPlace&) = default;
};

struct TierDone {
  std::uint32_t n_blocks = 0;        // of the job, from the front, that were kept, or are attached
  std::chrono::nanoseconds took{0};  // without the jobs before it
  // Blocks, the job's or others, that are elsewhere now.
  std::vector<std::pair<BlockKey, TierPlace>> moved = {};
};

// A piece on its way: the attachment holds these blocks, in order, in each KV group those that have it.
struct TierJob {
  std::shared_ptr<StepRunner> runner = {};
  std::uint64_t attachment = 0;
  std::vector<TierBlock> blocks = {};
  std::function<void(TierDone)> done = [](const TierDone&) {};
};

class BlockTier {
 public:
  virtual ~BlockTier() = default;

  // Of all whole blocks of `tokens`.
  virtual std::vector<BlockKey> keys(std::string_view identity,
                                     std::span<const TokenId> tokens,
                                     std::uint32_t block_tokens) const = 0;
  virtual std::vector<TierPlace> places(std::span<const BlockKey> keys) const = 0;
  // They are the last ones to go of their priority, the first of them last of all: a prefix needs its beginning.
  virtual void touch(std::span<const BlockKey> keys) = 0;
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
  // KvEvent::tier_blocks.
  virtual std::vector<std::uint32_t> capacity() const = 0;
};

}  // namespace coxswain::batch
