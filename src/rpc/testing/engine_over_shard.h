#pragma once
// EngineOverShard: a test fixture with a batch engine that drives a ServedShard, all in this
// process but for the socket. What kind of client is between them is the test's choice.
//
// Thread rule: the fixture belongs to the test's thread.

#include <future>
#include <memory>
#include <optional>
#include <random>
#include <string>
#include <thread>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/engine.h"
#include "batch/testing/recorder.h"
#include "rpc/testing/served_shard.h"

namespace coxswain::rpc::testing {

using batch::testing::Recorder;

class EngineOverShard : public ServedShard {
 protected:
  using ServedShard::ServedShard;
  using Submitted = std::pair<batch::GenerationRequest, std::shared_ptr<Recorder>>;

  // The client to be tested, connected to socket(); a null pointer and a failed test otherwise.
  virtual std::shared_ptr<StepRunner> connect() = 0;
  virtual batch::GenerationRequest any_request() = 0;

  void TearDown() override {
    engine_.reset();
    ServedShard::TearDown();
  }

  void start(batch::EngineOptions options) {
    serve(runner_);
    options.batch_size_max = 12;
    options.check_invariants = true;
    engine_ = batch::Engine::create(connect(), options);
  }

  template <typename Client>
  static std::shared_ptr<StepRunner> require(Result<std::unique_ptr<Client>> client) {
    EXPECT_TRUE(client.ok()) << client.status().message();
    return client.ok() ? std::shared_ptr<StepRunner>(std::move(client).value()) : nullptr;
  }

  std::shared_ptr<Recorder> submit(const batch::GenerationRequest& request) {
    auto sink = std::make_shared<Recorder>();
    const Status status = engine_->submit(request, sink);
    EXPECT_TRUE(status.ok()) << status.message();
    return sink;
  }

  std::vector<Submitted> submit_any(int n) {
    std::vector<Submitted> out;
    for (int i = 0; i < n; ++i) {
      const batch::GenerationRequest request = any_request();
      out.emplace_back(request, submit(request));
    }
    return out;
  }

  // Ends the shard while it holds a step back, and starts the next.
  // REQUIRES: runner_.hold(), and there are requests.
  void replace_shard() {
    auto stopped = std::async(std::launch::async, [&] { service_.reset(); });
    while (engine_->stats().runner_up) std::this_thread::yield();
    runner_.release();
    stopped.get();
    runner_.restart();
    serve(runner_);
    engine_->replace_runner(connect());
  }

  static batch::testing::ExpectedOutput expected_output(const batch::GenerationRequest& request) {
    return batch::testing::expected_output(fake_shard_options(), request);
  }

  std::uint32_t pick(std::uint32_t low, std::uint32_t high) {
    return std::uniform_int_distribution<std::uint32_t>(low, high)(random_);
  }

  std::mt19937 random_{7};
  std::uint64_t n_requests_ = 0;
  std::unique_ptr<batch::Engine> engine_;
};

}  // namespace coxswain::rpc::testing
