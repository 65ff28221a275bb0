#pragma once
// OtherFolders: what models that are not served now have left below the path of a FileStore. Their blocks share the
// bound of the store and go before its own: folder by folder, the one used longest ago first, and in it the block used
// longest ago. A folder without blocks goes with its secret and lock.
//
// A folder whose lock a living process holds is neither touched nor counted. Nothing is removed whose name a FileStore
// has not given, so files that others keep there stay.
//
// Thread rule: none of its own.

#include <cstdint>
#include <deque>
#include <filesystem>

namespace coxswain::kvspill {

class OtherFolders {
 public:
  OtherFolders() = default;
  // All below `path` but `own`.
  OtherFolders(const std::filesystem::path& path, const std::filesystem::path& own);

  std::uint64_t n_bytes() const { return n_bytes_; }
  // Removes blocks until there are no more than `bytes_max`.
  void shrink_to(std::uint64_t bytes_max);

 private:
  struct Folder {
    std::filesystem::path path;
    std::uint64_t bytes = 0;
    std::filesystem::file_time_type used_at;
  };
  void shrink(Folder& folder, std::uint64_t bytes_max);

  std::deque<Folder> folders_;  // the one used longest ago first
  std::uint64_t n_bytes_ = 0;   // of all of them
};

// The descriptor of the lock of a folder, or -1: it is missing, or another process holds it.
int lock_folder(const std::filesystem::path& folder, bool create);

}  // namespace coxswain::kvspill
