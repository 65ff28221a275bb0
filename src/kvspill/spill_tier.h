#pragma once
// SpillTier: the BlockTier of this machine: blocks in memory, in files, or in both.
//
// A block that comes is kept in both, so that a restart finds it in the files, and memory in front of them spares
// reading them. A block that only the files have is put into memory when it is read. Each level has a bound, beyond
// which blocks go by priority, then by last use.
//
// A level that cannot take blocks (a folder in use, a full disk) says so with one line in the log, takes no more and
// hurts nobody: what is not right is not used, and computed again.
//
// Thread rule: batch/block_tier.h. One thread moves the bytes; loads go before stores.

#include <cstdint>
#include <deque>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include <coxswain/kv_layout.h>
#include <coxswain/step_runner.h>

#include "base/atomic_file.h"
#include "base/mutex.h"
#include "batch/block_tier.h"
#include "kvspill/block_store.h"
#include "kvspill/file_store.h"

namespace coxswain::kvspill {

struct SpillOptions {
  std::uint64_t memory_bytes_max = 0;  // 0: none in memory
  std::string path = {};               // empty, or no bytes for it: none in files
  std::uint64_t file_bytes_max = 0;
  std::function<void(std::string_view)> warn = [](std::string_view) {};  // from any thread
  const base::FileCalls* calls = &base::FileCalls::system();

  bool any() const { return memory_bytes_max > 0 || (!path.empty() && file_bytes_max > 0); }
};

class SpillTier final : public batch::BlockTier {
 public:
  // Always there: what cannot be used keeps nothing, and has said why.
  SpillTier(SpillOptions options, const RunnerInfo& info);
  ~SpillTier() override;
  SpillTier(const SpillTier&) = delete;
  SpillTier& operator=(const SpillTier&) = delete;

  std::vector<batch::BlockKey> keys(std::string_view identity,
                                    std::span<const TokenId> tokens,
                                    std::uint32_t block_tokens) const override;
  std::vector<batch::TierPlace> places(std::span<const batch::BlockKey> keys) const override;
  void touch(std::span<const batch::BlockKey> keys) override;
  bool serves(const RunnerInfo& info) const override;
  bool takes() const override;
  void store(batch::TierJob job) override;
  void load(batch::TierJob job) override;
  void forget_jobs() override;
  KvTierStats stats() const override;
  std::vector<std::uint32_t> capacity() const override;

 private:
  struct Level {
    std::string_view name;
    std::unique_ptr<BlockStore> store;
    std::uint32_t number = 0;  // KvEventBlock::cache_level, and its bit of taking_
  };
  struct Job {
    bool stores = false;
    batch::TierJob job;
  };

  void add_levels();
  void run();
  batch::TierDone finish(std::uint32_t n_blocks);
  std::uint32_t do_store(const batch::TierJob& job);
  std::uint32_t do_load(const batch::TierJob& job);
  static std::uint32_t bit_of(const Level& level) { return std::uint32_t{1} << level.number; }
  bool takes(const Level& level) const;
  void stop_taking(const Level& level, const Status& why);
  bool keep(const batch::TierBlock& block, std::string_view bytes);
  bool keep_in(const Level& level, batch::TierBlock block, std::string_view bytes);
  Result<std::string> read(const batch::TierBlock& block, std::uint32_t& n_from_memory);

  const SpillOptions options_;
  const std::string description_;  // of the runner whose blocks these are
  const KvLayout layout_;
  Secrets secrets_{};
  std::vector<Level> levels_;           // the fastest first
  std::vector<batch::BlockKey> moved_;  // by the job that runs; the tier's thread

  mutable base::Mutex mu_;
  base::CondVar changed_;
  KvTierStats stats_ GUARDED_BY(mu_);
  std::uint32_t taking_ GUARDED_BY(mu_) = 0;  // levels, a bit for each
  std::deque<Job> jobs_ GUARDED_BY(mu_);
  bool runs_job_ GUARDED_BY(mu_) = false;
  bool stops_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

// Null where the options ask for none. Errors: kResourceExhausted: no memory or no thread.
Result<std::shared_ptr<batch::BlockTier>> make_tier(SpillOptions options, const RunnerInfo& info);

}  // namespace coxswain::kvspill
