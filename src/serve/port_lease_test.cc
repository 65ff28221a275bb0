#include "serve/port_lease.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <string>
#include <unistd.h>
#include <utility>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

namespace coxswain::serve {
namespace {

using ::testing::HasSubstr;

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

// Whether somebody listens.
bool is_open(std::uint16_t port) {
  const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
  sockaddr_in address{};
  address.sin_family = AF_INET;
  address.sin_port = htons(port);
  inet_pton(AF_INET, kLoopback, &address.sin_addr);
  const bool open = connect(fd, reinterpret_cast<const sockaddr*>(&address), sizeof address) == 0;
  close(fd);
  return open;
}

PortLease taken(const std::string& address, std::uint16_t port) {
  auto lease = PortLease::take(address, port, "--port");
  EXPECT_TRUE(lease.ok()) << lease.status().message();
  return std::move(lease).value();
}

std::string refusal(const std::string& address, std::uint16_t port) {
  const auto lease = PortLease::take(address, port, "--port");
  EXPECT_EQ(lease.status().code(), Code::kUnavailable);
  return lease.status().message();
}

TEST(PortLease, AnyPortIsChosenOnceAndStaysClosedUntilTheRouterListens) {
  const PortLease lease = taken(kLoopback, 0);
  EXPECT_NE(lease.port(), 0);
  EXPECT_FALSE(is_open(lease.port()));
  ASSERT_EQ(listen(lease.socket(), 1), 0);
  EXPECT_TRUE(is_open(lease.port()));
}

// Two sockets that are only bound may share a port; the lock is what keeps the second launcher out.
TEST(PortLease, ASecondLauncherIsRefusedBeforeAnybodyListens) {
  const PortLease first = taken(kLoopback, 0);
  EXPECT_EQ(refusal(kLoopback, first.port()),
            "Failed to bind to 127.0.0.1:" + std::to_string(first.port()) +
                ": another text-generation-launcher has it; stop that launcher, or choose another "
                "--port");
  EXPECT_THAT(refusal("0.0.0.0", first.port()), HasSubstr("another text-generation-launcher"));
  const PortLease beside = taken("127.0.0.2", first.port());
  EXPECT_EQ(beside.port(), first.port());
}

TEST(PortLease, AllAddressesKeepEachOut) {
  const PortLease first = taken("0.0.0.0", 0);
  EXPECT_THAT(refusal(kLoopback, first.port()), HasSubstr("another text-generation-launcher"));
}

TEST(PortLease, AfterItsEndThePortIsFree) {
  std::uint16_t port = 0;
  {
    const PortLease first = taken(kLoopback, 0);
    port = first.port();
  }
  EXPECT_EQ(taken(kLoopback, port).port(), port);
}

TEST(PortLease, TheRouterInheritsTheSocket) {
  const PortLease launcher = taken(kLoopback, 0);
  setenv(kListenVariable, std::to_string(dup(launcher.socket())).c_str(), 1);
  auto router = PortLease::inherit_or_take(kListenVariable, kLoopback, 1, "--port");
  unsetenv(kListenVariable);
  ASSERT_TRUE(router.ok()) << router.status().message();
  EXPECT_EQ(router->port(), launcher.port());
  ASSERT_EQ(listen(router->socket(), 1), 0);
  // A router's end leaves the port with the launcher: open, so that nobody else can have it.
  close(router->release_socket());
  EXPECT_TRUE(is_open(launcher.port()));
  EXPECT_EQ(listen_on(launcher.port()), -1);
  for (const char* wrong : {"x", "-1", "99999", ""}) {
    setenv(kListenVariable, wrong, 1);
    EXPECT_FALSE(PortLease::inherit_or_take(kListenVariable, kLoopback, 0, "--port").ok()) << wrong;
    unsetenv(kListenVariable);
  }
}

TEST(PortLease, APortThatSomebodyListensOnIsRefusedByName) {
  std::uint16_t port = 0;
  {
    const PortLease lease = taken(kLoopback, 0);
    port = lease.port();
  }
  const int fd = listen_on(port);
  ASSERT_GE(fd, 0);
  EXPECT_EQ(refusal(kLoopback, port),
            "Failed to bind to 127.0.0.1:" + std::to_string(port) +
                ": Address already in use; stop what listens there, or choose another --port");
  close(fd);
}

TEST(PortLease, AnAddressOfAnotherMachineIsRefused) {
  EXPECT_THAT(refusal("192.0.2.1", 0), HasSubstr("choose another --hostname"));
  EXPECT_THAT(refusal("2001:db8::1", 0), HasSubstr("[2001:db8::1]:0"));
}

// Port 1 needs rights that nobody has here once they are dropped in a child.
TEST(PortLease, APortThatNeedsRightsSaysWhich) {
  int pipe_fds[2];
  ASSERT_EQ(pipe(pipe_fds), 0);
  const pid_t child = fork();
  if (child == 0) {
    if (geteuid() == 0 && setuid(65534) != 0) _exit(1);
    const std::string text = PortLease::take(kLoopback, 1, "--port").status().message();
    _exit(write(pipe_fds[1], text.data(), text.size()) > 0 ? 0 : 1);
  }
  close(pipe_fds[1]);
  std::string text(512, '\0');
  text.resize(
      static_cast<std::size_t>(std::max<ssize_t>(read(pipe_fds[0], text.data(), text.size()), 0)));
  close(pipe_fds[0]);
  int status = 0;
  waitpid(child, &status, 0);
  std::ifstream first_free("/proc/sys/net/ipv4/ip_unprivileged_port_start");
  int n_privileged = 1024;
  first_free >> n_privileged;
  if (n_privileged <= 1) GTEST_SKIP() << "every port is free for all here";
  EXPECT_THAT(text,
              HasSubstr("Permission denied; ports below 1024 need root or CAP_NET_BIND_SERVICE"));
}

}  // namespace
}  // namespace coxswain::serve
