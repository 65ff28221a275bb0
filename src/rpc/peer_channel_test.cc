#include "rpc/peer_channel.h"

#include <memory>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/mutex.h"
#include "rpc/sharded_client.h"
#include "rpc/testing/machine.h"

namespace coxswain::rpc {
namespace {

using security::testing::TestCertificate;
using testing::Authority;
using ::testing::HasSubstr;
using testing::Machine;

TEST(AddressOfPlace, IsThatOfAMachine) {
  EXPECT_EQ(address_of_place("tcp://host:9400"), "host:9400");
  EXPECT_EQ(address_of_place("/run/shard-0"), "");
  EXPECT_EQ(address_of_place("unix:///run/shard-0"), "");
}

class PeerChannelTest : public ::testing::Test {
 protected:
  Status connect(const Machine& to, const security::PeerFiles& files) {
    return ShardedClient::connect(to.place(), {.connect_timeout = kShort, .peer_files = files})
        .status();
  }

  static constexpr std::chrono::milliseconds kShort{2'000};
  Authority authority_;
};

TEST_F(PeerChannelTest, AMachineOfTheFleetIsServed) {
  const Machine shard(authority_.files("shard"));
  auto client = ShardedClient::connect(shard.place(), {.peer_files = authority_.files("router")});
  ASSERT_TRUE(client.ok()) << client.status().message();
  EXPECT_EQ((*client)->info().model_id, shard.runner().info().model_id);
  EXPECT_EQ((*client)->address(), shard.address());
  EXPECT_TRUE((*client)->healthy().ok());
  EXPECT_TRUE((*client)->run({.step = 1, .epoch = (*client)->info().epoch}).ok());
}

TEST_F(PeerChannelTest, NobodyElseIs) {
  const Machine shard(authority_.files("shard"));
  const Authority others;
  const Status foreign = connect(shard, others.files("router"));
  EXPECT_EQ(foreign.code(), Code::kUnavailable) << foreign.message();
  auto half = others.files("router");
  half.ca = authority_.files("router").ca;  // believes the shard, who does not believe it
  EXPECT_EQ(connect(shard, half).code(), Code::kUnavailable);
  EXPECT_EQ(connect(shard, authority_.files("late", -10)).code(), Code::kUnavailable) << "expired";
  EXPECT_EQ(connect(shard, {}).code(), Code::kFailedPrecondition) << "no files";
}

TEST_F(PeerChannelTest, NobodyListensThere) {
  std::string place;
  { place = Machine(authority_.files("shard")).place(); }
  const auto client = ShardedClient::connect(
      place, {.connect_timeout = kShort, .peer_files = authority_.files("router")});
  EXPECT_EQ(client.status().code(), Code::kUnavailable);
  EXPECT_THAT(client.status().message(), HasSubstr(place.substr(6)));
}

TEST_F(PeerChannelTest, AnAddressIsHeldByOne) {
  const Machine shard(authority_.files("shard"));
  const Status second = Machine::try_to_listen(authority_.files("second"), shard.address());
  EXPECT_EQ(second.code(), Code::kFailedPrecondition);
  EXPECT_THAT(second.message(), HasSubstr(shard.address()));
}

TEST_F(PeerChannelTest, TheEndOfAShardIsToldToWhoIsConnected) {
  base::Mutex mu;
  base::CondVar told;
  bool is_lost = false;
  auto shard = std::make_unique<Machine>(authority_.files("shard"));
  const auto client = ShardedClient::connect(
      shard->place(), {.peer_files = authority_.files("router"), .on_lost = [&] {
                         const base::MutexLock lock(mu);
                         is_lost = true;
                         told.notify_all();
                       }});
  ASSERT_TRUE(client.ok()) << client.status().message();
  shard.reset();
  base::MutexLock lock(mu);
  told.wait(lock, [&] { return is_lost; });
}

}  // namespace
}  // namespace coxswain::rpc
