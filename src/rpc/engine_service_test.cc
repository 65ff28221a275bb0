// Peers that break the rules of the Engine stream, on both sides of it.

#include "rpc/engine_service.h"

#include <atomic>
#include <functional>
#include <memory>
#include <string>
#include <thread>
#include <utility>

#include <grpcpp/grpcpp.h>
#include <gtest/gtest.h>
#include <proto/engine_v1.grpc.pb.h>
#include <proto/generate_v3.grpc.pb.h>

#include "base/testing/temp_folder.h"
#include "rpc/convert.h"
#include "rpc/runner_gate.h"
#include "rpc/sharded_client.h"
#include "rpc/testing/fake_codec.h"
#include "rpc/testing/served_shard.h"

namespace coxswain::rpc {
namespace {

namespace v3 = ::generate::v3;
using testing::FakeRunner;

constexpr std::uint64_t kEpoch = 77;  // of fake_shard_options()

pb::StepsRequest request_of(std::uint64_t step) {
  pb::StepsRequest request;
  request.mutable_plan()->set_step(step);
  request.mutable_plan()->set_epoch(kEpoch);
  return request;
}

class RawClient : public testing::ServedShard {
 protected:
  void SetUp() override {
    serve(runner_);
    stub_ = pb::Engine::NewStub(
        grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials()));
    stream_ = stub_->Steps(&context_);
  }

  std::unique_ptr<pb::Engine::Stub> stub_;
  grpc::ClientContext context_;
  std::unique_ptr<grpc::ClientReaderWriter<pb::StepsRequest, pb::StepsResponse>> stream_;
};

TEST_F(RawClient, AThirdUnansweredPlanCutsTheStream) {
  runner_.hold();
  for (std::uint64_t step = 1; step <= 3; ++step) ASSERT_TRUE(stream_->Write(request_of(step)));
  pb::StepsResponse response;
  EXPECT_FALSE(stream_->Read(&response));  // cut while the first plan still runs
  runner_.release();
  EXPECT_EQ(stream_->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(RawClient, AMessageThatCannotBeReadFailsItsStepOnly) {
  pb::StepsRequest bad = request_of(1);
  bad.mutable_plan()->add_rows()->set_emit(static_cast<pb::Emit>(77));
  ASSERT_TRUE(stream_->Write(bad));
  pb::StepsResponse response;
  ASSERT_TRUE(stream_->Read(&response));
  EXPECT_EQ(response.failure().step(), 1U);
  EXPECT_EQ(response.failure().status().code(), pb::CODE_INVALID_ARGUMENT);
  EXPECT_EQ(response.failure().status().field(), "rows.emit");
  ASSERT_TRUE(stream_->Write(request_of(2)));
  ASSERT_TRUE(stream_->Read(&response));
  EXPECT_EQ(response.result().step(), 2U);
}

TEST_F(RawClient, AnEmptyMessageIsAPlanOfNoEpoch) {
  ASSERT_TRUE(stream_->Write(pb::StepsRequest()));
  pb::StepsResponse response;
  ASSERT_TRUE(stream_->Read(&response));
  EXPECT_EQ(response.failure().status().code(), pb::CODE_UNAVAILABLE);
  EXPECT_EQ(runner_.n_submitted(), 0U);
}

TEST_F(RawClient, HalfClosingEndsTheStreamAndDropsItsSequences) {
  pb::StepsRequest request = request_of(1);
  pb::SequenceSpec& spec = *request.mutable_plan()->add_new_sequences();
  spec.set_id(9);
  spec.add_prompt(20);
  ASSERT_TRUE(stream_->Write(request));
  pb::StepsResponse response;
  ASSERT_TRUE(stream_->Read(&response));
  EXPECT_EQ(runner_.live().size(), 1U);
  ASSERT_TRUE(stream_->WritesDone());
  EXPECT_FALSE(stream_->Read(&response));
  EXPECT_TRUE(stream_->Finish().ok());
  EXPECT_TRUE(runner_.live().empty());
}

// A shard whose answers the test chooses.
class StrangeShard : public ::testing::Test {
 protected:
  class StrangeEngine final : public pb::Engine::Service {
   public:
    grpc::Status Info(grpc::ServerContext*,
                      const pb::InfoRequest*,
                      pb::InfoResponse* response) override {
      to_proto(FakeRunner(testing::fake_shard_options()).info(), *response);
      if (spoil_info) spoil_info(*response);
      return grpc::Status::OK;
    }
    grpc::Status Steps(
        grpc::ServerContext*,
        grpc::ServerReaderWriter<pb::StepsResponse, pb::StepsRequest>* stream) override {
      pb::StepsRequest request;
      while (stream->Read(&request)) stream->Write(answer(request));
      return grpc::Status::OK;
    }
    std::function<void(pb::InfoResponse&)> spoil_info;
    std::function<pb::StepsResponse(const pb::StepsRequest&)> answer;
  };

  class StockInfo final : public v3::TextGenerationService::Service {
   public:
    grpc::Status ServiceDiscovery(grpc::ServerContext*,
                                  const v3::ServiceDiscoveryRequest*,
                                  v3::ServiceDiscoveryResponse* response) override {
      response->add_urls(url);
      return grpc::Status::OK;
    }
    grpc::Status Info(grpc::ServerContext*,
                      const v3::InfoRequest*,
                      v3::InfoResponse* response) override {
      response->set_engine_version(version);
      return grpc::Status::OK;
    }
    grpc::Status Health(grpc::ServerContext* context,
                        const v3::HealthRequest*,
                        v3::HealthResponse*) override {
      ++n_health_calls;
      n_health_calls.notify_all();
      while (frozen && !context->IsCancelled()) std::this_thread::yield();
      return grpc::Status::OK;
    }
    std::atomic<int> n_health_calls{0};
    std::atomic<bool> frozen{false};  // answers no Health call
    std::string url;
    std::string version = "fake-1";
  };

  void SetUp() override {
    stock_.url = "unix://" + folder_.file("s");
    grpc::ServerBuilder builder;
    builder.AddListeningPort("unix:" + folder_.file("s"), grpc::InsecureServerCredentials());
    builder.RegisterService(&engine_);
    builder.RegisterService(&stock_);
    server_ = builder.BuildAndStart();
    ASSERT_TRUE(server_);
  }
  void TearDown() override { server_->Shutdown(std::chrono::system_clock::now()); }

  base::TempFolder folder_;
  std::atomic<bool> released_{
      false};  // lets a step go on; read by the server's threads until the end
  StrangeEngine engine_;
  StockInfo stock_;
  std::unique_ptr<grpc::Server> server_;
};

TEST_F(StrangeShard, AnswersThatNobodyAskedForMakeTheClientUnavailable) {
  const auto answers = {
      std::function<pb::StepsResponse(const pb::StepsRequest&)>(
          [](const auto&) { return pb::StepsResponse(); }),
      std::function<pb::StepsResponse(const pb::StepsRequest&)>([](const auto& request) {
        pb::StepsResponse response;
        response.mutable_result()->set_step(request.plan().step() + 1);
        response.mutable_result()->set_epoch(kEpoch);
        return response;
      }),
      std::function<pb::StepsResponse(const pb::StepsRequest&)>([](const auto& request) {
        pb::StepsResponse response;
        response.mutable_result()->set_step(request.plan().step());
        response.mutable_result()->set_epoch(kEpoch + 1);
        return response;
      }),
      std::function<pb::StepsResponse(const pb::StepsRequest&)>([](const auto& request) {
        pb::StepsResponse response;
        response.mutable_failure()->set_step(request.plan().step());  // a failure that is none
        return response;
      }),
      std::function<pb::StepsResponse(const pb::StepsRequest&)>([](const auto& request) {
        pb::StepsResponse response;
        response.mutable_result()->set_step(request.plan().step());
        response.mutable_result()->set_epoch(kEpoch);
        response.mutable_result()->add_sequences()->add_tokens()->set_id(0xFFFFFFFFu);
        return response;
      })};
  for (const auto& answer : answers) {
    engine_.answer = answer;
    auto client = ShardedClient::connect(folder_.file("s"), {});
    ASSERT_TRUE(client.ok()) << client.status().message();
    EXPECT_TRUE(client.value()->healthy().ok());
    StepPlan plan{.step = 4, .epoch = kEpoch};
    EXPECT_EQ(client.value()->run(plan).status().code(), Code::kUnavailable);
    EXPECT_EQ(client.value()->run(plan).status().code(), Code::kUnavailable);
    EXPECT_EQ(client.value()->healthy().code(), Code::kUnavailable);
  }
}

// The options of a client that looks after a silent shard often.
ClientOptions impatient() {
  ClientOptions options;
  options.heartbeat_limit = std::chrono::milliseconds(5);
  return options;
}

TEST_F(StrangeShard, ASlowStepIsWaitedForWhileTheShardLives) {
  engine_.answer = [&](const auto& request) {
    for (int seen = stock_.n_health_calls; seen < 3; seen = stock_.n_health_calls)
      stock_.n_health_calls.wait(seen);
    pb::StepsResponse response;
    response.mutable_result()->set_step(request.plan().step());
    response.mutable_result()->set_epoch(kEpoch);
    return response;
  };
  auto client = ShardedClient::connect(folder_.file("s"), impatient());
  ASSERT_TRUE(client.ok()) << client.status().message();
  StepPlan plan{.step = 1, .epoch = kEpoch};
  EXPECT_TRUE(client.value()->run(plan).ok());
}

TEST_F(StrangeShard, AFrozenShardIsGivenUp) {
  engine_.answer = [this](const auto&) {
    released_.wait(false);
    return pb::StepsResponse();
  };
  ClientOptions options = impatient();
  options.call_timeout = std::chrono::milliseconds(200);
  auto client = ShardedClient::connect(folder_.file("s"), options);
  ASSERT_TRUE(client.ok()) << client.status().message();
  stock_.frozen = true;
  StepPlan plan{.step = 1, .epoch = kEpoch};
  const Status status = client.value()->run(plan).status();
  EXPECT_EQ(status.code(), Code::kUnavailable);
  EXPECT_TRUE(status.message().starts_with("no answer from the shard: ")) << status.message();
  EXPECT_EQ(client.value()->run(plan).status(), status);
  released_ = true;
  released_.notify_all();
}

TEST_F(StrangeShard, InfoThatCannotBeReadIsRefused) {
  engine_.spoil_info = [](pb::InfoResponse& info) {
    info.mutable_kv_groups(0)->set_kind(static_cast<pb::KvGroupKind>(44));
  };
  EXPECT_EQ(ShardedClient::connect(folder_.file("s"), {}).status().field(), "kv_groups.kind");
}

TEST_F(StrangeShard, AStockShardIsRefusedWithAReason) {
  stock_.version = "";
  const Status status = ShardedClient::connect(folder_.file("s"), {}).status();
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_EQ(
      status.message(),
      folder_.file("s") + " is served by another implementation; its shards are not supported yet");
}

TEST_F(StrangeShard, ASocketThatIsNotThereIsUnavailable) {
  stock_.url = "unix://" + folder_.file("other");
  EXPECT_EQ(ShardedClient::connect(folder_.file("s"), {}).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace coxswain::rpc
