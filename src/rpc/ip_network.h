#pragma once
// Networks as an option lists them, 10.0.0.0/8 or fd00::/8, and the addresses of this machine that lie in them.
//
// Thread rule: pure functions.

#include <array>
#include <cstdint>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <sys/socket.h>

namespace coxswain::rpc {

struct IpNetwork {
  std::array<std::uint8_t, 16> address = {};  // of IPv4 as ::ffff:a.b.c.d
  unsigned prefix_bits = 0;                   // of these 16 bytes
};

// With commas between them. Errors: kInvalidArgument, with the part that is no network.
Result<std::vector<IpNetwork>> parse_networks(std::string_view text);

bool contains(std::span<const IpNetwork> networks, const sockaddr_storage& address);

struct OwnAddress {
  std::string interface = {};
  sockaddr_storage address = {};  // port 0
};
// In the order of the networks; without addresses that are good on one link alone.
std::vector<OwnAddress> own_addresses(std::span<const IpNetwork> networks);

// "10.0.0.1:9400", "[fd00::1]:9400".
std::string text_of(const sockaddr_storage& address);
// Nothing: it is no such text.
std::optional<sockaddr_storage> parse_ip_address(std::string_view text);

}  // namespace coxswain::rpc
