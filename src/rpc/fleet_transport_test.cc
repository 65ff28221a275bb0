#include "rpc/fleet_transport.h"

#include <chrono>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "rpc/sharded_client.h"
#include "rpc/testing/machine.h"
#include "rpc/ucx_carrier.h"

namespace coxswain::rpc {
namespace {

using testing::Authority;
using testing::Machine;

class FleetTransportTest : public ::testing::Test {
 protected:
  std::unique_ptr<ShardedClient> client_of(const Machine& machine) {
    return ShardedClient::connect(machine.place(), {.peer_files = authority_.files("router")})
        .value();
  }
  static Attachment blocks(std::uint64_t id) {
    return {.id = id, .kind = AttachmentKind::kGrammar, .bytes = std::string(3'000'000, 'b')};
  }

  Authority authority_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "rpc_test", .file_descriptor = -1}};
};

TEST_F(FleetTransportTest, BlocksGoFromMachineToMachine) {
  const Machine from(authority_.files("from"));
  const Machine to(authority_.files("to"));
  const auto source = client_of(from);
  const auto destination = client_of(to);
  ASSERT_EQ(source->attach(blocks(5)), Status());
  FleetTransport transport(true, log_);
  const auto passed =
      transport.pass({.from = source.get(), .made = 5, .to = destination.get(), .as = 9});
  ASSERT_TRUE(passed.ok()) << passed.status().message();
  EXPECT_EQ(*passed, blocks(9).bytes.size());
  EXPECT_EQ(to.runner().attached(), std::vector<Attachment>{blocks(9)});
  EXPECT_TRUE(from.runner().attached().empty());
  EXPECT_EQ(transport.name(), "tcp");
  EXPECT_EQ(source->take(5).status().code(), Code::kNotFound) << "it has left";
}

TEST_F(FleetTransportTest, AShardThatCannotConnectGetsThemThroughTheRouter) {
  const Machine from(authority_.files("from"));
  const Machine to(authority_.files("to"), authority_.files("late", -10));
  const auto source = client_of(from);
  const auto destination = client_of(to);
  FleetTransport transport(true, log_);
  for (const std::uint64_t id : {9U, 10U}) {
    ASSERT_EQ(source->attach(blocks(5)), Status());
    const auto passed =
        transport.pass({.from = source.get(), .made = 5, .to = destination.get(), .as = id});
    ASSERT_TRUE(passed.ok()) << passed.status().message();
    EXPECT_EQ(transport.name(), "router");
  }
  EXPECT_EQ(to.runner().attached(), (std::vector<Attachment>{blocks(9), blocks(10)}));
}

TEST_F(FleetTransportTest, ATicketIsGoodForOneTakeOfWhatItIsFor) {
  const Machine from(authority_.files("from"));
  const Machine to(authority_.files("to"));
  const auto source = client_of(from);
  const auto destination = client_of(to);
  ASSERT_EQ(source->attach(blocks(5)), Status());
  auto offered = source->offer(5);
  ASSERT_TRUE(offered.ok() && offered->offer) << offered.status().message();
  offered->attachment.id = 9;
  auto guessed = *offered;
  guessed.offer->ticket[0] = static_cast<char>(guessed.offer->ticket[0] ^ 1);
  EXPECT_EQ(destination->attach_shared(guessed).status().code(), Code::kUnimplemented);
  OfferedBytes more = *offered->offer;
  ++more.n_bytes;
  auto longer = *offered;
  longer.offer = more;
  EXPECT_EQ(destination->attach_shared(longer).status().code(), Code::kUnimplemented);
  EXPECT_EQ(destination->attach_shared(*offered).status().code(), Code::kUnimplemented)
      << "used up by who asked for more than there is";
  const auto taken = source->take(5);
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_EQ(*taken, blocks(5)) << "what is offered can still be taken";
  EXPECT_TRUE(to.runner().attached().empty());
}

// Of a shard that hangs: it takes connections and says nothing.
class HangingShardTest : public FleetTransportTest {
 protected:
  std::unique_ptr<ShardedClient> patient_client_of(const Machine& machine) {
    return ShardedClient::connect(
               machine.place(),
               {.attach_timeout = std::chrono::hours(1), .peer_files = authority_.files("router")})
        .value();
  }
  Status pass(BlockTransport& transport, ShardedClient& source, ShardedClient& destination) {
    return transport
        .pass({.from = &source,
               .made = 5,
               .to = &destination,
               .as = 9,
               .until = Clock::now() + std::chrono::milliseconds(50)})
        .status();
  }
};

TEST_F(HangingShardTest, ASourceIsNotWaitedForBeyondTheDeadline) {
  Machine from(authority_.files("from"));
  const Machine to(authority_.files("to"));
  const auto source = patient_client_of(from);
  const auto destination = patient_client_of(to);
  ASSERT_EQ(source->attach(blocks(5)), Status());
  from.hang();
  FleetTransport direct(true, log_);
  EXPECT_EQ(pass(direct, *source, *destination).code(), Code::kUnavailable);
  MemoryTransport shared;
  EXPECT_EQ(pass(shared, *source, *destination).code(), Code::kUnavailable);
  EXPECT_EQ(pass_through_here({.from = source.get(),
                               .made = 5,
                               .to = destination.get(),
                               .as = 9,
                               .until = Clock::now() + std::chrono::milliseconds(50)})
                .status()
                .code(),
            Code::kUnavailable);
  from.end_hang();
  from.stop();
  EXPECT_TRUE(to.runner().attached().empty());
}

TEST_F(HangingShardTest, ADestinationKeepsNothingThatNobodyWaitsFor) {
  const Machine from(authority_.files("from"));
  Machine to(authority_.files("to"));
  const auto source = patient_client_of(from);
  const auto destination = patient_client_of(to);
  ASSERT_EQ(source->attach(blocks(5)), Status());
  to.hang();
  FleetTransport direct(true, log_);
  EXPECT_EQ(pass(direct, *source, *destination).code(), Code::kUnavailable);
  to.end_hang();
  to.stop();
  EXPECT_TRUE(to.runner().attached().empty());
}

// Of two shards that list these networks, which transport takes the blocks.
class UcxTransportTest : public FleetTransportTest {
 protected:
  void SetUp() override {
    if (!has_ucx()) GTEST_SKIP() << "built without COXSWAIN_UCX";
  }
  std::unique_ptr<Machine> machine(const std::string& name, const std::string& networks) {
    const auto files = authority_.files(name);
    return std::make_unique<Machine>(
        files,
        files,
        networks.empty() ? std::vector<IpNetwork>() : parse_networks(networks).value());
  }
  std::string transport_of(const std::string& from_networks, const std::string& to_networks) {
    const auto from = machine("from", from_networks);
    const auto to = machine("to", to_networks);
    const auto source = client_of(*from);
    const auto destination = client_of(*to);
    EXPECT_EQ(source->attach(blocks(5)), Status());
    FleetTransport transport(true, log_);
    const auto passed =
        transport.pass({.from = source.get(), .made = 5, .to = destination.get(), .as = 9});
    EXPECT_TRUE(passed.ok()) << passed.status().message();
    EXPECT_EQ(to->runner().attached(), std::vector<Attachment>{blocks(9)});
    EXPECT_TRUE(from->runner().attached().empty());
    return std::string(transport.name());
  }
};

TEST_F(UcxTransportTest, BlocksGoByUcxWhereBothListTheNetwork) {
  EXPECT_EQ(transport_of("127.0.0.0/8", "10.0.0.0/8,127.0.0.1/32"), "ucx");
  EXPECT_EQ(transport_of("127.0.0.0/8", ""), "tcp");
  EXPECT_EQ(transport_of("", "127.0.0.0/8"), "tcp");
  EXPECT_EQ(transport_of("127.0.0.1/32", "127.0.0.0/8"), "ucx");
}

TEST_F(UcxTransportTest, WhatUcxDoesNotBringComesOverTls) {
  const auto from = machine("from", "127.0.0.0/8");
  const auto to = machine("to", "127.0.0.0/8");
  const auto source = client_of(*from);
  const auto destination = client_of(*to);
  const auto by = [&](auto spoil) {
    EXPECT_EQ(source->attach(blocks(5)), Status());
    auto offered = source->offer(5);
    EXPECT_TRUE(offered.ok() && offered->offer && offered->offer->ucx);
    offered->attachment.id = 9;
    spoil(*offered->offer);
    const auto taken = destination->attach_shared(*offered);
    EXPECT_TRUE(taken.ok()) << taken.status().message();
    EXPECT_EQ(to->runner().attached(), std::vector<Attachment>{blocks(9)});
    EXPECT_EQ(destination->detach(9), Status());
    return taken.ok() ? *taken : TakenBy::kMessages;
  };
  EXPECT_EQ(by([](OfferedBytes&) {}), TakenBy::kUcx);
  EXPECT_EQ(by([](OfferedBytes& offer) { offer.ucx->ticket[3] ^= 1; }), TakenBy::kMessages);
  EXPECT_EQ(by([](OfferedBytes&) {}), TakenBy::kUcx);
  // Nobody listens there: the connection is refused, and a source at that address is left alone.
  EXPECT_EQ(by([](OfferedBytes& offer) { offer.ucx->address = "127.0.0.1:1"; }),
            TakenBy::kMessages);
  EXPECT_EQ(by([](OfferedBytes&) {}), TakenBy::kUcx);
}

}  // namespace
}  // namespace coxswain::rpc
