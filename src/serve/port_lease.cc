#include "serve/port_lease.h"

#include <cerrno>
#include <cstring>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <sys/socket.h>

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

}  // namespace

ListenAddress listen_address(const std::string& hostname) {
  if (hostname == "localhost") return {.text = "127.0.0.1"};
  in6_addr buffer{};
  if (inet_pton(AF_INET, hostname.c_str(), &buffer) == 1 ||
      inet_pton(AF_INET6, hostname.c_str(), &buffer) == 1) {
    return {.text = hostname};
  }
  return {.text = "0.0.0.0", .is_fallback = true};
}

Result<PortLease> PortLease::take(const ListenAddress& address, std::uint16_t port) {
  const auto failed = [&] {
    return Status(Code::kUnavailable,
                  "Failed to bind to " + address.text + ":" + std::to_string(port) + ": " +
                      std::strerror(errno));
  };
  SocketAddress wanted = socket_address(address.text, port);
  const int fd = socket(wanted.storage.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0);
  if (fd < 0) return failed();
  PortLease lease(fd, port);
  const int one = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &one, sizeof one);
  if (bind(fd, wanted.get(), wanted.size) != 0) return failed();
  if (port == 0) lease.port_ = port_of(fd);
  if (lease.port_ == 0) return failed();
  return lease;
}

PortLease::~PortLease() {
  if (fd_ >= 0) close(fd_);
}

}  // namespace coxswain::serve
