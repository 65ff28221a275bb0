// The source over etcd and the registration, against a gateway that says what etcd would hardly say on demand.

#include "membership/etcd.h"

#include <atomic>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/base64.h"
#include "membership/member_value.h"
#include "membership/testing/fake_api.h"

namespace coxswain::membership {
namespace {

using testing::HasSubstr;

std::string kv(const std::string& name, const std::string& value) {
  return R"({"key":")" + base::encode_base64("/fleet/" + name) + R"(","value":")" +
         base::encode_base64(value) + "\"}";
}
std::string list_of(int revision, const std::string& kvs) {
  return R"({"header":{"revision":")" + std::to_string(revision) + R"("},"kvs":[)" + kvs + "]}";
}
std::string events(const std::string& list) {
  return R"({"result":{"header":{"revision":"9"},"events":[)" + list + "]}}";
}
const std::string kCreated = R"({"result":{"header":{"revision":"5"},"created":true}})";

const std::string kValueA =
    R"({"address":"10.0.0.1:9","role":"prefill","incarnation":"x","later":1})";
const std::string kA = "a=10.0.0.1:9/prefill#x";
const std::string kB = "b=10.0.0.2:9/mixed#";

class EtcdTest : public testing::Test {
 protected:
  void start(std::vector<std::string> endpoints, const std::string& user = "") {
    source_ = make_etcd_membership(
        {.endpoints = std::move(endpoints), .prefix = "/fleet", .user = user, .password = "word"});
    ASSERT_TRUE(source_->start(told_.listener(), counter()).ok());
  }
  OnSource counter() {
    return [this](const Status& status) { ++(status.ok() ? n_well_ : n_ill_); };
  }
  // The watch ends where it is let go.
  [[nodiscard]] FakeApi::Call start_with_a() {
    start({api_.url()});
    api_.next().answer(200, list_of(5, kv("a", kValueA)));
    EXPECT_EQ(told_.next(), kA);
    FakeApi::Call watch = api_.next();
    watch.stream(kCreated);
    EXPECT_TRUE(eventually([&] { return source_->status().is_current; }));
    return watch;
  }

  FakeApi api_;
  ToldLists told_;
  std::atomic<int> n_well_{0};
  std::atomic<int> n_ill_{0};
  std::unique_ptr<Membership> source_;
};

TEST_F(EtcdTest, ListsThenWatchesWhatFollows) {
  start({api_.url()});
  FakeApi::Call list = api_.next();
  EXPECT_EQ(list.request->path, "/v3/kv/range");
  EXPECT_EQ(list.request->body,
            R"({"key":")" + base::encode_base64("/fleet/") + R"(","range_end":")" +
                base::encode_base64("/fleet0") + "\"}");
  list.answer(200, list_of(5, kv("a", kValueA)));
  EXPECT_EQ(told_.next(), kA);
  FakeApi::Call watch = api_.next();
  EXPECT_EQ(watch.request->path, "/v3/watch");
  EXPECT_THAT(watch.request->body, HasSubstr(R"("start_revision":"6")"));
  watch.stream(kCreated);
  watch.line(events(R"({"kv":)" + kv("b", R"({"address":"10.0.0.2:9"})") + "}"));
  EXPECT_EQ(told_.next(), kA + " " + kB);
  watch.line(events(R"({"type":"DELETE","kv":)" + kv("a", "") + "}"));
  EXPECT_EQ(told_.next(), kB);
  EXPECT_EQ(source_->status().n_failures, 0U);
}

TEST_F(EtcdTest, CountsWhatIsNoMember) {
  start({api_.url()});
  api_.next().answer(
      200,
      list_of(5,
              kv("a", kValueA) + "," + kv("b", "noise") + "," + kv("c", R"({"address":"c"})") +
                  "," + kv("d", R"({"address":"d:1","role":"fast"})") + "," + kv("", kValueA)));
  EXPECT_EQ(told_.next(), kA);
  EXPECT_EQ(source_->status().n_refused, 4U);
  EXPECT_THAT(source_->status().last_failure, HasSubstr("key /fleet/d: `role` must be"));
}

TEST_F(EtcdTest, ListsAgainWhereRevisionsAreCompacted) {
  FakeApi::Call watch = start_with_a();
  watch.line(R"({"result":{"canceled":true,"compact_revision":"90"}})");
  FakeApi::Call list = api_.next();
  EXPECT_EQ(list.request->path, "/v3/kv/range");
  list.answer(200, list_of(95, kv("a", kValueA) + "," + kv("b", R"({"address":"10.0.0.2:9"})")));
  EXPECT_EQ(told_.next(), kA + " " + kB);
  EXPECT_THAT(source_->status().last_failure, HasSubstr("up to revision 90"));
  EXPECT_THAT(api_.next().request->body, HasSubstr(R"("start_revision":"96")"));
}

TEST_F(EtcdTest, KeepsItsListWhileNobodyAnswers) {
  const FakeApi::Call stands = start_with_a();
  EXPECT_EQ(n_ill_ + n_well_, 0);
  api_.stop();
  EXPECT_TRUE(eventually([&] { return source_->status().n_failures >= 3; }));
  EXPECT_EQ(n_ill_, 1) << "it is told once";
  EXPECT_FALSE(source_->status().is_current);
  EXPECT_EQ(told_.n_waiting(), 0U);
  api_.start();
  api_.next().answer(200, list_of(2, kv("b", R"({"address":"10.0.0.2:9"})")));
  EXPECT_EQ(told_.next(), kB);
  FakeApi::Call watch = api_.next();
  watch.stream(kCreated);
  EXPECT_TRUE(eventually([&] { return n_well_ == 1; }));
}

TEST_F(EtcdTest, TakesTheNextEndpoint) {
  FakeApi other;
  const std::string gone = "http://127.0.0.1:1";
  start({gone, other.url(), api_.url()});
  other.next().answer(503, R"({"error":"etcdserver: no leader","code":14})");
  api_.next().answer(200, list_of(5, kv("a", kValueA)));
  EXPECT_EQ(told_.next(), kA);
  FakeApi::Call watch = api_.next();  // at the one that answered
  watch.stream(R"({"error":{"message":"etcdserver: no leader"}})");
  other.next().answer(200, list_of(6, ""));  // the first again refused, the second answers
  EXPECT_EQ(told_.next(), "");
  EXPECT_THAT(source_->status().last_failure,
              HasSubstr(api_.url() + ": etcd ends the watch: etcdserver: no leader"));
}

TEST_F(EtcdTest, ReplacesATokenThatIsNotKnownAnyMore) {
  start({api_.url()}, "me");
  FakeApi::Call login = api_.next();
  EXPECT_EQ(login.request->path, "/v3/auth/authenticate");
  EXPECT_EQ(login.request->body, R"({"name":"me","password":"word"})");
  login.answer(200, R"({"token":"t1"})");
  FakeApi::Call list = api_.next();
  EXPECT_EQ(list.request->header("authorization"), "t1");
  list.answer(401, R"({"error":"etcdserver: invalid auth token","code":16})");
  api_.next().answer(200, R"({"token":"t2"})");
  FakeApi::Call again = api_.next();
  EXPECT_EQ(again.request->header("authorization"), "t2");
  again.answer(200, list_of(5, kv("a", kValueA)));
  EXPECT_EQ(told_.next(), kA);
  EXPECT_EQ(api_.next().request->header("authorization"), "t2");
}

TEST_F(EtcdTest, RegistersUnderALeaseAndAnewWhereItIsLost) {
  auto made = register_in_etcd(
      {.endpoints = {api_.url()}, .prefix = "/fleet"},
      {.name = "a", .address = "10.0.0.1:9", .role = Role::kPrefill, .incarnation = "x"},
      std::chrono::seconds(1),
      counter());
  ASSERT_TRUE(made.ok());
  FakeApi::Call grant = api_.next();
  EXPECT_EQ(grant.request->path, "/v3/lease/grant");
  EXPECT_EQ(grant.request->body, R"({"TTL":"1"})");
  grant.answer(200, R"({"ID":"77","TTL":"1"})");
  FakeApi::Call put = api_.next();
  EXPECT_EQ(put.request->path, "/v3/kv/put");
  EXPECT_THAT(put.request->body, HasSubstr(R"("lease":"77")"));
  EXPECT_THAT(put.request->body,
              HasSubstr(base::encode_base64(
                  R"({"address":"10.0.0.1:9","role":"prefill","incarnation":"x"})")));
  put.answer(200, "{}");
  FakeApi::Call renewal = api_.next();
  EXPECT_EQ(renewal.request->path, "/v3/lease/keepalive");
  renewal.answer(200, R"({"result":{"ID":"77","TTL":"1"}})");
  EXPECT_TRUE(made.value()->status().is_registered);
  api_.next().answer(503, R"({"error":"no leader"})");  // a failure is no loss
  api_.next().answer(200, R"({"result":{"ID":"77"}})");
  FakeApi::Call second = api_.next();
  EXPECT_EQ(second.request->path, "/v3/lease/grant");
  second.answer(200, R"({"ID":"78"})");
  api_.next().answer(200, "{}");
  EXPECT_TRUE(eventually([&] { return made.value()->status().n_registered == 2; }));
  EXPECT_EQ(made.value()->status().n_failures, 1U);
  EXPECT_TRUE(eventually([&] { return n_well_ == 2; })) << "each time that it has entered";
  EXPECT_EQ(n_ill_, 1);
  std::thread end([&] { made.value().reset(); });
  FakeApi::Call last = api_.next();
  while (last.request->path == "/v3/lease/keepalive") {
    last.answer(200, R"({"result":{"TTL":"1"}})");
    last = api_.next();
  }
  EXPECT_EQ(last.request->path, "/v3/lease/revoke");
  EXPECT_EQ(last.request->body, R"({"ID":"78"})");
  last.answer(200, "{}");
  end.join();
}

TEST_F(EtcdTest, RefusesMembersThatAreNone) {
  const EtcdOptions options{.endpoints = {api_.url()}};
  for (const char* name : {"", "a/b"})
    EXPECT_FALSE(
        register_in_etcd(options, {.name = name, .address = "a:1"}, std::chrono::seconds(1)).ok());
  EXPECT_FALSE(
      register_in_etcd(options, {.name = "a", .address = "a"}, std::chrono::seconds(1)).ok());
}

TEST(Endpoints, AreUrlsOfHostAndPort) {
  EXPECT_EQ(parse_endpoints("http://a:1,https://[::1]:2/").value(),
            (std::vector<std::string>{"http://a:1", "https://[::1]:2"}));
  for (const char* bad :
       {"", "a:1", "http://a", "http://a:1,", "http://u:p@a:1", "ftp://a:1", "http://a:1/v3"})
    EXPECT_EQ(parse_endpoints(bad).status().code(), Code::kInvalidArgument) << bad;
}

}  // namespace
}  // namespace coxswain::membership
