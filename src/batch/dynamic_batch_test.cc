// Limits that follow the lengths of requests.

#include "batch/dynamic_batch.h"

#include <gtest/gtest.h>

#include "batch/testing/core_driver.h"

namespace coxswain::batch {
namespace {

using testing::CoreDriver;
using testing::FakeRunnerOptions;

TEST(DynamicBatch, TunesNothingUnlessItIsAskedTo) {
  DynamicBatch batch({});
  batch.note(100, 10);
  EXPECT_EQ(batch.batch_size_max(10'000), DynamicBatch::kNoLimit);
  EXPECT_EQ(batch.tokens_max(100), DynamicBatch::kNoLimit);
}

TEST(DynamicBatch, KnowsNothingBeforeTheFirstRequest) {
  const DynamicBatch batch({.tunes_batch_size = true, .tunes_tokens = true});
  EXPECT_EQ(batch.batch_size_max(10'000), DynamicBatch::kNoLimit);
  EXPECT_EQ(batch.tokens_max(100), DynamicBatch::kNoLimit);
}

TEST(DynamicBatch, TheTableGivesTheBatchSize) {
  DynamicBatch batch({.tunes_batch_size = true});
  batch.note(90, 10);
  EXPECT_EQ(batch.batch_size_max(14'300), 128U);  // of 143 such sequences
  EXPECT_EQ(batch.batch_size_max(14'400), 256U);
  EXPECT_EQ(batch.batch_size_max(166'300), 1536U);
  EXPECT_EQ(batch.batch_size_max(166'400), 1536U);  // beyond the table: multiples of 512
  EXPECT_EQ(batch.batch_size_max(250'000), 2048U);
  EXPECT_EQ(batch.batch_size_max(0), DynamicBatch::kNoLimit);
}

TEST(DynamicBatch, OnlyTheLastRequestsCount) {
  DynamicBatch batch({.tunes_batch_size = true, .window_requests = 2});
  batch.note(900, 100);
  batch.note(90, 10);
  EXPECT_EQ(batch.batch_size_max(100'000), 256U);  // 181 of 550 tokens
  batch.note(90, 10);
  EXPECT_EQ(batch.batch_size_max(100'000), 1024U);  // 1000 of 100
}

TEST(DynamicBatch, TokensFollowTheShareOfPrompts) {
  const DynamicBatchOptions options{.tunes_tokens = true,
                                    .window_requests = 1,
                                    .tokens_min = {.prompts = 50, .balanced = 40, .answers = 30}};
  DynamicBatch batch(options);
  batch.note(30, 10);
  EXPECT_EQ(batch.tokens_max(8), 50U);    // 8 * 3 + 8 = 32
  EXPECT_EQ(batch.tokens_max(20), 128U);  // 80, and the next power of two
  batch.note(20, 10);
  EXPECT_EQ(batch.tokens_max(8), 40U);
  batch.note(5, 10);
  EXPECT_EQ(batch.tokens_max(8), 30U);
}

// Room for 40 positions; after requests of 10 positions a table says 2 at once, after those of 20 one.
TEST(DynamicBatch, TheEngineFollows) {
  const auto most_at_once = [](std::uint32_t n_prompt) {
    FakeRunnerOptions fake;
    fake.n_blocks = {11};
    EngineOptions options;
    options.dynamic_batch = {
        .tunes_batch_size = true, .window_requests = 1, .batch_sizes = {{3, 1}, {5, 2}}};
    CoreDriver d(fake, options);
    d.runner->keep_plans();
    GenerationRequest r;
    r.id = RequestId{1};
    r.prompt.assign(n_prompt, 3);
    r.stopping.max_new_tokens = 2;
    r.stopping.ignore_eos = true;
    d.add(r);
    EXPECT_TRUE(d.run());
    const std::size_t n_before = d.runner->plans().size();
    for (std::uint64_t id = 2; id < 6; ++id) {
      r.id = RequestId{id};
      r.prompt.assign(4, static_cast<TokenId>(id));
      d.add(r);
    }
    EXPECT_TRUE(d.turn());
    return d.runner->plans().at(n_before).rows.size();
  };
  EXPECT_EQ(most_at_once(8), 2U);
  EXPECT_EQ(most_at_once(18), 1U);
}

// The same for the tokens of a step: 4 blocks of 4 after a request of as many new tokens as of its prompt.
TEST(DynamicBatch, TheEngineFollowsWithTheTokensOfAStep) {
  FakeRunnerOptions fake;
  fake.n_blocks = {101};
  EngineOptions options;
  options.batch_size_max = 4;
  options.dynamic_batch = {.tunes_tokens = true, .tokens_min = {16, 16, 16}};
  CoreDriver d(fake, options);
  d.runner->keep_plans();
  GenerationRequest r;
  r.id = RequestId{1};
  r.prompt.assign(5, 3);
  r.stopping.max_new_tokens = 5;
  r.stopping.ignore_eos = true;
  d.add(r);
  ASSERT_TRUE(d.run());
  const std::size_t n_before = d.runner->plans().size();
  r.id = RequestId{2};
  r.prompt.assign(40, 7);
  d.add(r);
  ASSERT_TRUE(d.turn());
  EXPECT_EQ(d.runner->plans().at(n_before).rows.at(0).n_tokens, 16U);
}

}  // namespace
}  // namespace coxswain::batch
