// Requests handed over between engines over real models: tokens, log-probabilities and logits are those of the
// undisturbed request, bit for bit, in every family, behind windows and sink tokens, too.

#include "batch/handover.h"

#include <future>
#include <initializer_list>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "batch/engine_core.h"
#include "batch/first_layers.h"
#include "batch/testing/recorder.h"
#include "model/test_models.h"
#include "runner/local_runner.h"

namespace coxswain::runner {
namespace {

using batch::GenerationRequest;
using batch::HandoverResult;
using batch::testing::Recorder;

std::unique_ptr<batch::Engine> start(const std::string& dir,
                                     std::size_t n_threads,
                                     const model::WindowLimits& windows,
                                     std::optional<tensor::DType> kv_dtype,
                                     std::uint64_t attachment_bytes_max = std::uint64_t{1} << 20) {
  RunnerOptions options;
  options.model_dir = dir;
  options.without_text = true;
  options.dtype = tensor::DType::kF32;
  options.kv_dtype = kv_dtype;
  options.block_tokens = 4;
  options.n_threads = n_threads;
  options.kv_blocks = 200;
  options.max_total_tokens = 100;
  options.max_batch_prefill_tokens = 64;
  options.max_batch_size = 8;
  options.output_bytes_max = std::uint64_t{16} << 20;
  options.attachment_bytes_max = attachment_bytes_max;
  options.windows = windows;
  auto runner = LocalRunner::create(options);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  if (!runner.ok()) return nullptr;
  batch::EngineOptions engine;
  engine.check_invariants = true;
  engine.batch_size_max = 8;
  engine.prefill_tokens_max = 24;
  return batch::Engine::create(std::move(runner).value(), engine);
}

std::vector<GenerationRequest> requests() {
  GenerationRequest greedy;
  for (TokenId i = 0; i < 41; ++i) greedy.prompt.push_back(3 + i * 11 % 58);
  greedy.stopping = {.max_new_tokens = 12, .ignore_eos = true};
  std::vector<GenerationRequest> out(5, greedy);
  out[1].sampling.do_sample = true;
  out[1].sampling.seed = 17;
  out[1].sampling.temperature = 1.3F;
  out[2].sampling = out[1].sampling;
  out[2].sampling.repetition_penalty = 1.2F;
  out[2].sampling.n_top_tokens = 3;
  out[2].prompt_logprobs = true;
  out[3].sampling.no_repeat_ngram_size = 2;
  out[4].outputs = {.context_logits = true, .generation_logits = true};
  for (std::size_t i = 0; i < out.size(); ++i) out[i].cache_salt = std::to_string(i);
  return out;
}

std::shared_ptr<Recorder> run(batch::Engine& engine, const GenerationRequest& request) {
  auto sink = std::make_shared<Recorder>(request.progress);
  const Status status = engine.submit(request, sink);
  EXPECT_TRUE(status.ok()) << status.message();
  if (status.ok()) sink->wait_final();
  EXPECT_TRUE(sink->final_event().status.ok()) << sink->final_event().status.message();
  return sink;
}

void expect_same(const Recorder& whole, const Recorder& first, const Recorder& rest) {
  std::vector<OutputToken> tokens = first.tokens();
  const std::vector<OutputToken> more = rest.tokens();
  tokens.insert(tokens.end(), more.begin(), more.end());
  EXPECT_EQ(tokens, whole.tokens());
  EXPECT_EQ(rest.final_event().finish, whole.final_event().finish);
  EXPECT_EQ(rest.final_event().cumulative_logprob, whole.final_event().cumulative_logprob);
  SequenceOutputs outputs = first.outputs();
  batch::append_outputs(rest.outputs(), outputs);
  EXPECT_EQ(outputs, whole.outputs());
  EXPECT_EQ(first.prompt().size(), whole.prompt().size());
  for (std::size_t i = 1; i < whole.prompt().size(); ++i)
    EXPECT_EQ(first.prompt()[i], whole.prompt()[i]);
}

void expect_handed_over(const std::string& dir,
                        const model::WindowLimits& windows,
                        std::optional<tensor::DType> kv_dtype = {}) {
  const auto from = start(dir, 1, windows, kv_dtype);
  const auto to = start(dir, 2, windows, kv_dtype);
  ASSERT_TRUE(from != nullptr && to != nullptr);
  batch::HandoverService service;
  std::uint64_t id = 0;
  for (GenerationRequest request : requests()) {
    request.id = RequestId{++id};
    const auto whole = run(*from, request);
    request.cache_salt += " once more";
    GenerationRequest context = request;
    context.context_only = std::chrono::seconds(30);
    const auto first = run(*from, context);
    ASSERT_NE(first->final_event().parked, nullptr);
    request.progress = {.ids = first->ids(),
                        .cumulative_logprob = first->final_event().cumulative_logprob};
    const auto rest = std::make_shared<Recorder>(request.progress);
    std::promise<HandoverResult> promise;
    service.start({.from = from.get(),
                   .to = to.get(),
                   .parked = first->final_event().parked,
                   .request = request,
                   .sink = rest},
                  [&](HandoverResult result) { promise.set_value(std::move(result)); });
    const HandoverResult result = promise.get_future().get();
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_TRUE(result.moved) << result.why_not.message();
    rest->wait_final();
    EXPECT_EQ(rest->final_event().n_cached_prompt_tokens, 40U);
    expect_same(*whole, *first, *rest);
  }
  for (const auto& engine : {from.get(), to.get()}) {
    EXPECT_TRUE(engine->drain(std::chrono::seconds(10)));
    EXPECT_EQ(engine->stats().blocks_retiring, 0U);
  }
}

std::shared_ptr<const batch::ParkedContext> first_layers(batch::Engine& engine,
                                                         const GenerationRequest& request,
                                                         std::uint32_t n_layers) {
  using Parked = Result<std::shared_ptr<const batch::ParkedContext>>;
  std::promise<Parked> promise;
  batch::compute_first_layers(
      engine, request, n_layers, Clock::now() + std::chrono::seconds(60), [&](Parked parked) {
        promise.set_value(std::move(parked));
      });
  const Parked parked = promise.get_future().get();
  EXPECT_TRUE(parked.ok()) << parked.status().message();
  return parked.ok() ? *parked : nullptr;
}

HandoverResult hand_over(batch::HandoverService& service, batch::HandoverJob job) {
  std::promise<HandoverResult> promise;
  service.start(std::move(job),
                [&](HandoverResult result) { promise.set_value(std::move(result)); });
  return promise.get_future().get();
}

// Behind what was posted before.
void expect_nothing_held(std::initializer_list<batch::Engine*> engines) {
  for (batch::Engine* engine : engines) {
    EXPECT_TRUE(engine->drain(std::chrono::seconds(10)));
    std::promise<batch::EngineStats> stats;
    engine->post([&](batch::EngineCore& core) { stats.set_value(core.stats()); });
    const batch::EngineStats seen = stats.get_future().get();
    EXPECT_EQ(seen.blocks_leased, 0U);
    EXPECT_EQ(seen.blocks_retiring, 0U);
  }
}

bool write_model(const base::TempFolder& folder, std::string_view fields) {
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kF32;
  return write_random_checkpoint(model::small_config(fields), options).ok();
}

// Requests whose prompt is divided behind each of the layers: answers of an engine that has computed them alone.
void expect_split(const std::string& dir,
                  const model::WindowLimits& windows,
                  std::optional<tensor::DType> kv_dtype = {}) {
  const auto alone = start(dir, 1, windows, kv_dtype);
  const auto from = start(dir, 1, windows, kv_dtype);
  const auto to = start(dir, 2, windows, kv_dtype);
  ASSERT_TRUE(alone != nullptr && from != nullptr && to != nullptr);
  std::promise<std::uint32_t> n_layers;
  from->post([&](batch::EngineCore& core) { n_layers.set_value(core.runner_info().n_layers); });
  const std::uint32_t n = n_layers.get_future().get();
  batch::HandoverService service;
  std::uint64_t id = 0;
  for (std::uint32_t k = 1; k < n; ++k) {
    for (GenerationRequest request : requests()) {
      if (request.prompt_logprobs || request.outputs.any_context()) continue;
      request.id = RequestId{++id};
      const auto whole = run(*alone, request);
      request.cache_salt += " split " + std::to_string(k);
      const auto parked = first_layers(*from, request, k);
      ASSERT_NE(parked, nullptr);
      EXPECT_EQ(parked->layers, k);
      const auto sink = std::make_shared<Recorder>(request.progress);
      const HandoverResult result = hand_over(
          service,
          {.from = from.get(), .to = to.get(), .parked = parked, .request = request, .sink = sink});
      ASSERT_TRUE(result.status.ok()) << result.status.message();
      EXPECT_TRUE(result.moved) << result.why_not.message();
      sink->wait_final();
      EXPECT_EQ(sink->final_event().n_cached_prompt_tokens, 40U) << "it was computed again";
      EXPECT_EQ(sink->tokens(), whole->tokens()) << "split at " << k;
      EXPECT_EQ(sink->final_event().finish, whole->final_event().finish);
      EXPECT_EQ(sink->final_event().cumulative_logprob, whole->final_event().cumulative_logprob);
    }
  }
  expect_nothing_held({from.get(), to.get()});
}

// Blocks of the first chunk pass ahead, in pieces of several attachments, and the hand-over has the rest.
void expect_ahead(const std::string& dir,
                  const model::WindowLimits& windows,
                  std::optional<tensor::DType> kv_dtype = {}) {
  std::uint64_t bytes_max = 17 << 10;
  std::unique_ptr<batch::Engine> from;
  for (std::uint32_t n = 0; n == 0; bytes_max += 1 << 10) {  // until a slot holds a block
    from = start(dir, 1, windows, kv_dtype, bytes_max);
    ASSERT_NE(from, nullptr);
    std::promise<std::uint32_t> n_blocks;
    from->post([&](batch::EngineCore& core) {
      n_blocks.set_value(batch::handover_piece_blocks(core.runner_info()));
    });
    n = n_blocks.get_future().get();
  }
  const auto to = start(dir, 2, windows, kv_dtype, bytes_max);
  ASSERT_NE(to, nullptr);
  batch::HandoverService service;
  std::uint64_t id = 0;
  for (GenerationRequest request : requests()) {
    if (request.prompt_logprobs || request.outputs.any_context()) continue;
    request.id = RequestId{++id};
    const auto whole = run(*from, request);
    request.cache_salt += " ahead";
    GenerationRequest context = request;
    context.context_only = std::chrono::seconds(30);
    std::vector<std::shared_ptr<const batch::ParkedContext>> fronts;
    context.on_blocks_ahead = [&](auto front) { fronts.push_back(std::move(front)); };
    const auto first = run(*from, context);
    ASSERT_FALSE(fronts.empty());
    for (const auto& front : fronts) {
      auto divided = std::make_shared<batch::ParkedContext>(*front);
      divided->piece_blocks = 1;
      divided->attachments_max = 2;
      const HandoverResult ahead = hand_over(service,
                                             {.from = from.get(),
                                              .to = to.get(),
                                              .parked = divided,
                                              .request = request,
                                              .sink = {},
                                              .ahead = true});
      EXPECT_TRUE(ahead.status.ok()) << ahead.status.message();
      EXPECT_GT(ahead.n_bytes, 0U);
    }
    request.progress = {.ids = first->ids(),
                        .cumulative_logprob = first->final_event().cumulative_logprob};
    const auto rest = std::make_shared<Recorder>(request.progress);
    const HandoverResult result = hand_over(service,
                                            {.from = from.get(),
                                             .to = to.get(),
                                             .parked = first->final_event().parked,
                                             .request = request,
                                             .sink = rest});
    ASSERT_TRUE(result.status.ok()) << result.status.message();
    EXPECT_TRUE(result.moved) << result.why_not.message();
    rest->wait_final();
    EXPECT_EQ(rest->final_event().n_cached_prompt_tokens, 40U);
    expect_same(*whole, *first, *rest);
  }
  expect_nothing_held({from.get(), to.get()});
}

class HandoverModels : public ::testing::TestWithParam<model::SmallModel> {};

TEST_P(HandoverModels, TheSameBits) {
  base::TempFolder folder;
  ASSERT_TRUE(write_model(folder, GetParam().fields));
  expect_handed_over(folder.path(), {});
}

TEST_P(HandoverModels, TheSameBitsBehindWhatHasPassedAhead) {
  base::TempFolder folder;
  ASSERT_TRUE(write_model(folder, GetParam().fields));
  expect_ahead(folder.path(), {});
}

TEST_P(HandoverModels, TheSameBitsWhereTheLayersOfAPromptAreDivided) {
  base::TempFolder folder;
  ASSERT_TRUE(write_model(folder, GetParam().fields));
  expect_split(folder.path(), {});
}

// The destination goes, its blocks are taken, or it is told to stop: nothing of it stays anywhere.
TEST(SplitPrompts, WhatIsGivenUpLeavesNothing) {
  base::TempFolder folder;
  ASSERT_TRUE(write_model(folder, R"({"model_type":"llama"})"));
  const auto from = start(folder.path(), 1, {}, {});
  const auto to = start(folder.path(), 1, {}, {});
  batch::HandoverService service;
  GenerationRequest request = requests()[1];
  request.id = RequestId{1};
  const auto whole = run(*to, request);
  for (const bool cancels : {false, true}) {
    request.id = RequestId{cancels ? 3U : 2U};
    request.cache_salt = cancels ? "given up" : "released";
    const auto parked = first_layers(*from, request, 1);
    ASSERT_NE(parked, nullptr);
    if (!cancels) {
      batch::release_parked(*from, *parked);
      // Who wants it all the same computes all of it.
      const auto sink = std::make_shared<Recorder>(request.progress);
      const HandoverResult result = hand_over(
          service,
          {.from = from.get(), .to = to.get(), .parked = parked, .request = request, .sink = sink});
      EXPECT_TRUE(result.status.ok() && !result.moved);
      sink->wait_final();
      EXPECT_EQ(sink->tokens(), whole->tokens());
      continue;
    }
    const auto sink = std::make_shared<Recorder>(request.progress);
    std::promise<HandoverResult> promise;
    const std::uint64_t id = service.start(
        {.from = from.get(), .to = to.get(), .parked = parked, .request = request, .sink = sink},
        [&](HandoverResult result) { promise.set_value(std::move(result)); });
    service.cancel(id);
    const HandoverResult result = promise.get_future().get();
    if (result.status.ok()) sink->wait_final();  // it had begun
  }
  expect_nothing_held({from.get(), to.get()});
}

INSTANTIATE_TEST_SUITE_P(Families,
                         HandoverModels,
                         ::testing::ValuesIn(model::small_models()),
                         [](const auto& family) { return std::string(family.param.name); });

TEST(HandoverCacheTypes, TheSameBits) {
  base::TempFolder folder;
  ASSERT_TRUE(write_model(folder, R"({"model_type":"llama"})"));
  for (const auto type :
       {tensor::DType::kI8, tensor::DType::kI4, tensor::DType::kF8E4M3, tensor::DType::kF8E5M2}) {
    expect_handed_over(folder.path(), {}, type);
    expect_ahead(folder.path(), {}, type);
    expect_split(folder.path(), {}, type);
  }
}

TEST(HandoverWindows, TheSameBitsBehindSinkTokens) {
  base::TempFolder folder;
  ASSERT_TRUE(write_model(folder, R"({"model_type":"llama"})"));
  expect_handed_over(folder.path(), {.max_attention_window = {7, 0}, .sink_token_length = 5});
  expect_handed_over(folder.path(), {.max_attention_window = {7, 12}, .sink_token_length = 0});
  expect_ahead(folder.path(), {.max_attention_window = {7, 0}, .sink_token_length = 5});
  expect_ahead(folder.path(), {.max_attention_window = {7, 12}, .sink_token_length = 0});
  expect_split(folder.path(), {.max_attention_window = {7, 0}, .sink_token_length = 5});
  expect_split(folder.path(), {.max_attention_window = {7, 12}, .sink_token_length = 0});
}

}  // namespace
}  // namespace coxswain::runner
