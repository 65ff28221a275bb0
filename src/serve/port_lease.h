#pragma once
// PortLease: the launcher's hold on the HTTP port for as long as it lives.
//
// The port is chosen and bound before any process starts, but the lease never listens: the router
// listens on the same port through SO_REUSEADDR. So port 0 is decided once and a restarted router
// gets the same port again, and between two routers the system gives the port to nobody else.
//
// Thread rule: values; one owner.

#include <cstdint>
#include <string>
#include <utility>

#include <coxswain/status.h>

namespace coxswain::serve {

// The address that a --hostname stands for: itself if it is an IPv4 or IPv6 address, 127.0.0.1 for
// `localhost`, 0.0.0.0 for all else (`is_fallback`: worth a warning).
struct ListenAddress {
  std::string text;
  bool is_fallback = false;
};
ListenAddress listen_address(const std::string& hostname);

class PortLease {
 public:
  // Errors: kUnavailable with address, port and reason: somebody listens there, or the address is
  // not one of this machine's.
  static Result<PortLease> take(const ListenAddress& address, std::uint16_t port);

  PortLease(PortLease&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)), port_(std::exchange(other.port_, 0)) {}
  PortLease& operator=(PortLease&&) = delete;
  ~PortLease();

  std::uint16_t port() const { return port_; }  // never 0

 private:
  PortLease(int fd, std::uint16_t port) : fd_(fd), port_(port) {}
  int fd_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace coxswain::serve
