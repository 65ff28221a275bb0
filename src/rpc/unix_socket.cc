#include "rpc/unix_socket.h"

#include <cerrno>
#include <cstring>
#include <fcntl.h>
#include <poll.h>
#include <string_view>
#include <system_error>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/stat.h>
#include <sys/un.h>

namespace coxswain::rpc {

namespace {

std::string error_text(int error) {
  return std::generic_category().message(error);
}

Status failed(Code code, const std::string& what, const std::string& path, int error) {
  return {code, ErrorKind::kUnavailable, what + " " + path + ": " + error_text(error)};
}

Result<sockaddr_un> address_of(const std::string& path) {
  sockaddr_un address{};
  address.sun_family = AF_UNIX;
  if (path.empty() || path.size() >= sizeof(address.sun_path)) {
    return invalid_argument("the socket path must have 1 to " +
                                std::to_string(sizeof(address.sun_path) - 1) +
                                " bytes. Given: " + std::to_string(path.size()),
                            "uds-path");
  }
  std::memcpy(address.sun_path, path.data(), path.size());
  return address;
}

// Removes what a dead server left at `path`.
Status remove_stale(const std::string& path) {
  struct stat found {};
  if (::lstat(path.c_str(), &found) != 0) {
    if (errno == ENOENT) return {};
    return failed(Code::kFailedPrecondition, "cannot look at", path, errno);
  }
  if (!S_ISSOCK(found.st_mode)) {
    return {
        Code::kFailedPrecondition, ErrorKind::kUnavailable, path + " is there and is not a socket"};
  }
  if (::unlink(path.c_str()) != 0 && errno != ENOENT) {
    return failed(Code::kFailedPrecondition, "cannot remove the old socket", path, errno);
  }
  return {};
}

}  // namespace

void Descriptor::reset(int fd) {
  if (fd_ >= 0) ::close(fd_);
  fd_ = fd;
}

std::string path_of_url(const std::string& url) {
  constexpr std::string_view kLong = "unix://";
  constexpr std::string_view kShort = "unix:";
  if (url.starts_with(kLong)) return url.substr(kLong.size());
  if (url.starts_with(kShort)) return url.substr(kShort.size());
  return url;
}

Status check_socket_path(const std::string& path) {
  return address_of(path).status();
}

Result<Descriptor> listen_unix(const std::string& path) {
  COXSWAIN_ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  COXSWAIN_RETURN_IF_ERROR(remove_stale(path));
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC | SOCK_NONBLOCK, 0));
  if (!fd.valid())
    return failed(Code::kFailedPrecondition, "cannot make a socket for", path, errno);
  if (::bind(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return failed(Code::kFailedPrecondition, "cannot bind", path, errno);
  }
  // Nobody can connect before listen(), so the mode is in force from the first connection on.
  constexpr int kBacklog = 16;
  if (::chmod(path.c_str(), S_IRUSR | S_IWUSR) != 0 || ::listen(fd.get(), kBacklog) != 0) {
    return failed(Code::kFailedPrecondition, "cannot listen at", path, errno);
  }
  return fd;
}

Result<Descriptor> connect_unix(const std::string& path, std::chrono::milliseconds timeout) {
  COXSWAIN_ASSIGN_OR_RETURN(const sockaddr_un address, address_of(path));
  Descriptor fd(::socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0));
  if (!fd.valid()) return failed(Code::kUnavailable, "cannot make a socket for", path, errno);
  // A Unix connect() waits only while the backlog is full; the send timeout bounds that wait.
  const timeval limit{.tv_sec = timeout.count() / 1000, .tv_usec = (timeout.count() % 1000) * 1000};
  ::setsockopt(fd.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  if (::connect(fd.get(), reinterpret_cast<const sockaddr*>(&address), sizeof(address)) != 0) {
    return failed(Code::kUnavailable, "cannot connect to", path, errno);
  }
  if (!peer_is_trusted(fd.get())) {
    return Status(
        Code::kFailedPrecondition, ErrorKind::kUnavailable, path + " belongs to another user");
  }
  const int flags = ::fcntl(fd.get(), F_GETFL);
  if (flags < 0 || ::fcntl(fd.get(), F_SETFL, flags | O_NONBLOCK) != 0) {
    return failed(Code::kUnavailable, "cannot use the connection to", path, errno);
  }
  return fd;
}

bool peer_is_trusted(int fd) {
  ucred peer{};
  socklen_t size = sizeof(peer);
  if (::getsockopt(fd, SOL_SOCKET, SO_PEERCRED, &peer, &size) != 0) return false;
  return peer.uid == ::geteuid() || peer.uid == 0;
}

}  // namespace coxswain::rpc
