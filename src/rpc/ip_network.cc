#include "rpc/ip_network.h"

#include <algorithm>
#include <charconv>
#include <cstring>
#include <ifaddrs.h>
#include <memory>

#include <arpa/inet.h>
#include <netinet/in.h>

namespace coxswain::rpc {
namespace {

using Bytes = std::array<std::uint8_t, 16>;
constexpr unsigned kBitsBeforeIpv4 = 96;

const sockaddr_in& ipv4(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in&>(address);
}
const sockaddr_in6& ipv6(const sockaddr_storage& address) {
  return reinterpret_cast<const sockaddr_in6&>(address);
}

std::optional<Bytes> bytes_of(const sockaddr_storage& address) {
  Bytes out{};
  if (address.ss_family == AF_INET) {
    out[10] = out[11] = 0xff;
    std::memcpy(&out[12], &ipv4(address).sin_addr, sizeof(in_addr));
    return out;
  }
  if (address.ss_family != AF_INET6 || IN6_IS_ADDR_LINKLOCAL(&ipv6(address).sin6_addr)) return {};
  std::memcpy(out.data(), &ipv6(address).sin6_addr, out.size());
  return out;
}

// An address without a port.
std::optional<sockaddr_storage> parse_host(const std::string& text) {
  sockaddr_storage out{};
  if (::inet_pton(AF_INET, text.c_str(), &reinterpret_cast<sockaddr_in&>(out).sin_addr) == 1) {
    out.ss_family = AF_INET;
    return out;
  }
  if (::inet_pton(AF_INET6, text.c_str(), &reinterpret_cast<sockaddr_in6&>(out).sin6_addr) == 1) {
    out.ss_family = AF_INET6;
    return out;
  }
  return {};
}

std::optional<unsigned> parse_number(std::string_view text, unsigned max) {
  unsigned out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error != std::errc() || end != text.data() + text.size() || out > max) return {};
  return out;
}

std::optional<IpNetwork> parse_network(std::string_view text) {
  const std::size_t slash = text.find('/');
  if (slash == std::string_view::npos) return {};
  const auto host = parse_host(std::string(text.substr(0, slash)));
  if (!host) return {};
  const auto bytes = bytes_of(*host);
  const bool is_ipv4 = host->ss_family == AF_INET;
  const auto bits = parse_number(text.substr(slash + 1), is_ipv4 ? 32 : 128);
  if (!bytes || !bits) return {};
  return IpNetwork{.address = *bytes, .prefix_bits = *bits + (is_ipv4 ? kBitsBeforeIpv4 : 0)};
}

bool is_in(const IpNetwork& network, const Bytes& address) {
  for (unsigned bit = 0; bit < network.prefix_bits; bit += 8) {
    const unsigned n = std::min(8U, network.prefix_bits - bit);
    const unsigned differs = network.address[bit / 8] ^ unsigned { address[bit / 8] };
    if ((differs >> (8 - n)) != 0) return false;
  }
  return true;
}

}  // namespace

Result<std::vector<IpNetwork>> parse_networks(std::string_view text) {
  std::vector<IpNetwork> out;
  for (std::size_t at = 0; at <= text.size();) {
    const std::size_t end = std::min(text.find(',', at), text.size());
    const std::string_view part = text.substr(at, end - at);
    const auto network = parse_network(part);
    if (!network)
      return invalid_argument("`" + std::string(part) + "` is no network such as 10.0.0.0/8");
    out.push_back(*network);
    at = end + 1;
  }
  return out;
}

bool contains(std::span<const IpNetwork> networks, const sockaddr_storage& address) {
  const auto bytes = bytes_of(address);
  return bytes && std::any_of(networks.begin(), networks.end(), [&](const IpNetwork& network) {
           return is_in(network, *bytes);
         });
}

std::vector<OwnAddress> own_addresses(std::span<const IpNetwork> networks) {
  ifaddrs* all = nullptr;
  if (::getifaddrs(&all) != 0) return {};
  const std::unique_ptr<ifaddrs, decltype(&::freeifaddrs)> owner(all, ::freeifaddrs);
  std::vector<OwnAddress> out;
  for (const IpNetwork& network : networks) {
    for (const ifaddrs* one = all; one != nullptr; one = one->ifa_next) {
      const int family = one->ifa_addr != nullptr ? one->ifa_addr->sa_family : AF_UNSPEC;
      if (family != AF_INET && family != AF_INET6) continue;
      OwnAddress own{.interface = one->ifa_name};
      const std::size_t size = family == AF_INET ? sizeof(sockaddr_in) : sizeof(sockaddr_in6);
      std::memcpy(&own.address, one->ifa_addr, size);
      if (const auto bytes = bytes_of(own.address); bytes && is_in(network, *bytes))
        out.push_back(std::move(own));
    }
  }
  return out;
}

std::string text_of(const sockaddr_storage& address) {
  std::array<char, INET6_ADDRSTRLEN> text{};
  if (address.ss_family == AF_INET) {
    ::inet_ntop(AF_INET, &ipv4(address).sin_addr, text.data(), text.size());
    return std::string(text.data()) + ":" + std::to_string(ntohs(ipv4(address).sin_port));
  }
  ::inet_ntop(AF_INET6, &ipv6(address).sin6_addr, text.data(), text.size());
  return "[" + std::string(text.data()) + "]:" + std::to_string(ntohs(ipv6(address).sin6_port));
}

std::optional<sockaddr_storage> parse_ip_address(std::string_view text) {
  const std::size_t colon = text.rfind(':');
  if (colon == std::string_view::npos) return {};
  std::string_view host = text.substr(0, colon);
  const bool in_brackets = host.size() > 2 && host.front() == '[' && host.back() == ']';
  if (in_brackets) host = host.substr(1, host.size() - 2);
  auto out = parse_host(std::string(host));
  const auto port = parse_number(text.substr(colon + 1), 65'535);
  if (!out || !port || in_brackets != (out->ss_family == AF_INET6)) return {};
  // Of both families in the same place.
  reinterpret_cast<sockaddr_in&>(*out).sin_port = htons(static_cast<std::uint16_t>(*port));
  return out;
}

}  // namespace coxswain::rpc
