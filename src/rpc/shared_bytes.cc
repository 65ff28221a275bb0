#include "rpc/shared_bytes.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <unistd.h>

#include <sys/mman.h>
#include <sys/stat.h>

namespace coxswain::rpc {
namespace {

constexpr int kSeals = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL;

Status failed(Code code, const std::string& what) {
  return {code, what + ": " + std::strerror(errno)};
}

}  // namespace

Result<Descriptor> share_bytes(std::string_view bytes) {
  Descriptor out(::memfd_create("coxswain-attachment", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  if (!out.valid()) return failed(Code::kUnimplemented, "memfd_create");
  for (std::size_t at = 0; at < bytes.size();) {
    const ssize_t n = ::write(out.get(), bytes.data() + at, bytes.size() - at);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(Code::kResourceExhausted, "an anonymous file");
    at += static_cast<std::size_t>(n);
  }
  if (::fcntl(out.get(), F_ADD_SEALS, kSeals) != 0)
    return failed(Code::kUnimplemented, "F_ADD_SEALS");
  return out;
}

Result<std::string> read_shared(const SharedBytes& where) {
  const std::string path = "/proc/" + std::to_string(where.pid) + "/fd/" + std::to_string(where.fd);
  // Whatever else has the name is not waited for.
  const Descriptor fd(::open(path.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK));
  if (!fd.valid()) return failed(Code::kUnimplemented, path);
  return read_shared(fd.get(), where.n_bytes);
}

Result<std::string> read_shared(int fd, std::uint64_t n_bytes) {
  struct stat about = {};
  if (::fstat(fd, &about) != 0) return failed(Code::kUnimplemented, "fstat");
  if (::fcntl(fd, F_GET_SEALS) != kSeals || about.st_uid != ::geteuid())
    return Status(Code::kUnimplemented, "no sealed anonymous file of this user");
  if (static_cast<std::uint64_t>(about.st_size) != n_bytes) {
    return Status(Code::kUnimplemented,
                  "an anonymous file of " + std::to_string(about.st_size) + " bytes, not " +
                      std::to_string(n_bytes));
  }
  std::string out(n_bytes, '\0');
  for (std::size_t at = 0; at < out.size();) {
    const ssize_t n = ::pread(fd, out.data() + at, out.size() - at, static_cast<off_t>(at));
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return failed(Code::kUnimplemented, "pread");
    at += static_cast<std::size_t>(n);
  }
  return out;
}

}  // namespace coxswain::rpc
