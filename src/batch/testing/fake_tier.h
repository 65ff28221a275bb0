#pragma once
// FakeTier: a BlockTier whose jobs are done when a test says so, on the thread of the test, and go wrong as it says.
// What it keeps is what the runner gave, with the runner's checksums: what is broken here is noticed there.
//
// Beyond `n_blocks_max` the block goes that was used longest ago.
//
// Thread rule: one thread, that of the engine core.

#include <chrono>
#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "batch/block_tier.h"

namespace coxswain::batch::testing {

class FakeTier final : public BlockTier {
 public:
  enum class Fault : std::uint8_t {
    kNone,
    kLost,    // nothing of the job is kept, or found
    kCut,     // less than asked for
    kBroken,  // other bytes than those that were kept
  };

  FakeTier(const RunnerInfo& info, std::uint32_t n_blocks_max);

  // Asked for each job.
  std::function<Fault()> draw_fault = [] { return Fault::kNone; };
  std::chrono::nanoseconds took{0};  // what a job says
  bool takes_blocks = true;

  // Does one job: those that wait for blocks first. False if there is none.
  bool do_one();
  bool has_jobs() const { return !jobs_.empty(); }
  std::uint64_t n_stored() const { return n_stored_; }  // jobs
  std::uint64_t n_loaded() const { return n_loaded_; }

  std::vector<BlockKey> keys(std::string_view identity,
                             std::span<const TokenId> tokens,
                             std::uint32_t block_tokens) const override;
  std::vector<TierPlace> places(std::span<const BlockKey> keys) const override;
  void touch(std::span<const BlockKey> keys) override;
  bool serves(const RunnerInfo& info) const override;
  bool takes() const override { return takes_blocks; }
  void store(TierJob job) override { jobs_.push_back({.stores = true, .job = std::move(job)}); }
  void load(TierJob job) override { jobs_.push_back({.stores = false, .job = std::move(job)}); }
  void forget_jobs() override { jobs_.clear(); }
  KvTierStats stats() const override;
  std::vector<std::uint32_t> capacity() const override { return {n_blocks_max_}; }

 private:
  struct Held {
    std::map<std::uint32_t, std::string> bytes = {};  // by group, with its checksum
    std::vector<TokenId> tokens = {};
    std::uint32_t priority = 0;
    std::uint64_t used_at = 0;
  };
  struct Job {
    bool stores = false;
    TierJob job;
  };
  std::uint32_t do_store(const TierJob& job, Fault fault, TierDone& done);
  std::uint32_t do_load(const TierJob& job, Fault fault);
  void make_room(TierDone& done);

  const RunnerInfo info_;
  const std::uint32_t n_blocks_max_;
  std::map<BlockKey, Held> held_;
  std::deque<Job> jobs_;
  std::uint64_t n_uses_ = 0;
  std::uint64_t n_offloaded_ = 0;
  std::uint64_t n_stored_ = 0;
  std::uint64_t n_loaded_ = 0;
};

}  // namespace coxswain::batch::testing
