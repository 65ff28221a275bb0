// Peers that break the rules of the Engine stream, on both sides of it.

#include "rpc/engine_service.h"

#include <atomic>
#include <functional>
#include <memory>
#include <poll.h>
#include <string>
#include <thread>
#include <unistd.h>
#include <utility>
#include <vector>

#include <grpcpp/grpcpp.h>
#include <grpcpp/server_posix.h>
#include <gtest/gtest.h>
#include <proto/engine_v1.grpc.pb.h>
#include <proto/generate_v3.grpc.pb.h>
#include <sys/socket.h>

#include "base/testing/temp_folder.h"
#include "rpc/convert.h"
#include "rpc/runner_gate.h"
#include "rpc/sharded_client.h"
#include "rpc/socket_listener.h"
#include "rpc/step_socket.h"
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

// The same over a socket of its own.
class RawSocket : public testing::ServedShard {
 protected:
  static constexpr std::size_t kBytesMax = std::size_t{1} << 20;

  void SetUp() override { serve(runner_, {.message_bytes_max = kBytesMax}); }

  Descriptor connect() const {
    auto fd = connect_unix(socket(), std::chrono::milliseconds(1000));
    EXPECT_TRUE(fd.ok()) << fd.status().message();
    EXPECT_EQ(::send(fd->get(), &kStepsFirst, 1, 0), 1);
    return std::move(fd).value();
  }
  StepSocket open() const { return {connect(), kBytesMax}; }

  static bool send(StepSocket& to, const pb::StepsRequest& request) {
    to.put(request);
    return to.flush() && !to.has_unsent();
  }
  // False: the stream has ended.
  static bool read(StepSocket& from, pb::StepsResponse& response) {
    StepSocket::Taken taken = from.take(response);
    while (taken == StepSocket::Taken::kNone) {
      from.wait(StepSocket::For::kReading, std::chrono::milliseconds(-1));
      if (!from.fill()) return false;
      taken = from.take(response);
    }
    return taken == StepSocket::Taken::kMessage;
  }
  // A stream that was cut has given the runner back when the next one is answered.
  void expect_next_stream_is_served() {
    StepSocket next = open();
    pb::StepsResponse response;
    ASSERT_TRUE(send(next, request_of(50)));
    ASSERT_TRUE(read(next, response));
    EXPECT_EQ(response.result().step(), 50U);
    EXPECT_TRUE(runner_.live().empty());
  }
};

TEST_F(RawSocket, AThirdUnansweredPlanCutsTheStream) {
  runner_.hold();
  StepSocket stream = open();
  for (std::uint64_t step = 1; step <= 3; ++step) ASSERT_TRUE(send(stream, request_of(step)));
  pb::StepsResponse response;
  EXPECT_FALSE(read(stream, response));  // cut while the first plan still runs
  runner_.release();
  expect_next_stream_is_served();
}

TEST_F(RawSocket, AMessageThatCannotBeReadFailsItsStepOnly) {
  StepSocket stream = open();
  pb::StepsRequest bad = request_of(1);
  bad.mutable_plan()->add_rows()->set_emit(static_cast<pb::Emit>(77));
  ASSERT_TRUE(send(stream, bad));
  pb::StepsResponse response;
  ASSERT_TRUE(read(stream, response));
  EXPECT_EQ(response.failure().status().field(), "rows.emit");
  ASSERT_TRUE(send(stream, request_of(2)));
  ASSERT_TRUE(read(stream, response));
  EXPECT_EQ(response.result().step(), 2U);
}

TEST_F(RawSocket, BytesThatAreNoMessageEndTheStreamAndDropItsSequences) {
  const std::string too_long("\xFF\xFF\xFF\x7F", 4);
  const std::string no_message("\x02\0\0\0\xFF\xFF", 6);
  const std::string cut_off("\x10\0\0\0ab", 6);
  for (const std::string& bytes : {too_long, no_message, cut_off}) {
    const Descriptor fd = connect();
    StepSocket stream(Descriptor(::dup(fd.get())), kBytesMax);
    pb::StepsRequest request = request_of(1);
    pb::SequenceSpec& spec = *request.mutable_plan()->add_new_sequences();
    spec.set_id(9);
    spec.add_prompt(20);
    ASSERT_TRUE(send(stream, request));
    pb::StepsResponse response;
    ASSERT_TRUE(read(stream, response));
    EXPECT_EQ(runner_.live().size(), 1U);
    ASSERT_EQ(::send(fd.get(), bytes.data(), bytes.size(), 0), static_cast<ssize_t>(bytes.size()));
    if (bytes == cut_off) stream.shut_down();
    EXPECT_FALSE(read(stream, response));
    expect_next_stream_is_served();
  }
}

TEST_F(RawSocket, TheNewestStreamHasTheRunnerWhateverCarriesIt) {
  const auto stub = pb::Engine::NewStub(
      grpc::CreateChannel("unix:" + socket(), grpc::InsecureChannelCredentials()));
  pb::StepsResponse response;
  StepSocket first = open();
  ASSERT_TRUE(send(first, request_of(1)));
  ASSERT_TRUE(read(first, response));
  grpc::ClientContext context;
  const auto second = stub->Steps(&context);
  ASSERT_TRUE(second->Write(request_of(2)));
  EXPECT_FALSE(read(first, response));
  ASSERT_TRUE(second->Read(&response));
  EXPECT_EQ(response.result().step(), 2U);
  expect_next_stream_is_served();
  EXPECT_FALSE(second->Read(&response));
  EXPECT_EQ(second->Finish().error_code(), grpc::StatusCode::CANCELLED);
}

TEST_F(RawSocket, AConnectionOfAnotherKindIsClosed) {
  auto fd = connect_unix(socket(), std::chrono::milliseconds(1000));
  ASSERT_TRUE(fd.ok());
  const std::string text = "x is neither HTTP/2 nor a stream of plans\n";
  ASSERT_EQ(::send(fd->get(), text.data(), text.size(), 0), static_cast<ssize_t>(text.size()));
  char byte = 0;
  pollfd watched{.fd = fd->get(), .events = POLLIN, .revents = 0};
  while (::poll(&watched, 1, -1) == 1 && ::recv(fd->get(), &byte, 1, 0) > 0) {
  }
  expect_next_stream_is_served();
}

TEST_F(RawSocket, AServiceThatStopsCutsWhatIsOpen) {
  StepSocket stream = open();
  pb::StepsResponse response;
  ASSERT_TRUE(send(stream, request_of(1)));
  ASSERT_TRUE(read(stream, response));
  service_.reset();
  EXPECT_FALSE(read(stream, response));
}

// A shard whose answers the test chooses, with its stream over gRPC or, true, over a socket of its own.
class StrangeShard : public ::testing::TestWithParam<bool> {
 protected:
  class StrangeEngine final : public pb::Engine::Service {
   public:
    grpc::Status Info(grpc::ServerContext*,
                      const pb::InfoRequest*,
                      pb::InfoResponse* response) override {
      to_proto(FakeRunner(testing::fake_shard_options()).info(), *response);
      response->set_step_sockets(step_sockets);
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
    bool step_sockets = false;
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
    engine_.step_sockets = GetParam();
    grpc::ServerBuilder builder;
    builder.RegisterService(&engine_);
    builder.RegisterService(&stock_);
    server_ = builder.BuildAndStart();
    ASSERT_TRUE(server_);
    auto listener = SocketListener::start(
        {.path = folder_.file("s")},
        [this](Descriptor fd, char first) {
          if (first == kStepsFirst)
            streams_.emplace_back(
                [this, fd = std::move(fd)]() mutable { answer_all(std::move(fd)); });
          else
            grpc::AddInsecureChannelFromFd(server_.get(), fd.release());
        },
        log_);
    ASSERT_TRUE(listener.ok()) << listener.status().message();
    listener_ = std::move(listener).value();
  }
  void TearDown() override {
    listener_.reset();
    for (std::thread& stream : streams_) stream.join();
    server_->Shutdown(std::chrono::system_clock::now());
  }

  void answer_all(Descriptor fd) {
    char first = 0;
    ASSERT_EQ(::recv(fd.get(), &first, 1, 0), 1);
    StepSocket socket(std::move(fd), std::size_t{1} << 20);
    pb::StepsRequest request;
    do {
      while (socket.take(request) == StepSocket::Taken::kMessage) {
        socket.put(engine_.answer(request));
        if (!socket.flush()) return;
      }
      socket.wait(StepSocket::For::kReading, std::chrono::milliseconds(-1));
    } while (socket.fill());
  }

  base::TempFolder folder_;
  std::atomic<bool> released_{
      false};  // lets a step go on; read by the server's threads until the end
  StrangeEngine engine_;
  StockInfo stock_;
  telemetry::Logger log_{{.level = telemetry::Level::kError, .target = "rpc_test"}};
  std::unique_ptr<grpc::Server> server_;
  std::vector<std::thread> streams_;  // started by the listener's thread
  std::unique_ptr<SocketListener> listener_;
};

INSTANTIATE_TEST_SUITE_P(Carriers, StrangeShard, ::testing::Bool(), [](const auto& test) {
  return std::string(test.param ? "Socket" : "Grpc");
});

TEST_P(StrangeShard, AnswersThatNobodyAskedForMakeTheClientUnavailable) {
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
      }),
      std::function<pb::StepsResponse(const pb::StepsRequest&)>([](const auto& request) {
        pb::StepsResponse response;  // rows ahead of a result, for which nobody has asked
        response.mutable_early()->set_step(request.plan().step());
        response.mutable_early()->set_epoch(kEpoch);
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

TEST_P(StrangeShard, ASlowStepIsWaitedForWhileTheShardLives) {
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

TEST_P(StrangeShard, AFrozenShardIsGivenUp) {
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

TEST_P(StrangeShard, InfoThatCannotBeReadIsRefused) {
  engine_.spoil_info = [](pb::InfoResponse& info) {
    info.mutable_kv_groups(0)->set_kind(static_cast<pb::KvGroupKind>(44));
  };
  EXPECT_EQ(ShardedClient::connect(folder_.file("s"), {}).status().field(), "kv_groups.kind");
}

TEST_P(StrangeShard, AStockShardIsRefusedWithAReason) {
  stock_.version = "";
  const Status status = ShardedClient::connect(folder_.file("s"), {}).status();
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_EQ(
      status.message(),
      folder_.file("s") + " is served by another implementation; its shards are not supported yet");
}

TEST_P(StrangeShard, ASocketThatIsNotThereIsUnavailable) {
  stock_.url = "unix://" + folder_.file("other");
  EXPECT_EQ(ShardedClient::connect(folder_.file("s"), {}).status().code(), Code::kUnavailable);
}

}  // namespace
}  // namespace coxswain::rpc
