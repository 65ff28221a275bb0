#include "serve/port_lease.h"

#include <algorithm>
#include <cerrno>
#include <charconv>
#include <cstddef>
#include <cstdlib>
#include <cstring>
#include <fcntl.h>
#include <fstream>
#include <string_view>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/un.h>

namespace coxswain::serve {
namespace {

// An address and port as the socket calls want them.
struct SocketAddress {
  sockaddr_storage storage{};
  socklen_t size = 0;

  sockaddr* get() { return reinterpret_cast<sockaddr*>(&storage); }
};

SocketAddress socket_address(const std::string& text, std::uint16_t port) {
  SocketAddress out;
  auto* v4 = reinterpret_cast<sockaddr_in*>(&out.storage);
  if (inet_pton(AF_INET, text.c_str(), &v4->sin_addr) == 1) {
    v4->sin_family = AF_INET;
    v4->sin_port = htons(port);
    out.size = sizeof(sockaddr_in);
    return out;
  }
  auto* v6 = reinterpret_cast<sockaddr_in6*>(&out.storage);
  inet_pton(AF_INET6, text.c_str(), &v6->sin6_addr);
  v6->sin6_family = AF_INET6;
  v6->sin6_port = htons(port);
  out.size = sizeof(sockaddr_in6);
  return out;
}

// The port that the system chose; 0 if it does not say.
std::uint16_t port_of(int fd) {
  SocketAddress bound;
  bound.size = sizeof bound.storage;
  if (getsockname(fd, bound.get(), &bound.size) != 0) return 0;
  // The port stands at the same place in both families.
  return ntohs(reinterpret_cast<const sockaddr_in*>(&bound.storage)->sin_port);
}

bool is_any(std::string_view address) {
  return address == "0.0.0.0" || address == "::";
}

std::string lock_prefix(std::uint16_t port) {
  return "coxswain-port-" + std::to_string(port) + "-";
}

// Whether a launcher holds the port at an address that overlaps `address`: the same, or one of both is any.
bool is_held_by_another(std::uint16_t port, const std::string& address) {
  std::ifstream names("/proc/net/unix");
  const std::string prefix = "@" + lock_prefix(port);
  for (std::string line; std::getline(names, line);) {
    const std::size_t at = line.rfind(prefix);
    if (at == std::string::npos) continue;
    const std::string other = line.substr(at + prefix.size());
    if (other != address && (is_any(other) || is_any(address))) return true;
  }
  return false;
}

// A descriptor that holds the name of the port for as long as it is open; -1 if another process has it.
int take_lock(std::uint16_t port, const std::string& address) {
  const std::string name = lock_prefix(port) + address;
  sockaddr_un where{};
  where.sun_family = AF_UNIX;
  std::copy(name.begin(), name.end(), where.sun_path + 1);  // a leading zero byte: no file
  const auto size = static_cast<socklen_t>(offsetof(sockaddr_un, sun_path) + 1 + name.size());
  const int fd = socket(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return -1;
  const bool is_ours = bind(fd, reinterpret_cast<const sockaddr*>(&where), size) == 0;
  if (is_ours && !is_held_by_another(port, address)) return fd;
  close(fd);
  return -1;
}

std::string cure_of(int error, const std::string& option) {
  if (error == EADDRNOTAVAIL) return "this machine has no such address: choose another --hostname";
  if (error == EACCES)
    return "ports below 1024 need root or CAP_NET_BIND_SERVICE: choose another " + option;
  return "stop what listens there, or choose another " + option;
}

}  // namespace

Result<PortLease> PortLease::take(const std::string& address,
                                  std::uint16_t port,
                                  const std::string& option) {
  const auto failed = [&](const std::string& why, const std::string& cure) {
    const bool v6 = address.find(':') != std::string::npos;
    return Status(Code::kUnavailable,
                  "Failed to bind to " + (v6 ? "[" + address + "]" : address) + ":" +
                      std::to_string(port) + ": " + why + "; " + cure);
  };
  const auto refused = [&] {
    const int error = errno;
    return failed(std::strerror(error), cure_of(error, option));
  };
  SocketAddress wanted = socket_address(address, port);
  const int fd = ::socket(wanted.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return refused();
  PortLease lease(fd, port);
  const int one = 1;
  const int zero = 0;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (wanted.storage.ss_family == AF_INET6)
    setsockopt(fd, IPPROTO_IPV6, IPV6_V6ONLY, &zero, sizeof zero);
  if (bind(fd, wanted.get(), wanted.size) != 0) return refused();
  if (port == 0) lease.port_ = port_of(fd);
  if (lease.port_ == 0) return refused();
  lease.lock_fd_ = take_lock(lease.port_, address);
  if (lease.lock_fd_ < 0)
    return failed("another text-generation-launcher has it",
                  "stop that launcher, or choose another " + option);
  return lease;
}

Result<PortLease> PortLease::inherit_or_take(const char* variable,
                                             const std::string& address,
                                             std::uint16_t port,
                                             const std::string& option) {
  const char* text = std::getenv(variable);
  if (text == nullptr) return take(address, port, option);
  const std::string_view digits = text;
  int fd = -1;
  const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), fd);
  const std::uint16_t bound =
      error == std::errc() && end == digits.data() + digits.size() ? port_of(fd) : 0;
  if (bound == 0)
    return Status(Code::kUnavailable, std::string(variable) + " names no bound socket; unset it");
  fcntl(fd, F_SETFD, FD_CLOEXEC);
  return PortLease(fd, bound);
}

PortLease::~PortLease() {
  for (const int fd : {fd_, lock_fd_}) {
    if (fd >= 0) close(fd);
  }
}

}  // namespace coxswain::serve
