// Law 1 over real forward passes: a request gives the same tokens, log-probabilities and prompt
// log-probabilities, bit for bit, however it was batched, chunked, cached, paused or spread over threads.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/test_models.h"
#include "runner/testing/law1_runs.h"

namespace coxswain::runner {
namespace {

using testing::expect_children_as_alone;
using testing::expect_same_through_engine;
using testing::expect_same_when_driven;
using testing::Happened;
using testing::RunnerSetup;
using testing::start;
using testing::Way;

constexpr std::uint32_t kVocab = 61;

// Prompts of 1 to 41 tokens, most of which begin alike; greedy and seeded, with penalties, forbidden
// tokens, alternatives and prompt log-probabilities.
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
    if (i == 1) {
      spec.sampling.presence_penalty = 0.4F;
      spec.sampling.penalties_count_prompt = true;
    }
    if (i == 2 || i == 5) spec.sampling.no_repeat_ngram_size = 2;
    if (i == 0 || i == 3) {
      spec.sampling.watermark = true;
      spec.sampling.dry_multiplier = 0.8F;
      spec.sampling.dry_allowed_length = 1;
      for (TokenId id = 3; id < static_cast<TokenId>(kVocab); id += 2)
        spec.sampling.allowed_tokens.push_back(id);
    }
    if (i == 3) {
      spec.sampling.top_n_sigma = 2.5F;
      spec.sampling.xtc_probability = 0.5F;
      spec.sampling.xtc_threshold = 0.05F;
    }
    if (i == 5) {
      spec.sampling.dynatemp_range = 0.5F;
      spec.sampling.dynatemp_exponent = 1.5F;
      spec.sampling.epsilon_cutoff = 1e-3F;
      spec.sampling.eta_cutoff = 1e-3F;
      spec.sampling.samplers = {
          SamplerStep::kEta, SamplerStep::kTemperature, SamplerStep::kEpsilon};
    }
    if (i == 4) {
      for (TokenId id = 3; id < 40; ++id) spec.sampling.bad_words.push_back({id});
      spec.stopping.min_new_tokens = 9;
    }
    spec.outputs = {.context_logits = i == 2 || i == 4,
                    .generation_logits = i == 2 || i == 5,
                    .context_hidden = i == 4,
                    .generation_hidden = i == 3};
    if (i == 1 || i == 5) {
      spec.sampling.logits_processor = "by_history";
      spec.sampling.logits_processor_tag = i;
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

// Depends on all that a processor is told.
class ByHistory final : public LogitsProcessor {
 public:
  Status process(const LogitsInput& input, std::span<float> logits) override {
    std::uint64_t hash = input.tag;
    for (const std::span<const TokenId> ids : {input.prompt, input.output})
      for (const TokenId id : ids) hash = hash * 31 + static_cast<std::uint64_t>(id);
    for (std::size_t i = 0; i < logits.size(); ++i)
      logits[i] += static_cast<float>((hash >> (i % 40)) % 8) / 4.0F;
    return {};
  }
};

RunnerSetup with_processors(RunnerSetup setup = {}) {
  setup.logits_processors = {{"by_history", std::make_shared<ByHistory>()}};
  return setup;
}

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
  out.push_back(
      {"released windows, tasks in any order",
       {.block_tokens = 4, .n_threads = 3, .task_order_seed = 7},
       {.seed = 7, .chunk_tokens_max = 7, .include_share = 0.8, .release_windows = true}});
  return out;
}

// Drives all requests in every way; `setup` gives type and kernels.
void expect_invariance(const std::string& model_dir, const RunnerSetup& base) {
  const RunnerSetup setup = with_processors(base);
  const std::vector<SequenceSpec> specs = requests();
  auto reference = start(model_dir, setup);
  ASSERT_NE(reference, nullptr);
  const auto expected = drive_each_alone(*reference, specs);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    ASSERT_TRUE(expected[i].status.ok()) << expected[i].status.message();
    ASSERT_EQ(expected[i].tokens.size(), specs[i].stopping.max_new_tokens);
    ASSERT_EQ(expected[i].prompt.size(), specs[i].prompt_logprobs ? specs[i].prompt.size() : 0);
    const SequenceOutputs& outputs = expected[i].outputs;
    const RunnerInfo info = reference->info();
    ASSERT_EQ(outputs.context_logits.size(),
              specs[i].outputs.context_logits ? specs[i].prompt.size() * info.vocab_size : 0);
    ASSERT_EQ(
        outputs.generation_hidden.size(),
        specs[i].outputs.generation_hidden ? expected[i].tokens.size() * info.hidden_size : 0);
  }
  Happened happened;
  for (const Way& way : ways())
    happened += expect_same_when_driven(model_dir, setup, way, specs, expected);
  EXPECT_GT(happened.n_shared_tokens, 0u);
  EXPECT_GT(happened.n_pauses, 0u);
}

// ---- the real scheduler ----

// Ropes that depend on the length limit what can be shared.
bool shares_prefixes(const RunnerInfo& info) {
  return info.rope_switch_length == 0;
}

bool has_window(const RunnerInfo& info) {
  return std::any_of(info.kv_groups.begin(), info.kv_groups.end(), [](const KvGroup& group) {
    return group.kind == KvGroup::Kind::kWindow;
  });
}

class Law1 : public ::testing::TestWithParam<model::SmallModel> {
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
  auto reference = start(folder_.path(), with_processors());
  ASSERT_NE(reference, nullptr);
  std::vector<SequenceSpec> specs = requests();
  // As the engine decides it: prompt and new tokens.
  for (SequenceSpec& spec : specs) spec.rope_length = 0;
  const auto expected = drive_each_alone(*reference, specs);
  batch::EngineOptions options;
  options.prefill_tokens_max = 24;
  const RunnerSetup roomy = with_processors({.block_tokens = 4, .n_threads = 2});
  const Happened happened =
      expect_same_through_engine(folder_.path(), roomy, options, specs, expected);
  if (shares_prefixes(reference->info())) {
    EXPECT_GT(happened.n_shared_tokens, 0u);
  }
  EXPECT_EQ(happened.n_released_blocks > 0, has_window(reference->info()));
  // A cache that cannot hold all of them: the newest are paused and computed again.
  const RunnerSetup tight = with_processors({.block_tokens = 4, .kv_tokens = 120});
  expect_same_through_engine(folder_.path(), tight, options, specs, expected);
  for (const auto policy : {CapacityPolicy::kMaxUtilization,
                            CapacityPolicy::kGuaranteedNoEvict,
                            CapacityPolicy::kStaticBatch}) {
    options.policy = policy;
    expect_same_through_engine(folder_.path(), tight, options, specs, expected);
  }
  // Without a prefix cache; tasks in any order.
  options.prefix_caching = false;
  const RunnerSetup shuffled =
      with_processors({.block_tokens = 4, .n_threads = 3, .task_order_seed = 8});
  const Happened alone =
      expect_same_through_engine(folder_.path(), shuffled, options, specs, expected);
  EXPECT_EQ(alone.n_shared_tokens, 0u);
  EXPECT_EQ(alone.n_released_blocks > 0, has_window(reference->info()));
}

TEST_P(Law1, InChunksOfEveryKindTheSameBits) {
  auto reference = start(folder_.path(), with_processors());
  ASSERT_NE(reference, nullptr);
  std::vector<SequenceSpec> specs = requests();
  for (SequenceSpec& spec : specs) spec.rope_length = 0;
  const auto expected = drive_each_alone(*reference, specs);
  batch::EngineOptions equal;
  equal.prefill_tokens_max = 24;
  equal.chunking = batch::ChunkingPolicy::kEqualProgress;
  batch::EngineOptions units = equal;
  units.chunk_tokens_unit = 16;
  units.policy = CapacityPolicy::kMaxUtilization;
  batch::EngineOptions prompts_first;
  prompts_first.prefill_tokens_max = 16;
  prompts_first.prompts_first = true;
  prompts_first.chunk_tokens_max = 9;
  batch::EngineOptions late;  // blocks are divided
  late.target_itl = std::chrono::milliseconds(1);
  const auto expect_same = [&](const RunnerSetup& setup, const batch::EngineOptions& options) {
    expect_same_through_engine(folder_.path(), with_processors(setup), options, specs, expected);
  };
  expect_same({.block_tokens = 4, .n_threads = 3}, equal);
  expect_same({.block_tokens = 8, .n_threads = 2, .kv_tokens = 128}, units);
  expect_same({.block_tokens = 16, .n_threads = 1}, prompts_first);
  expect_same({.block_tokens = 16, .n_threads = 2}, late);
}

TEST_P(Law1, EachSequenceOfARequestIsTheRequestAloneWithItsSeed) {
  auto reference = start(folder_.path(), with_processors());
  ASSERT_NE(reference, nullptr);
  std::vector<SequenceSpec> specs = requests();
  for (SequenceSpec& spec : specs) spec.rope_length = 0;
  SequenceSpec other = specs[1];
  other.id = SequenceId{9};
  other.sampling.seed = 71;
  const auto two = drive_each_alone(*reference, {specs[1], other});
  EXPECT_FALSE(
      std::ranges::equal(two[0].tokens, two[1].tokens, {}, &OutputToken::id, &OutputToken::id))
      << "the seeds make no difference";
  for (const std::uint32_t kv_tokens : {2048U, 160U}) {
    const RunnerSetup setup =
        with_processors({.block_tokens = 8, .n_threads = 2, .kv_tokens = kv_tokens});
    expect_children_as_alone(*reference, folder_.path(), setup, {}, specs, {71, 72});
  }
}

INSTANTIATE_TEST_SUITE_P(Families,
                         Law1,
                         ::testing::ValuesIn(model::small_models()),
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

constexpr tensor::DType kNarrowCacheTypes[] = {
    tensor::DType::kI8, tensor::DType::kI4, tensor::DType::kF8E4M3, tensor::DType::kF8E5M2};

TEST(Law1Types, EveryCacheTypeAndKernelSet) {
  base::TempFolder folder;
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kBf16;
  ASSERT_TRUE(write_random_checkpoint(
                  model::small_config(R"({"model_type":"llama","hidden_size":64})"), options)
                  .ok());
  for (const kernels::Isa isa : kernels::available_isas()) {
    for (const tensor::DType type : kNarrowCacheTypes) {
      SCOPED_TRACE(std::string(kernels::name_of(isa)) + " " + std::string(tensor::name_of(type)));
      expect_invariance(folder.path(),
                        {.kv_dtype = type, .isa = std::string(kernels::name_of(isa))});
    }
  }
}

// Hits, pauses, released windows and sequences that part.
TEST(Law1Types, EveryCacheTypeThroughTheEngine) {
  base::TempFolder folder;
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kF32;
  ASSERT_TRUE(
      write_random_checkpoint(model::small_config(R"({"model_type":"llama"})"), options).ok());
  for (const tensor::DType type : kNarrowCacheTypes) {
    SCOPED_TRACE(tensor::name_of(type));
    RunnerSetup setup =
        with_processors({.block_tokens = 4,
                         .n_threads = 2,
                         .kv_dtype = type,
                         .windows = {.max_attention_window = {7, 0}, .sink_token_length = 5}});
    auto reference = start(folder.path(), setup);
    ASSERT_NE(reference, nullptr);
    EXPECT_EQ(reference->info().kv_groups[0].dtype, tensor::name_of(type));
    std::vector<SequenceSpec> specs = requests();
    for (SequenceSpec& spec : specs) spec.rope_length = 0;
    const auto expected = drive_each_alone(*reference, specs);
    batch::EngineOptions engine;
    engine.prefill_tokens_max = 24;
    for (const std::uint32_t kv_tokens : {2048U, 120U}) {
      setup.kv_tokens = kv_tokens;
      const Happened happened =
          expect_same_through_engine(folder.path(), setup, engine, specs, expected);
      EXPECT_GT(happened.n_released_blocks, 0U);
    }
    setup.kv_tokens = 2048;
    expect_children_as_alone(*reference, folder.path(), setup, {}, specs, {71, 72});
  }
}

// Windows that are put on a model, and sink tokens beside them, in every way and on every set: inside a block, of some
// blocks, of all that some requests have.
TEST(Law1Windows, LimitsAndSinkTokens) {
  base::TempFolder folder;
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kBf16;
  ASSERT_TRUE(write_random_checkpoint(
                  model::small_config(R"({"model_type":"llama","hidden_size":64})"), options)
                  .ok());
  for (const std::uint32_t n_sinks : {3U, 9U, 24U}) {
    for (const kernels::Isa isa : kernels::available_isas()) {
      RunnerSetup setup{.isa = std::string(kernels::name_of(isa)),
                        .windows = {.max_attention_window = {7, 0}, .sink_token_length = n_sinks}};
      for (const auto dtype : {tensor::DType::kF32, tensor::DType::kBf16}) {
        SCOPED_TRACE(setup.isa + " " + std::string(tensor::name_of(dtype)) + ", sink tokens " +
                     std::to_string(n_sinks));
        setup.dtype = dtype;
        expect_invariance(folder.path(), setup);
      }
    }
  }
}

TEST(Law1Windows, ThroughTheEngine) {
  base::TempFolder folder;
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kF32;
  ASSERT_TRUE(
      write_random_checkpoint(model::small_config(R"({"model_type":"llama"})"), options).ok());
  for (const std::vector<std::uint32_t>& windows : {std::vector<std::uint32_t>{7, 0}, {7, 12, 5}}) {
    RunnerSetup setup =
        with_processors({.block_tokens = 4,
                         .n_threads = 2,
                         .windows = {.max_attention_window = windows, .sink_token_length = 5}});
    auto reference = start(folder.path(), setup);
    ASSERT_NE(reference, nullptr);
    const auto expected = drive_each_alone(*reference, requests());
    for (const std::uint32_t kv_tokens : {2048U, 120U}) {
      SCOPED_TRACE(std::to_string(windows.size()) + " windows, cache of " +
                   std::to_string(kv_tokens));
      setup.kv_tokens = kv_tokens;
      for (const auto policy : {CapacityPolicy::kAdaptive,
                                CapacityPolicy::kMaxUtilization,
                                CapacityPolicy::kGuaranteedNoEvict}) {
        batch::EngineOptions how;
        how.policy = policy;
        how.prefill_tokens_max = 24;
        const Happened happened =
            expect_same_through_engine(folder.path(), setup, how, requests(), expected);
        EXPECT_GT(happened.n_shared_tokens, 0u);
        EXPECT_GT(happened.n_released_blocks, 0u);
      }
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
