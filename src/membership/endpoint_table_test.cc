#include "membership/endpoint_table.h"

#include <gtest/gtest.h>

namespace coxswain::membership {
namespace {

json::Value slice(const std::string& name,
                  const std::string& rest,
                  const std::string& service = "s") {
  auto read = json::parse(R"({"metadata":{"name":")" + name +
                          R"(","labels":{"kubernetes.io/service-name":")" + service + R"("}},)" +
                          rest + "}");
  EXPECT_TRUE(read.ok()) << read.status().message();
  return std::move(read).value();
}

constexpr const char* kPorts =
    R"("ports":[{"name":"http","port":80},{"name":"shard","port":9000}],)";

TEST(EndpointTable, TakesReadyPodsOfItsPort) {
  EndpointTable table({{"s", Role::kDecode}}, "shard");
  table.put(slice("a", std::string(R"("addressType":"IPv4",)") + kPorts + R"("endpoints":[
      {"addresses":["10.0.0.2"],"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":"p-1","uid":"u1"}},
      {"addresses":["10.0.0.1"],"conditions":{},"targetRef":{"kind":"Pod","name":"p-0","uid":"u0"}},
      {"addresses":["10.0.0.3"],"conditions":{"ready":false},"targetRef":{"kind":"Pod","name":"p-2","uid":"u2"}},
      {"addresses":["10.0.0.4"],"conditions":{"ready":true,"terminating":true},
       "targetRef":{"kind":"Pod","name":"p-3","uid":"u3"}},
      {"addresses":["10.0.0.5"]}, {"addresses":[]}, {}, 7])"));
  const EndpointTable::View view = table.view();
  const Role role = Role::kDecode;
  EXPECT_EQ(
      view.members,
      (Members{{.name = "10.0.0.5:9000",
                .address = "10.0.0.5:9000",
                .role = role,
                .incarnation = "10.0.0.5:9000"},
               {.name = "p-0", .address = "10.0.0.1:9000", .role = role, .incarnation = "u0"},
               {.name = "p-1", .address = "10.0.0.2:9000", .role = role, .incarnation = "u1"}}));
  EXPECT_EQ(view.n_refused, 0U);
}

TEST(EndpointTable, HasAPodOfTwoFamiliesOnce) {
  const char* pod = R"("targetRef":{"kind":"Pod","name":"p","uid":"u"}}])";
  EndpointTable table({{"s", Role::kMixed}}, "");
  const std::string port = R"("ports":[{"port":9}],"endpoints":[)";
  table.put(slice("a", R"("addressType":"IPv6",)" + port + R"({"addresses":["fd00::1"],)" + pod));
  ASSERT_EQ(table.view().members.size(), 1U);
  EXPECT_EQ(table.view().members[0].address, "[fd00::1]:9");
  table.put(slice("b", R"("addressType":"IPv4",)" + port + R"({"addresses":["10.0.0.1"],)" + pod));
  ASSERT_EQ(table.view().members.size(), 1U);
  EXPECT_EQ(table.view().members[0].address, "10.0.0.1:9");
  table.erase(slice("b", R"("endpoints":null)"));
  EXPECT_EQ(table.view().members[0].address, "[fd00::1]:9");
}

TEST(EndpointTable, SaysWhatIsNoMember) {
  const char* endpoints = R"("endpoints":[{"addresses":["10.0.0.1"]}])";
  EndpointTable named({{"s", Role::kMixed}}, "grpc");
  named.put(slice("a", std::string(kPorts) + endpoints));
  EXPECT_EQ(named.view().n_refused, 1U);
  EXPECT_EQ(named.view().why.message(),
            "EndpointSlice a: the Service has no port of the name grpc");
  EndpointTable unnamed({{"s", Role::kMixed}}, "");
  unnamed.put(slice("a", std::string(kPorts) + endpoints));
  EXPECT_EQ(unnamed.view().why.message(),
            "EndpointSlice a: the Service must have one port, or its port a name");
  unnamed.put(slice("a", R"("ports":[{"port":1}],"endpoints":[{"addresses":["x/y"]}])"));
  EXPECT_NE(unnamed.view().why.message().find("Given: x/y:1"), std::string::npos);
  unnamed.put(slice("a", endpoints, "another"));
  EXPECT_EQ(unnamed.view().n_refused, 0U);
  EXPECT_TRUE(unnamed.view().members.empty());
}

TEST(Services, AreNamesWithRoles) {
  EXPECT_EQ(parse_services("a,b=prefill,c=decode").value(),
            (ServiceRoles{{"a", Role::kMixed}, {"b", Role::kPrefill}, {"c", Role::kDecode}}));
  for (const char* bad : {"", "a,", "a=", "a=fast", "a b", "a,a", "a)", "A"})
    EXPECT_EQ(parse_services(bad).status().code(), Code::kInvalidArgument) << bad;
}

}  // namespace
}  // namespace coxswain::membership
