// A replica of several shards: each has an epoch and a pool of its own, and the engine sees one runner.

#include <algorithm>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "batch/engine.h"
#include "batch/testing/fake_runner.h"
#include "batch/testing/recorder.h"
#include "rpc/replica_info.h"
#include "rpc/shard_service.h"
#include "rpc/sharded_client.h"
#include "rpc/testing/fake_codec.h"
#include "telemetry/log.h"

namespace coxswain::rpc {
namespace {

using batch::testing::FakeRunner;
using batch::testing::FakeRunnerOptions;
using batch::testing::Recorder;

RunnerInfo info_of(const FakeRunnerOptions& options) {
  return FakeRunner(options).info();
}

TEST(ReplicaInfo, OneShardSpeaksForItself) {
  const RunnerInfo info = info_of(testing::fake_shard_options());
  const auto replica = replica_info(std::vector<RunnerInfo>{info});
  ASSERT_TRUE(replica.ok());
  EXPECT_EQ(replica->epoch, info.epoch);
  EXPECT_EQ(replica->kv_groups, info.kv_groups);
  EXPECT_EQ(replica->capabilities, info.capabilities);
}

TEST(ReplicaInfo, LimitsAreThoseThatEveryShardKeeps) {
  RunnerInfo a = info_of(testing::fake_shard_options());
  a.kv_groups.push_back(
      {.layers = {1}, .kind = KvGroup::Kind::kWindow, .window = 8, .n_blocks = 9});
  a.max_total_tokens = 90;
  a.capabilities.edits = true;
  a.capabilities.exports_beside = true;
  a.capabilities.plans_in_flight_max = 4;
  a.capabilities.attachment_bytes_max = 50;
  RunnerInfo b = a;
  b.kv_groups[0].n_blocks = 70;
  b.kv_groups[1].n_blocks = 5;
  b.max_total_tokens = 80;
  b.max_input_tokens = 60;
  b.capabilities.edits = false;
  b.capabilities.exports_beside = false;
  b.capabilities.plans_in_flight_max = 3;
  b.capabilities.attachment_bytes_max = 70;
  const auto replica = replica_info(std::vector<RunnerInfo>{a, b});
  ASSERT_TRUE(replica.ok());
  EXPECT_EQ(replica->kv_groups[0].n_blocks, 64U);
  EXPECT_EQ(replica->kv_groups[1].n_blocks, 5U);
  EXPECT_EQ(replica->max_total_tokens, 80U);
  EXPECT_EQ(replica->max_input_tokens, 60U);
  EXPECT_FALSE(replica->capabilities.edits);
  EXPECT_FALSE(replica->capabilities.exports_beside);
  EXPECT_TRUE(replica->capabilities.look_ahead);
  EXPECT_EQ(replica->capabilities.plans_in_flight_max, 3U);
  EXPECT_EQ(replica->capabilities.attachment_bytes_max, 50U);
}

TEST(ReplicaInfo, TheEpochChangesWithAnyShardThatStartsAnew) {
  std::vector<RunnerInfo> shards(3, info_of(testing::fake_shard_options()));
  std::vector<std::uint64_t> seen{replica_info(shards)->epoch};
  for (RunnerInfo& shard : shards) {
    ++shard.epoch;
    seen.push_back(replica_info(shards)->epoch);
  }
  std::swap(shards[0].epoch, ++shards[2].epoch);
  seen.push_back(replica_info(shards)->epoch);
  std::ranges::sort(seen);
  EXPECT_TRUE(std::ranges::adjacent_find(seen) == seen.end());
}

TEST(ReplicaInfo, WhatDoesNotFitIsNamed) {
  const RunnerInfo rank0 = info_of(testing::fake_shard_options());
  const auto refusal = [&](auto change) {
    RunnerInfo other = rank0;
    change(other);
    return replica_info(std::vector<RunnerInfo>{rank0, rank0, other}).status().message();
  };
  EXPECT_EQ(refusal([](RunnerInfo& i) { i.dtype = "int8"; }),
            "rank 2 does not match rank 0: dtype=int8, here dtype=float32");
  EXPECT_EQ(refusal([](RunnerInfo& i) { i.model_fingerprint = 6; }),
            "rank 2 does not match rank 0: model_fingerprint=6, here model_fingerprint=5");
  EXPECT_EQ(refusal([](RunnerInfo& i) { i.kv_groups[0].k_dim = 8; }),
            "rank 2 does not match rank 0: kv_groups[0].k_dim=8, here kv_groups[0].k_dim=1");
  EXPECT_EQ(refusal([](RunnerInfo& i) { i.kv_groups.emplace_back(); }),
            "rank 2 does not match rank 0: kv_groups=2, here kv_groups=1");
}

class Replica : public ::testing::Test {
 protected:
  ~Replica() override {
    services_.clear();
    for (const auto& shard : shards_) {
      for (const std::string& what : shard->violations())
        ADD_FAILURE() << "a runner refuses: " << what;
    }
  }

  void serve(const std::vector<FakeRunnerOptions>& shards) {
    ShardServiceOptions options;
    for (std::size_t rank = 0; rank < shards.size(); ++rank)
      options.peer_paths.push_back(folder_.file("shard-" + std::to_string(rank)));
    for (std::size_t rank = 0; rank < shards.size(); ++rank) {
      shards_.push_back(std::make_unique<FakeRunner>(shards[rank]));
      options.socket_path = options.peer_paths[rank];
      options.rank = static_cast<std::uint32_t>(rank);
      auto service = ShardService::start(*shards_.back(), codec_, options, log_);
      ASSERT_TRUE(service.ok()) << service.status().message();
      services_.push_back(std::move(service).value());
    }
  }
  auto connect() { return ShardedClient::connect(folder_.file("shard-0"), {}); }

  base::TempFolder folder_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "rpc_test", .file_descriptor = -1}};
  testing::FakeCodec codec_;
  std::vector<std::unique_ptr<FakeRunner>> shards_;
  std::vector<std::unique_ptr<ShardService>> services_;
};

// Three shards as three processes are: each drew its epoch, and each found another amount of memory.
std::vector<FakeRunnerOptions> unlike_shards() {
  std::vector<FakeRunnerOptions> out(3, testing::fake_shard_options());
  for (FakeRunnerOptions& shard : out) {
    shard.checks_scheduling = true;
    shard.capabilities.attachments = true;
    shard.capabilities.exports_beside = true;
    shard.capabilities.attachment_bytes_max = 100;
  }
  out[1].epoch = 78;
  out[1].n_blocks = {30};
  out[2].epoch = 79;
  out[2].n_blocks = {50};
  return out;
}

TEST_F(Replica, PlansCarryTheEpochOfTheirShardAndResultsThatOfTheReplica) {
  serve(unlike_shards());
  auto client = connect();
  ASSERT_TRUE(client.ok()) << client.status().message();
  const RunnerInfo info = client.value()->info();
  EXPECT_EQ(info.kv_groups[0].n_blocks, 30U);
  for (const auto& shard : shards_) shard->keep_plans();
  const auto result = client.value()->run({.step = 1, .epoch = info.epoch});
  ASSERT_TRUE(result.ok()) << result.status().message();
  EXPECT_EQ(result->epoch, info.epoch);
  for (const auto& shard : shards_) EXPECT_EQ(shard->plans().at(0).epoch, shard->info().epoch);
  EXPECT_EQ(client.value()->run({.step = 2, .epoch = shards_[0]->info().epoch}).status().code(),
            Code::kUnavailable);
}

TEST_F(Replica, AttachmentsReachEveryShard) {
  serve(unlike_shards());
  auto client = connect();
  ASSERT_TRUE(client.ok()) << client.status().message();
  const Attachment attachment{.id = 7, .kind = AttachmentKind::kGrammar, .bytes = "grammar"};
  ASSERT_TRUE(client.value()->attach(attachment).ok());
  for (const auto& shard : shards_)
    EXPECT_EQ(shard->attached(), std::vector<Attachment>{attachment});
  ASSERT_TRUE(client.value()->detach(7).ok());
  for (const auto& shard : shards_) EXPECT_TRUE(shard->attached().empty());
  shards_[2]->refuse_attachments(internal_error("no room"));
  EXPECT_EQ(client.value()->attach(attachment).message(), "no room");
  for (const auto& shard : shards_) EXPECT_TRUE(shard->attached().empty());
}

TEST_F(Replica, BlocksLeaveEveryShardBesideItsSteps) {
  serve(unlike_shards());
  auto connected = connect();
  ASSERT_TRUE(connected.ok()) << connected.status().message();
  ShardedClient& client = *connected.value();
  for (const auto& shard : shards_) shard->hold();
  const auto ticket = client.submit({.step = 1, .epoch = client.info().epoch});
  ASSERT_TRUE(ticket.ok());
  const BlockTransfer transfer{.attachment = 7, .blocks = {{1, 2}}};
  ASSERT_EQ(client.export_blocks(transfer), Status());
  for (const auto& shard : shards_) EXPECT_EQ(shard->attached().size(), 1U);
  EXPECT_TRUE(client.take(7).ok());
  for (const auto& shard : shards_) EXPECT_TRUE(shard->attached().empty());
  // What one refuses is undone at the others, and what is outside of the cache reaches none.
  shards_[2]->fail_next_transfer(internal_error("no room"));
  EXPECT_EQ(client.export_blocks(transfer).message(), "no room");
  EXPECT_EQ(client.export_blocks({.attachment = 7, .blocks = {{1000}}}).code(), Code::kInternal);
  for (const auto& shard : shards_) EXPECT_TRUE(shard->attached().empty());
  for (const auto& shard : shards_) shard->release();
  EXPECT_TRUE(client.wait(*ticket).ok());
}

TEST_F(Replica, EveryRequestGetsWhatItGetsAlone) {
  const std::vector<FakeRunnerOptions> options = unlike_shards();
  serve(options);
  auto client = connect();
  ASSERT_TRUE(client.ok()) << client.status().message();
  const auto engine = batch::Engine::create(std::shared_ptr<StepRunner>(std::move(client).value()),
                                            {.batch_size_max = 12, .check_invariants = true});
  std::vector<std::pair<batch::GenerationRequest, std::shared_ptr<Recorder>>> all;
  for (std::uint32_t i = 0; i < 40; ++i) {
    batch::GenerationRequest request;
    request.id = RequestId{i + 1};
    for (std::uint32_t t = 0; t < 1 + i % 30; ++t)
      request.prompt.push_back(static_cast<TokenId>(20 + (t < 8 ? t : t * i % 90)));
    request.stopping.max_new_tokens = 1 + i % 40;
    auto sink = std::make_shared<Recorder>();
    ASSERT_TRUE(engine->submit(request, sink).ok());
    all.emplace_back(std::move(request), std::move(sink));
  }
  for (const auto& [request, sink] : all) {
    const Status status = sink->wait();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sink->ids(), batch::testing::expected_output(options[0], request).tokens);
  }
}

TEST_F(Replica, TheFirstFailureIsThatOfTheStepAndALossThatOfTheReplica) {
  serve(unlike_shards());
  auto client = connect();
  ASSERT_TRUE(client.ok()) << client.status().message();
  const std::uint64_t epoch = client.value()->info().epoch;
  shards_[1]->fail_next(internal_error("rank 1 failed"));
  EXPECT_EQ(client.value()->run({.step = 1, .epoch = epoch}).status().message(), "rank 1 failed");
  EXPECT_TRUE(client.value()->run({.step = 2, .epoch = epoch}).ok());
  services_[1].reset();
  EXPECT_EQ(client.value()->run({.step = 3, .epoch = epoch}).status().code(), Code::kUnavailable);
  EXPECT_EQ(client.value()->healthy().code(), Code::kUnavailable);
}

TEST_F(Replica, ShardsThatDoNotFitTogetherAreRefusedByName) {
  std::vector<FakeRunnerOptions> options = unlike_shards();
  options[2].about.kernel_set_id = "other";
  serve(options);
  const Status status = connect().status();
  EXPECT_EQ(status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(status.message(),
            "rank 2 does not match rank 0: kernel_set_id=other, here kernel_set_id=none");
}

}  // namespace
}  // namespace coxswain::rpc
