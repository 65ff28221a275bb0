// What keys with limits and salts mean for requests, at the routes.

#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "json/json.h"
#include "router/test_api.h"

namespace coxswain::router {
namespace {

using ::testing::HasSubstr;

constexpr const char* kNative = R"({"inputs":"ab"})";
constexpr const char* kCompletion = R"({"prompt":"ab"})";

class KeyedApi : public ::testing::Test {
 protected:
  void start(std::string_view keys, std::size_t concurrent_requests_max = 128) {
    ring = std::make_shared<KeyRing>();
    ASSERT_TRUE(ring->replace(security::parse_api_keys(json::parse(keys).value()).value()).ok());
    ApiOptions options = TestApi::default_options();
    options.auth.keys = ring;
    options.concurrent_requests_max = concurrent_requests_max;
    test = std::make_unique<TestApi>(std::move(options));
    batch::ScriptedSequence answer;
    answer.tokens.push_back({.id = 'x', .text = "x"});
    test->engine.script = {answer};
  }
  std::shared_ptr<FakeResponder> post(const std::string& key,
                                      std::string path,
                                      std::string body,
                                      bool wait = true) {
    http::Request request;
    request.method = "POST";
    request.path = std::move(path);
    request.headers = {{"content-type", "application/json"}, {"authorization", "Bearer " + key}};
    request.body = std::move(body);
    auto out = test->server.call(std::move(request));
    if (wait) out->wait_for_end();
    return out;
  }
  KeyCounts counts(const std::string& name) const {
    for (const HeldKeyPtr& key : ring->all())
      if (key->spec.name == name) return key->meter->counts();
    return {};
  }

  std::shared_ptr<KeyRing> ring;
  std::unique_ptr<TestApi> test;
};

TEST_F(KeyedApi, ARateIsToldAndHeldInTheShapeOfTheDialect) {
  start(R"([{"name":"a","key":"ka","requests_per_minute":2},{"name":"b","key":"kb"}])");
  const auto first = post("ka", "/v1/completions", kCompletion);
  EXPECT_EQ(first->response().status, 200);
  EXPECT_EQ(first->header("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(first->header("x-ratelimit-remaining-requests"), "1");
  EXPECT_EQ(first->header("x-ratelimit-reset-requests"), "30s");
  EXPECT_EQ(post("ka", "/generate", kNative)->response().status, 200);

  const auto refused = post("ka", "/v1/completions", kCompletion);
  EXPECT_EQ(refused->response().status, 429);
  EXPECT_EQ(
      refused->response().body,
      R"({"error":{"message":"this key may send 2 requests in a minute","type":"rate_limit_error","param":null,"code":"rate_limit_exceeded"},"error_type":"overloaded"})");
  EXPECT_EQ(refused->header("retry-after"), "30");
  EXPECT_EQ(refused->header("x-ratelimit-limit-requests"), "2");
  EXPECT_EQ(refused->header("x-ratelimit-remaining-requests"), "0");
  EXPECT_EQ(refused->header("x-ratelimit-reset-requests"), "1m0s");

  const auto native = post("ka", "/generate", kNative);
  EXPECT_EQ(native->response().status, 429);
  EXPECT_EQ(native->response().body,
            R"({"error":"this key may send 2 requests in a minute","error_type":"overloaded"})");
  EXPECT_EQ(native->header("retry-after"), "30");
  EXPECT_EQ(native->header("x-ratelimit-limit-requests"), "");
  EXPECT_EQ(post("ka", "/tokenize", kNative)->response().status, 429);

  const auto other = post("kb", "/v1/completions", kCompletion);
  EXPECT_EQ(other->response().status, 200);
  EXPECT_EQ(other->header("x-ratelimit-limit-requests"), "128");
  EXPECT_EQ(other->header("x-ratelimit-reset-requests"), "");
  EXPECT_EQ(counts("a").accepted, 2u);
  EXPECT_EQ(counts("a").refused, 3u);
}

TEST_F(KeyedApi, ARunningRequestIsCountedUntilItHasEnded) {
  start(R"([{"name":"a","key":"ka","concurrent_requests":1},{"name":"b","key":"kb"}])");
  batch::ScriptedSequence held;
  held.hold = true;
  test->engine.script = {held};
  const auto running = post("ka", "/v1/completions", kCompletion, false);
  test->engine.wait_for_submissions(1);
  EXPECT_EQ(counts("a").running, 1u);
  const auto refused = post("ka", "/v1/completions", kCompletion);
  EXPECT_EQ(refused->response().status, 429);
  EXPECT_EQ(refused->header("retry-after"), "1");
  EXPECT_EQ(refused->header("x-ratelimit-limit-requests"), "1");
  EXPECT_EQ(refused->header("x-ratelimit-remaining-requests"), "0");
  EXPECT_THAT(refused->response().body, HasSubstr("this key may have 1 requests at a time"));
  EXPECT_EQ(counts("a").running, 1u);
  running->close();  // its client leaves
  while (counts("a").running > 0) std::this_thread::yield();
}

TEST_F(KeyedApi, WhatIsRefusedForOtherReasonsIsGivenBack) {
  start(R"([{"name":"a","key":"ka","concurrent_requests":1}])");
  for (int i = 0; i < 3; ++i) {
    EXPECT_EQ(post("ka", "/generate", R"({"inputs":1})")->response().status, 422);
    EXPECT_EQ(post("ka", "/generate", "{")->response().status, 400);
  }
  EXPECT_EQ(counts("a").running, 0u);
  EXPECT_EQ(counts("a").accepted, 6u);
}

TEST_F(KeyedApi, AFullServerTakesNothingOffARate) {
  start(R"([{"name":"a","key":"ka","requests_per_minute":1},{"name":"b","key":"kb"}])", 1);
  batch::ScriptedSequence held;
  held.hold = true;
  test->engine.script = {held};
  const auto running = post("kb", "/generate", kNative, false);
  test->engine.wait_for_submissions(1);
  EXPECT_THAT(post("ka", "/generate", kNative)->response().body, HasSubstr("Model is overloaded"));
  EXPECT_EQ(counts("a").accepted + counts("a").refused, 0u);
  running->close();
}

TEST_F(KeyedApi, SaltsOfKeysKeepTheirCachesApart) {
  start(R"([{"name":"a","key":"ka","cache_salt":"s"},{"name":"b","key":"kb"},
            {"name":"c","key":"kc","cache_salt":"s"}])");
  const auto salt = [&](const std::string& key, const std::string& body) {
    post(key, "/v1/completions", body);
    return test->engine.submitted().back().cache_salt;
  };
  const std::string of_a = salt("ka", kCompletion);
  EXPECT_EQ(of_a, salt("kc", kCompletion));
  EXPECT_EQ(salt("kb", kCompletion), "");
  const std::string asked = salt("kb", R"({"prompt":"ab","cache_salt":"s"})");
  EXPECT_NE(asked, "");
  EXPECT_NE(asked, of_a);
  EXPECT_NE(salt("kb", R"({"prompt":"ab","cache_salt":"1:s"})"), of_a);
  EXPECT_NE(salt("ka", R"({"prompt":"ab","cache_salt":"x"})"), of_a);
}

TEST_F(KeyedApi, AKeyThatIsTakenAwayIsRefused) {
  start(R"([{"name":"a","key":"ka"}])");
  EXPECT_EQ(post("ka", "/generate", kNative)->response().status, 200);
  ASSERT_TRUE(ring->replace({}).ok());
  EXPECT_EQ(post("ka", "/generate", kNative)->response().status, 401);
}

}  // namespace
}  // namespace coxswain::router
