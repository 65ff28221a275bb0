#include "router/key_ring.h"

#include <algorithm>
#include <atomic>
#include <thread>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "json/json.h"

namespace coxswain::router {
namespace {

using std::chrono::milliseconds;
using std::chrono::nanoseconds;
using std::chrono::seconds;
using ::testing::HasSubstr;
using ::testing::Not;

const TimePoint kNow = TimePoint(std::chrono::hours(1000));

http::Request with(std::string header, std::string value) {
  http::Request out;
  out.headers.emplace_back(std::move(header), std::move(value));
  return out;
}

std::string name_of(const KeyRing& ring, std::string header, std::string value) {
  const HeldKeyPtr found = ring.find(with(std::move(header), std::move(value)));
  return found == nullptr ? "nobody" : found->spec.name;
}

std::vector<ApiKey> keys_of(std::string_view text) {
  const auto keys = security::parse_api_keys(json::parse(text).value());
  EXPECT_TRUE(keys.ok()) << keys.status().message();
  return keys.ok() ? *keys : std::vector<ApiKey>();
}

TEST(ApiKeys, EveryMemberIsRead) {
  const auto keys = keys_of(R"([{"name":"a","key":"k1"},
      {"name":"b","key":"k2","requests_per_minute":60,"concurrent_requests":8,"cache_salt":"s"},
      {"name":"c","key":"k3","requests_per_minute":null,"cache_salt":null}])");
  ASSERT_EQ(keys.size(), 3u);
  EXPECT_EQ(keys[0].requests_per_minute, std::nullopt);
  EXPECT_EQ(keys[0].cache_salt, "");
  EXPECT_EQ(keys[1].requests_per_minute, 60u);
  EXPECT_EQ(keys[1].concurrent_requests, 8u);
  EXPECT_EQ(keys[1].cache_salt, "s");
  EXPECT_EQ(keys[2].requests_per_minute, std::nullopt);
  EXPECT_TRUE(keys_of("[]").empty());
}

TEST(ApiKeys, WhatIsWrongIsNamedAndNoKeyIsTold) {
  const std::string good = R"({"name":"a","key":"secret1"})";
  const std::pair<std::string, std::string> cases[] = {
      {"{}", "the keys must be an array of objects"},
      {"[1]", "`[0]` must be an object"},
      {"[" + good + R"(,{"name":"b","key":"k","rpm":1}])", "`[1].rpm` is no member of a key"},
      {R"([{"key":"secret1"}])",
       "`[0].name` must be 1 to 64 bytes of letters, digits, `.`, `_` and `-`"},
      {R"([{"name":"a b","key":"secret1"}])",
       "`[0].name` must be 1 to 64 bytes of letters, digits, `.`, `_` and `-`"},
      {R"([{"name":"a"}])", "`[0].key` must be 1 to 1024 bytes of printable ASCII without blanks"},
      {R"([{"name":"a","key":""}])",
       "`[0].key` must be 1 to 1024 bytes of printable ASCII without blanks"},
      {R"([{"name":"a","key":"secret1 "}])",
       "`[0].key` must be 1 to 1024 bytes of printable ASCII without blanks"},
      {R"([{"name":"a","key":"secret1","requests_per_minute":0}])",
       "`[0].requests_per_minute` must be an integer from 1 to 1000000"},
      {R"([{"name":"a","key":"secret1","concurrent_requests":1.5}])",
       "`[0].concurrent_requests` must be an integer from 1 to 1000000"},
      {R"([{"name":"a","key":"secret1","cache_salt":""}])",
       "`[0].cache_salt` must be 1 to 256 bytes of text"},
      {"[" + good + R"(,{"name":"a","key":"secret2"}])", "`[1].name` is that of `[0]`: a"},
      {"[" + good + R"(,{"name":"b","key":"secret1"}])", "`[1].key` is that of `[0]`"}};
  for (const auto& [text, message] : cases) {
    const auto keys = security::parse_api_keys(json::parse(text).value());
    ASSERT_FALSE(keys.ok()) << text;
    EXPECT_EQ(keys.status().message(), message) << text;
  }
}

TEST(KeyRing, SchemeWithoutCaseAndKeyExactly) {
  const KeyRing ring("Secret");
  EXPECT_EQ(name_of(ring, "authorization", "Bearer Secret"), "api-key");
  EXPECT_EQ(name_of(ring, "Authorization", "bEARER Secret"), "api-key");
  for (const char* header : {"x-api-key", "API-Key"}) {
    EXPECT_EQ(name_of(ring, header, "Secret"), "api-key");
    for (const char* bad : {"", "secret", "Bearer Secret", "Secrets"})
      EXPECT_EQ(name_of(ring, header, bad), "nobody") << bad;
  }
  for (const char* bad : {"",
                          "Bearer",
                          "Bearer ",
                          "Bearer secret",
                          "Bearer Secre",
                          "Bearer Secrets",
                          "Basic Secret",
                          "Bearer  Secret",
                          "Secret",
                          "Bearer SecretSecret"}) {
    EXPECT_EQ(name_of(ring, "authorization", bad), "nobody") << bad;
  }
}

TEST(KeyRing, AFileWithoutKeysOpensNothing) {
  KeyRing ring;
  EXPECT_EQ(name_of(ring, "authorization", "Bearer "), "nobody");
  EXPECT_EQ(name_of(ring, "x-api-key", ""), "nobody");
  ASSERT_TRUE(ring.replace({}).ok());
  EXPECT_EQ(name_of(ring, "x-api-key", ""), "nobody");
}

TEST(KeyRing, KeysAreReplacedAndCountsOfANameGoOn) {
  KeyRing ring("own");
  ASSERT_TRUE(ring.replace(keys_of(R"([{"name":"a","key":"k1"},{"name":"b","key":"k2"}])")).ok());
  EXPECT_EQ(name_of(ring, "x-api-key", "k1"), "a");
  EXPECT_EQ(name_of(ring, "x-api-key", "own"), "api-key");
  nanoseconds retry_in{};
  const HeldKeyPtr before = ring.find(with("x-api-key", "k1"));
  ASSERT_TRUE(before->meter->enter(before->spec, kNow, retry_in).ok());

  ASSERT_TRUE(ring.replace(keys_of(R"([{"name":"c","key":"k2"},
      {"name":"a","key":"new","concurrent_requests":1}])"))
                  .ok());
  EXPECT_EQ(name_of(ring, "x-api-key", "k1"), "nobody");
  EXPECT_EQ(name_of(ring, "x-api-key", "k2"), "c");
  EXPECT_EQ(name_of(ring, "x-api-key", "own"), "api-key");
  const HeldKeyPtr after = ring.find(with("x-api-key", "new"));
  EXPECT_FALSE(after->meter->enter(after->spec, kNow, retry_in).ok());  // one runs already
  before->meter->leave();
  EXPECT_TRUE(after->meter->enter(after->spec, kNow, retry_in).ok());
  EXPECT_EQ(json::write(key_document(ring)),
            R"({"keys":[{"name":"api-key","requests_per_minute":null,"concurrent_requests":null,)"
            R"("running":0,"accepted":0,"refused":0},)"
            R"({"name":"c","requests_per_minute":null,"concurrent_requests":null,)"
            R"("running":0,"accepted":0,"refused":0},)"
            R"({"name":"a","requests_per_minute":null,"concurrent_requests":1,)"
            R"("running":1,"accepted":2,"refused":1}]})");
}

TEST(KeyRing, ABrokenFileKeepsTheKeys) {
  const base::TempFolder folder;  // its name may hold any six letters: the key is longer
  KeyRing ring("own");
  folder.write("keys", R"([{"name":"a","key":"its-secret"}])");
  const std::string path = folder.file("keys");
  ASSERT_TRUE(ring.read(path).ok());
  const std::pair<std::string, std::string> cases[] = {
      {R"([{"name":"b","key":"own"}])", path + ": `[0].key` is that of --api-key"},
      {R"([{"name":"api-key","key":"k"}])",
       path + ": `[0].name` is the name of --api-key: api-key"},
      {R"([{"name":"b","key":"its-secret","name":"c"}])", "name"},
      {R"([{"name":"b","key":"its-secret")", path}};
  for (const auto& [text, message] : cases) {
    folder.write("keys", text);
    const Status status = ring.read(path);
    EXPECT_THAT(status.message(), HasSubstr(message)) << text;
    EXPECT_THAT(status.message(), Not(HasSubstr("its-secret"))) << text;
    EXPECT_EQ(name_of(ring, "x-api-key", "its-secret"), "a");
    EXPECT_EQ(name_of(ring, "x-api-key", "k"), "nobody");
  }
}

// A bucket that fills evenly, against a count of what it let through.
TEST(KeyMeter, ARateIsABucket) {
  const ApiKey limits{.name = "a", .key = "k", .requests_per_minute = 60};
  KeyMeter meter;
  nanoseconds retry_in{};
  for (int i = 0; i < 60; ++i) {
    ASSERT_TRUE(meter.enter(limits, kNow, retry_in).ok()) << i;
    EXPECT_EQ(meter.room(limits, kNow)->remaining, 59u - static_cast<unsigned>(i));
  }
  EXPECT_EQ(meter.room(limits, kNow)->limit, 60u);
  EXPECT_EQ(meter.room(limits, kNow)->full_in, seconds(60));
  const Status refused = meter.enter(limits, kNow + milliseconds(200), retry_in);
  EXPECT_EQ(refused.kind(), ErrorKind::kOverloaded);
  EXPECT_EQ(refused.message(), "this key may send 60 requests in a minute");
  EXPECT_EQ(retry_in, milliseconds(800));
  EXPECT_TRUE(meter.enter(limits, kNow + seconds(1), retry_in).ok());
  EXPECT_FALSE(meter.enter(limits, kNow + seconds(1), retry_in).ok());
  EXPECT_EQ(meter.room(limits, kNow + seconds(31))->remaining, 30u);
  EXPECT_EQ(meter.room(limits, kNow + seconds(300))->remaining, 60u);
  EXPECT_EQ(meter.room(limits, kNow + seconds(300))->full_in, seconds(0));
  for (int i = 0; i < 60; ++i)
    ASSERT_TRUE(meter.enter(limits, kNow + seconds(300), retry_in).ok()) << i;
  EXPECT_FALSE(meter.enter(limits, kNow + seconds(300), retry_in).ok());
}

TEST(KeyMeter, NoRateLetsMoreThroughThanItSays) {
  for (const std::uint64_t rate : {1u, 7u, 59u, 999'999u, 1'000'000u}) {
    const ApiKey limits{.name = "a", .key = "k", .requests_per_minute = rate};
    KeyMeter meter;
    nanoseconds retry_in{};
    std::uint64_t n_let_in = 0;
    while (meter.enter(limits, kNow, retry_in).ok()) ++n_let_in;
    EXPECT_EQ(n_let_in, rate);
    const TimePoint next = kNow + retry_in;
    EXPECT_FALSE(meter.enter(limits, next - nanoseconds(1), retry_in).ok()) << rate;
    EXPECT_TRUE(meter.enter(limits, next, retry_in).ok()) << rate;
  }
}

// Asks `n` times, and tells how many were in at once at most.
void ask_often(KeyMeter& meter,
               const ApiKey& limits,
               int n,
               std::atomic<int>& n_running,
               std::atomic<int>& n_most) {
  for (int i = 0; i < n; ++i) {
    nanoseconds retry_in{};
    if (!meter.enter(limits, kNow, retry_in).ok()) continue;
    const int n_now = ++n_running;
    for (int most = n_most; n_now > most && !n_most.compare_exchange_weak(most, n_now);) {
    }
    --n_running;
    meter.leave();
  }
}

TEST(KeyMeter, AsManyAtATimeAsTheKeyMayHave) {
  const ApiKey limits{.name = "a", .key = "k", .concurrent_requests = 3};
  KeyMeter meter;
  std::atomic<int> n_running = 0;
  std::atomic<int> n_most = 0;
  std::vector<std::thread> threads(4);
  for (std::thread& thread : threads)
    thread = std::thread([&] { ask_often(meter, limits, 5'000, n_running, n_most); });
  for (std::thread& thread : threads) thread.join();
  EXPECT_LE(n_most, 3);
  const KeyCounts counts = meter.counts();
  EXPECT_EQ(counts.running, 0u);
  EXPECT_EQ(counts.accepted + counts.refused, 20'000u);
  EXPECT_EQ(meter.room(limits, kNow)->remaining, 3u);
  EXPECT_FALSE(meter.room({}, kNow).has_value());
}

TEST(KeyRing, NoTwoPairsHaveOneSalt) {
  const auto salt = [](std::string of_key, const std::string& asked) {
    return salt_of({.cache_salt = std::move(of_key)}, asked);
  };
  EXPECT_EQ(salt("", ""), "");
  std::vector<std::string> all{salt("", "a"),
                               salt("a", ""),
                               salt("a", "b"),
                               salt("ab", ""),
                               salt("", "ab"),
                               salt("", "1:a")};
  std::sort(all.begin(), all.end());
  EXPECT_EQ(std::unique(all.begin(), all.end()), all.end());
}

}  // namespace
}  // namespace coxswain::router
