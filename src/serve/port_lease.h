#pragma once
// PortLease: a launcher's hold on an HTTP port from its first moment on, before it loads a model, until it ends.
//
// Its socket is bound and does not listen; the router inherits it and listens once it can serve. So a
// client that finds the port open is served (TGI's harnesses count on it), port 0 is decided once, and
// since the launcher keeps the socket, it goes on listening between two routers: nobody else can take
// the port, and clients of that moment wait for the next router. Two sockets that are only bound may
// share a port, so a name in the abstract namespace of Unix sockets keeps a second launcher out until
// then; it belongs to the network namespace, as ports do. docs/adr/0054-a-launcher-owns-its-port.md.
//
// Thread rule: values; one owner.

#include <cstdint>
#include <string>
#include <utility>

#include <coxswain/status.h>

namespace coxswain::serve {

// Name the descriptors that the router inherits.
inline constexpr const char* kListenVariable = "COXSWAIN_LISTEN_FD";
inline constexpr const char* kMetricsListenVariable = "COXSWAIN_METRICS_LISTEN_FD";

class PortLease {
 public:
  // `address`: an IPv4 or IPv6 address. `port`: 0 is any free one. `option`: the one that names the port, for the
  // cure. Errors: kUnavailable, "cause; cure" (start_failure.h): somebody listens there or another launcher has the
  // port, the address is not one of this machine's, or the port needs more rights.
  static Result<PortLease> take(const std::string& address,
                                std::uint16_t port,
                                const std::string& option);
  // The same, but below a launcher the socket that `variable` names.
  static Result<PortLease> inherit_or_take(const char* variable,
                                           const std::string& address,
                                           std::uint16_t port,
                                           const std::string& option);

  PortLease(PortLease&& other) noexcept
      : fd_(std::exchange(other.fd_, -1)),
        lock_fd_(std::exchange(other.lock_fd_, -1)),
        port_(other.port_) {}
  PortLease& operator=(PortLease&&) = delete;
  ~PortLease();

  int socket() const { return fd_; }
  // Hands the socket over to the caller, who closes it.
  int release_socket() { return std::exchange(fd_, -1); }
  std::uint16_t port() const { return port_; }  // never 0

 private:
  PortLease(int fd, std::uint16_t port) : fd_(fd), port_(port) {}
  int fd_ = -1;
  int lock_fd_ = -1;
  std::uint16_t port_ = 0;
};

}  // namespace coxswain::serve
