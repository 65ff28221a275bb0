#include "serve/admin_address.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::serve {
namespace {

using ::testing::HasSubstr;

void expect_address(std::string_view text, const std::string& host, std::uint16_t port) {
  const auto address = parse_admin_address(text);
  ASSERT_TRUE(address.ok()) << address.status().message();
  EXPECT_EQ(address->host, host);
  EXPECT_EQ(address->port, port);
}

TEST(AdminAddress, IsOnTheLoopback) {
  expect_address("127.0.0.1:9100", "127.0.0.1", 9100);
  expect_address("127.1.2.3:0", "127.1.2.3", 0);
  expect_address("localhost:65535", "127.0.0.1", 65535);
  expect_address("[::1]:9100", "::1", 9100);
}

TEST(AdminAddress, IsAUnixSocket) {
  expect_address("unix:/run/coxswain/admin:1", "/run/coxswain/admin:1", 0);
  const auto address = parse_admin_address("unix:/a");
  ASSERT_TRUE(address.ok());
  EXPECT_TRUE(address->is_path());
  EXPECT_FALSE(parse_admin_address("127.0.0.1:1")->is_path());
  const auto refusal = [](const std::string& text) {
    return parse_admin_address(text).status().message();
  };
  for (const char* text : {"unix:", "unix:admin", "unix:127.0.0.1:9100"})
    EXPECT_THAT(refusal(text), HasSubstr("a path that begins with /")) << text;
  EXPECT_THAT(refusal("unix:/" + std::string(107, 'a')), HasSubstr("at most 107 bytes"));
  EXPECT_EQ(refusal("unix:/" + std::string(106, 'a')), "");
}

TEST(AdminAddress, WhatIsWrongIsSaid) {
  const auto refusal = [](std::string_view text) {
    return parse_admin_address(text).status().message();
  };
  for (const char* text : {"0.0.0.0:9100", "[::]:9100", "10.0.0.1:1", "host:1", ":1", "[]:1"})
    EXPECT_THAT(refusal(text), HasSubstr("loopback")) << text;
  for (const char* text : {"127.0.0.1:", "127.0.0.1:x", "127.0.0.1:65536", "127.0.0.1:-1"})
    EXPECT_THAT(refusal(text), HasSubstr("a port from 0 to 65535")) << text;
  EXPECT_EQ(refusal("9100"),
            "`admin_listen` must be an address and a port, such as 127.0.0.1:9100, or "
            "unix:PATH. Given: 9100");
}

}  // namespace
}  // namespace coxswain::serve
