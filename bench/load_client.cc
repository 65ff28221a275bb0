#include "load_client.h"

#include <algorithm>
#include <array>
#include <cerrno>
#include <charconv>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

namespace coxswain::bench {
namespace {

constexpr std::string_view kHeadEnd = "\r\n\r\n";
constexpr std::string_view kLastChunk = "0\r\n\r\n";

[[noreturn]] void fail(const char* what) {
  std::perror(what);
  std::exit(1);
}

sockaddr_in loopback(std::uint16_t port) {
  sockaddr_in out{};
  out.sin_family = AF_INET;
  out.sin_port = htons(port);
  out.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  return out;
}

void send_all(int fd, std::string_view bytes) {
  if (::send(fd, bytes.data(), bytes.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(bytes.size()))
    fail("send");
}

}  // namespace

int listen_on_loopback(int backlog) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in at = loopback(0);
  if (fd < 0 || bind(fd, reinterpret_cast<const sockaddr*>(&at), sizeof at) != 0 ||
      listen(fd, backlog) != 0)
    fail("listen");
  return fd;
}

std::uint16_t port_of(int socket) {
  sockaddr_in at{};
  socklen_t size = sizeof at;
  if (getsockname(socket, reinterpret_cast<sockaddr*>(&at), &size) != 0) fail("getsockname");
  return ntohs(at.sin_port);
}

namespace {

// -1 if nobody listens there.
int try_connect(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const sockaddr_in to = loopback(port);
  if (fd < 0) fail("socket");
  if (connect(fd, reinterpret_cast<const sockaddr*>(&to), sizeof to) != 0) {
    close(fd);
    return -1;
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof on);
  return fd;
}

}  // namespace

int connect_to(std::uint16_t port) {
  const int fd = try_connect(port);
  if (fd < 0) fail("connect");
  return fd;
}

bool answers(std::uint16_t port, std::string_view path) {
  const int fd = try_connect(port);
  if (fd < 0) return false;
  send_all(fd, "GET " + std::string(path) + " HTTP/1.1\r\nHost: localhost\r\n\r\n");
  std::array<char, 256> buffer{};
  const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);
  close(fd);
  return n > 0 &&
         std::string_view(buffer.data(), static_cast<std::size_t>(n)).starts_with("HTTP/1.1 200 ");
}

std::string post_request(std::string_view path, std::string_view body) {
  return "POST " + std::string(path) +
         " HTTP/1.1\r\nHost: localhost\r\nContent-Type: application/json\r\nContent-Length: " +
         std::to_string(body.size()) + std::string(kHeadEnd) + std::string(body);
}

LoadClient::LoadClient(std::uint16_t port) : port_(port), poller_(epoll_create1(EPOLL_CLOEXEC)) {}

LoadClient::~LoadClient() {
  for (const Connection& c : connections_) close(c.fd);
  close(poller_);
}

std::size_t LoadClient::connect() {
  Connection& c = connections_.emplace_back();
  c.fd = connect_to(port_);
  epoll_event event{};
  event.events = EPOLLIN;
  event.data.u64 = connections_.size() - 1;
  if (epoll_ctl(poller_, EPOLL_CTL_ADD, c.fd, &event) != 0) fail("epoll_ctl");
  return connections_.size() - 1;
}

void LoadClient::send(std::size_t connection, std::string_view request, std::uint64_t tag) {
  Connection& c = connections_[connection];
  c.is_open = true;
  c.has_head = c.is_chunked = false;
  c.held.clear();
  c.reply = {.tag = tag, .sent = Clock::now()};
  send_all(c.fd, request);
}

void LoadClient::run(TimePoint until, const OnEnd& on_end) {
  std::array<epoll_event, 256> events{};
  for (;;) {
    const auto left = std::chrono::ceil<std::chrono::milliseconds>(until - Clock::now()).count();
    if (left <= 0) return;
    const int n =
        epoll_wait(poller_, events.data(), static_cast<int>(events.size()), static_cast<int>(left));
    if (n < 0 && errno != EINTR) fail("epoll_wait");
    for (int i = 0; i < n; ++i) read(events[static_cast<std::size_t>(i)].data.u64, on_end);
  }
}

std::size_t LoadClient::n_begun() const {
  return static_cast<std::size_t>(std::ranges::count_if(
      connections_, [](const Connection& c) { return c.is_open && c.reply.first != TimePoint{}; }));
}

void LoadClient::read(std::size_t connection, const OnEnd& on_end) {
  const ssize_t n = recv(connections_[connection].fd, buffer_.data(), buffer_.size(), MSG_DONTWAIT);
  if (n < 0 && errno == EAGAIN) return;
  if (n <= 0) {
    std::fputs("the server hung up\n", stderr);
    std::exit(1);
  }
  Connection& c = connections_[connection];
  take(c, {buffer_.data(), static_cast<std::size_t>(n)}, Clock::now());
  if (c.is_open) return;
  const Reply reply = c.reply;  // what on_end() sends replaces it
  on_end(connection, reply);
}

void LoadClient::take(Connection& c, std::string_view bytes, TimePoint now) {
  c.held += bytes;
  if (!c.has_head && !take_head(c)) return;
  if (!c.held.empty() && c.reply.first == TimePoint{}) c.reply.first = now;
  if (c.is_chunked) {
    c.is_open = !c.held.ends_with(kLastChunk);
    c.held.erase(0, c.held.size() - std::min(c.held.size(), kLastChunk.size()));
  } else {
    c.n_missing -= std::min(c.n_missing, c.held.size());
    c.held.clear();
    c.is_open = c.n_missing > 0;
  }
  if (!c.is_open) c.reply.ended = now;
}

// Names of headers are in lower case here.
bool LoadClient::take_head(Connection& c) {
  constexpr std::string_view kLength = "\r\ncontent-length: ";
  constexpr std::size_t kStatusAt = sizeof("HTTP/1.1 ") - 1;
  const std::size_t end = c.held.find(kHeadEnd);
  if (end == std::string::npos) return false;
  std::from_chars(c.held.data() + kStatusAt, c.held.data() + kStatusAt + 3, c.reply.status);
  const std::size_t length = c.held.find(kLength);
  c.is_chunked = length == std::string::npos || length > end;
  if (!c.is_chunked)
    std::from_chars(c.held.data() + length + kLength.size(), c.held.data() + end, c.n_missing);
  c.held.erase(0, end + kHeadEnd.size());
  c.has_head = true;
  return true;
}

}  // namespace coxswain::bench
