#pragma once
// FileTier: a BlockTier in a folder: a file for each block (block_file.h), found again by the next process over it.
//
//   PATH/kv-HHHHHHHHHHHHHHHH/      of one model and layout: the hash of their description
//     secret                       drawn once: keys cannot be aimed at (32 bytes)
//     lock                         held by the process that uses the folder
//     KEY-PRIORITY.kvblock         32 hexadecimal digits, three decimal ones
//
// Other folders and files are left alone. Files beyond bytes_max go by priority, then by last use; a file that is not
// what it should be goes at once, is counted and logged, and its block is computed again. A folder that cannot be
// written or is in use, and a disk that is full, end the taking of blocks with one line in the log and hurt nobody.
//
// Files hold keys and values of what users said, and their tokens: they are readable by their owner alone.
//
// Thread rule: batch/block_tier.h. One lock, never held while a file is read or written; one thread.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <memory>
#include <set>
#include <string>
#include <string_view>
#include <thread>
#include <tuple>
#include <vector>

#include <coxswain/kv_layout.h>
#include <coxswain/retention.h>
#include <coxswain/step_runner.h>

#include "base/atomic_file.h"
#include "base/keyed_hash.h"
#include "base/mutex.h"
#include "batch/block_tier.h"

namespace coxswain::kvspill {

struct FileTierOptions {
  std::string path;
  std::uint64_t bytes_max = 0;  // of all files of the folder
  std::function<void(std::string_view)> warn = [](std::string_view) {};  // from any thread
  const base::FileCalls* calls = &base::FileCalls::system();
};

class FileTier final : public batch::BlockTier {
 public:
  // Always there: what cannot be used keeps nothing, and has said why.
  FileTier(FileTierOptions options, const RunnerInfo& info);
  ~FileTier() override;

  std::vector<batch::BlockKey> keys(std::string_view identity,
                                    std::span<const TokenId> tokens,
                                    std::uint32_t block_tokens) const override;
  std::uint32_t n_known(std::span<const batch::BlockKey> keys) override;
  bool serves(const RunnerInfo& info) const override;
  bool takes() const override;
  void store(batch::TierJob job) override;
  void load(batch::TierJob job) override;
  void forget_jobs() override;
  KvTierStats stats() const override;

 private:
  struct Entry {
    std::uint64_t bytes = 0;
    std::uint32_t priority = 0;
    std::uint64_t used_at = 0;
  };
  struct Job {
    bool stores = false;
    batch::TierJob job;
  };
  using Rank = std::tuple<std::uint32_t, std::uint64_t, batch::BlockKey>;

  Status open_folder();
  Status read_secret();
  void find_files();
  void run();
  std::uint32_t do_store(const batch::TierJob& job);
  std::uint32_t do_load(const batch::TierJob& job);
  Status keep(const batch::TierBlock& block, std::string_view bytes);
  Result<std::string> read(const batch::TierBlock& block);
  void stop_taking(const Status& why);
  std::string path_of(const batch::BlockKey& key, std::uint32_t priority) const;
  void touch(const batch::BlockKey& key, Entry& entry) REQUIRES(mu_);
  void add_entry(const batch::BlockKey& key, Entry entry) REQUIRES(mu_);
  void remove_entry(const batch::BlockKey& key) REQUIRES(mu_);
  void make_room(std::uint64_t bytes);

  const FileTierOptions options_;
  const std::string description_;  // of the runner whose blocks these are
  const KvLayout layout_;
  const std::uint64_t hash_;
  std::string folder_;
  int lock_fd_ = -1;
  base::HashKey first_key_{};
  base::HashKey second_key_{};

  mutable base::Mutex mu_;
  base::CondVar changed_;
  std::map<batch::BlockKey, Entry> entries_ GUARDED_BY(mu_);
  std::set<Rank> ranks_ GUARDED_BY(mu_);  // the first one goes first
  KvTierStats stats_ GUARDED_BY(mu_);
  std::uint64_t n_uses_ GUARDED_BY(mu_) = 0;
  bool takes_ GUARDED_BY(mu_) = false;
  std::deque<Job> jobs_ GUARDED_BY(mu_);
  bool runs_job_ GUARDED_BY(mu_) = false;
  bool stops_ GUARDED_BY(mu_) = false;
  std::thread thread_;
};

}  // namespace coxswain::kvspill
