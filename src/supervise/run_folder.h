#pragma once
// RunFolder: a private folder (mode 0700) for the sockets of one launcher, removed with it.
//
// The owner holds a lock on a file inside, so that a later launcher can tell a live folder from one
// whose owner was killed, and removes the latter.
//
// Thread rule: one thread.

#include <string>

#include <coxswain/status.h>

namespace coxswain::supervise {

class RunFolder {
 public:
  // Makes `parent`/coxswain-XXXXXX after removing stale folders of this user there. Errors:
  // kUnavailable naming the path and reason.
  static Result<RunFolder> create(const std::string& parent);

  ~RunFolder();
  RunFolder(RunFolder&& other) noexcept;
  RunFolder& operator=(RunFolder&&) = delete;

  const std::string& path() const { return path_; }

 private:
  RunFolder(std::string path, int lock_fd) : path_(std::move(path)), lock_fd_(lock_fd) {}

  std::string path_;
  int lock_fd_ = -1;
};

}  // namespace coxswain::supervise
