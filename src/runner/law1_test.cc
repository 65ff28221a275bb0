// Law 1 over real forward passes: a request gives the same tokens, log-probabilities and prompt
// log-probabilities, bit for bit, however it was batched, chunked, cached, paused or spread over threads.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "batch/engine.h"
#include "batch/testing/recorder.h"
#include "model/test_models.h"
#include "runner/local_runner.h"
#include "runner/plan_driver.h"

namespace coxswain::runner {
namespace {

constexpr std::uint32_t kVocab = 61;
constexpr std::uint32_t kRequestTokensMax = 100;

struct RunnerSetup {
  std::uint32_t block_tokens = 16;
  std::size_t n_threads = 1;
  std::uint32_t rows_max = 256;
  std::uint32_t batch_size_max = 8;
  std::uint32_t kv_tokens = 2048;
  std::optional<tensor::DType> dtype = tensor::DType::kF32;
  std::string quantize = {};
  std::string isa = {};
};

std::unique_ptr<LocalRunner> start(const std::string& model_dir, const RunnerSetup& setup) {
  RunnerOptions options;
  options.model_dir = model_dir;
  options.without_text = true;
  options.dtype = setup.dtype;
  options.quantize = setup.quantize;
  options.isa = setup.isa;
  options.block_tokens = setup.block_tokens;
  options.n_threads = setup.n_threads;
  options.kv_blocks = 1 + setup.kv_tokens / setup.block_tokens;
  options.max_total_tokens = kRequestTokensMax;
  options.max_batch_prefill_tokens = setup.rows_max;
  options.max_batch_size = setup.batch_size_max;
  auto runner = LocalRunner::create(options);
  EXPECT_TRUE(runner.ok()) << runner.status().message();
  return runner.ok() ? std::move(runner).value() : nullptr;
}

// Prompts of 1 to 41 tokens, most of which begin alike; greedy and seeded, with penalties,
// alternatives and prompt log-probabilities.
std::vector<SequenceSpec> requests() {
  std::vector<SequenceSpec> specs;
  for (std::uint32_t i = 0; i < 6; ++i) {
    SequenceSpec spec{.id = SequenceId{i + 1}};
    for (std::uint32_t p = 0; p < 1 + i * 8; ++p) {
      spec.prompt.push_back(
          static_cast<TokenId>(3 + (p * 11 + (p > 33 || i == 2 ? i : 0)) % (kVocab - 3)));
    }
    spec.stopping = {.max_new_tokens = 6 + 3 * i, .ignore_eos = true};
    // On both sides of the limits of the length-dependent ropes.
    spec.rope_length = i < 4 ? 20 : 64;
    spec.prompt_logprobs = i == 3 || i == 4;  // without and with alternatives
    spec.sampling.n_top_tokens = i % 3;
    if (i % 2 == 1) {
      spec.sampling.do_sample = true;
      spec.sampling.seed = 7 + i;
      spec.sampling.temperature = 1.2F;
      spec.sampling.top_p = i == 3 ? 0.8F : 1.0F;
      spec.sampling.repetition_penalty = i == 5 ? 1.1F : 1.0F;
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

struct Way {
  std::string name;
  RunnerSetup setup;
  DriveOptions drive;
};

std::vector<Way> ways() {
  std::vector<Way> out;
  out.push_back({"batched", {}, {}});
  out.push_back({"batched, 2 threads", {.n_threads = 2}, {.include_share = 0.6}});
  out.push_back({"single positions", {.n_threads = 2}, {.chunk_tokens_max = 1}});
  for (const std::uint32_t block : {4u, 8u, 16u, 32u, 64u}) {
    const DriveOptions chunks{.seed = block,
                              .chunk_tokens_max = block,
                              .chunk_multiple = block,
                              .include_share = 0.8,
                              .look_ahead = true};
    out.push_back({"chunks of blocks of " + std::to_string(block),
                   {.block_tokens = block, .n_threads = 1 + block % 3},
                   chunks});
  }
  out.push_back({"shared prefixes",
                 {.block_tokens = 8},
                 {.seed = 3, .include_share = 0.5, .share_prefixes = true}});
  out.push_back({"pauses",
                 {.n_threads = 2},
                 {.seed = 4, .chunk_tokens_max = 9, .include_share = 0.8, .pause_share = 0.08}});
  out.push_back({"pauses and shared prefixes",
                 {.block_tokens = 4},
                 {.seed = 5,
                  .include_share = 0.7,
                  .pause_share = 0.1,
                  .share_prefixes = true,
                  .look_ahead = true}});
  out.push_back({"a workspace of few rows", {.rows_max = 3, .batch_size_max = 2}, {.seed = 6}});
  return out;
}

// Drives all requests in every way; `setup` gives type and kernels.
void expect_invariance(const std::string& model_dir, const RunnerSetup& setup) {
  const std::vector<SequenceSpec> specs = requests();
  auto reference = start(model_dir, setup);
  ASSERT_NE(reference, nullptr);
  const auto expected = drive_each_alone(*reference, specs);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    ASSERT_TRUE(expected[i].status.ok()) << expected[i].status.message();
    ASSERT_EQ(expected[i].tokens.size(), specs[i].stopping.max_new_tokens);
    ASSERT_EQ(expected[i].prompt.size(), specs[i].prompt_logprobs ? specs[i].prompt.size() : 0);
  }
  std::uint32_t n_shared = 0;
  std::uint32_t n_pauses = 0;
  for (Way& way : ways()) {
    way.setup.dtype = setup.dtype;
    way.setup.quantize = setup.quantize;
    way.setup.isa = setup.isa;
    auto runner = start(model_dir, way.setup);
    ASSERT_NE(runner, nullptr);
    const auto seen = drive(*runner, specs, way.drive);
    expect_same_outcomes(expected, seen, way.name);
    for (const DriveOutcome& outcome : seen) {
      n_shared += outcome.n_shared_tokens;
      n_pauses += outcome.n_pauses;
    }
  }
  EXPECT_GT(n_shared, 0u);
  EXPECT_GT(n_pauses, 0u);
}

// ---- the real scheduler ----

DriveOutcome outcome_of(batch::testing::Recorder& sink) {
  sink.wait_final();
  const batch::TokenEvent last = sink.final_event();
  DriveOutcome out;
  out.status = last.status;
  out.tokens = sink.tokens();
  out.prompt = sink.prompt();
  if (last.finish) out.finish = *last.finish;
  out.n_shared_tokens = last.n_cached_prompt_tokens;
  return out;
}

// Two rounds: the second finds the prefixes of the first in the cache. `seen_shared`, `seen_pauses`
// count what happened.
void expect_same_through_engine(const std::string& model_dir,
                                const RunnerSetup& setup,
                                batch::CapacityPolicy policy,
                                const std::vector<DriveOutcome>& expected) {
  std::shared_ptr<LocalRunner> runner = start(model_dir, setup);
  ASSERT_NE(runner, nullptr);
  batch::EngineOptions options;
  options.policy = policy;
  options.prefill_tokens_max = 24;
  options.check_invariants = true;
  auto engine = batch::Engine::create(runner, options);
  std::uint64_t n_cached = 0;
  for (int round = 0; round < 2; ++round) {
    std::vector<std::shared_ptr<batch::testing::Recorder>> sinks;
    for (const SequenceSpec& spec : requests()) {
      batch::GenerationRequest request;
      request.id =
          RequestId{static_cast<std::uint64_t>(spec.id) + 100u * static_cast<std::uint64_t>(round)};
      request.prompt = spec.prompt;
      request.sampling = spec.sampling;
      request.stopping = spec.stopping;
      request.prompt_logprobs = spec.prompt_logprobs;
      sinks.push_back(std::make_shared<batch::testing::Recorder>());
      const Status status = engine->submit(std::move(request), sinks.back());
      ASSERT_TRUE(status.ok()) << status.message();
    }
    std::vector<DriveOutcome> seen;
    for (const auto& sink : sinks) {
      seen.push_back(outcome_of(*sink));
      n_cached += seen.back().n_shared_tokens;
    }
    expect_same_outcomes(expected, seen, "engine, round " + std::to_string(round));
  }
  // Blocks that leave a window and ropes that depend on the length limit what can be shared; a
  // tight cache keeps nothing.
  const RunnerInfo info = runner->info();
  const bool shares =
      info.rope_switch_length == 0 && setup.kv_tokens > kRequestTokensMax * 10 &&
      std::all_of(info.kv_groups.begin(), info.kv_groups.end(), [](const KvGroup& group) {
        return group.kind == KvGroup::Kind::kFull;
      });
  if (shares) {
    EXPECT_GT(n_cached, 0u);
  }
  EXPECT_TRUE(engine->drain(std::chrono::milliseconds(10'000)));
  const batch::EngineStats stats = engine->stats();
  EXPECT_EQ(stats.blocks_leased + stats.blocks_retiring, 0u);
  EXPECT_EQ(stats.blocks_free + stats.blocks_cached, stats.blocks_total);
}

class Law1 : public testing::TestWithParam<model::SmallModel> {
 protected:
  void SetUp() override {
    model::RandomCheckpointOptions options;
    options.dir = folder_.path();
    options.type = tensor::DType::kF32;
    const Status written = write_random_checkpoint(model::small_config(GetParam().fields), options);
    ASSERT_TRUE(written.ok()) << written.message();
  }
  base::TempFolder folder_;
};

TEST_P(Law1, InEveryWayTheSameBits) {
  expect_invariance(folder_.path(), {});
}

TEST_P(Law1, ThroughTheEngineTheSameBits) {
  auto reference = start(folder_.path(), {});
  ASSERT_NE(reference, nullptr);
  std::vector<SequenceSpec> specs = requests();
  // As the engine decides it: prompt and new tokens.
  for (SequenceSpec& spec : specs) spec.rope_length = 0;
  const auto expected = drive_each_alone(*reference, specs);
  using batch::CapacityPolicy;
  expect_same_through_engine(folder_.path(),
                             {.block_tokens = 4, .n_threads = 2},
                             CapacityPolicy::kMaxUtilization,
                             expected);
  // A cache that cannot hold all of them: the newest are paused and computed again.
  const RunnerSetup tight{.block_tokens = 4, .kv_tokens = 120};
  expect_same_through_engine(folder_.path(), tight, CapacityPolicy::kMaxUtilization, expected);
  expect_same_through_engine(folder_.path(), tight, CapacityPolicy::kGuaranteedNoEvict, expected);
}

INSTANTIATE_TEST_SUITE_P(Families,
                         Law1,
                         testing::ValuesIn(model::small_models()),
                         [](const auto& family) { return std::string(family.param.name); });

// Every weight type on every kernel set that this machine can run, for one family.
TEST(Law1Types, EveryWeightTypeAndKernelSet) {
  base::TempFolder folder;
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kBf16;
  ASSERT_TRUE(write_random_checkpoint(
                  model::small_config(R"({"model_type":"llama","hidden_size":64})"), options)
                  .ok());
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const auto dtype : {tensor::DType::kF32, tensor::DType::kBf16, tensor::DType::kF16}) {
      SCOPED_TRACE(std::string(kernels::name_of(isa)) + " " + std::string(tensor::name_of(dtype)));
      expect_invariance(folder.path(), {.dtype = dtype, .isa = std::string(kernels::name_of(isa))});
    }
    for (const char* quantize : {"int8", "int4", "int4-g128"}) {
      SCOPED_TRACE(std::string(kernels::name_of(isa)) + " " + quantize);
      expect_invariance(
          folder.path(),
          {.dtype = std::nullopt, .quantize = quantize, .isa = std::string(kernels::name_of(isa))});
    }
  }
}

// The reference models of COXSWAIN_DATA: every published variant that can be loaded.
TEST(Law1Data, EveryReferenceModel) {
  const char* data = std::getenv("COXSWAIN_DATA");
  const std::string models = data == nullptr ? "" : std::string(data) + "/goldens/models";
  if (data == nullptr || !std::filesystem::exists(models))
    GTEST_SKIP() << "COXSWAIN_DATA has no goldens/models";
  std::size_t n_models = 0;
  for (const auto& entry : std::filesystem::directory_iterator(models)) {
    const std::string dir = entry.path().string();
    SCOPED_TRACE(dir);
    RunnerOptions options;
    options.model_dir = dir;
    options.without_text = true;
    options.kv_blocks = 8;
    options.max_batch_prefill_tokens = 32;
    options.max_batch_size = 1;
    const auto runner = LocalRunner::create(options);
    if (runner.status().code() == Code::kUnimplemented) continue;
    ASSERT_TRUE(runner.ok()) << runner.status().message();
    ++n_models;
    expect_invariance(dir, {.dtype = std::nullopt});
  }
  EXPECT_GT(n_models, 0u);
}

}  // namespace
}  // namespace coxswain::runner
