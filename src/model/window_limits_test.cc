#include "model/window_limits.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "model/single_sequence.h"
#include "model/test_models.h"

namespace coxswain::model {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

ArchSpec layers_with(const std::vector<std::uint32_t>& windows) {
  ArchSpec out;
  out.max_positions = 100;
  out.layers.resize(windows.size());
  for (std::size_t i = 0; i < windows.size(); ++i) out.layers[i].attention().window = windows[i];
  return out;
}

std::vector<std::uint32_t> windows_of(const ArchSpec& arch) {
  std::vector<std::uint32_t> out;
  out.reserve(arch.layers.size());
  for (const LayerSpec& layer : arch.layers) out.push_back(layer.attention().window);
  return out;
}

std::vector<std::uint32_t> sinks_of(const ArchSpec& arch) {
  std::vector<std::uint32_t> out;
  out.reserve(arch.layers.size());
  for (const LayerSpec& layer : arch.layers) out.push_back(layer.attention().sink_tokens);
  return out;
}

TEST(WindowLimits, GoRoundTheLayersAndOnlyNarrow) {
  ArchSpec arch = layers_with({0, 0, 30, 10, 0});
  ASSERT_TRUE(apply({.max_attention_window = {20, 0}}, arch).ok());
  EXPECT_THAT(windows_of(arch), ElementsAre(20, 0, 20, 10, 20));
  EXPECT_THAT(sinks_of(arch), ElementsAre(0, 0, 0, 0, 0));
}

TEST(WindowLimits, AWindowOfAllPositionsIsNone) {
  ArchSpec arch = layers_with({0, 0, 0});
  ASSERT_TRUE(apply({.max_attention_window = {100, 4000, 99}}, arch).ok());
  EXPECT_THAT(windows_of(arch), ElementsAre(0, 0, 99));
}

TEST(WindowLimits, SinkTokensAreOfLayersWithAWindow) {
  ArchSpec arch = layers_with({0, 30});
  ASSERT_TRUE(apply({.sink_token_length = 4}, arch).ok());
  EXPECT_THAT(sinks_of(arch), ElementsAre(0, 4));
}

std::string refusal(const WindowLimits& limits, ArchSpec arch) {
  const Status status = apply(limits, arch);
  EXPECT_EQ(status.code(), Code::kInvalidArgument);
  return std::string(status.field()) + ": " + std::string(status.message());
}

TEST(WindowLimits, WhatMakesNoSenseIsRefusedByName) {
  EXPECT_THAT(refusal({.max_attention_window = {1, 2, 3}}, layers_with({0, 0})),
              HasSubstr("max_attention_window: `max_attention_window` has a window for each layer "
                        "at most, and this model has 2 layers. Given: 3"));
  EXPECT_THAT(refusal({.max_attention_window = {1U << 25U}}, layers_with({0})),
              HasSubstr("must be at most 16777216. Given: 33554432"));
  EXPECT_THAT(refusal({.sink_token_length = 1U << 25U}, layers_with({5})),
              HasSubstr("sink_token_length: `sink_token_length` must be at most 16777216"));
  EXPECT_THAT(refusal({.sink_token_length = 4}, layers_with({0, 0})),
              HasSubstr("where no layer of the model has a window. Given: 4; set"));
  ArchSpec alibi = layers_with({0});
  alibi.layers[0].attention().alibi_slopes = {0.5F};
  EXPECT_THAT(refusal({.max_attention_window = {8}, .sink_token_length = 4}, alibi),
              HasSubstr("ALiBi"));
}

// The logits of a sequence of 40 tokens under a llama of three layers.
std::vector<float> logits_with(const WindowLimits& limits) {
  base::TempFolder folder;
  kernels::ExecContext exec(1);
  LoadOptions how;
  how.kernels = *kernels::kernel_table(kernels::Isa::kScalar);
  how.windows = limits;
  const auto model = load_small(folder, small_config(R"({"model_type":"llama"})"), how);
  SingleSequenceOptions options;
  options.tokens_max = options.chunk_tokens_max = options.logit_rows_max = 64;
  auto sequence = SingleSequence::create(*model, exec, options);
  EXPECT_TRUE(sequence.ok());
  std::vector<TokenId> ids;
  ids.reserve(40);
  for (TokenId i = 0; i < 40; ++i) ids.push_back(3 + i * 7 % 50);
  sequence->restart(64);
  EXPECT_TRUE(sequence->feed(ids).ok());
  const auto logits = sequence->logits(ids.size());
  EXPECT_TRUE(logits.ok());
  return {logits->begin(), logits->end()};
}

// Bit for bit what the model gives without limits, as long as these hide nothing.
TEST(WindowLimits, WhatHidesNothingChangesNothing) {
  const std::vector<float> plain = logits_with({});
  EXPECT_EQ(logits_with({.max_attention_window = {40}}), plain);
  EXPECT_EQ(logits_with({.max_attention_window = {5}, .sink_token_length = 40}), plain);
  EXPECT_NE(logits_with({.max_attention_window = {39}}), plain);
  EXPECT_NE(logits_with({.max_attention_window = {0, 5}, .sink_token_length = 3}), plain);
  EXPECT_NE(logits_with({.max_attention_window = {5}, .sink_token_length = 3}),
            logits_with({.max_attention_window = {5}}));
}

}  // namespace
}  // namespace coxswain::model
