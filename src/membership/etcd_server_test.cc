// The source and the registration over a real etcd, which is killed, restarted and compacted.

#include <csignal>
#include <cstdlib>
#include <filesystem>
#include <spawn.h>
#include <unistd.h>

#include <arpa/inet.h>
#include <gmock/gmock.h>
#include <gtest/gtest.h>
#include <netinet/in.h>
#include <sys/socket.h>
#include <sys/wait.h>

#include "base/random.h"
#include "base/testing/temp_folder.h"
#include "membership/etcd_client.h"
#include "membership/testing/fake_api.h"

namespace coxswain::membership {
namespace {

using std::chrono::seconds;
using testing::HasSubstr;

std::string etcd_program() {
  for (const char* path : {"/usr/bin/etcd", "/usr/local/bin/etcd"}) {
    if (access(path, X_OK) == 0) return path;
  }
  return "";
}

// Not one that the system may give to a client while etcd is down (/proc/sys/net/ipv4/ip_local_port_range).
std::uint16_t free_port() {
  for (;;) {
    const auto port = static_cast<std::uint16_t>(10'000 + base::random_u64() % 20'000);
    const int fd = socket(AF_INET, SOCK_STREAM | SOCK_CLOEXEC, 0);
    sockaddr_in address{};
    address.sin_family = AF_INET;
    address.sin_port = htons(port);
    address.sin_addr.s_addr = htonl(INADDR_LOOPBACK);
    const bool is_free = bind(fd, reinterpret_cast<sockaddr*>(&address), sizeof(address)) == 0;
    close(fd);
    if (is_free) return port;
  }
}

class EtcdServerTest : public testing::Test {
 protected:
  void SetUp() override {
    if (!etcd_program().empty()) return;
    const char* ci = std::getenv("CI");
    ASSERT_FALSE(ci != nullptr && std::string_view(ci) == "true") << "CI needs etcd-server";
    GTEST_SKIP() << "no etcd here: install etcd-server";
  }
  void TearDown() override {
    source_.reset();
    kill_etcd();
  }

  void start_etcd() {
    const std::string peer = "http://127.0.0.1:" + std::to_string(peer_port_);
    std::vector<std::string> words{etcd_program(),
                                   "--name=one",
                                   "--data-dir=" + folder_.file("data"),
                                   "--listen-client-urls=" + url(),
                                   "--advertise-client-urls=" + url(),
                                   "--listen-peer-urls=" + peer,
                                   "--initial-advertise-peer-urls=" + peer,
                                   "--initial-cluster=one=" + peer,
                                   "--log-outputs=" + folder_.file("log"),
                                   "--logger=zap"};
    std::vector<char*> arguments;
    arguments.reserve(words.size() + 1);
    for (std::string& word : words) arguments.push_back(word.data());
    arguments.push_back(nullptr);
    ASSERT_EQ(posix_spawn(&pid_, words[0].c_str(), nullptr, nullptr, arguments.data(), environ), 0);
    ASSERT_TRUE(eventually([&] { return call("/v3/kv/range", R"({"key":"AA=="})").ok(); }));
  }
  void kill_etcd() {
    if (pid_ <= 0) return;
    kill(pid_, SIGKILL);
    waitpid(pid_, nullptr, 0);
    pid_ = -1;
  }
  Result<json::Value> call(const char* path, const std::string& body) const {
    EtcdClient client(options());
    return client.call(path, json::parse(body).value());
  }
  std::string url() const { return "http://127.0.0.1:" + std::to_string(port_); }
  EtcdOptions options() const { return {.endpoints = {url()}, .prefix = "/fleet"}; }
  std::unique_ptr<Registration> enter(const std::string& name, seconds ttl = seconds(60)) const {
    return register_in_etcd(
               options(), {.name = name, .address = name + ":1", .incarnation = "i"}, ttl)
        .value();
  }
  void watch() {
    source_ = make_etcd_membership(options());
    ASSERT_TRUE(source_->start(told_.listener()).ok());
    EXPECT_EQ(told_.next(), "");
    EXPECT_TRUE(eventually([&] { return source_->status().is_current; }));
  }

  const base::TempFolder folder_;
  const std::uint16_t port_ = free_port();
  const std::uint16_t peer_port_ = free_port();
  pid_t pid_ = -1;
  ToldLists told_;
  std::unique_ptr<Membership> source_;
};

TEST_F(EtcdServerTest, MembersComeAndGo) {
  start_etcd();
  watch();
  auto a = enter("a");
  EXPECT_EQ(told_.next(), "a=a:1/mixed#i");
  auto b = enter("b");
  EXPECT_EQ(told_.next(), "a=a:1/mixed#i b=b:1/mixed#i");
  a.reset();  // at once, long before its lease ends
  EXPECT_EQ(told_.next(), "b=b:1/mixed#i");
  EXPECT_EQ(source_->status().n_failures, 0U);
}

TEST_F(EtcdServerTest, ARestartOfEtcdLosesNobody) {
  start_etcd();
  watch();
  auto a = enter("a", seconds(3));
  EXPECT_EQ(told_.next(), "a=a:1/mixed#i");
  kill_etcd();
  EXPECT_TRUE(eventually([&] { return !source_->status().is_current; }));
  EXPECT_TRUE(eventually([&] { return a->status().n_failures > 0; }));
  start_etcd();
  EXPECT_TRUE(eventually([&] { return source_->status().is_current; }));
  auto b = enter("b");
  EXPECT_EQ(told_.next(), "a=a:1/mixed#i b=b:1/mixed#i");  // and nothing in between
}

TEST_F(EtcdServerTest, ALeaseThatEndsTakesItsMemberOutAndItComesBack) {
  start_etcd();
  watch();
  // Nobody renews this one.
  const auto granted = call("/v3/lease/grant", R"({"TTL":"1"})");
  ASSERT_TRUE(granted.ok());
  ASSERT_TRUE(call("/v3/kv/put",
                   R"({"key":"L2ZsZWV0L2E=","value":"eyJhZGRyZXNzIjoiYToxIn0=","lease":")" +
                       std::to_string(int64_of(granted.value().find("ID"))) + "\"}")
                  .ok());
  EXPECT_EQ(told_.next(), "a=a:1/mixed#");
  EXPECT_EQ(told_.next(), "");
  // This one is taken away from the shard that renews it.
  auto b = enter("b", seconds(3));
  EXPECT_EQ(told_.next(), "b=b:1/mixed#i");
  const auto leases = call("/v3/lease/leases", "{}");
  ASSERT_TRUE(leases.ok());
  for (const json::Value& lease : leases.value().find("leases")->as_array()) {
    ASSERT_TRUE(
        call("/v3/lease/revoke", R"({"ID":")" + std::to_string(int64_of(lease.find("ID"))) + "\"}")
            .ok());
  }
  EXPECT_EQ(told_.next(), "");
  EXPECT_EQ(told_.next(), "b=b:1/mixed#i");
  EXPECT_TRUE(eventually([&] { return b->status().n_registered == 2; }));
}

TEST_F(EtcdServerTest, CompactionIsHeardOfAsEtcdSaysIt) {
  start_etcd();
  for (int i = 0; i < 5; ++i)
    ASSERT_TRUE(call("/v3/kv/put", R"({"key":"L290aGVy","value":"eA=="})").ok());
  ASSERT_TRUE(call("/v3/kv/compaction", R"({"revision":"4"})").ok());
  // What the source would ask for if it had slept since revision 1: the words that etcd_test.cc has etcd say.
  EtcdClient client(options());
  std::int64_t compacted = 0;
  const Status end = client.follow(
      "/v3/watch",
      json::parse(R"({"create_request":{"key":"L290aGVy","start_revision":"2"}})").value(),
      [&](const json::Value& result) {
        compacted = int64_of(result.find("compact_revision"));
        const json::Value* canceled = result.find("canceled");
        return compacted == 0 || canceled == nullptr || !canceled->as_bool();
      },
      kTestPatience);
  EXPECT_TRUE(end.ok()) << end.message();
  EXPECT_EQ(compacted, 4);
  watch();  // from a list, a compaction does not matter
  auto a = enter("a");
  EXPECT_EQ(told_.next(), "a=a:1/mixed#i");
}

TEST_F(EtcdServerTest, AUserHasATokenThatOutlivesARestart) {
  start_etcd();
  for (const auto& [path, body] : std::initializer_list<std::pair<const char*, const char*>>{
           {"/v3/auth/user/add", R"({"name":"root","password":"p"})"},
           {"/v3/auth/role/add", R"({"name":"root"})"},
           {"/v3/auth/user/grant", R"({"user":"root","role":"root"})"},
           {"/v3/auth/enable", "{}"}}) {
    ASSERT_TRUE(call(path, body).ok()) << path;
  }
  EXPECT_THAT(call("/v3/kv/range", R"({"key":"AA=="})").status().message(),
              HasSubstr("user name is empty"));
  EtcdOptions known = options();
  known.user = "root";
  known.password = "p";
  EtcdOptions wrong = known;
  wrong.password = "q";
  EXPECT_THAT(EtcdClient(wrong)
                  .call("/v3/kv/range", json::parse(R"({"key":"AA=="})").value())
                  .status()
                  .message(),
              HasSubstr("user root: etcd answers 400: etcdserver: authentication failed"));
  source_ = make_etcd_membership(known);
  ASSERT_TRUE(source_->start(told_.listener()).ok());
  EXPECT_EQ(told_.next(), "");
  auto a = register_in_etcd(known, {.name = "a", .address = "a:1"}, seconds(3)).value();
  EXPECT_EQ(told_.next(), "a=a:1/mixed#");
}

}  // namespace
}  // namespace coxswain::membership
