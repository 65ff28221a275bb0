#include "rpc/ip_network.h"

#include <string>

#include <gtest/gtest.h>

namespace coxswain::rpc {
namespace {

bool is_in(const std::string& networks, const std::string& address) {
  return contains(parse_networks(networks).value(), parse_ip_address(address + ":1").value());
}

TEST(IpNetwork, AnAddressIsInANetworkOrNot) {
  EXPECT_TRUE(is_in("10.0.0.0/8", "10.255.3.4"));
  EXPECT_FALSE(is_in("10.0.0.0/8", "11.0.0.0"));
  EXPECT_TRUE(is_in("192.168.4.0/22", "192.168.7.255"));
  EXPECT_FALSE(is_in("192.168.4.0/22", "192.168.8.0"));
  EXPECT_TRUE(is_in("192.168.4.9/32", "192.168.4.9"));
  EXPECT_FALSE(is_in("192.168.4.9/32", "192.168.4.8"));
  EXPECT_TRUE(is_in("10.0.0.0/8,fd00::/9", "[fd7f::1]"));
  EXPECT_FALSE(is_in("10.0.0.0/8,fd00::/9", "[fd80::1]"));
  EXPECT_TRUE(is_in("0.0.0.0/0", "1.2.3.4"));
  EXPECT_FALSE(is_in("0.0.0.0/0", "[2001:db8::1]")) << "of the other family";
  EXPECT_FALSE(is_in("::/0", "[fe80::1]")) << "means nothing without its link";
}

TEST(IpNetwork, WhatIsNoneIsNamed) {
  for (const std::string part : {"",
                                 "10.0.0.0",
                                 "10.0.0.0/33",
                                 "10.0.0.0/",
                                 "10.0.0/8",
                                 "a/8",
                                 "10.0.0.0/-1",
                                 "10.0.0.0/8 ",
                                 "fd00::/129"}) {
    const Status status = parse_networks("127.0.0.0/8," + part).status();
    EXPECT_EQ(status.code(), Code::kInvalidArgument) << part;
    EXPECT_EQ(status.message(), "`" + part + "` is no network such as 10.0.0.0/8");
  }
}

TEST(IpNetwork, AddressesAreText) {
  for (const std::string text : {"10.0.0.1:9400", "[fd00::1]:80", "127.0.0.1:0"})
    EXPECT_EQ(text_of(parse_ip_address(text).value()), text);
  for (const std::string text : {"",
                                 "10.0.0.1",
                                 "host:80",
                                 "10.0.0.1:65536",
                                 "fd00::1:80",
                                 "[10.0.0.1]:80",
                                 "10.0.0.1:",
                                 "[]:1"})
    EXPECT_FALSE(parse_ip_address(text)) << text;
}

TEST(IpNetwork, ThisMachineIsAtTheLoopback) {
  const auto own = own_addresses(parse_networks("127.0.0.1/32").value());
  ASSERT_EQ(own.size(), 1U);
  EXPECT_EQ(text_of(own.front().address), "127.0.0.1:0");
  EXPECT_FALSE(own.front().interface.empty());
  EXPECT_TRUE(own_addresses(parse_networks("224.0.0.1/32").value()).empty());
}

}  // namespace
}  // namespace coxswain::rpc
