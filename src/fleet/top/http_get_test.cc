#include "fleet/top/http_get.h"

#include <array>
#include <string>
#include <thread>
#include <unistd.h>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace coxswain::fleet {
namespace {

constexpr std::chrono::milliseconds kPatience{20'000};

// Answers one request with `answer` and closes; without one it takes the connection and says nothing.
class OneAnswer {
 public:
  explicit OneAnswer(std::string answer) {
    listener_ = ::socket(AF_INET, SOCK_STREAM, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    socklen_t size = sizeof(address);
    EXPECT_EQ(::bind(listener_, reinterpret_cast<sockaddr*>(&address), size), 0);
    EXPECT_EQ(::listen(listener_, 1), 0);
    EXPECT_EQ(::getsockname(listener_, reinterpret_cast<sockaddr*>(&address), &size), 0);
    port_ = ntohs(address.sin_port);
    if (answer.empty()) return;
    thread_ = std::thread([this, answer = std::move(answer)] {
      const int fd = ::accept(listener_, nullptr, nullptr);
      std::array<char, 512> buffer{};
      const ssize_t n = ::recv(fd, buffer.data(), buffer.size(), 0);
      asked_.assign(buffer.data(), n > 0 ? static_cast<std::size_t>(n) : 0);
      EXPECT_EQ(::send(fd, answer.data(), answer.size(), MSG_NOSIGNAL),
                static_cast<ssize_t>(answer.size()));
      ::close(fd);
    });
  }
  ~OneAnswer() {
    if (thread_.joinable()) thread_.join();
    ::close(listener_);
  }
  OneAnswer(const OneAnswer&) = delete;
  OneAnswer& operator=(const OneAnswer&) = delete;

  std::uint16_t port() const { return port_; }
  std::string asked() {
    thread_.join();
    return asked_;
  }

 private:
  int listener_ = -1;
  std::uint16_t port_ = 0;
  std::string asked_;
  std::thread thread_;
};

TEST(HttpGet, TheBody) {
  OneAnswer server("HTTP/1.1 200 OK\r\nContent-Length: 5\r\n\r\nhello");
  const auto body = http_get("127.0.0.1", server.port(), "/fleet", kPatience);
  ASSERT_EQ(body.status(), Status());
  EXPECT_EQ(*body, "hello");
  EXPECT_TRUE(server.asked().starts_with("GET /fleet HTTP/1.0\r\n"));
}

TEST(HttpGet, AnotherStatusIsAnError) {
  const OneAnswer server("HTTP/1.1 404 Not Found\r\n\r\n{}");
  const Status status = http_get("127.0.0.1", server.port(), "/fleet", kPatience).status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "127.0.0.1:" + std::to_string(server.port()) + "/fleet answers 404 Not Found");
}

TEST(HttpGet, WhoDoesNotSpeakHttpOrDoesNotSpeak) {
  const OneAnswer other("SSH-2.0-something\r\n");
  EXPECT_EQ(http_get("127.0.0.1", other.port(), "/fleet", kPatience).status().code(),
            Code::kUnavailable);
  const OneAnswer silent("");
  const Status status =
      http_get("127.0.0.1", silent.port(), "/", std::chrono::milliseconds(20)).status();
  EXPECT_EQ(status.message(), "127.0.0.1:" + std::to_string(silent.port()) + ": no answer in time");
  EXPECT_EQ(http_get("no address", 1, "/", kPatience).status().message(),
            "no address:1: not an address");
}

}  // namespace
}  // namespace coxswain::fleet
