// The batch manager over the wire: an Engine that drives a shard through ShardedClient gives every
// request what it gives alone, and one clear end to each when the shard dies.

#include <condition_variable>
#include <future>
#include <memory>
#include <mutex>
#include <random>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "batch/engine.h"
#include "rpc/shard_service.h"
#include "rpc/sharded_client.h"
#include "rpc/testing/fake_runner.h"
#include "rpc/testing/temp_folder.h"

namespace coxswain::rpc {
namespace {

using testing::expected_token;
using testing::FakeCodec;
using testing::FakeRunner;

class Recorder final : public batch::TokenSink {
 public:
  void on_event(batch::TokenEvent event) override {
    std::lock_guard lock(mu_);
    for (const OutputToken& token : event.tokens) tokens_.push_back(token.id);
    if (event.final) {
      ++n_final_;
      status_ = event.status;
    }
    changed_.notify_all();
  }
  Status wait() {
    std::unique_lock lock(mu_);
    changed_.wait(lock, [&] { return n_final_ > 0; });
    return status_;
  }
  std::vector<TokenId> tokens() {
    std::lock_guard lock(mu_);
    return tokens_;
  }
  int n_final() {
    std::lock_guard lock(mu_);
    return n_final_;
  }

 private:
  std::mutex mu_;
  std::condition_variable changed_;
  std::vector<TokenId> tokens_;
  int n_final_ = 0;
  Status status_;
};

std::vector<TokenId> alone(std::vector<TokenId> history, std::uint32_t n) {
  const std::size_t n_prompt = history.size();
  for (std::uint32_t i = 0; i < n; ++i) history.push_back(expected_token(history));
  return {history.begin() + static_cast<std::ptrdiff_t>(n_prompt), history.end()};
}

class EngineOverWire : public ::testing::Test {
 protected:
  void SetUp() override {
    start_shard();
    batch::EngineOptions options;
    options.batch_size_max = 12;
    options.prefill_tokens_max = 16;
    options.check_invariants = true;
    engine_ = batch::Engine::create(connect(), options, log_, nullptr);
  }

  void start_shard() {
    ShardServiceOptions options;
    options.socket_path = folder_.file("s");
    auto service = ShardService::start(runner_, codec_, options, log_);
    ASSERT_TRUE(service.ok()) << service.status().message();
    service_ = std::move(service).value();
  }

  std::shared_ptr<StepRunner> connect() {
    auto client = ShardedClient::connect(folder_.file("s"), {});
    EXPECT_TRUE(client.ok()) << client.status().message();
    return client.ok() ? std::shared_ptr<StepRunner>(std::move(client).value()) : nullptr;
  }

  // Prompts that often begin alike.
  batch::GenerationRequest any_request() {
    batch::GenerationRequest request;
    request.id = RequestId{++n_requests_};
    const auto n_shared = pick(0, 3) * 8;
    for (std::uint32_t i = 0; i < n_shared; ++i)
      request.prompt.push_back(static_cast<TokenId>(20 + i));
    for (std::uint32_t i = pick(1, 20); i > 0; --i) {
      request.prompt.push_back(static_cast<TokenId>(pick(10, 250)));
    }
    request.stopping.max_new_tokens = pick(1, 60);
    return request;
  }

  std::uint32_t pick(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }

  testing::TempFolder folder_;
  telemetry::Logger log_{
      {.level = telemetry::Level::kError, .target = "rpc_test", .file_descriptor = -1}};
  std::mt19937 random_{7};
  std::uint64_t n_requests_ = 0;
  FakeRunner runner_{FakeRunner::default_info()};
  FakeCodec codec_;
  std::unique_ptr<ShardService> service_;
  std::unique_ptr<batch::Engine> engine_;
};

TEST_F(EngineOverWire, EveryRequestGetsWhatItGetsAlone) {
  std::vector<std::pair<batch::GenerationRequest, std::shared_ptr<Recorder>>> all;
  for (int i = 0; i < 120; ++i) {
    all.emplace_back(any_request(), std::make_shared<Recorder>());
    const Status status = engine_->submit(all.back().first, all.back().second);
    ASSERT_TRUE(status.ok()) << status.message();
  }
  for (auto& [request, sink] : all) {
    const Status status = sink->wait();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sink->tokens(), alone(request.prompt, request.stopping.max_new_tokens));
  }
  // The figures follow the last answer.
  while (engine_->stats().blocks_leased != 0) std::this_thread::yield();
  EXPECT_GT(engine_->stats().cached_prompt_tokens, 0U);
}

TEST_F(EngineOverWire, ADeadShardEndsEveryRequestOnceAndANewOneServes) {
  std::vector<std::pair<batch::GenerationRequest, std::shared_ptr<Recorder>>> all;
  runner_.hold();
  for (int i = 0; i < 30; ++i) {
    all.emplace_back(any_request(), std::make_shared<Recorder>());
    ASSERT_TRUE(engine_->submit(all.back().first, all.back().second).ok());
  }
  runner_.wait_for_submitted(1);
  auto stopped = std::async(std::launch::async, [&] { service_.reset(); });
  while (engine_->stats().runner_up) std::this_thread::yield();
  runner_.release();
  stopped.get();
  start_shard();
  engine_->replace_runner(connect());
  std::size_t n_failed = 0;
  for (auto& [request, sink] : all) {
    const std::vector<TokenId> whole = alone(request.prompt, request.stopping.max_new_tokens);
    if (const Status status = sink->wait(); status.ok()) {
      EXPECT_EQ(sink->tokens(), whole);
    } else {
      ++n_failed;
      const std::vector<TokenId> sent = sink->tokens();
      ASSERT_LE(sent.size(), whole.size());
      EXPECT_TRUE(std::equal(sent.begin(), sent.end(), whole.begin()));
    }
    EXPECT_EQ(sink->n_final(), 1);
  }
  EXPECT_GT(n_failed, 0U);
  EXPECT_LT(n_failed, all.size());  // those that still waited are served by the new one
  const batch::GenerationRequest after = any_request();
  auto sink = std::make_shared<Recorder>();
  const Status accepted = engine_->submit(after, sink);
  ASSERT_TRUE(accepted.ok()) << accepted.message();
  EXPECT_TRUE(sink->wait().ok());
  EXPECT_EQ(sink->tokens(), alone(after.prompt, after.stopping.max_new_tokens));
}

}  // namespace
}  // namespace coxswain::rpc
