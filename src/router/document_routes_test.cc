// The description (src/openapi) against the routes that there are.

#include "router/document_routes.h"

#include <set>
#include <sstream>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "router/test_api.h"

namespace coxswain::router {
namespace {

class RouteList final : public http::Server {
 public:
  void add_route(std::string method, std::string path, http::Handler) override {
    routes.insert(std::move(method) + " " + std::move(path));
  }
  void set_gate(std::function<std::unique_ptr<http::Response>(const http::Request&)>) override {}
  Status start() override { return {}; }
  std::uint16_t port() const override { return 0; }
  void stop_accepting() override {}
  std::size_t open_requests() const override { return 0; }
  void stop() override {}

  std::set<std::string> routes;
};

std::vector<std::string> paths_of(const openapi::Operation& operation) {
  std::istringstream also{std::string(operation.also)};
  std::vector<std::string> out{std::string(operation.path)};
  for (std::string path; also >> path;) out.push_back(path);
  return out;
}

TEST(DocumentRoutes, EveryRouteIsDescribed) {
  TestApi test;
  RouteList list;
  test.api->add_routes(list);
  std::set<std::string> described;
  const openapi::Description description = openapi::describe(api::ApiStyle::kOpenAi);
  for (const openapi::Operation& operation : description.operations()) {
    for (std::string path : paths_of(operation)) {
      if (const std::size_t begin = path.find('{'); begin != std::string::npos)
        path.replace(begin, std::string::npos, "*");
      described.insert(std::string(operation.method) + " " + path);
    }
  }
  EXPECT_EQ(list.routes, described);
}

TEST(DocumentRoutes, SayWhatNeedsAKey) {
  using Access = openapi::Operation::Access;
  const openapi::Description description = openapi::describe(api::ApiStyle::kOpenAi);
  for (const openapi::Operation& operation : description.operations()) {
    for (const std::string& path : paths_of(operation)) {
      EXPECT_EQ(is_open_route(operation.method, path, false), operation.access != Access::kKey)
          << path;
      EXPECT_EQ(is_open_route(operation.method, path, true), operation.access == Access::kHealth)
          << path;
    }
  }
}

TEST(DocumentRoutes, AreAnswered) {
  TestApi test;
  const auto document = test.server.get("/api-doc/openapi.json")->response();
  EXPECT_EQ(document.status, 200);
  EXPECT_EQ(*json::parse(document.body), openapi::make_document({.version = "1.0"}));
  const auto page = test.server.get("/docs")->response();
  EXPECT_EQ(page.content_type, "text/html; charset=utf-8");
  EXPECT_THAT(page.body, ::testing::HasSubstr("api-doc/openapi.json"));
}

}  // namespace
}  // namespace coxswain::router
