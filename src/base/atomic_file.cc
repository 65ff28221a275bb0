#include "base/atomic_file.h"

#include <cerrno>
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>
#include <utility>

namespace coxswain::base {
namespace {

Status failure_of(const std::string& path, const char* what, int error) {
  const bool full = error == ENOSPC || error == EDQUOT || error == EFBIG;
  char text[128];
  return {full ? Code::kResourceExhausted : Code::kUnavailable,
          "`" + path + "`: " + what + ": " + strerror_r(error, text, sizeof text)};
}

void sync_folder_of(const std::string& path, const FileCalls& calls) {
  const std::size_t slash = path.rfind('/');
  const std::string folder = slash == std::string::npos ? "." : path.substr(0, slash + 1);
  const int fd = ::open(folder.c_str(), O_RDONLY | O_DIRECTORY | O_CLOEXEC);
  if (fd < 0) return;
  static_cast<void>(calls.fsync(fd));  // the file is whole in any case
  ::close(fd);
}

}  // namespace

const FileCalls& FileCalls::system() {
  static constexpr FileCalls kCalls{.write = ::write, .fsync = ::fsync, .rename = ::rename};
  return kCalls;
}

AtomicFile::AtomicFile(std::string path, std::string temporary, int fd, const FileCalls& calls)
    : path_(std::move(path)), temporary_(std::move(temporary)), fd_(fd), calls_(&calls) {}

AtomicFile::AtomicFile(AtomicFile&& other) noexcept
    : path_(std::move(other.path_)),
      temporary_(std::move(other.temporary_)),
      fd_(std::exchange(other.fd_, -1)),
      calls_(other.calls_) {}

AtomicFile::~AtomicFile() {
  if (fd_ < 0) return;
  ::close(fd_);
  ::unlink(temporary_.c_str());
}

Status AtomicFile::failure(const char* what) const {
  return failure_of(path_, what, errno);
}

Result<AtomicFile> AtomicFile::create(std::string path, const FileCalls& calls) {
  std::string temporary = path + std::string(kUnfinished) + "XXXXXX";
  const int fd = ::mkostemp(temporary.data(), O_CLOEXEC);
  if (fd < 0) return failure_of(path, "cannot be made", errno);
  return AtomicFile(std::move(path), std::move(temporary), fd, calls);
}

Status AtomicFile::write(std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = calls_->write(fd_, bytes.data(), bytes.size());
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) {
      if (n == 0) errno = ENOSPC;
      return failure("cannot be written");
    }
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return {};
}

Status AtomicFile::commit(bool synced) {
  if (synced && calls_->fsync(fd_) != 0) return failure("cannot be synced");
  if (calls_->rename(temporary_.c_str(), path_.c_str()) != 0) return failure("cannot be renamed");
  ::close(std::exchange(fd_, -1));
  if (synced) sync_folder_of(path_, *calls_);
  return {};
}

}  // namespace coxswain::base
