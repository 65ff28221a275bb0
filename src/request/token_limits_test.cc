#include "request/token_limits.h"

#include <gtest/gtest.h>

namespace coxswain::request {
namespace {

// 64 usable blocks of 16 tokens in a full group beside a small window.
RunnerInfo runner() {
  RunnerInfo out;
  out.max_position_embeddings = 512;
  out.capabilities.plans_chunks = true;
  KvGroup full;
  full.n_blocks = 65;
  KvGroup window;
  window.kind = KvGroup::Kind::kWindow;
  window.n_blocks = 5;
  out.kv_groups = {full, window};
  return out;
}

TEST(TokenLimits, DefaultsAreTheMostThatFits) {
  const auto out = resolve_limits({}, runner());
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->batch_total_tokens_max, 1024u);
  EXPECT_EQ(out->total_tokens_max, 512u);
  EXPECT_EQ(out->input_tokens_max, 511u);
  EXPECT_EQ(out->batch_prefill_tokens_max, 1024u);
}

TEST(TokenLimits, ASmallCacheBoundsTheTotal) {
  RunnerInfo info = runner();
  info.kv_groups[0].n_blocks = 9;
  const auto out = resolve_limits({}, info);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->total_tokens_max, 128u);
  EXPECT_EQ(out->batch_prefill_tokens_max, 128u);
}

TEST(TokenLimits, ABudgetForPromptsIsLoweredIfTheyAreTakenInChunks) {
  RunnerInfo info = runner();
  info.kv_groups[0].n_blocks = 9;
  TokenLimitOptions options;
  options.batch_prefill_tokens_max = 256;
  options.batch_prefill_given = true;
  const auto out = resolve_limits(options, info);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->batch_prefill_tokens_max, 128u);
}

// A sequence of such a model leaves blocks behind: its length is not bounded by the blocks that there are.
TEST(TokenLimits, WhereAllLayersHaveWindowsRequestsMayBeLongerThanTheBlocks) {
  RunnerInfo info = runner();
  info.max_position_embeddings = 4096;
  info.kv_groups.erase(info.kv_groups.begin());
  info.kv_groups[0].window = 100;
  info.kv_groups[0].n_blocks = 41;
  TokenLimitOptions options;
  options.batch_prefill_tokens_max = 32;
  // Each needs (100 + 2 * 32) / 16 blocks and one more: three of 4096 tokens at once.
  auto out = resolve_limits(options, info);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(out->batch_total_tokens_max, 3u * 4096);
  EXPECT_EQ(out->total_tokens_max, 4096u);
  // Short ones leave nothing behind: 40 blocks of 16.
  options.total_tokens_max = 100;
  EXPECT_EQ(resolve_limits(options, info)->batch_total_tokens_max, 640u);
  // No room for one window: what the blocks hold is all.
  options.total_tokens_max.reset();
  info.kv_groups[0].n_blocks = 11;
  EXPECT_EQ(resolve_limits(options, info)->total_tokens_max, 160u);
  options.total_tokens_max = 161;
  EXPECT_EQ(resolve_limits(options, info).status().message(),
            "`max_total_tokens` must be <= `max_batch_total_tokens`. Given: 161 and 160");
}

TEST(TokenLimits, WhatTheShardSaysBoundsTheDefaults) {
  RunnerInfo info = runner();
  info.max_total_tokens = 200;
  info.max_input_tokens = 100;
  const auto out = resolve_limits({}, info);
  EXPECT_EQ(out->total_tokens_max, 200u);
  EXPECT_EQ(out->input_tokens_max, 100u);
}

TEST(TokenLimits, TheOptionIsAnUpperBoundOfTheBatch) {
  TokenLimitOptions options;
  options.batch_total_tokens_max = 600;
  EXPECT_EQ(resolve_limits(options, runner())->batch_total_tokens_max, 600u);
  options.batch_total_tokens_max = 6000;
  EXPECT_EQ(resolve_limits(options, runner())->batch_total_tokens_max, 1024u);
}

TEST(TokenLimits, ContradictionsAreRefused) {
  auto message = [](const TokenLimitOptions& options, const RunnerInfo& info) {
    return resolve_limits(options, info).status().message();
  };
  TokenLimitOptions options;
  options.input_tokens_max = 100;
  options.total_tokens_max = 100;
  EXPECT_EQ(message(options, runner()),
            "`max_input_tokens` must be < `max_total_tokens`. Given: 100 and 100");
  options = {};
  options.total_tokens_max = 1;
  EXPECT_EQ(message(options, runner()),
            "`max_total_tokens` must be >= 2, a token of a prompt and one of its answer. Given: 1");
  options.input_tokens_max = 300;
  options.total_tokens_max = 400;
  options.batch_prefill_tokens_max = 200;
  options.batch_prefill_given = true;
  RunnerInfo whole_prompts = runner();
  whole_prompts.capabilities.plans_chunks = false;
  EXPECT_EQ(message(options, whole_prompts),
            "`max_batch_prefill_tokens` must be >= `max_input_tokens`. Given: 200 and 300");
  EXPECT_EQ(message(options, runner()), "");
  options.batch_prefill_tokens_max = 2000;
  EXPECT_EQ(message(options, whole_prompts),
            "`max_batch_prefill_tokens` must be <= `max_batch_total_tokens`. Given: 2000 and 1024");
  options.batch_prefill_given = false;
  options.batch_total_tokens_max = 350;
  EXPECT_EQ(message(options, runner()),
            "`max_total_tokens` must be <= `max_batch_total_tokens`. Given: 400 and 350");
  options.batch_total_tokens_max.reset();
  options.total_tokens_max = 600;
  EXPECT_EQ(message(options, runner()),
            "`max_total_tokens` must be <= 512, the positions of the model. Given: 600");
}

TEST(TokenLimits, WherePromptsAreComputedWholeTheyFitIntoOneStep) {
  RunnerInfo info = runner();
  info.capabilities.plans_chunks = false;
  TokenLimitOptions options;
  options.batch_prefill_tokens_max = 200;
  EXPECT_EQ(resolve_limits(options, info)->input_tokens_max, 200U);
  options.batch_prefill_tokens_max = 4096;
  EXPECT_EQ(resolve_limits(options, info)->input_tokens_max,
            resolve_limits(options, info)->total_tokens_max - 1);
}

}  // namespace
}  // namespace coxswain::request
