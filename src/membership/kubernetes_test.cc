// The source over Kubernetes, against an API server that restarts, forgets versions and lets tokens expire.

#include "membership/kubernetes.h"

#include <filesystem>
#include <fstream>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "membership/testing/fake_api.h"

namespace coxswain::membership {
namespace {

using testing::HasSubstr;
using testing::Not;

std::string pod_slice(const std::string& pod, const std::string& address, int version) {
  return R"({"metadata":{"name":"slice-)" + pod + R"(","resourceVersion":")" +
         std::to_string(version) + R"(","labels":{"kubernetes.io/service-name":"shards"}},)" +
         R"("addressType":"IPv4","ports":[{"name":"shard","port":9}],"endpoints":[{"addresses":[")" +
         address + R"("],"conditions":{"ready":true},"targetRef":{"kind":"Pod","name":")" + pod +
         R"(","uid":"u-)" + pod + R"("}}]})";
}
std::string list_of(int version, const std::string& slices) {
  return R"({"metadata":{"resourceVersion":")" + std::to_string(version) + R"("},"items":[)" +
         slices + "]}";
}
std::string event(const std::string& type, const std::string& object) {
  return R"({"type":")" + type + R"(","object":)" + object + "}";
}
std::string failure(int code, const std::string& message) {
  return R"({"kind":"Status","code":)" + std::to_string(code) + R"(,"message":")" + message + "\"}";
}

const std::string kA = "a=10.0.0.1:9/mixed#u-a";
const std::string kB = "b=10.0.0.2:9/mixed#u-b";

class KubernetesTest : public testing::Test {
 protected:
  // At once, as the kubelet does it: whoever reads has the old one or the new one.
  void write_token(const std::string& token) const {
    const std::string written = folder_.file("written");
    std::ofstream(written) << token << "\n";
    std::filesystem::rename(written, token_path_);
  }
  void start() {
    write_token("first");
    source_ = make_kubernetes_membership({.api = api_.url(),
                                          .name_space = "ns",
                                          .services = {{"shards", Role::kMixed}},
                                          .port = "shard",
                                          .token_path = token_path_});
    ASSERT_TRUE(source_->start(told_.listener()).ok());
  }
  // Up to a watch that stands behind the list of a, and ends where it is let go.
  [[nodiscard]] FakeApi::Call start_with_a() {
    start();
    api_.next().answer(200, list_of(10, pod_slice("a", "10.0.0.1", 7)));
    FakeApi::Call watch = api_.next();
    EXPECT_THAT(watch.request->query, HasSubstr("resourceVersion=10"));
    watch.stream();
    EXPECT_EQ(told_.next(), kA);
    EXPECT_TRUE(eventually([&] { return source_->status().is_current; }));
    return watch;
  }

  const base::TempFolder folder_;
  const std::string token_path_ = folder_.file("token");
  FakeApi api_;
  ToldLists told_;
  std::unique_ptr<Membership> source_;
};

TEST_F(KubernetesTest, ListsThenWatches) {
  start();
  FakeApi::Call list = api_.next();
  EXPECT_EQ(list.request->path, "/apis/discovery.k8s.io/v1/namespaces/ns/endpointslices");
  EXPECT_EQ(list.request->query, "labelSelector=kubernetes.io%2Fservice-name%20in%20%28shards%29");
  EXPECT_EQ(list.request->header("authorization"), "Bearer first");
  list.answer(200, list_of(10, ""));
  EXPECT_EQ(told_.next(), "");
  FakeApi::Call watch = api_.next();
  EXPECT_THAT(watch.request->query, HasSubstr("&watch=1&allowWatchBookmarks=true&timeoutSeconds="));
  watch.stream(event("ADDED", pod_slice("b", "10.0.0.2", 11)));
  EXPECT_EQ(told_.next(), kB);
  watch.line(event("MODIFIED", pod_slice("b", "10.0.0.2", 12)));  // nothing that concerns us
  watch.line(event("ADDED", pod_slice("a", "10.0.0.1", 13)));
  EXPECT_EQ(told_.next(), kA + " " + kB);
  watch.line(event("DELETED", pod_slice("b", "10.0.0.2", 14)));
  EXPECT_EQ(told_.next(), kA);
  EXPECT_EQ(told_.n_waiting(), 0U);
  EXPECT_EQ(source_->status().n_failures, 0U);
}

TEST_F(KubernetesTest, GoesOnFromTheLastVersionWhereAWatchEnds) {
  FakeApi::Call watch = start_with_a();
  watch.line(event("BOOKMARK", R"({"metadata":{"resourceVersion":"42"}})"));
  watch.responder->end();
  FakeApi::Call again = api_.next();
  EXPECT_THAT(again.request->query, HasSubstr("resourceVersion=42"));
  again.stream(event("ADDED", pod_slice("b", "10.0.0.2", 43)));
  EXPECT_EQ(told_.next(), kA + " " + kB);
  EXPECT_EQ(source_->status().n_failures, 0U);
}

TEST_F(KubernetesTest, ListsAgainWhereAVersionIsGone) {
  FakeApi::Call watch = start_with_a();
  watch.line(event("ERROR", failure(410, "too old resource version: 10 (99)")));
  FakeApi::Call list = api_.next();
  EXPECT_THAT(list.request->query, Not(HasSubstr("watch")));
  list.answer(200, list_of(99, pod_slice("b", "10.0.0.2", 98)));
  EXPECT_EQ(told_.next(), kB);
  FakeApi::Call gone = api_.next();
  EXPECT_THAT(gone.request->query, HasSubstr("resourceVersion=99"));
  gone.answer(410, failure(410, "gone"));  // as an answer, and a second time
  FakeApi::Call third = api_.next();
  EXPECT_THAT(third.request->query, Not(HasSubstr("watch")));
  EXPECT_THAT(source_->status().last_failure, HasSubstr("410: gone"));
  third.answer(200, list_of(120, pod_slice("b", "10.0.0.2", 98)));
  FakeApi::Call last = api_.next();
  last.stream(event("ADDED", pod_slice("a", "10.0.0.1", 121)));
  EXPECT_EQ(told_.next(), kA + " " + kB);
}

TEST_F(KubernetesTest, KeepsItsListWhileTheServerRestarts) {
  const FakeApi::Call stands = start_with_a();
  api_.stop();
  EXPECT_TRUE(eventually([&] { return source_->status().n_failures >= 3; }));
  EXPECT_FALSE(source_->status().is_current);
  EXPECT_TRUE(source_->status().is_known);
  EXPECT_EQ(told_.n_waiting(), 0U);
  api_.start();
  FakeApi::Call again = api_.next();
  EXPECT_THAT(again.request->query, HasSubstr("resourceVersion=10"));
  again.stream(event("ADDED", pod_slice("b", "10.0.0.2", 11)));
  EXPECT_EQ(told_.next(), kA + " " + kB);
}

TEST_F(KubernetesTest, ReadsATokenAgainThatHasExpired) {
  FakeApi::Call watch = start_with_a();
  watch.responder->end();
  FakeApi::Call refused = api_.next();
  EXPECT_EQ(refused.request->header("authorization"), "Bearer first");
  write_token("second");
  refused.answer(401, failure(401, "Unauthorized"));
  FakeApi::Call again = api_.next();
  EXPECT_EQ(again.request->header("authorization"), "Bearer second");
  EXPECT_THAT(again.request->query, HasSubstr("watch=1"));
  again.answer(401, failure(401, "Unauthorized"));  // not renewed yet: later
  EXPECT_TRUE(eventually([&] { return source_->status().n_failures > 0; }));
  EXPECT_EQ(source_->status().last_failure, "the API server answers 401: Unauthorized");
  write_token("third");
  FakeApi::Call third = api_.next();
  while (third.request->header("authorization") == "Bearer second") {  // read before it was written
    third.answer(401, failure(401, "Unauthorized"));
    third = api_.next();
  }
  EXPECT_EQ(third.request->header("authorization"), "Bearer third");
  third.stream(event("ADDED", pod_slice("b", "10.0.0.2", 11)));
  EXPECT_EQ(told_.next(), kA + " " + kB);
}

TEST_F(KubernetesTest, SaysWhatTheServerRefusesAndTriesAgain) {
  start();
  api_.next().answer(403, failure(403, "endpointslices is forbidden"));
  EXPECT_TRUE(eventually([&] { return source_->status().n_failures == 1; }));
  EXPECT_EQ(source_->status().last_failure,
            "the API server answers 403: endpointslices is forbidden");
  EXPECT_FALSE(source_->status().is_known);
  api_.next().answer(200, "{");
  api_.next().answer(200, "{}");
  api_.next().answer(200, list_of(1, pod_slice("a", "10.0.0.1", 1)));
  EXPECT_EQ(told_.next(), kA);
  api_.next().stream("no event");
  FakeApi::Call again = api_.next();
  EXPECT_THAT(again.request->query, HasSubstr("resourceVersion=1"));
}

TEST_F(KubernetesTest, NeedsItsToken) {
  const std::string none = folder_.file("none");
  auto source = make_kubernetes_membership({.api = api_.url(), .token_path = none});
  const Status status = source->start(told_.listener());
  EXPECT_EQ(status.code(), Code::kNotFound);
  EXPECT_EQ(status.message(), "no token can be read from " + none);
}

TEST_F(KubernetesTest, EndsWhateverItWaitsFor) {
  const FakeApi::Call watch = start_with_a();
  source_.reset();  // in a watch
  start();
  const FakeApi::Call list = api_.next();
  source_.reset();  // in a list
  api_.stop();
  start();
  EXPECT_TRUE(eventually([&] { return source_->status().n_failures > 1; }));
  source_.reset();  // in a pause
}

}  // namespace
}  // namespace coxswain::membership
