// coxswain-bench-http: what HTTP and the router cost, beside the goals; kHelp says more.

#include <algorithm>
#include <array>
#include <atomic>
#include <chrono>
#include <cstdio>
#include <cstdlib>
#include <filesystem>
#include <poll.h>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/epoll.h>
#include <sys/resource.h>
#include <sys/socket.h>

#include "arguments.h"
#include "base/mutex.h"
#include "http/server.h"
#include "load_client.h"
#include "require.h"
#include "router_load.h"

namespace {

using coxswain::bench::connect_to;
using coxswain::bench::listen_on_loopback;
using coxswain::bench::port_of;
using Clock = std::chrono::steady_clock;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-http [--only server|router] [--router PROGRAM] [--model DIR]
                           [CONNECTIONS] [SECONDS]

What HTTP and the router cost, each figure beside its goal.

The HTTP server of this process, with one thread, on loopback: requests per second over
keep-alive connections, beside a bare server that reads and writes the same bytes without looking
at them (the limit of the machine for this client), and events per second of streams.

The program text-generation-router, alone on a core, before a shard that computes nothing; clients
and shard are on another core:
  memory of idle connections and of streams, one token a second each;
  what the router adds to the time to the first token: the time until the first event is read, less
  what of it the shard was at work before it had that token; of one client, where steps take no
  time, and under 256 streams, where a step takes 20 ms;
  99th of 100 of the times of answers, with as many clients as --max-concurrent-requests lets in,
  and of those accepted where three times as many requests come.

  --only       half of it (both)
  --router     the router's program (that beside this one)
  --model      folder of its tokenizer (models/demo)
  CONNECTIONS  connections, and streams, at a time of the server's figures (64)
  SECONDS      of each measurement (3)
)";

constexpr std::string_view kRequest =
    "GET /health HTTP/1.1\r\nHost: localhost\r\nUser-Agent: bench\r\nAccept: */*\r\n\r\n";

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
    constexpr int kBacklog = 1024;
    listener_ = listen_on_loopback(kBacklog);
    port_ = port_of(listener_);
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

void print(const std::string& what, const std::string& measured, const std::string& goal = {}) {
  std::printf("%-68s %12s   %s\n", what.c_str(), measured.c_str(), goal.c_str());
  std::fflush(stdout);
}

std::string number(double value, int digits = 0, const char* unit = "") {
  std::array<char, 64> out{};
  std::snprintf(out.data(), out.size(), "%.*f%s", digits, value, unit);
  return out.data();
}

void measure_server(int n_connections, double seconds) {
  auto made = coxswain::http::Server::create(
      {.address = "127.0.0.1", .port = 0, .requests_per_connection_max = 1U << 30U});
  if (!made.ok()) coxswain::bench::die(made.status());
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
  if (const auto status = server->start(); !status.ok()) coxswain::bench::die(status);

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
  const std::string many = std::to_string(n_connections);
  print("GET /health, " + many + " keep-alive connections, one thread",
        number(requests, 0, "/s"),
        ">= 50000/s");
  print("  a bare socket server", number(bare, 0, "/s"));
  const double events =
      events_per_second(*server, n_connections, seconds, responders, mutex, changed);
  print("events of " + many + " streams, one chunk each", number(events, 0, "/s"));
  responders.clear();
  server->stop();
}

void measure_router(const coxswain::bench::RouterPlace& place, double seconds) {
  constexpr std::size_t kIdle = 10'000;
  constexpr std::size_t kStreaming = 2'000;
  constexpr std::size_t kStreams = 256;
  constexpr double kStepMs = 20;
  constexpr double kFactor = 3;
  const auto memory = coxswain::bench::connection_memory(place, kIdle, kStreaming);
  print("memory of each of 10000 idle connections", number(memory.idle_bytes / 1024, 1, " KiB"));
  print("memory of each of 2000 streams", number(memory.stream_bytes / 1024, 1, " KiB"));
  print("memory of the router with all of them",
        number(memory.peak_mib, 0, " MiB"),
        "<= 256 MiB, what the memory plan keeps free at least");
  const auto alone = coxswain::bench::added_time(place, 1, 0, seconds);
  print("added to the first token, one client, p50", number(alone.p50, 3, " ms"));
  print("  p99 of " + std::to_string(alone.n), number(alone.p99, 3, " ms"));
  const auto added = coxswain::bench::added_time(place, kStreams, kStepMs, seconds);
  print(
      "added to the first token under 256 streams, p50", number(added.p50, 3, " ms"), "<= 0.3 ms");
  print("  p99 of " + std::to_string(added.n), number(added.p99, 3, " ms"), "<= 1 ms");
  print("  cores that the router used", number(added.router_cores, 2));
  const auto over = coxswain::bench::overload(place, kFactor, seconds);
  print("p99 of answers at saturation, " + number(over.capacity) + " requests/s",
        number(over.p99_saturated_ms, 1, " ms"));
  print(
      "p99 of accepted ones at 3 times as many, " + number(100 * over.refused_share) + " % refused",
      number(over.p99_overloaded_ms, 1, " ms"),
      "< " + number(2 * over.p99_saturated_ms, 1, " ms"));
  print("  p99 of a refusal", number(over.p99_refusal_ms, 2, " ms"));
}

std::string beside_this_program(const std::string& name) {
  return (std::filesystem::read_symlink("/proc/self/exe").parent_path() / name).string();
}

}  // namespace

// NOLINTNEXTLINE(bugprone-exception-escape): a library's exception may as well end a benchmark
int main(int argc, char** argv) {
  coxswain::bench::Arguments arguments(argc, argv, kHelp);
  const std::string only = arguments.one_of("only", {"all", "server", "router"}, "all");
  const coxswain::bench::RouterPlace place{
      .program = arguments.text("router", beside_this_program("text-generation-router")),
      .model = arguments.text("model", "models/demo")};
  const auto n_connections = static_cast<int>(arguments.count_word("CONNECTIONS", 64));
  const double seconds = arguments.count_word("SECONDS", 3);
  arguments.finish();
  rlimit files{};
  getrlimit(RLIMIT_NOFILE, &files);
  files.rlim_cur = files.rlim_max;
  setrlimit(RLIMIT_NOFILE, &files);
  if (only != "router") measure_server(n_connections, seconds);
  if (only != "server") measure_router(place, seconds);
  return 0;
}
