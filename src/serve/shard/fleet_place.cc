#include "serve/shard/fleet_place.h"

#include <array>
#include <string_view>
#include <unistd.h>

#include "rpc/ucx_carrier.h"

namespace coxswain::serve {
namespace {

std::string host_of(const std::string& address) {
  return address.substr(0, address.rfind(':'));
}

Status check_ucx(const options::OptionValues& values) {
  const auto networks = values.get<"kv-ucx-networks">();
  if (!networks) return {};
  if (!values.get<"fleet-listen">()) {
    return invalid_argument(
        "`kv_ucx_networks` needs `fleet_listen`, where shards say what they offer", "fleet-listen");
  }
  if (!rpc::has_ucx()) {
    return invalid_argument("`kv_ucx_networks` needs a build with COXSWAIN_UCX", "kv-ucx-networks");
  }
  if (const auto parsed = rpc::parse_networks(*networks); !parsed.ok())
    return invalid_argument("`kv_ucx_networks`: " + parsed.status().message(), "kv-ucx-networks");
  return {};
}

}  // namespace

Status check_fleet_place(const options::OptionValues& values) {
  const auto listen = values.get<"fleet-listen">();
  const auto advertise = values.get<"fleet-advertise">();
  if (listen) {
    // Port 0 is any that is free.
    const std::string some = listen->ends_with(":0") ? host_of(*listen) + ":1" : *listen;
    if (!membership::check_address(some).ok()) {
      return invalid_argument(
          "`fleet_listen` must be HOST:PORT, such as 0.0.0.0:9400. Given: " + *listen,
          "fleet-listen");
    }
  }
  if (advertise && !membership::check_address(*advertise).ok()) {
    return invalid_argument(
        "`fleet_advertise` must be HOST:PORT, such as shard-0:9400. Given: " + *advertise,
        "fleet-advertise");
  }
  if (!listen && values.is_set<"etcd-endpoints">()) {
    return invalid_argument("`etcd_endpoints` needs `fleet_listen`, where routers reach this shard",
                            "fleet-listen");
  }
  return check_ucx(values);
}

std::vector<rpc::IpNetwork> ucx_networks(const options::OptionValues& values) {
  const auto text = values.get<"kv-ucx-networks">();
  return text ? rpc::parse_networks(*text).value() : std::vector<rpc::IpNetwork>();
}

membership::Member fleet_member(const options::OptionValues& values,
                                int port,
                                const std::string& machine,
                                std::uint64_t epoch) {
  std::string address = values.get<"fleet-advertise">().value_or("");
  if (address.empty()) {
    const std::string host = host_of(values.get<"fleet-listen">().value_or(""));
    const bool is_any = host == "0.0.0.0" || host == "[::]";
    address = (is_any ? machine : host) + ":" + std::to_string(port);
  }
  return {.name = address,
          .address = address,
          .role = membership::parse_role(values.get<"fleet-role">()).value(),
          .incarnation = std::to_string(epoch)};
}

std::string machine_name() {
  std::array<char, 256> name{};
  gethostname(name.data(), name.size() - 1);
  return name.data();
}

}  // namespace coxswain::serve
