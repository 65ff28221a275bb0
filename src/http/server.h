#pragma once
// HTTP/1.1 server: framing, limits and time-outs; no routes' meaning, no JSON, no domain.
//
// A handler gets a complete, checked request and a Responder. It may answer at once or later from
// any thread, whole or as a stream. Handlers run on the I/O threads and must not block: hand work
// to another thread and keep the Responder.
//
// With ServerOptions::tls clients speak TLS (tls.h). Limits, refusals and their exact behaviour: docs/http-limits.md.
// Every refusal below is answered here, in the form that ServerOptions::refusal gives it; no handler sees it.
//
// Thread rule: routes are added before start(). Responder methods may be called from any thread, one at a time.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/status.h>

namespace coxswain::security {
class TlsIdentity;
}

namespace coxswain::http {

using Header = std::pair<std::string, std::string>;

struct Request {
  std::string method;
  std::string path;   // percent-decoded once
  std::string query;  // raw, without '?'
  std::vector<Header> headers;
  std::string body;
  std::string remote_address;
  std::string request_id;  // the client's x-request-id if acceptable, otherwise ours
  std::chrono::steady_clock::time_point received{};

  // First value, name compared without case; empty view if absent.
  std::string_view header(std::string_view name) const;
};

struct Response {
  int status = 200;
  std::vector<Header> headers{};
  std::string content_type = "application/json";
  std::string body{};
  // Of send(): let go once the whole answer has been given to the operating system, or its client is gone. May be let
  // go on any thread.
  std::shared_ptr<const void> held{};
};

class Responder {
 public:
  virtual ~Responder() = default;

  // Sends a whole answer. Only the first of send() and begin_stream() has an effect.
  virtual void send(Response response) = 0;

  // Starts a chunked answer (status and headers go out at once); body and content_type of `head` are used, body
  // may be empty.
  virtual void begin_stream(Response head) = 0;
  // Appends bytes, one chunk per call. No effect after end() or when the client is gone.
  virtual void write(std::string_view bytes) = 0;
  virtual void end() = 0;

  // Bytes accepted by write() and not yet taken by the operating system.
  virtual std::size_t unsent_bytes() const = 0;
  // True once the client has closed or reset the connection.
  virtual bool closed() const = 0;
  // Called once, from any thread, when the client goes away before the answer ended. Called at once if it already has.
  virtual void on_close(std::function<void()> callback) = 0;
};

using Handler = std::function<void(std::shared_ptr<const Request>, std::shared_ptr<Responder>)>;

struct ServerOptions {
  std::string address = "0.0.0.0";  // IP literal
  std::uint16_t port = 3000;        // 0 = any free port, see Server::port()
  // A socket that is bound already, in place of address and port; start() takes it over. A Unix socket has port 0, and
  // its clients are `unix`. -1: none.
  int bound_socket = -1;
  std::size_t threads = 1;
  std::size_t request_line_bytes_max = 8 << 10;
  std::size_t header_line_bytes_max = 8 << 10;
  std::size_t header_count_max = 100;
  std::size_t headers_bytes_max = 64 << 10;
  std::size_t body_bytes_max = 2'000'000;
  // Of bodies that are on their way, over all connections; at least one of any size finds room.
  std::size_t bodies_bytes_max = std::size_t{256} << 20;
  std::size_t connections_max = 10'000;
  std::size_t connections_per_address_max = 1'000;
  std::size_t requests_per_connection_max = 1'000;
  std::size_t unsent_bytes_max = 256 << 10;  // advisory; see Responder::unsent_bytes
  std::chrono::milliseconds header_timeout{10'000};
  std::chrono::milliseconds body_gap_timeout{10'000};
  std::chrono::milliseconds body_timeout{60'000};
  std::chrono::milliseconds idle_timeout{75'000};
  // Unsent output without progress: the connection is closed.
  std::chrono::milliseconds stall_timeout{30'000};
  // CORS: empty = off, "*" = any origin (never with credentials), otherwise the exact origins allowed.
  std::vector<std::string> cors_allow_origins{};
  // Headers and body of a refusal that is made here, and any thread's to ask for; the HTTP status is set afterwards.
  // Empty: the message as plain text.
  std::function<Response(std::string_view path, const Status& why)> refusal{};
  std::shared_ptr<const security::TlsIdentity> tls{};  // null: plain HTTP
};

class Server {
 public:
  static Result<std::unique_ptr<Server>> create(ServerOptions options);
  virtual ~Server() = default;

  // A path that ends in "/*" stands for all longer ones. HEAD is served by the GET handler. Unknown path: 404; known
  // path, other method: 405 with Allow.
  virtual void add_route(std::string method, std::string path, Handler handler) = 0;
  // Called before routing for every request but CORS preflights, as soon as its head is there (the body is still
  // empty); returning a Response refuses it (authentication).
  virtual void set_gate(std::function<std::unique_ptr<Response>(const Request&)> gate) = 0;

  // Binds and starts the I/O threads. Errors: kUnavailable naming address, port and reason.
  virtual Status start() = 0;
  virtual std::uint16_t port() const = 0;
  // Stops accepting; open requests go on, idle connections close.
  virtual void stop_accepting() = 0;
  virtual std::size_t open_requests() const = 0;
  // Closes everything and joins the threads. Not from a handler.
  virtual void stop() = 0;
};

}  // namespace coxswain::http
