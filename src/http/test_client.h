#pragma once
// A raw TCP client for tests: what is sent and what comes back, byte for byte.

#include <algorithm>
#include <cstdint>
#include <cstdlib>
#include <string>
#include <string_view>
#include <unistd.h>
#include <utility>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <netinet/tcp.h>
#include <sys/socket.h>
#include <sys/time.h>

#include "http/syntax.h"

namespace coxswain::http {

struct Answer {
  int status = 0;
  std::string head;  // status line and headers
  std::string body;  // chunks joined
  std::size_t n_chunks = 0;

  std::string header(std::string_view name) const {
    std::string_view rest = head;
    while (!rest.empty()) {
      const std::size_t end = std::min(rest.find("\r\n"), rest.size());
      const std::string_view line = rest.substr(0, end);
      const std::size_t colon = line.find(": ");
      if (colon != std::string_view::npos && equal_ignoring_case(line.substr(0, colon), name)) {
        return std::string(line.substr(colon + 2));
      }
      rest.remove_prefix(std::min(end + 2, rest.size()));
    }
    return "";
  }
};

class TestClient {
 public:
  // `receive_buffer_bytes` other than 0 makes a client whose system holds little.
  explicit TestClient(std::uint16_t port,
                      const char* address = "127.0.0.1",
                      int receive_buffer_bytes = 0) {
    const bool v6 = std::string_view(address).find(':') != std::string_view::npos;
    fd_ = socket(v6 ? AF_INET6 : AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    const timeval patience{.tv_sec = 60,
                           .tv_usec = 0};  // a bug fails the test, it does not hang it
    setsockopt(fd_, SOL_SOCKET, SO_RCVTIMEO, &patience, sizeof(patience));
    const int on = 1;
    setsockopt(fd_, IPPROTO_TCP, TCP_NODELAY, &on, sizeof(on));
    if (receive_buffer_bytes > 0) {
      setsockopt(fd_, SOL_SOCKET, SO_RCVBUF, &receive_buffer_bytes, sizeof(receive_buffer_bytes));
    }
    if (v6) {
      sockaddr_in6 to{};
      to.sin6_family = AF_INET6;
      to.sin6_port = htons(port);
      inet_pton(AF_INET6, address, &to.sin6_addr);
      connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
    } else {
      sockaddr_in to{};
      to.sin_family = AF_INET;
      to.sin_port = htons(port);
      inet_pton(AF_INET, address, &to.sin_addr);
      connected_ = connect(fd_, reinterpret_cast<sockaddr*>(&to), sizeof(to)) == 0;
    }
  }
  virtual ~TestClient() { close(); }
  TestClient(const TestClient&) = delete;
  TestClient& operator=(const TestClient&) = delete;

  bool connected() const { return connected_; }
  void close() {
    if (fd_ >= 0) ::close(std::exchange(fd_, -1));
  }
  // Ends the connection with a reset.
  void reset() {
    const linger hard{.l_onoff = 1, .l_linger = 0};
    setsockopt(fd_, SOL_SOCKET, SO_LINGER, &hard, sizeof(hard));
    close();
  }

  // False if the server has closed.
  bool send(std::string_view bytes) {
    while (!bytes.empty()) {
      const ssize_t n = write_bytes(bytes);
      if (n <= 0) return false;
      bytes.remove_prefix(static_cast<std::size_t>(n));
    }
    return true;
  }

  // Up to the end of one answer; status 0 if there is none before the connection ends.
  Answer receive(bool head_only = false) {
    Answer answer;
    do {  // interim answers are skipped
      if (!fill_until("\r\n\r\n")) return {};
      const std::size_t end = buffer_.find("\r\n\r\n");
      answer.head = buffer_.substr(0, end);
      buffer_.erase(0, end + 4);
      answer.status = std::atoi(answer.head.c_str() + 9);
      if (answer.status == 100) ++n_continues_;
    } while (answer.status == 100);
    const bool bodiless = head_only || answer.status == 204;
    if (!bodiless && answer.header("transfer-encoding") == "chunked") {
      receive_chunks(answer);
    } else if (!bodiless && !answer.header("content-length").empty()) {
      const auto length = static_cast<std::size_t>(std::stoul(answer.header("content-length")));
      while (buffer_.size() < length && receive_some()) {
      }
      answer.body = buffer_.substr(0, length);
      buffer_.erase(0, length);
    } else if (!bodiless) {
      while (receive_some()) {
      }
      answer.body = std::exchange(buffer_, {});
    }
    return answer;
  }
  // One chunk of a streamed answer whose head was received by receive_head().
  std::string receive_chunk() {
    if (!fill_until("\r\n")) return "";
    const std::size_t size = std::stoul(buffer_, nullptr, 16);
    const std::size_t start = buffer_.find("\r\n") + 2;
    while (buffer_.size() < start + size + 2 && receive_some()) {
    }
    std::string chunk = buffer_.substr(start, size);
    buffer_.erase(0, start + size + 2);
    return chunk;
  }
  Answer receive_head() {
    Answer answer;
    if (!fill_until("\r\n\r\n")) return answer;
    const std::size_t end = buffer_.find("\r\n\r\n");
    answer.head = buffer_.substr(0, end);
    buffer_.erase(0, end + 4);
    answer.status = std::atoi(answer.head.c_str() + 9);
    return answer;
  }
  // True if the server ends the connection and sends nothing more.
  bool at_end() {
    while (receive_some()) {
    }
    return buffer_.empty() && ended_;
  }
  int n_continues() const { return n_continues_; }

 protected:
  // As send() and recv().
  virtual ssize_t write_bytes(std::string_view bytes) {
    return ::send(fd_, bytes.data(), bytes.size(), MSG_NOSIGNAL);
  }
  virtual ssize_t read_bytes(char* bytes, std::size_t n_max) { return recv(fd_, bytes, n_max, 0); }
  int fd() const { return fd_; }

 private:
  void receive_chunks(Answer& answer) {
    for (;;) {
      const std::string chunk = receive_chunk();
      if (chunk.empty()) return;
      answer.body += chunk;
      ++answer.n_chunks;
    }
  }
  bool fill_until(std::string_view mark) {
    while (buffer_.find(mark) == std::string::npos) {
      if (!receive_some()) return false;
    }
    return true;
  }
  bool receive_some() {
    char bytes[16384];
    const ssize_t n = read_bytes(bytes, sizeof(bytes));
    if (n <= 0) {
      ended_ = n == 0 || errno == ECONNRESET;
      return false;
    }
    buffer_.append(bytes, static_cast<std::size_t>(n));
    return true;
  }

  int fd_ = -1;
  bool connected_ = false;
  bool ended_ = false;
  int n_continues_ = 0;
  std::string buffer_;
};

}  // namespace coxswain::http
