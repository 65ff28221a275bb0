// Law 1 where attention has several partitions: requests of more than 600 tokens, whose prompts and decode steps cross
// positions 256 and 512, with windows wider and narrower than a partition, whose blocks are given to others on the way.
// Tasks of the thread pool run in any order.

#include <ostream>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "model/test_models.h"
#include "runner/testing/law1_runs.h"

namespace coxswain::runner {
namespace {

using testing::expect_same_through_engine;
using testing::expect_same_when_driven;
using testing::Happened;
using testing::RunnerSetup;
using testing::start;
using testing::Way;

constexpr std::uint32_t kVocab = 61;
constexpr std::uint32_t kRequestTokensMax = 720;
// Holds all requests at once.
constexpr std::uint32_t kKvTokens = 4096;

struct LongModel {
  const char* name;
  const char* fields;
  tensor::DType dtype;
  bool has_window;
  std::uint32_t sink_tokens = 0;
};

std::ostream& operator<<(std::ostream& out, const LongModel& model) {
  return out << model.name;
}

constexpr LongModel kModels[] = {
    {"llama",
     R"({"model_type":"llama","max_position_embeddings":1024})",
     tensor::DType::kF32,
     false},
    {"llama_bf16",
     R"({"model_type":"llama","max_position_embeddings":1024,"hidden_size":64})",
     tensor::DType::kBf16,
     false},
    {"mistral_f16",
     R"({"model_type":"mistral","max_position_embeddings":1024,"sliding_window":300})",
     tensor::DType::kF16,
     true},
    {"gemma2_bf16",
     R"({"model_type":"gemma2","max_position_embeddings":1024,"head_dim":16,"sliding_window":270,)"
     R"("attn_logit_softcapping":5,"final_logit_softcapping":8,"query_pre_attn_scalar":16})",
     tensor::DType::kBf16,
     true},
    {"gemma3_text",
     R"({"model_type":"gemma3_text","max_position_embeddings":1024,"head_dim":16,"sliding_window":70,)"
     R"("sliding_window_pattern":2,"query_pre_attn_scalar":16})",
     tensor::DType::kF32,
     true},
    {"gpt_oss_bf16",
     R"({"model_type":"gpt_oss","max_position_embeddings":1024,"sliding_window":128,"head_dim":16,)"
     R"("num_local_experts":5,"num_experts_per_tok":2})",
     tensor::DType::kBf16,
     true},
    {"gemma3_sinks_bf16",
     R"({"model_type":"gemma3_text","max_position_embeddings":1024,"head_dim":16,"sliding_window":70,)"
     R"("sliding_window_pattern":2,"query_pre_attn_scalar":16})",
     tensor::DType::kBf16,
     true,
     5},
    {"mistral_sinks",
     R"({"model_type":"mistral","max_position_embeddings":1024,"sliding_window":100})",
     tensor::DType::kF32,
     true,
     270},
    {"mpt",
     R"({"model_type":"mpt","d_model":48,"n_heads":6,"n_layers":3,"max_seq_len":1024,"attn_config":{"alibi":true}})",
     tensor::DType::kF32,
     false},
};

SequenceSpec request(std::uint32_t id, std::uint32_t n_prompt, std::uint32_t n_new) {
  SequenceSpec spec{.id = SequenceId{id}};
  for (std::uint32_t p = 0; p < n_prompt; ++p) {
    // All begin alike and part at positions of their own.
    const std::uint32_t value = p * p * 7 + p * 11 + (p > 150 * id ? id : 0);
    spec.prompt.push_back(static_cast<TokenId>(3 + value % (kVocab - 3)));
  }
  spec.stopping = {.max_new_tokens = n_new, .ignore_eos = true};
  return spec;
}

// Prompts that end before, at and behind the borders of partitions, and outputs that cross them.
std::vector<SequenceSpec> requests() {
  std::vector<SequenceSpec> specs = {request(1, 640, 12),
                                     request(2, 500, 24),
                                     request(3, 244, 20),
                                     request(4, 660, 16),
                                     request(5, 512, 8),
                                     request(6, 601, 10)};
  specs[1].sampling.do_sample = true;
  specs[1].sampling.seed = 9;
  specs[1].sampling.temperature = 1.2F;
  specs[3].sampling.repetition_penalty = 1.1F;
  specs[3].sampling.n_top_tokens = 2;
  specs[5].prompt_logprobs = true;
  return specs;
}

std::vector<Way> ways() {
  const auto setup = [](std::uint32_t block_tokens, std::size_t n_threads, std::uint64_t order) {
    return RunnerSetup{.block_tokens = block_tokens,
                       .n_threads = n_threads,
                       .kv_tokens = kKvTokens,
                       .request_tokens_max = kRequestTokensMax,
                       .task_order_seed = order};
  };
  std::vector<Way> out;
  out.push_back({"whole prompts", setup(16, 3, 1), {.include_share = 0.7}});
  out.push_back({"chunks, released windows",
                 setup(4, 2, 2),
                 {.seed = 2,
                  .chunk_tokens_max = 200,
                  .include_share = 0.8,
                  .release_windows = true,
                  .look_ahead = true}});
  out.push_back(
      {"short chunks, released windows",
       setup(16, 1, 3),
       {.seed = 3, .chunk_tokens_max = 60, .include_share = 0.9, .release_windows = true}});
  out.push_back({"pauses and shared prefixes",
                 setup(32, 3, 4),
                 {.seed = 4,
                  .chunk_tokens_max = 300,
                  .include_share = 0.7,
                  .pause_share = 0.1,
                  .share_prefixes = true}});
  return out;
}

class Law1Long : public ::testing::TestWithParam<LongModel> {
 protected:
  void SetUp() override {
    model::RandomCheckpointOptions options;
    options.dir = folder_.path();
    options.type = GetParam().dtype;
    const Status written = write_random_checkpoint(model::small_config(GetParam().fields), options);
    ASSERT_TRUE(written.ok()) << written.message();
  }

  // Requests of this test, and what each gives alone.
  void use(std::vector<SequenceSpec> specs, const std::string& isa = {}) {
    specs_ = std::move(specs);
    RunnerSetup setup = base();
    setup.isa = isa;
    auto reference = start(folder_.path(), setup);
    ASSERT_NE(reference, nullptr);
    expected_ = drive_each_alone(*reference, specs_);
    for (std::size_t i = 0; i < specs_.size(); ++i)
      ASSERT_EQ(expected_[i].tokens.size(), specs_[i].stopping.max_new_tokens)
          << expected_[i].status.message();
  }

  // A whole prompt is one chunk, on one thread.
  static RunnerSetup base() {
    return {.rows_max = kRequestTokensMax,
            .kv_tokens = kKvTokens,
            .request_tokens_max = kRequestTokensMax,
            .dtype = GetParam().dtype,
            .windows = {.sink_token_length = GetParam().sink_tokens}};
  }
  Happened through_engine(const RunnerSetup& setup, const batch::EngineOptions& options) {
    return expect_same_through_engine(folder_.path(), setup, options, specs_, expected_);
  }

  base::TempFolder folder_;
  std::vector<SequenceSpec> specs_;
  std::vector<DriveOutcome> expected_;
};

TEST_P(Law1Long, InEveryWayTheSameBits) {
  use(requests());
  Happened happened;
  for (const Way& way : ways())
    happened += expect_same_when_driven(folder_.path(), base(), way, specs_, expected_);
  EXPECT_GT(happened.n_pauses, 0u);
  EXPECT_GT(happened.n_shared_tokens, 0u);
  EXPECT_EQ(happened.n_released_blocks > 0, GetParam().has_window);
}

TEST_P(Law1Long, ThroughTheEngineTheSameBits) {
  use(requests());
  for (const std::size_t n_threads : {1U, 2U, 3U}) {
    SCOPED_TRACE(n_threads);
    RunnerSetup setup = base();
    setup.n_threads = n_threads;
    setup.task_order_seed = n_threads;
    batch::EngineOptions options;
    options.prefill_tokens_max = n_threads == 1 ? 100 : 300;
    options.prefix_caching = n_threads == 2;
    const Happened happened = through_engine(setup, options);
    EXPECT_EQ(happened.n_shared_tokens > 0, options.prefix_caching);
    if (!options.prefix_caching) {
      EXPECT_EQ(happened.n_released_blocks > 0, GetParam().has_window);
    }
  }
}

// A cache that holds two prompts, but not their outputs: the newest is paused and computed again.
TEST_P(Law1Long, InATightCacheTheSameBits) {
  use({request(1, 560, 80), request(2, 565, 80), request(3, 570, 40)});
  for (const bool prefix_caching : {false, true}) {
    SCOPED_TRACE(prefix_caching);
    RunnerSetup setup = base();
    setup.block_tokens = 8;
    setup.kv_tokens = prefix_caching ? 1100 : 1240;  // their first 150 tokens are the same
    setup.n_threads = 2;
    setup.task_order_seed = 4;
    batch::EngineOptions options;
    options.policy = CapacityPolicy::kMaxUtilization;
    options.prefill_tokens_max = 150;
    options.prefix_caching = prefix_caching;
    const Happened happened = through_engine(setup, options);
    if (!GetParam().has_window) {
      EXPECT_GT(happened.n_pauses, 0u);
    }
  }
}

// Each set has attention of its own, some for one type of the cache.
TEST_P(Law1Long, OnEverySetTheSameBits) {
  for (const kernels::Isa isa : kernels::available_isas()) {
    RunnerSetup setup = base();
    setup.isa = kernels::name_of(isa);
    SCOPED_TRACE(setup.isa);
    use({request(1, 500, 20), request(2, 640, 8)}, setup.isa);
    setup.block_tokens = 32;
    setup.n_threads = 3;
    setup.task_order_seed = 5;
    batch::EngineOptions options;
    options.prefill_tokens_max = 230;
    options.prefix_caching = false;
    through_engine(setup, options);
  }
}

// Beams whose outputs cross positions 256 and 512, beside a prompt in chunks.
TEST_P(Law1Long, BeamsTheSameBits) {
  auto reference = start(folder_.path(), base());
  ASSERT_NE(reference, nullptr);
  std::vector<batch::GenerationRequest> requests(3);
  requests[0].prompt = request(1, 506, 0).prompt;
  requests[1].prompt = request(2, 251, 0).prompt;
  requests[2].prompt = request(3, 400, 0).prompt;
  for (batch::GenerationRequest& r : requests)
    r.stopping = {.max_new_tokens = 9, .ignore_eos = true};
  requests[0].beams = {.width = 3, .length_penalty = 1.0F};
  requests[1].beams = {.width = 4, .length_penalty = 1.0F, .diversity_rate = 0.3F};
  requests[0].n_beam_answers = 3;
  requests[1].n_beam_answers = 4;
  const auto expected = testing::compute_alone(*reference, std::move(requests));
  for (const std::size_t n_threads : {1U, 3U}) {
    SCOPED_TRACE(n_threads);
    RunnerSetup setup = base();
    setup.block_tokens = n_threads == 1 ? 16 : 8;
    setup.n_threads = n_threads;
    setup.task_order_seed = n_threads;
    batch::EngineOptions options;
    options.prefill_tokens_max = 150;
    options.prefix_caching = n_threads == 1;
    const Happened happened = testing::expect_as_alone(folder_.path(), setup, options, expected);
    EXPECT_EQ(happened.n_shared_tokens > 0, options.prefix_caching);
  }
}

INSTANTIATE_TEST_SUITE_P(Models, Law1Long, ::testing::ValuesIn(kModels), [](const auto& model) {
  return std::string(model.param.name);
});

}  // namespace
}  // namespace coxswain::runner
