#pragma once
// What the connections of one server share, and the loop that a connection lives on.
//
// Each I/O thread runs one Loop; a connection belongs to one loop for life, so its state needs no
// lock. Only what is marked atomic or guarded here is touched by several threads.

#include <atomic>
#include <cstdint>
#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <thread>
#include <unordered_set>
#include <vector>

#include <boost/asio/executor_work_guard.hpp>
#include <boost/asio/io_context.hpp>

#include "base/mutex.h"
#include "http/request_parser.h"
#include "http/response_text.h"
#include "http/routes.h"
#include "http/server.h"

namespace coxswain::http {

class Connection;

inline constexpr std::size_t kScratchBytes = 64 << 10;

struct Loop {
  boost::asio::io_context io{1};
  std::optional<boost::asio::executor_work_guard<boost::asio::io_context::executor_type>> work{
      io.get_executor()};
  std::thread thread;

  // Of the loop's thread only:
  std::unordered_set<std::shared_ptr<Connection>> connections;
  std::vector<char> scratch = std::vector<char>(kScratchBytes);  // what was just read
  std::vector<char> opened;                                      // the same, of TLS, as text

  bool in_loop() { return io.get_executor().running_in_this_thread(); }
};

// Counts open connections, in all and for each address.
class ConnectionCensus {
 public:
  ConnectionCensus(std::size_t total_max, std::size_t per_address_max)
      : total_max_(total_max), per_address_max_(per_address_max) {}

  // Empty if the connection may stay, otherwise why not: a literal.
  std::string_view enter(const std::string& address) {
    const base::MutexLock lock(mutex_);
    if (total_ >= total_max_) return "too many connections (--connections-max)";
    std::size_t& count = by_address_[address];
    if (count >= per_address_max_) {
      return "too many connections of one address (--connections-per-address-max)";
    }
    ++count;
    ++total_;
    return {};
  }
  void leave(const std::string& address) {
    const base::MutexLock lock(mutex_);
    const auto found = by_address_.find(address);
    if (--found->second == 0) by_address_.erase(found);
    --total_;
  }

 private:
  const std::size_t total_max_;
  const std::size_t per_address_max_;
  base::Mutex mutex_;
  std::size_t total_ GUARDED_BY(mutex_) = 0;
  std::map<std::string, std::size_t> by_address_ GUARDED_BY(mutex_);
};

struct ServerCore {
  explicit ServerCore(ServerOptions server_options)
      : options(std::move(server_options)),
        cors(options.cors_allow_origins),
        census(options.connections_max, options.connections_per_address_max),
        parser_limits{options.request_line_bytes_max,
                      options.header_line_bytes_max,
                      options.header_count_max,
                      options.headers_bytes_max,
                      options.body_bytes_max} {}

  Response refusal(std::string_view path, int status, const Status& why) const {
    Response out = options.refusal ? options.refusal(path, why) : plain_refusal(why);
    out.status = status;
    return out;
  }
  std::string next_request_id() {
    return id_prefix + std::to_string(id_counter.fetch_add(1, std::memory_order_relaxed));
  }

  const ServerOptions options;
  const CorsPolicy cors;
  RouteTable routes;                                              // fixed once started
  std::function<std::unique_ptr<Response>(const Request&)> gate;  // likewise
  ConnectionCensus census;
  const ParserLimits parser_limits;
  std::string id_prefix;
  std::atomic<std::uint64_t> id_counter{1};
  std::atomic<std::size_t> open_requests{0};
  std::atomic<std::size_t> bodies_bytes{0};  // received of requests that no handler has yet
  std::atomic<std::size_t> refusing{0};      // connections above the limit that are being told so
  std::atomic<bool> draining{false};
};

}  // namespace coxswain::http
