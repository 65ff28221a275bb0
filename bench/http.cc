// coxswain-bench-http: what the HTTP server costs a request and an event of a stream; kHelp says more.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <poll.h>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include <arpa/inet.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/socket.h>

#include "arguments.h"
#include "base/mutex.h"
#include "http/server.h"

namespace {

using Clock = std::chrono::steady_clock;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-http [CONNECTIONS] [SECONDS]

The HTTP server on loopback: requests per second over keep-alive connections, beside a bare
server that reads and writes the same bytes without looking at them (the limit of the machine
for this client), and events per second of streams.

  CONNECTIONS  connections, and streams, at a time (64)
  SECONDS      of each of the two measurements (3)

Prints one line for requests, the limit and their ratio, and one line for events.
)";

constexpr std::string_view kRequest =
    "GET /health HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";

int connect_to(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in to{};
  to.sin_family = AF_INET;
  to.sin_port = htons(port);
  to.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
  if (fd < 0 || connect(fd, reinterpret_cast<sockaddr*>(&to), sizeof(to)) != 0) {
    std::perror("connect");
    std::exit(1);
  }
  const int on = 1;
  setsockopt(fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
  return fd;
}

// One request on each connection, then one answer from each, over and over. Answers all have the same length.
double requests_per_second(std::uint16_t port, int n_connections, double seconds) {
  std::vector<int> sockets;
  sockets.reserve(static_cast<std::size_t>(n_connections));
  for (int i = 0; i < n_connections; ++i) sockets.push_back(connect_to(port));
  std::array<char, 4096> buffer{};
  std::size_t answer_bytes = 0;
  std::size_t done = 0;
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    for (const int fd : sockets) {
      if (send(fd, kRequest.data(), kRequest.size(), MSG_NOSIGNAL) < 0) std::exit(1);
    }
    for (const int fd : sockets) {
      std::size_t got = 0;
      do {
        const ssize_t n = recv(fd, buffer.data(), buffer.size(), 0);
        if (n <= 0) std::exit(1);
        got += static_cast<std::size_t>(n);
        if (answer_bytes == 0) answer_bytes = got;
      } while (got < answer_bytes);
      ++done;
    }
  }
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  for (const int fd : sockets) close(fd);
  return static_cast<double>(done) / elapsed;
}

// Reads whatever comes and answers with fixed bytes, one for one; the same number of system calls
// as any server needs.
class BareServer {
 public:
  explicit BareServer(std::size_t answer_bytes) : answer_(answer_bytes, 'x') {
    listener_ = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in at{};
    at.sin_family = AF_INET;
    at.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(at);
    if (bind(listener_, reinterpret_cast<sockaddr*>(&at), sizeof(at)) != 0 ||
        listen(listener_, 1024) != 0 ||
        getsockname(listener_, reinterpret_cast<sockaddr*>(&at), &size) != 0) {
      std::perror("listen");
      std::exit(1);
    }
    port_ = ntohs(at.sin_port);
    thread_ = std::thread([this] { run(); });
  }
  ~BareServer() {
    stopping_ = true;
    close(connect_to(port_));
    thread_.join();
    close(listener_);
  }
  BareServer(const BareServer&) = delete;
  BareServer& operator=(const BareServer&) = delete;
  std::uint16_t port() const { return port_; }

 private:
  void run() {
    const int poller = epoll_create1(EPOLL_CLOEXEC);
    epoll_event event{};
    event.events = EPOLLIN;
    event.data.fd = listener_;
    epoll_ctl(poller, EPOLL_CTL_ADD, listener_, &event);
    std::array<epoll_event, 128> events{};
    while (!stopping_) {
      const int n = epoll_wait(poller, events.data(), static_cast<int>(events.size()), -1);
      for (int i = 0; i < n; ++i) serve(poller, events[static_cast<std::size_t>(i)].data.fd);
    }
    close(poller);
  }
  void serve(int poller, int fd) {
    if (fd == listener_) {
      epoll_event event{};
      event.events = EPOLLIN;
      event.data.fd = accept(listener_, nullptr, nullptr);
      const int on = 1;
      setsockopt(event.data.fd, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
      epoll_ctl(poller, EPOLL_CTL_ADD, event.data.fd, &event);
    } else if (recv(fd, buffer_.data(), buffer_.size(), 0) <= 0 ||
               send(fd, answer_.data(), answer_.size(), MSG_NOSIGNAL) < 0) {
      close(fd);
    }
  }

  const std::string answer_;
  std::array<char, 4096> buffer_{};
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::atomic<bool> stopping_{false};
  std::thread thread_;
};

// Reads until every socket has seen the last chunk of its answer.
void read_streams(const std::vector<int>& sockets) {
  std::vector<pollfd> polls;
  polls.reserve(sockets.size());
  for (const int fd : sockets) polls.push_back({.fd = fd, .events = POLLIN, .revents = 0});
  std::array<char, 65536> buffer{};
  for (std::size_t open = sockets.size(); open > 0;) {
    poll(polls.data(), polls.size(), -1);
    for (pollfd& one : polls) {
      if (one.revents == 0) continue;
      const ssize_t n = recv(one.fd, buffer.data(), buffer.size(), 0);
      const std::string_view got(buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
      if (!got.empty() && !got.ends_with("0\r\n\r\n")) continue;
      one.fd = -1;
      --open;
    }
  }
}

// Events written to `n_streams` streams by one other thread, each its own chunk, until all have been read.
double events_per_second(coxswain::http::Server& server,
                         int n_streams,
                         double seconds,
                         std::vector<std::shared_ptr<coxswain::http::Responder>>& responders,
                         coxswain::base::Mutex& mutex,
                         coxswain::base::CondVar& changed) {
  std::vector<int> sockets;
  sockets.reserve(static_cast<std::size_t>(n_streams));
  constexpr std::string_view kStream = "GET /stream HTTP/1.1\r\nHost: localhost\r\n\r\n";
  for (int i = 0; i < n_streams; ++i) {
    sockets.push_back(connect_to(server.port()));
    if (send(sockets.back(), kStream.data(), kStream.size(), MSG_NOSIGNAL) < 0) std::exit(1);
  }
  {
    coxswain::base::MutexLock lock(mutex);
    changed.wait(lock, [&]() REQUIRES(mutex) {
      return responders.size() == static_cast<std::size_t>(n_streams);
    });
  }
  std::thread reader([&] { read_streams(sockets); });
  const std::string event =
      "data: {\"index\":1,\"token\":{\"id\":1234,\"text\":\" word\",\"logprob\":-0.5,"
      "\"special\":false},\"generated_text\":null,\"details\":null}\n\n";
  for (const auto& responder : responders) responder->begin_stream({});
  std::size_t done = 0;
  const auto start = Clock::now();
  const auto end = start + std::chrono::duration<double>(seconds);
  while (Clock::now() < end) {
    for (const auto& responder : responders) {
      if (responder->unsent_bytes() > std::size_t{256} << 10) continue;
      responder->write(event);
      ++done;
    }
  }
  for (const auto& responder : responders) responder->end();
  reader.join();
  const double elapsed = std::chrono::duration<double>(Clock::now() - start).count();
  for (const int fd : sockets) close(fd);
  return static_cast<double>(done) / elapsed;
}

}  // namespace

int main(int argc, char** argv) {
  coxswain::bench::Arguments arguments(argc, argv, kHelp);
  const auto n_connections = static_cast<int>(arguments.count_word("CONNECTIONS", 64));
  const double seconds = arguments.count_word("SECONDS", 3);
  arguments.finish();
  auto made = coxswain::http::Server::create(
      {.address = "127.0.0.1", .port = 0, .requests_per_connection_max = 1U << 30U});
  if (!made.ok()) return 1;
  const auto server = std::move(made).value();
  coxswain::base::Mutex mutex;
  coxswain::base::CondVar changed;
  std::vector<std::shared_ptr<coxswain::http::Responder>> responders;
  server->add_route(
      "GET", "/health", [](const auto&, const auto& responder) { responder->send({}); });
  server->add_route("GET", "/stream", [&](const auto&, const auto& responder) {
    const coxswain::base::MutexLock lock(mutex);
    responders.push_back(responder);
    changed.notify_all();
  });
  if (!server->start().ok()) return 1;

  // Taken in turns, the best of each: what else the machine does hurts both alike.
  constexpr std::size_t kAnswerBytes = 160;
  constexpr int kRounds = 5;
  double bare = 0;
  double requests = 0;
  for (int round = 0; round < kRounds; ++round) {
    const BareServer limit(kAnswerBytes);
    bare = std::max(bare, requests_per_second(limit.port(), n_connections, seconds / kRounds));
    requests =
        std::max(requests, requests_per_second(server->port(), n_connections, seconds / kRounds));
  }
  std::printf(
      "GET, %d keep-alive connections: %.0f requests/s; bare socket server: %.0f/s; ratio %.2f\n",
      n_connections,
      requests,
      bare,
      requests / bare);
  const double events =
      events_per_second(*server, n_connections, seconds, responders, mutex, changed);
  std::printf(
      "streams, %d at a time, one chunk each event: %.0f events/s\n", n_connections, events);
  responders.clear();
  server->stop();
  return 0;
}
