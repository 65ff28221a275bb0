#include "rpc/memory_transport.h"

#include <array>
#include <fcntl.h>
#include <memory>
#include <string>
#include <unistd.h>
#include <utility>
#include <vector>

#include <gtest/gtest.h>
#include <sys/mman.h>

#include "base/testing/temp_folder.h"
#include "batch/testing/fake_runner.h"
#include "rpc/shard_service.h"
#include "rpc/sharded_client.h"
#include "rpc/testing/fake_codec.h"
#include "telemetry/log.h"

namespace coxswain::rpc {
namespace {

using batch::testing::FakeRunner;

SharedBytes own(const Descriptor& fd, std::uint64_t n_bytes) {
  return {.pid = ::getpid(), .fd = fd.get(), .n_bytes = n_bytes};
}

TEST(SharedBytes, AreReadAsTheyWereWrittenAndByNobodyChanged) {
  const std::string bytes(300'001, 'x');
  const auto shared = share_bytes(bytes);
  ASSERT_TRUE(shared.ok()) << shared.status().message();
  const auto read = read_shared(own(*shared, bytes.size()));
  ASSERT_TRUE(read.ok()) << read.status().message();
  EXPECT_EQ(*read, bytes);
  EXPECT_EQ(::pwrite(shared->get(), "y", 1, 0), -1);
  EXPECT_NE(::ftruncate(shared->get(), 1), 0);
}

TEST(SharedBytes, NothingElseIsRead) {
  const auto shared = share_bytes("four");
  ASSERT_TRUE(shared.ok());
  EXPECT_EQ(read_shared(own(*shared, 5)).status().code(), Code::kUnimplemented);
  EXPECT_EQ(read_shared({.pid = -1, .fd = 0, .n_bytes = 4}).status().code(), Code::kUnimplemented);
  const Descriptor open_to_all(::memfd_create("unsealed", MFD_CLOEXEC | MFD_ALLOW_SEALING));
  ASSERT_EQ(::write(open_to_all.get(), "four", 4), 4);
  EXPECT_EQ(read_shared(own(open_to_all, 4)).status().code(), Code::kUnimplemented);
  std::array<int, 2> pipe{};
  ASSERT_EQ(::pipe2(pipe.data(), O_CLOEXEC), 0);
  const Descriptor out(pipe[0]);
  const Descriptor in(pipe[1]);
  EXPECT_EQ(read_shared(own(out, 4)).status().code(), Code::kUnimplemented);
}

class MemoryTransportTest : public ::testing::Test {
 protected:
  struct Shard {
    std::unique_ptr<FakeRunner> runner;
    std::unique_ptr<ShardService> service;
    std::unique_ptr<ShardedClient> client;
  };
  Shard serve(const std::string& name) {
    auto options = testing::fake_shard_options();
    options.capabilities.attachments = true;
    options.capabilities.attachment_bytes_max = 8 << 20;
    Shard out;
    out.runner = std::make_unique<FakeRunner>(options);
    ShardServiceOptions service;
    service.socket_path = folder_.file(name);
    service.peer_paths = {service.socket_path};
    out.service = ShardService::start(*out.runner, codec_, service, log_).value();
    out.client = ShardedClient::connect(service.socket_path, {}).value();
    return out;
  }
  static Attachment blocks(std::uint64_t id) {
    return {.id = id, .kind = AttachmentKind::kGrammar, .bytes = std::string(200'000, 'b')};
  }

  base::TempFolder folder_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "rpc_test", .file_descriptor = -1}};
  testing::FakeCodec codec_;
};

TEST_F(MemoryTransportTest, BytesPassFromShardToShard) {
  const Shard from = serve("from");
  const Shard to = serve("to");
  ASSERT_EQ(from.client->attach(blocks(5)), Status());
  MemoryTransport transport;
  const auto passed =
      transport.pass({.from = from.client.get(), .made = 5, .to = to.client.get(), .as = 9});
  ASSERT_TRUE(passed.ok()) << passed.status().message();
  EXPECT_EQ(*passed, blocks(9).bytes.size());
  EXPECT_EQ(to.runner->attached(), std::vector<Attachment>{blocks(9)});
  EXPECT_TRUE(from.runner->attached().empty());
  EXPECT_EQ(transport.name(), "memory");
  EXPECT_EQ(from.client->take(5).status().code(), Code::kNotFound) << "it has left";
}

TEST_F(MemoryTransportTest, WhatTheDestinationRefusesHasLeftTheSource) {
  const Shard from = serve("from");
  const Shard to = serve("to");
  ASSERT_EQ(from.client->attach(blocks(5)), Status());
  to.runner->refuse_attachments({Code::kResourceExhausted, "no room"});
  MemoryTransport transport;
  const auto passed =
      transport.pass({.from = from.client.get(), .made = 5, .to = to.client.get(), .as = 9});
  EXPECT_EQ(passed.status().message(), "no room");
  EXPECT_EQ(from.client->take(5).status().code(), Code::kNotFound);
  EXPECT_EQ(transport.name(), "memory");
}

TEST_F(MemoryTransportTest, WhatIsSharedCanStillBeTaken) {
  const Shard from = serve("from");
  ASSERT_EQ(from.client->attach(blocks(5)), Status());
  const auto shared = from.client->share(5);
  ASSERT_TRUE(shared.ok()) << shared.status().message();
  ASSERT_TRUE(shared->where.has_value());
  EXPECT_TRUE(shared->attachment.bytes.empty());
  const auto taken = from.client->take(5);
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_EQ(*taken, blocks(5));
  EXPECT_FALSE(read_shared(*shared->where).ok()) << "nobody has it any more";
}

TEST_F(MemoryTransportTest, AShardThatCannotReadItGetsTheBytesThroughTheRouter) {
  const Shard from = serve("from");
  const Shard to = serve("to");
  ASSERT_EQ(from.client->attach(blocks(5)), Status());
  to.runner->refuse_attachments({Code::kUnimplemented, "of another container"});
  MemoryTransport transport;
  const BlockPassage passage{.from = from.client.get(), .made = 5, .to = to.client.get(), .as = 9};
  EXPECT_EQ(transport.pass(passage).status().message(), "of another container");
  EXPECT_EQ(transport.name(), "router");
  to.runner->refuse_attachments({});
  ASSERT_EQ(from.client->attach(blocks(5)), Status());
  EXPECT_TRUE(transport.pass(passage).ok());
  EXPECT_EQ(to.runner->attached(), std::vector<Attachment>{blocks(9)});
}

TEST_F(MemoryTransportTest, AStreamThatEndsTakesWhatIsSharedWithIt) {
  Shard from = serve("from");
  // With its first plan the stream says its number.
  ASSERT_TRUE(from.client->run({.step = 1, .epoch = from.client->info().epoch}).ok());
  ASSERT_EQ(from.client->attach(blocks(5)), Status());
  const auto shared = from.client->share(5);
  ASSERT_TRUE(shared.ok() && shared->where);
  from.client.reset();
  while (read_shared(*shared->where).ok()) ::usleep(1000);
}

}  // namespace
}  // namespace coxswain::rpc
