// Law 1 of beam searches over real forward passes: they find the same answers with the same log-probabilities, bit for
// bit, however they were batched, chunked, cached, paused or spread over threads: those of a plain program that
// computes each beam of each step from its first token on. What runs beside them yields what it yields alone.

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/test_models.h"
#include "runner/testing/law1_runs.h"

namespace coxswain::runner {
namespace {

using batch::GenerationRequest;
using testing::Alone;
using testing::compute_alone;
using testing::expect_as_alone;
using testing::Happened;
using testing::RunnerSetup;
using testing::start;

constexpr std::uint32_t kVocab = 61;

// All begin alike.
GenerationRequest request_of(std::uint32_t n_prompt, std::uint32_t n_new, std::uint32_t width) {
  GenerationRequest out;
  for (std::uint32_t p = 0; p < n_prompt; ++p) {
    const std::uint32_t value = p * 11 + (p > 18 ? n_prompt : 0);
    out.prompt.push_back(static_cast<TokenId>(3 + value % (kVocab - 3)));
  }
  out.stopping = {.max_new_tokens = n_new, .ignore_eos = true};
  out.beams.width = width;
  out.n_beam_answers = width;
  return out;
}

std::vector<GenerationRequest> requests() {
  std::vector<GenerationRequest> out = {request_of(21, 9, 4),
                                        request_of(9, 12, 2),
                                        request_of(24, 8, 5),
                                        request_of(30, 14, 1),
                                        request_of(1, 6, 3),
                                        request_of(17, 10, 1),
                                        request_of(20, 16, 3)};
  out[0].beams.length_penalty = 1.0F;
  out[0].sampling.repetition_penalty = 1.2F;
  out[1].sampling.no_repeat_ngram_size = 2;
  out[1].beams.early_stopping = 2;
  out[2].beams.diversity_rate = 0.5F;
  out[2].prompt_logprobs = true;
  out[2].stopping.ignore_eos = false;
  for (TokenId id = 0; id < TokenId{kVocab}; id += 4) out[2].stopping.end_ids.push_back(id);
  out[3].sampling.do_sample = true;
  out[3].sampling.seed = 11;
  out[4].stopping.min_new_tokens = 4;
  out[4].stopping.ignore_eos = false;
  out[4].stopping.end_ids = {5, 6, 7, 20, 40};
  out[4].n_beam_answers = 1;
  return out;
}

struct Way {
  RunnerSetup setup;
  batch::EngineOptions options;
};

std::ostream& operator<<(std::ostream& out, const Way& way) {
  return out << "blocks of " << way.setup.block_tokens << ", " << way.setup.n_threads
             << " threads, cache of " << way.setup.kv_tokens << ", policy "
             << static_cast<int>(way.options.policy) << ", prompts of "
             << way.options.prefill_tokens_max;
}

// Some caches cannot hold all of them.
std::vector<Way> ways() {
  using enum CapacityPolicy;
  const auto equal = batch::ChunkingPolicy::kEqualProgress;
  std::vector<Way> out;
  out.push_back({{.n_threads = 2}, {}});
  out.push_back({{.block_tokens = 4, .n_threads = 3, .task_order_seed = 1},
                 {.prefill_tokens_max = 9, .chunking = equal, .prefix_caching = false}});
  out.push_back({{.block_tokens = 8, .kv_tokens = 168},
                 {.policy = kMaxUtilization, .prefill_tokens_max = 24}});
  out.push_back({{.block_tokens = 4, .n_threads = 2, .kv_tokens = 176},
                 {.policy = kAdaptive, .batch_size_max = 9, .prefill_tokens_max = 16}});
  out.push_back(
      {{.block_tokens = 8, .n_threads = 3, .kv_tokens = 168, .task_order_seed = 2},
       {.policy = kGuaranteedNoEvict, .prefill_tokens_max = 32, .prefix_caching = false}});
  out.push_back({{.block_tokens = 32, .n_threads = 1, .kv_tokens = 512}, {.policy = kStaticBatch}});
  for (Way& way : out) way.setup.batch_size_max = 16;
  return out;
}

// In every way, over the model in `dir`; type, kernels and windows are those of `base`.
Happened expect_invariance(const std::string& dir, const RunnerSetup& base) {
  Happened happened;
  const auto reference = start(dir, base);
  if (reference == nullptr) return happened;
  const std::vector<Alone> expected = compute_alone(*reference, requests());
  for (Way way : ways()) {
    SCOPED_TRACE(::testing::PrintToString(way));
    way.setup.dtype = base.dtype;
    way.setup.quantize = base.quantize;
    way.setup.isa = base.isa;
    way.setup.windows = base.windows;
    happened += expect_as_alone(dir, way.setup, way.options, expected);
  }
  return happened;
}

class Law1Beams : public ::testing::TestWithParam<model::SmallModel> {};

TEST_P(Law1Beams, InEveryWayTheSameBits) {
  base::TempFolder folder;
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kF32;
  ASSERT_TRUE(write_random_checkpoint(model::small_config(GetParam().fields), options).ok());
  const Happened happened = expect_invariance(folder.path(), {});
  // Where every layer has a window, blocks are given back so soon that all of them may fit.
  if (GetParam().name != "mistral") {
    EXPECT_GT(happened.n_pauses, 0U);
  }
}

INSTANTIATE_TEST_SUITE_P(Families,
                         Law1Beams,
                         ::testing::ValuesIn(model::small_models()),
                         [](const auto& family) { return std::string(family.param.name); });

// Every kernel set, with weights in 16 bits and in 8.
TEST(Law1BeamsTypes, OnEverySet) {
  base::TempFolder folder;
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kBf16;
  const char* const fields = R"({"model_type":"llama","hidden_size":64})";
  ASSERT_TRUE(write_random_checkpoint(model::small_config(fields), options).ok());
  for (const kernels::Isa isa : kernels::available_isas()) {
    SCOPED_TRACE(kernels::name_of(isa));
    RunnerSetup setup{.dtype = tensor::DType::kBf16, .isa = std::string(kernels::name_of(isa))};
    expect_invariance(folder.path(), setup);
    setup.dtype.reset();
    setup.quantize = "int8";
    expect_invariance(folder.path(), setup);
  }
}

// Windows inside a block and of some blocks, beside full layers and alone, with and without sink tokens.
TEST(Law1BeamsWindows, LimitsAndSinkTokens) {
  base::TempFolder folder;
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kF32;
  ASSERT_TRUE(
      write_random_checkpoint(model::small_config(R"({"model_type":"llama"})"), options).ok());
  std::uint64_t n_pauses = 0;  // small windows alone need few blocks: not each shape is paused
  for (const std::vector<std::uint32_t>& windows :
       {std::vector<std::uint32_t>{7, 0}, {7, 12, 5}, {11}}) {
    for (const std::uint32_t n_sinks : {0U, 3U, 10U}) {
      SCOPED_TRACE(std::to_string(windows.size()) + " windows, sink tokens " +
                   std::to_string(n_sinks));
      const Happened happened = expect_invariance(
          folder.path(),
          {.windows = {.max_attention_window = windows, .sink_token_length = n_sinks}});
      EXPECT_GT(happened.n_released_blocks, 0U);
      n_pauses += happened.n_pauses;
    }
  }
  EXPECT_GT(n_pauses, 0U);
}

}  // namespace
}  // namespace coxswain::runner
