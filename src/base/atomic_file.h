#pragma once
// AtomicFile: a file that is there as a whole or not at all: written beside its name, synced, then renamed. Whoever
// reads the name meanwhile finds the former file, or none.
//
// Thread rule: one thread.

#include <cstddef>
#include <string>
#include <string_view>

#include <coxswain/status.h>
#include <sys/types.h>

namespace coxswain::base {

// The system's, but in tests that have a disk fail.
struct FileCalls {
  ssize_t (*write)(int fd, const void* bytes, std::size_t n);
  int (*fsync)(int fd);
  int (*rename)(const char* from, const char* to);

  static const FileCalls& system();
};

class AtomicFile {
 public:
  // What is behind the name of a file that is being written; six characters follow.
  static constexpr std::string_view kUnfinished = ".unfinished-";

  // Errors of all: kResourceExhausted for a full disk, else kUnavailable; each names the file and the cause.
  static Result<AtomicFile> create(std::string path, const FileCalls& calls = FileCalls::system());

  AtomicFile(AtomicFile&& other) noexcept;
  AtomicFile& operator=(AtomicFile&& other) = delete;
  AtomicFile(const AtomicFile&) = delete;
  AtomicFile& operator=(const AtomicFile&) = delete;
  ~AtomicFile();  // without commit() nothing is left

  Status write(std::string_view bytes);
  // Readable by the owner alone. `synced`: on the disk when it returns.
  Status commit(bool synced = true);

 private:
  AtomicFile(std::string path, std::string temporary, int fd, const FileCalls& calls);
  Status failure(const char* what) const;

  std::string path_;
  std::string temporary_;
  int fd_ = -1;
  const FileCalls* calls_;
};

}  // namespace coxswain::base
