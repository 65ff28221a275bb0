// The batch manager over the wire: an Engine that drives a shard through ShardedClient gives every
// request what it gives alone, and one clear end to each when the shard dies.

#include <algorithm>
#include <memory>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "rpc/sharded_client.h"
#include "rpc/testing/engine_over_shard.h"

namespace coxswain::rpc {
namespace {

using batch::testing::Recorder;

class EngineOverWire : public testing::EngineOverShard {
 protected:
  explicit EngineOverWire(const batch::testing::FakeRunnerOptions& options = runner_options())
      : EngineOverShard(options) {}
  static batch::testing::FakeRunnerOptions runner_options() {
    auto options = testing::fake_shard_options();
    options.checks_scheduling = true;
    return options;
  }
  void SetUp() override { start({.prefill_tokens_max = 16}); }

  std::shared_ptr<StepRunner> connect() override {
    return require(ShardedClient::connect(socket(), {}));
  }

  // Prompts that often begin alike.
  batch::GenerationRequest any_request() override {
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
};

TEST_F(EngineOverWire, EveryRequestGetsWhatItGetsAlone) {
  for (const auto& [request, sink] : submit_any(120)) {
    const Status status = sink->wait();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sink->ids(), expected_output(request).tokens);
  }
  // The figures follow the last answer.
  while (engine_->stats().blocks_leased != 0) std::this_thread::yield();
  EXPECT_GT(engine_->stats().cached_prompt_tokens, 0U);
}

// Between a router and a shard whose messages carry no more than the engine weighs a plan at.
class EngineOverNarrowWire : public EngineOverWire {
 protected:
  static constexpr std::size_t kNewBytes = 3'000;
  static constexpr std::size_t kRowsBytes = 1'200;
  void SetUp() override {
    start({.plan_new_bytes_max = kNewBytes, .plan_rows_bytes_max = kRowsBytes});
  }
  std::shared_ptr<StepRunner> connect() override {
    return require(
        ShardedClient::connect(socket(), {.message_bytes_max = kNewBytes + kRowsBytes + 200}));
  }
};

TEST_F(EngineOverNarrowWire, NoPlanIsTooLarge) {
  std::vector<batch::GenerationRequest> requests;
  for (int i = 0; i < 60; ++i) {
    batch::GenerationRequest request = any_request();
    request.prompt.resize(1 + pick(0, 9), 20);
    if (i % 2 == 0) request.cache_salt = std::string(1300, 's');
    if (i % 2 == 1) request.stopping.stop_sequences.assign(5, std::string(200, '#'));
    requests.push_back(std::move(request));
  }
  std::vector<std::shared_ptr<Recorder>> sinks;
  sinks.reserve(requests.size());
  runner_.hold();
  for (const auto& request : requests) sinks.push_back(submit(request));
  runner_.release();
  for (std::size_t i = 0; i < requests.size(); ++i) {
    const Status status = sinks[i]->wait();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sinks[i]->ids(), expected_output(requests[i]).tokens);
  }
}

// A runner that yields up to four tokens a row, some of them without their keys.
class EngineOverWireDrafts : public EngineOverWire {
 protected:
  EngineOverWireDrafts() : EngineOverWire(drafting()) {}
  static batch::testing::FakeRunnerOptions drafting() {
    auto options = runner_options();
    options.capabilities.draft_tokens_max = 3;
    options.forces_tokens = true;
    return options;
  }
};

TEST_F(EngineOverWireDrafts, EveryRequestGetsTheSame) {
  std::uint64_t n_tokens = 0;
  for (const auto& [request, sink] : submit_any(80)) {
    const Status status = sink->wait();
    EXPECT_TRUE(status.ok()) << status.message();
    EXPECT_EQ(sink->ids(), expected_output(request).tokens);
    n_tokens += sink->ids().size();
  }
  while (engine_->stats().blocks_leased != 0) std::this_thread::yield();
  EXPECT_EQ(engine_->stats().generated_tokens, n_tokens);
}

TEST_F(EngineOverWireDrafts, InFewerSteps) {
  batch::GenerationRequest request = any_request();
  request.stopping.max_new_tokens = 60;
  const auto sink = submit(request);
  EXPECT_TRUE(sink->wait().ok());
  EXPECT_EQ(sink->ids(), expected_output(request).tokens);
  EXPECT_LT(engine_->stats().steps, 50U);
}

TEST_F(EngineOverWire, ADeadShardEndsEveryRequestOnceAndANewOneServes) {
  runner_.hold();
  const std::vector<Submitted> all = submit_any(30);
  runner_.wait_for_submitted(1);
  replace_shard();
  std::size_t n_failed = 0;
  for (const auto& [request, sink] : all) {
    const std::vector<TokenId> whole = expected_output(request).tokens;
    if (const Status status = sink->wait(); status.ok()) {
      EXPECT_EQ(sink->ids(), whole);
    } else {
      ++n_failed;
      const std::vector<TokenId> sent = sink->ids();
      ASSERT_LE(sent.size(), whole.size());
      EXPECT_TRUE(std::equal(sent.begin(), sent.end(), whole.begin()));
    }
    EXPECT_TRUE(sink->done());
  }
  EXPECT_GT(n_failed, 0U);
  EXPECT_LT(n_failed, all.size());  // those that still waited are served by the new one
  const batch::GenerationRequest after = any_request();
  const auto sink = submit(after);
  EXPECT_TRUE(sink->wait().ok());
  EXPECT_EQ(sink->ids(), expected_output(after).tokens);
}

}  // namespace
}  // namespace coxswain::rpc
