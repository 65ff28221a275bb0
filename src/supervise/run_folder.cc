#include "supervise/run_folder.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <filesystem>
#include <system_error>
#include <unistd.h>
#include <utility>

#include <sys/file.h>
#include <sys/stat.h>

namespace coxswain::supervise {
namespace {

constexpr const char* kPrefix = "coxswain-";
constexpr const char* kLockName = "launcher.lock";

bool is_ours(const std::filesystem::path& path) {
  struct stat info {};
  return lstat(path.c_str(), &info) == 0 && S_ISDIR(info.st_mode) && info.st_uid == geteuid();
}

// A folder whose lock can be taken has no living owner, or one that is about to take it (create()).
void remove_if_stale(const std::filesystem::path& folder) {
  const int fd = open((folder / kLockName).c_str(), O_RDWR | O_CLOEXEC);
  if (fd < 0) return;
  if (flock(fd, LOCK_EX | LOCK_NB) == 0) {
    std::error_code ignored;
    std::filesystem::remove_all(folder, ignored);
  }
  close(fd);
}

void remove_stale_folders(const std::string& parent) {
  std::error_code error;
  // Not by a range: its increment throws.
  for (std::filesystem::directory_iterator entry(parent, error), end; !error && entry != end;
       entry.increment(error)) {
    if (entry->path().filename().string().starts_with(kPrefix) && is_ours(entry->path()))
      remove_if_stale(entry->path());
  }
}

}  // namespace

Result<RunFolder> RunFolder::create(const std::string& parent) {
  remove_stale_folders(parent);
  for (;;) {
    std::string path = parent + "/" + kPrefix + "XXXXXX";
    if (mkdtemp(path.data()) == nullptr) {
      return Status(Code::kUnavailable,
                    "cannot make a folder in " + parent + ": " + std::strerror(errno));
    }
    const std::string lock = path + "/" + kLockName;
    const int fd = open(lock.c_str(), O_CREAT | O_RDWR | O_CLOEXEC, 0600);
    if (fd < 0 || flock(fd, LOCK_EX) != 0) {
      const Status status(Code::kUnavailable, "cannot lock " + lock + ": " + std::strerror(errno));
      if (fd >= 0) close(fd);
      std::error_code ignored;
      std::filesystem::remove_all(path, ignored);
      return status;
    }
    RunFolder made(std::move(path), fd);
    // Before we had the lock another launcher may have taken the folder for a stale one.
    if (access(lock.c_str(), F_OK) == 0) return made;
  }
}

RunFolder::RunFolder(RunFolder&& other) noexcept
    : path_(std::exchange(other.path_, {})), lock_fd_(std::exchange(other.lock_fd_, -1)) {}

RunFolder::~RunFolder() {
  if (lock_fd_ < 0) return;
  std::error_code ignored;
  std::filesystem::remove_all(path_, ignored);
  close(lock_fd_);
}

}  // namespace coxswain::supervise
