#include "fleet/top/http_get.h"

#include <array>
#include <cerrno>
#include <cstring>
#include <netdb.h>
#include <optional>
#include <string_view>
#include <unistd.h>

#include <sys/socket.h>
#include <sys/time.h>
#include <sys/un.h>

namespace coxswain::fleet {
namespace {

constexpr std::size_t kAnswerBytesMax = std::size_t{4} << 20;

class Socket {
 public:
  explicit Socket(int fd) : fd_(fd) {}
  ~Socket() {
    if (fd_ >= 0) ::close(fd_);
  }
  Socket(const Socket&) = delete;
  Socket& operator=(const Socket&) = delete;
  int get() const { return fd_; }

 private:
  int fd_;
};

std::string last_error() {
  return errno == EAGAIN || errno == EWOULDBLOCK || errno == EINPROGRESS ? "no answer in time"
                                                                         : std::strerror(errno);
}

bool send_all(int fd, std::string_view bytes) {
  while (!bytes.empty()) {
    const ssize_t n = ::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return false;
    bytes.remove_prefix(static_cast<std::size_t>(n));
  }
  return true;
}

// Until the other side closes.
bool receive_all(int fd, std::string& out) {
  std::array<char, 16384> buffer{};
  for (;;) {
    const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
    if (n < 0 && errno == EINTR) continue;
    if (n <= 0) return n == 0;
    out.append(buffer.data(), static_cast<std::size_t>(n));
    if (out.size() > kAnswerBytesMax) {
      errno = EMSGSIZE;
      return false;
    }
  }
}

// Where to connect.
struct Destination {
  sockaddr_storage address{};
  socklen_t size = 0;
};

std::optional<Destination> destination_of(const std::string& host, std::uint16_t port) {
  Destination out;
  if (host.starts_with('/')) {
    sockaddr_un path{};
    if (host.size() >= sizeof(path.sun_path)) return std::nullopt;
    path.sun_family = AF_UNIX;
    host.copy(path.sun_path, host.size());
    out.size = sizeof(path);
    std::memcpy(&out.address, &path, out.size);
    return out;
  }
  addrinfo hints{};
  hints.ai_flags = AI_NUMERICHOST | AI_NUMERICSERV;
  hints.ai_socktype = SOCK_STREAM;
  addrinfo* found = nullptr;
  if (::getaddrinfo(host.c_str(), std::to_string(port).c_str(), &hints, &found) != 0)
    return std::nullopt;
  out.size = found->ai_addrlen;
  std::memcpy(&out.address, found->ai_addr, out.size);
  ::freeaddrinfo(found);
  return out;
}

}  // namespace

Result<std::string> http_get(const std::string& host,
                             std::uint16_t port,
                             const std::string& path,
                             std::chrono::milliseconds patience) {
  const bool is_path = host.starts_with('/');
  const std::string where = is_path ? host : host + ":" + std::to_string(port);
  const auto unreachable = [&](const std::string& why) {
    return Status(Code::kUnavailable, where + ": " + why);
  };
  const auto to = destination_of(host, port);
  if (!to) return unreachable("not an address");
  const Socket socket(::socket(to->address.ss_family, SOCK_STREAM | SOCK_CLOEXEC, 0));
  const timeval limit{.tv_sec = patience.count() / 1000,
                      .tv_usec = static_cast<suseconds_t>(patience.count() % 1000 * 1000)};
  ::setsockopt(socket.get(), SOL_SOCKET, SO_RCVTIMEO, &limit, sizeof(limit));
  ::setsockopt(socket.get(), SOL_SOCKET, SO_SNDTIMEO, &limit, sizeof(limit));
  std::string answer;
  const std::string request = "GET " + path +
                              " HTTP/1.0\r\nHost: " + (is_path ? "localhost" : host) +
                              "\r\nConnection: close\r\n\r\n";
  if (::connect(socket.get(), reinterpret_cast<const sockaddr*>(&to->address), to->size) != 0 ||
      !send_all(socket.get(), request) || !receive_all(socket.get(), answer)) {
    return unreachable(last_error());
  }
  const std::size_t body = answer.find("\r\n\r\n");
  const std::size_t code = answer.find(' ');
  if (!answer.starts_with("HTTP/1.") || body == std::string::npos || code > body)
    return unreachable("the answer is not HTTP");
  if (answer.compare(code + 1, 3, "200") != 0) {
    return Status(
        Code::kFailedPrecondition,
        where + path + " answers " + answer.substr(code + 1, answer.find("\r\n") - code - 1));
  }
  return answer.substr(body + 4);
}

}  // namespace coxswain::fleet
