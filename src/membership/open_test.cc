#include "membership/open.h"

#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "membership/testing/fake_api.h"

namespace coxswain::membership {
namespace {

using testing::HasSubstr;
using testing::StartsWith;

options::OptionValues values_of(options::Binary binary,
                                std::vector<const char*> arguments,
                                const options::Environment& environment = {}) {
  arguments.insert(arguments.begin(), "program");
  auto result =
      options::parse(binary, static_cast<int>(arguments.size()), arguments.data(), environment);
  EXPECT_EQ(result.exit_code, std::nullopt) << result.output;
  return std::move(result.values);
}

std::string error_of(const std::vector<const char*>& arguments,
                     const options::Environment& environment = {}) {
  const auto opened =
      open_membership(values_of(options::Binary::kRouter, arguments, environment), {}, "/nowhere");
  return opened.status().message();
}

TEST(OpenMembership, IsTheFixedListByDefault) {
  ToldLists told;
  auto opened =
      open_membership(values_of(options::Binary::kRouter, {}), {{.name = "a", .address = "a:1"}});
  ASSERT_TRUE(opened.ok());
  ASSERT_TRUE(opened.value()->start(told.listener()).ok());
  EXPECT_EQ(told.next(), "a=a:1/mixed#");
}

TEST(OpenMembership, SaysWhichOptionIsWrong) {
  EXPECT_THAT(error_of({"--membership=etcd"}), StartsWith("`etcd-endpoints`: an endpoint must be"));
  EXPECT_THAT(error_of({"--membership=etcd", "--etcd-endpoints=http://a:1", "--etcd-key-path=k"}),
              HasSubstr("`etcd-cert-path` must be set together with `etcd-key-path`"));
  EXPECT_THAT(error_of({"--membership=etcd", "--etcd-endpoints=http://a:1", "--etcd-user=u"}),
              HasSubstr("COXSWAIN_ETCD_PASSWORD"));
  EXPECT_THAT(error_of({"--membership=kubernetes"}), StartsWith("`kubernetes-services`: "));
  EXPECT_THAT(error_of({"--membership=kubernetes", "--kubernetes-services=a"}),
              StartsWith("`kubernetes-api` must be set"));
  EXPECT_THAT(error_of({"--membership=kubernetes", "--kubernetes-services=a"},
                       {{"KUBERNETES_SERVICE_HOST", "10.0.0.1"}}),
              StartsWith("`kubernetes-namespace` must be set"));
}

TEST(OpenMembership, AsksEtcdBelowThePrefix) {
  FakeApi api;
  const std::string endpoints = "--etcd-endpoints=" + api.url();
  auto opened =
      open_membership(values_of(options::Binary::kRouter,
                                {"--membership=etcd", endpoints.c_str(), "--etcd-prefix=/f/"}),
                      {});
  ASSERT_TRUE(opened.ok());
  ToldLists told;
  ASSERT_TRUE(opened.value()->start(told.listener()).ok());
  EXPECT_EQ(api.next().request->body, R"({"key":"L2Yv","range_end":"L2Yw"})");
}

// What a pod finds: the namespace and the token of its account, and the address in its environment.
TEST(OpenMembership, IsAtHomeInAPod) {
  const base::TempFolder folder;
  std::ofstream(folder.file("namespace")) << "llm";
  std::ofstream(folder.file("token")) << "secret\n";
  const auto opened = open_membership(
      values_of(options::Binary::kRouter,
                {"--membership=kubernetes", "--kubernetes-services=a"},
                {{"KUBERNETES_SERVICE_HOST", "::1"}, {"KUBERNETES_SERVICE_PORT", "1"}}),
      {},
      folder.file(""));
  ASSERT_TRUE(opened.ok()) << opened.status().message();
  ToldLists told;
  ASSERT_TRUE(opened.value()->start(told.listener()).ok());
  EXPECT_TRUE(eventually([&] { return opened.value()->status().n_failures > 0; }));
  EXPECT_THAT(opened.value()->status().last_failure, StartsWith("https://[::1]:1: "));
}

TEST(OpenMembership, AsksAnApiOutsideWithoutAToken) {
  FakeApi api;
  const std::string url = "--kubernetes-api=" + api.url();
  auto opened = open_membership(values_of(options::Binary::kRouter,
                                          {"--membership=kubernetes",
                                           "--kubernetes-services=a,b=decode",
                                           "--kubernetes-namespace=llm",
                                           url.c_str()}),
                                {},
                                "/nowhere");
  ASSERT_TRUE(opened.ok());
  ToldLists told;
  ASSERT_TRUE(opened.value()->start(told.listener()).ok());
  const FakeApi::Call list = api.next();
  EXPECT_EQ(list.request->path, "/apis/discovery.k8s.io/v1/namespaces/llm/endpointslices");
  EXPECT_THAT(list.request->query, HasSubstr("%28a%2Cb%29"));
  EXPECT_EQ(list.request->header("authorization"), "");
}

TEST(OpenRegistration, IsThereWithEndpointsOnly) {
  const Member self{.name = "a", .address = "a:1"};
  const auto none = open_registration(values_of(options::Binary::kServer, {"serve", "m"}), self);
  ASSERT_TRUE(none.ok());
  EXPECT_EQ(none.value(), nullptr);
  FakeApi api;
  const std::string endpoints = "--etcd-endpoints=" + api.url();
  auto one = open_registration(values_of(options::Binary::kServer,
                                         {"serve", "m", endpoints.c_str(), "--etcd-lease-ttl-s=7"}),
                               self);
  ASSERT_TRUE(one.ok());
  EXPECT_EQ(api.next().request->body, R"({"TTL":"7"})");
  api.stop();
}

}  // namespace
}  // namespace coxswain::membership
