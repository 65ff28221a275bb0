#include "serve/shard/fleet_place.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "rpc/ucx_carrier.h"

namespace coxswain::serve {
namespace {

using ::testing::HasSubstr;

options::OptionValues values_of(std::vector<const char*> arguments) {
  arguments.insert(arguments.begin(), {"text-generation-server", "serve", "m"});
  auto result = options::parse(
      options::Binary::kServer, static_cast<int>(arguments.size()), arguments.data(), {});
  EXPECT_EQ(result.exit_code, std::nullopt) << result.output;
  return std::move(result.values);
}

std::string refusal(const std::vector<const char*>& arguments) {
  return check_fleet_place(values_of(arguments)).message();
}

std::string address_of(const std::vector<const char*>& arguments) {
  return fleet_member(values_of(arguments), 9400, "db7", 5).address;
}

TEST(FleetPlace, AddressesAreCheckedByName) {
  EXPECT_EQ(refusal({}), "");
  for (const char* good : {"--fleet-listen=0.0.0.0:0", "--fleet-listen=[::]:9400"})
    EXPECT_EQ(refusal({good}), "");
  for (const char* bad : {"--fleet-listen=9400",
                          "--fleet-listen=host",
                          "--fleet-listen=:0",
                          "--fleet-listen=host:70000",
                          "--fleet-listen=tcp://host:1"})
    EXPECT_THAT(refusal({bad}), HasSubstr("`fleet_listen` must be HOST:PORT")) << bad;
  EXPECT_THAT(refusal({"--fleet-listen=a:1", "--fleet-advertise=a:0"}),
              HasSubstr("`fleet_advertise` must be HOST:PORT, such as shard-0:9400. Given: a:0"));
  EXPECT_THAT(refusal({"--etcd-endpoints=http://e:1"}), HasSubstr("needs `fleet_listen`"));
}

TEST(FleetPlace, NetworksForUcxAreCheckedByName) {
  EXPECT_THAT(refusal({"--kv-ucx-networks=10.0.0.0/8"}), HasSubstr("needs `fleet_listen`"));
  if (!rpc::has_ucx()) {
    EXPECT_THAT(refusal({"--fleet-listen=a:1", "--kv-ucx-networks=10.0.0.0/8"}),
                HasSubstr("needs a build with COXSWAIN_UCX"));
    return;
  }
  EXPECT_THAT(refusal({"--fleet-listen=a:1", "--kv-ucx-networks=10.0.0.0/8,fd00::"}),
              HasSubstr("`kv_ucx_networks`: `fd00::` is no network"));
  const std::vector<const char*> good{"--fleet-listen=a:1",
                                      "--kv-ucx-networks=10.0.0.0/8,fd00::/8"};
  EXPECT_EQ(refusal(good), "");
  EXPECT_EQ(ucx_networks(values_of(good)).size(), 2U);
  EXPECT_TRUE(ucx_networks(values_of({"--fleet-listen=a:1"})).empty());
}

TEST(FleetPlace, AMemberIsKnownByWhereItIsReached) {
  EXPECT_EQ(address_of({"--fleet-listen=a.example:0"}), "a.example:9400");
  EXPECT_EQ(address_of({"--fleet-listen=0.0.0.0:9400"}), "db7:9400");
  EXPECT_EQ(address_of({"--fleet-listen=[::]:9400"}), "db7:9400");
  EXPECT_EQ(address_of({"--fleet-listen=[::1]:9400"}), "[::1]:9400");
  EXPECT_EQ(address_of({"--fleet-listen=0.0.0.0:9400", "--fleet-advertise=b:7"}), "b:7");
  const auto member = fleet_member(
      values_of({"--fleet-listen=a:1", "--fleet-role=decode"}), 9400, machine_name(), 5);
  EXPECT_EQ(member.name, member.address);
  EXPECT_EQ(member.role, membership::Role::kDecode);
  EXPECT_EQ(member.incarnation, "5");
}

}  // namespace
}  // namespace coxswain::serve
