#include "serve/port_lease.h"

#include <optional>
#include <unistd.h>

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>

namespace coxswain::serve {
namespace {

constexpr const char* kLoopback = "127.0.0.1";

// A socket bound as the router binds its own; -1 if the port cannot be listened on.
int listen_on(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  const int on = 1;
  setsockopt(fd, SOL_SOCKET, SO_REUSEADDR, &on, sizeof on);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, kLoopback, &address.sin_addr);
  if (bind(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0 &&
      listen(fd, 1) == 0)
    return fd;
  close(fd);
  return -1;
}

TEST(ListenAddress, WhatAHostnameStandsFor) {
  EXPECT_EQ(listen_address("192.0.2.1").text, "192.0.2.1");
  EXPECT_EQ(listen_address("::1").text, "::1");
  EXPECT_EQ(listen_address("localhost").text, "127.0.0.1");
  EXPECT_FALSE(listen_address("localhost").is_fallback);
  EXPECT_EQ(listen_address("3f2a8c").text, "0.0.0.0");
  EXPECT_TRUE(listen_address("3f2a8c").is_fallback);
}

TEST(PortLease, AnyPortIsChosenOnce) {
  const auto lease = PortLease::take({.text = kLoopback}, 0);
  ASSERT_TRUE(lease.ok()) << lease.status().message();
  EXPECT_NE(lease->port(), 0);
}

TEST(PortLease, TheRouterListensBesideIt) {
  const auto lease = PortLease::take({.text = kLoopback}, 0);
  ASSERT_TRUE(lease.ok());
  for (int life = 0; life < 2; ++life) {  // and its successor
    const int fd = listen_on(lease->port());
    EXPECT_GE(fd, 0);
    close(fd);
  }
}

TEST(PortLease, APortThatSomebodyListensOnIsRefusedByName) {
  std::uint16_t port = 0;
  {
    const auto lease = PortLease::take({.text = kLoopback}, 0);
    ASSERT_TRUE(lease.ok());
    port = lease->port();
  }
  const int fd = listen_on(port);
  ASSERT_GE(fd, 0);
  const auto second = PortLease::take({.text = kLoopback}, port);
  ASSERT_FALSE(second.ok());
  EXPECT_EQ(second.status().code(), Code::kUnavailable);
  EXPECT_NE(second.status().message().find(std::to_string(port)), std::string::npos)
      << second.status().message();
  close(fd);
}

TEST(PortLease, AnAddressOfAnotherMachineIsRefused) {
  EXPECT_EQ(PortLease::take({.text = "192.0.2.1"}, 0).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace coxswain::serve
