#pragma once
// FileStore: blocks in a folder: a file for each (block_file.h), found again by the next process over it.
//
//   PATH/kv-HHHHHHHHHHHHHHHH/      of one model and layout: the hash of their description
//     secret                       drawn once: keys cannot be aimed at (32 bytes)
//     lock                         held by the process that uses the folder
//     KEY-PRIORITY-GROUPS.kvblock  32 hexadecimal digits, three decimal ones, eight hexadecimal ones
//
// Folders of models that are not served now share the bound and go first (other_folders.h); other folders and files are
// left alone. A file that is not what it should be goes at once, with a line in the log.
//
// Files hold keys and values of what users said, and their tokens: they are readable by their owner alone.
//
// Thread rule: block_store.h. One lock, never held while a file is read or written.

#include <array>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/kv_layout.h>

#include "base/atomic_file.h"
#include "base/keyed_hash.h"
#include "base/mutex.h"
#include "kvspill/block_store.h"
#include "kvspill/other_folders.h"
#include "kvspill/tier_index.h"

namespace coxswain::kvspill {

// Two of them: what a key is made with.
using Secrets = std::array<base::HashKey, 2>;

class FileStore final : public BlockStore {
 public:
  struct Options {
    std::string path;
    std::uint64_t bytes_max = 0;  // of all files below it, but for those that other processes use
    std::function<void(std::string_view)> warn = [](std::string_view) {};  // from any thread
    const base::FileCalls* calls = &base::FileCalls::system();
  };

  // `description`: of all that decides about the bytes of a block beside identity and tokens. Errors: a folder that
  // cannot be written, or that another process uses.
  static Result<std::unique_ptr<FileStore>> open(Options options,
                                                 const std::string& description,
                                                 const KvLayout& layout);
  ~FileStore() override;
  FileStore(const FileStore&) = delete;
  FileStore& operator=(const FileStore&) = delete;

  const Secrets& secrets() const { return secrets_; }

  batch::TierPlace find(const batch::BlockKey& key) const override;
  void touch(const batch::BlockKey& key) override;
  // Errors: kResourceExhausted or kUnavailable, naming the file and the cause.
  Status put(const batch::TierBlock& block,
             std::string_view bytes,
             std::vector<batch::BlockKey>& gone) override;
  Result<std::string> get(const batch::TierBlock& block) override;
  StoreCounts counts() const override;
  std::uint64_t capacity(std::uint64_t block_bytes) const override;

 private:
  FileStore(Options options, const std::string& description, const KvLayout& layout);
  Status open_folder();
  Status read_secret();
  void find_files();
  std::string path_of(const batch::BlockKey& key, const TierIndex::Entry& entry) const;
  Result<std::string> read(const batch::TierBlock& block,
                           const std::string& path,
                           std::uint64_t bytes) const;
  void make_room(std::uint64_t bytes, std::vector<batch::BlockKey>& gone);

  const Options options_;
  const KvLayout layout_;
  const std::uint64_t hash_;
  const std::string folder_;
  int lock_fd_ = -1;
  Secrets secrets_{};
  OtherFolders others_;  // put()'s thread

  mutable base::Mutex mu_;
  TierIndex index_ GUARDED_BY(mu_);
  std::uint64_t n_refused_ GUARDED_BY(mu_) = 0;
};

}  // namespace coxswain::kvspill
