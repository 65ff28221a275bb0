#pragma once
// A file that lives in memory only, for readers that want a path.
//
// Thread rule: one thread.

#include <string>
#include <string_view>
#include <unistd.h>

#include <sys/mman.h>

#include "fuzz/fuzz_input.h"

namespace coxswain::fuzz {

class MemoryFile {
 public:
  explicit MemoryFile(std::string_view bytes) : descriptor_(memfd_create("fuzz", MFD_CLOEXEC)) {
    require(descriptor_ >= 0, "a file in memory can be made");
    require(write(descriptor_, bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()),
            "a file in memory takes the input");
  }
  ~MemoryFile() { close(descriptor_); }
  MemoryFile(const MemoryFile&) = delete;
  MemoryFile& operator=(const MemoryFile&) = delete;

  std::string path() const { return "/proc/self/fd/" + std::to_string(descriptor_); }
  void cut(std::size_t n_bytes) const {
    require(ftruncate(descriptor_, static_cast<off_t>(n_bytes)) == 0, "a file can be cut");
  }

 private:
  int descriptor_;
};

}  // namespace coxswain::fuzz
