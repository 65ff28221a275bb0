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

class EngineOverWire : public testing::EngineOverShard {
 protected:
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
    EXPECT_EQ(sink->ids(), expected_output(request));
  }
  // The figures follow the last answer.
  while (engine_->stats().blocks_leased != 0) std::this_thread::yield();
  EXPECT_GT(engine_->stats().cached_prompt_tokens, 0U);
}

TEST_F(EngineOverWire, ADeadShardEndsEveryRequestOnceAndANewOneServes) {
  runner_.hold();
  const std::vector<Submitted> all = submit_any(30);
  runner_.wait_for_submitted(1);
  replace_shard();
  std::size_t n_failed = 0;
  for (const auto& [request, sink] : all) {
    const std::vector<TokenId> whole = expected_output(request);
    if (const Status status = sink->wait(); status.ok()) {
      EXPECT_EQ(sink->ids(), whole);
    } else {
      ++n_failed;
      const std::vector<TokenId> sent = sink->ids();
      ASSERT_LE(sent.size(), whole.size());
      EXPECT_TRUE(std::equal(sent.begin(), sent.end(), whole.begin()));
    }
    EXPECT_EQ(sink->n_final(), 1);
  }
  EXPECT_GT(n_failed, 0U);
  EXPECT_LT(n_failed, all.size());  // those that still waited are served by the new one
  const batch::GenerationRequest after = any_request();
  const auto sink = submit(after);
  EXPECT_TRUE(sink->wait().ok());
  EXPECT_EQ(sink->ids(), expected_output(after));
}

}  // namespace
}  // namespace coxswain::rpc
