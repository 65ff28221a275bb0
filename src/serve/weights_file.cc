#include "serve/weights_file.h"

#include <cerrno>
#include <charconv>
#include <cstring>
#include <fcntl.h>
#include <string>
#include <string_view>
#include <unistd.h>

#include <sys/mman.h>

namespace coxswain::serve {
namespace {

Status failed(const char* what) {
  return {
      Code::kUnavailable,
      "replicas cannot share their weights: " + std::string(what) + ": " + std::strerror(errno)};
}

int make_file() {
  return memfd_create("coxswain-weights", MFD_CLOEXEC | MFD_ALLOW_SEALING);
}

template <typename T>
bool read_number(std::string_view text, T& out) {
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Result<WeightsFile> WeightsFile::make() {
  const int fd = make_file();
  if (fd < 0) return failed("memfd_create");
  return WeightsFile(fd);
}

WeightsFile::~WeightsFile() {
  if (fd_ >= 0) close(fd_);
}

Status WeightsFile::renew() {
  const int fd = make_file();
  if (fd < 0) return failed("memfd_create");
  const int moved = dup3(fd, fd_, O_CLOEXEC);
  Status out = moved < 0 ? failed("dup3") : Status();
  close(fd);
  return out;
}

Result<std::optional<InheritedWeights>> inherited_weights(const char* value) {
  if (value == nullptr) return std::optional<InheritedWeights>();
  const std::string_view text = value;
  const std::size_t colon = text.find(':');
  InheritedWeights out;
  if (colon == std::string_view::npos || !read_number(text.substr(0, colon), out.fd) ||
      !read_number(text.substr(colon + 1), out.sharers) || out.sharers == 0 ||
      fcntl(out.fd, F_GET_SEALS) < 0 || fcntl(out.fd, F_SETFD, FD_CLOEXEC) != 0) {
    return invalid_argument(std::string(kWeightsFileVariable) +
                            " names no file that replicas share: " + value);
  }
  return std::optional(out);
}

}  // namespace coxswain::serve
