#include "http/server.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <future>

#include <boost/asio/basic_socket_acceptor.hpp>
#include <boost/asio/generic/stream_protocol.hpp>
#include <boost/asio/ip/address.hpp>
#include <boost/asio/ip/tcp.hpp>
#include <boost/asio/ip/v6_only.hpp>
#include <boost/asio/post.hpp>
#include <boost/asio/steady_timer.hpp>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/random.h>
#include <sys/socket.h>

#include "base/thread_name.h"
#include "http/connection.h"
#include "http/core.h"
#include "http/syntax.h"

namespace coxswain::http {
namespace {

using boost::asio::ip::tcp;
using boost::system::error_code;
using Stream = boost::asio::generic::stream_protocol;  // TCP, or a Unix socket that we are given
using Acceptor = boost::asio::basic_socket_acceptor<Stream>;

constexpr std::chrono::milliseconds kAcceptPause{100};  // after running out of descriptors
constexpr std::size_t kRefusingMax = 64;      // connections above the limit that get a 503
constexpr int kKernelUnsentBytes = 64 << 10;  // what the kernel may hold beyond the network's needs

std::string random_prefix() {
  std::array<unsigned char, 6> bytes{};
  // Cannot fail for so few bytes once the system is up; were it to, ids would merely be alike after a restart.
  [[maybe_unused]] const ssize_t n = getrandom(bytes.data(), bytes.size(), 0);
  constexpr std::string_view kHex = "0123456789abcdef";
  std::string out;
  for (const unsigned char byte : bytes) {
    out += kHex[byte >> 4U];
    out += kHex[byte & 15U];
  }
  return out + "-";
}

// An IPv4 client of an IPv6 socket counts as the same address.
std::string address_text(const boost::asio::ip::address& address) {
  if (address.is_v6() && address.to_v6().is_v4_mapped()) {
    return boost::asio::ip::make_address_v4(boost::asio::ip::v4_mapped, address.to_v6())
        .to_string();
  }
  return address.to_string();
}

int family_of(int socket) {
  sockaddr_storage address{};
  socklen_t size = sizeof(address);
  return getsockname(socket, reinterpret_cast<sockaddr*>(&address), &size) == 0 ? address.ss_family
                                                                                : AF_UNSPEC;
}

// None of a Unix socket.
std::optional<tcp::endpoint> tcp_endpoint(const Stream::endpoint& endpoint) {
  const int family = endpoint.protocol().family();
  if (family != AF_INET && family != AF_INET6) return std::nullopt;
  tcp::endpoint out;
  out.resize(endpoint.size());
  std::memcpy(out.data(), endpoint.data(), endpoint.size());
  return out;
}

void run_loop(Loop& loop) {
  for (;;) {
    try {
      loop.io.run();
      return;
    } catch (const std::exception&) {  // NOLINT(bugprone-empty-catch)
      // Out of memory in one handler: its connection is lost, the loop goes on.
    }
  }
}

class AsioServer final : public Server {
 public:
  explicit AsioServer(ServerOptions options)
      : core_(std::make_shared<ServerCore>(std::move(options))) {
    core_->id_prefix = random_prefix();
    for (std::size_t i = 0; i < std::max<std::size_t>(core_->options.threads, 1); ++i) {
      loops_.push_back(std::make_shared<Loop>());
    }
  }
  ~AsioServer() override {
    try {
      AsioServer::stop();
    } catch (const std::exception&) {
      std::abort();  // the threads cannot be told to end, and must not outlive what they use
    }
  }
  AsioServer(const AsioServer&) = delete;
  AsioServer& operator=(const AsioServer&) = delete;

  void add_route(std::string method, std::string path, Handler handler) override {
    core_->routes.add(std::move(method), std::move(path), std::move(handler));
  }
  void set_gate(std::function<std::unique_ptr<Response>(const Request&)> gate) override {
    core_->gate = std::move(gate);
  }

  Status start() override;
  std::uint16_t port() const override { return port_; }
  void stop_accepting() override;
  std::size_t open_requests() const override {
    return core_->open_requests.load(std::memory_order_relaxed);
  }
  void stop() override;

 private:
  Status listen();
  void accept_next();
  void on_accept(const error_code& error, Stream::socket socket, const std::shared_ptr<Loop>& loop);
  void admit(Stream::socket socket, const std::shared_ptr<Loop>& loop);
  static void on_each_connection(const std::shared_ptr<Loop>& loop, void (Connection::*action)());

  const std::shared_ptr<ServerCore> core_;
  std::vector<std::shared_ptr<Loop>> loops_;
  std::size_t next_loop_ = 0;
  std::uint16_t port_ = 0;
  bool started_ = false;
  // On the first loop:
  std::optional<Acceptor> acceptor_;
  std::optional<boost::asio::steady_timer> accept_pause_;
};

Status AsioServer::listen() {
  const ServerOptions& options = core_->options;
  const std::string where = options.address + " port " + std::to_string(options.port);
  const auto failed = [&](const error_code& error) {
    return Status(Code::kUnavailable,
                  ErrorKind::kUnavailable,
                  "cannot listen on " + where + ": " + error.message());
  };
  error_code error;
  const auto address = boost::asio::ip::make_address(options.address, error);
  if (error) return failed(error);
  const tcp::endpoint endpoint(address, options.port);
  Acceptor& acceptor = acceptor_.emplace(loops_.front()->io);
  if (options.bound_socket >= 0) {
    acceptor.assign(Stream(family_of(options.bound_socket), 0), options.bound_socket, error);
  } else {
    acceptor.open(endpoint.protocol(), error);
    if (error) return failed(error);
    acceptor.set_option(Acceptor::reuse_address(true), error);
    if (address.is_v6()) acceptor.set_option(boost::asio::ip::v6_only(false), error);
    acceptor.bind(endpoint, error);
  }
  if (error) return failed(error);
  acceptor.listen(boost::asio::socket_base::max_listen_connections, error);
  if (error) return failed(error);
  const Stream::endpoint bound = acceptor.local_endpoint(error);
  if (error) return failed(error);
  if (const auto tcp_bound = tcp_endpoint(bound)) port_ = tcp_bound->port();
  return {};
}

Status AsioServer::start() {
  try {
    COXSWAIN_RETURN_IF_ERROR(listen());
    accept_pause_.emplace(loops_.front()->io);
    accept_next();
    started_ = true;
    for (const auto& loop : loops_)
      loop->thread = std::thread([loop] {
        base::name_thread("http");
        run_loop(*loop);
      });
  } catch (const std::exception& error) {
    return {
        Code::kUnavailable, ErrorKind::kUnavailable, std::string("cannot serve: ") + error.what()};
  }
  return {};
}

void AsioServer::accept_next() {
  if (!acceptor_->is_open()) return;
  const auto loop = loops_[next_loop_++ % loops_.size()];
  acceptor_->async_accept(loop->io, [this, loop](const error_code& error, Stream::socket socket) {
    on_accept(error, std::move(socket), loop);
  });
}

void AsioServer::on_accept(const error_code& error,
                           Stream::socket socket,
                           const std::shared_ptr<Loop>& loop) {
  if (error == boost::asio::error::operation_aborted) return;
  if (!error) {
    accept_next();  // first: what runs out of memory below costs this client alone
    admit(std::move(socket), loop);
  } else if (error == boost::asio::error::connection_aborted) {
    accept_next();
  } else {  // out of descriptors or memory: new clients wait in the backlog
    accept_pause_->expires_after(kAcceptPause);
    accept_pause_->async_wait([this](const error_code& cancelled) {
      if (!cancelled) accept_next();
    });
  }
}

void AsioServer::admit(Stream::socket socket, const std::shared_ptr<Loop>& loop) {
  error_code error;
  const Stream::endpoint remote = socket.remote_endpoint(error);
  if (error) return;  // already gone
  const auto tcp_remote = tcp_endpoint(remote);
  socket.non_blocking(true, error);
  if (tcp_remote) {
    socket.set_option(tcp::no_delay(true), error);
    setsockopt(socket.native_handle(),
               IPPROTO_TCP,
               TCP_NOTSENT_LOWAT,
               &kKernelUnsentBytes,
               sizeof(kKernelUnsentBytes));
  }
  std::string address = tcp_remote ? address_text(tcp_remote->address()) : "unix";
  const std::string_view refusal = core_->census.enter(address);
  if (!refusal.empty() && core_->refusing.fetch_add(1, std::memory_order_relaxed) >= kRefusingMax) {
    core_->refusing.fetch_sub(1, std::memory_order_relaxed);
    return;
  }
  auto connection =
      std::make_shared<Connection>(core_, loop, std::move(socket), std::move(address), refusal);
  boost::asio::post(loop->io, [loop, connection = std::move(connection)] {
    loop->connections.insert(connection);
    connection->start();
  });
}

void AsioServer::on_each_connection(const std::shared_ptr<Loop>& loop,
                                    void (Connection::*action)()) {
  boost::asio::post(loop->io, [loop, action] {
    const std::vector<std::shared_ptr<Connection>> all(loop->connections.begin(),
                                                       loop->connections.end());
    for (const auto& connection : all) (connection.get()->*action)();
  });
}

void AsioServer::stop_accepting() {
  if (!started_ || core_->draining.exchange(true)) return;
  const auto close_acceptor = [this] {
    error_code ignored;
    acceptor_->close(ignored);
    accept_pause_->cancel();
  };
  if (loops_.front()->in_loop()) {
    close_acceptor();
  } else {
    std::promise<void> closed;
    boost::asio::post(loops_.front()->io, [&] {
      close_acceptor();
      closed.set_value();
    });
    closed.get_future().wait();
  }
  for (const auto& loop : loops_) on_each_connection(loop, &Connection::drain);
}

void AsioServer::stop() {
  if (!started_) return;
  stop_accepting();
  started_ = false;
  for (const auto& loop : loops_) on_each_connection(loop, &Connection::close);
  for (const auto& loop : loops_) loop->work.reset();
  for (const auto& loop : loops_) loop->thread.join();
}

}  // namespace

std::string_view Request::header(std::string_view name) const {
  for (const auto& [key, value] : headers) {
    if (equal_ignoring_case(key, name)) return value;
  }
  return {};
}

Result<std::unique_ptr<Server>> Server::create(ServerOptions options) {
  error_code error;
  boost::asio::ip::make_address(options.address, error);
  if (error) return invalid_argument("`" + options.address + "` is no IP address");
  try {
    return std::unique_ptr<Server>(std::make_unique<AsioServer>(std::move(options)));
  } catch (const std::exception& failure) {
    return Status(Code::kUnavailable, failure.what());
  }
}

}  // namespace coxswain::http
