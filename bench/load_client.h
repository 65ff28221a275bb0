#pragma once
// LoadClient: many HTTP connections of one thread to a server on loopback, each with one request after the other, and
// when the first and the last byte of each answer came. Answers are looked at as far as their end needs it.
//
// Dies with a message where the server cannot be reached or hangs up. Thread rule: one thread.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::bench {

int listen_on_loopback(int backlog);  // on a port that is free
std::uint16_t port_of(int socket);
int connect_to(std::uint16_t port);
// Whether GET `path` gets 200 now.
bool answers(std::uint16_t port, std::string_view path);
std::string post_request(std::string_view path, std::string_view body);

struct Reply {
  std::uint64_t tag = 0;  // of its request
  int status = 0;
  TimePoint sent{};
  TimePoint first{};  // of the first bytes behind the head
  TimePoint ended{};
};

class LoadClient {
 public:
  explicit LoadClient(std::uint16_t port);
  ~LoadClient();
  LoadClient(const LoadClient&) = delete;
  LoadClient& operator=(const LoadClient&) = delete;

  // One connection more. Returns its number, from 0 on.
  std::size_t connect();
  // REQUIRES: the answer to what it sent before has ended.
  void send(std::size_t connection, std::string_view request, std::uint64_t tag);
  // Reads what comes until `until`. `on_end` may send and connect.
  using OnEnd = std::function<void(std::size_t connection, const Reply& reply)>;
  void run(TimePoint until, const OnEnd& on_end);
  // Connections whose answer has begun and not ended.
  std::size_t n_begun() const;

 private:
  struct Connection {
    int fd = -1;
    bool is_open = false;  // waits for an answer or its end
    bool has_head = false;
    bool is_chunked = false;
    std::size_t n_missing = 0;  // of a body with a length
    std::string held;           // the head so far, or the last bytes of chunks
    Reply reply = {};
  };

  void read(std::size_t connection, const OnEnd& on_end);
  static void take(Connection& c, std::string_view bytes, TimePoint now);
  static bool take_head(Connection& c);

  const std::uint16_t port_;
  int poller_ = -1;
  std::vector<Connection> connections_;
  std::vector<char> buffer_ = std::vector<char>(65536);
};

}  // namespace coxswain::bench
