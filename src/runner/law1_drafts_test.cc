// Law 1 with drafts: whatever is guessed of the tokens to come, each request gives the same bits in fewer rows.

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "model/test_heads.h"
#include "model/test_models.h"
#include "runner/testing/law1_runs.h"
#include "runner/testing/seam_peer.h"
#include "runner/testing/test_grammars.h"

namespace coxswain::runner {
namespace {

using testing::expect_same_through_engine;
using testing::expect_same_when_driven;
using testing::Happened;
using testing::RunnerSetup;
using testing::start;

constexpr std::uint32_t kVocab = 61;

// Greedy and seeded, with penalties, forbidden tokens, alternatives, log-probabilities and outputs of the prompt.
std::vector<SequenceSpec> requests() {
  std::vector<SequenceSpec> specs;
  for (std::uint32_t i = 0; i < 7; ++i) {
    SequenceSpec spec{.id = SequenceId{i + 1}};
    for (std::uint32_t p = 0; p < 1 + i * 6; ++p)
      spec.prompt.push_back(static_cast<TokenId>(3 + (p * 11 + (p > 20 ? i : 0)) % (kVocab - 3)));
    // Of one length in all, so that no rope keeps them from sharing prefixes.
    spec.rope_length = 50;
    spec.stopping = {.max_new_tokens = 49 - 6 * i, .ignore_eos = true};
    spec.prompt_logprobs = i == 3 || i == 4;
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
    if (i == 4) spec.stopping.min_new_tokens = 9;
    spec.outputs = {.context_logits = i == 4, .generation_logits = i == 6};
    specs.push_back(std::move(spec));
  }
  return specs;
}

// As others may have guessed: with a wrong token here and there, none, one too many and the answer itself.
void guess(std::vector<SequenceSpec>& specs, const std::vector<DriveOutcome>& expected) {
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (i == 2) continue;
    std::vector<TokenId>& draft = specs[i].draft;
    for (const OutputToken& token : expected[i].tokens) {
      const bool wrong = i % 3 != 0 && draft.size() % (3 + i) == i;
      draft.push_back(wrong ? (token.id + 1) % static_cast<TokenId>(kVocab) : token.id);
    }
    if (i == 1) draft.push_back(5);
  }
}

class Law1Drafts : public ::testing::TestWithParam<model::SmallModel> {
 protected:
  void SetUp() override {
    model::RandomCheckpointOptions options;
    options.dir = folder_.path();
    options.type = tensor::DType::kF32;
    const Status written = write_random_checkpoint(model::small_config(GetParam().fields), options);
    ASSERT_TRUE(written.ok()) << written.message();
    specs_ = requests();
    const auto reference = start(folder_.path(), {});
    ASSERT_NE(reference, nullptr);
    expected_ = drive_each_alone(*reference, specs_);
    for (const DriveOutcome& outcome : expected_)
      ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
    guess(specs_, expected_);
  }
  base::TempFolder folder_;
  std::vector<SequenceSpec> specs_;
  std::vector<DriveOutcome> expected_;
};

TEST_P(Law1Drafts, InEveryWayTheSameBits) {
  const RunnerSetup base;
  const auto expect_same = [&](const std::string& name, RunnerSetup setup, DriveOptions drive) {
    setup.draft_tokens_max = drive.n_draft_max;
    return expect_same_when_driven(
        folder_.path(), base, {name, std::move(setup), drive}, specs_, expected_);
  };
  EXPECT_GT(expect_same("together", {}, {.n_draft_max = 4}).n_drafts, 60U);
  EXPECT_GT(expect_same("ahead", {.n_threads = 3}, {.look_ahead = true, .n_draft_max = 7}).n_drafts,
            60U);
  expect_same("ahead, one", {.block_tokens = 4}, {.look_ahead = true, .n_draft_max = 1});
  const Happened paused = expect_same("pauses, shared prefixes",
                                      {.block_tokens = 4, .n_threads = 2},
                                      {.seed = 4,
                                       .chunk_tokens_max = 9,
                                       .include_share = 0.7,
                                       .pause_share = 0.1,
                                       .share_prefixes = true,
                                       .look_ahead = true,
                                       .n_draft_max = 5});
  EXPECT_GT(paused.n_pauses, 0U);
  EXPECT_GT(paused.n_drafts, 0U);
  // Rows of one sequence in several slices.
  const Happened few = expect_same("a workspace of few rows",
                                   {.rows_max = 3, .batch_size_max = 2},
                                   {.seed = 6, .n_draft_max = 9});
  EXPECT_GT(few.n_drafts, 60U);
  expect_same("released windows, tasks in any order",
              {.block_tokens = 4, .n_threads = 3, .task_order_seed = 7},
              {.seed = 7,
               .chunk_tokens_max = 7,
               .include_share = 0.8,
               .release_windows = true,
               .n_draft_max = 6});
}

TEST_P(Law1Drafts, NothingIsComputedBehindAnEnd) {
  SequenceSpec spec = specs_[0];
  spec.draft.clear();
  for (const OutputToken& token : expected_[0].tokens) spec.draft.push_back(token.id);
  const TokenId end = spec.draft[spec.draft.size() / 2];
  spec.stopping.ignore_eos = false;
  spec.stopping.end_ids = {end};
  const auto runner = start(folder_.path(), {.draft_tokens_max = 9});
  ASSERT_NE(runner, nullptr);
  const std::vector<DriveOutcome> seen = drive(*runner, {{spec}}, {.n_draft_max = 9});
  EXPECT_EQ(seen[0].tokens.back().id, end);
  EXPECT_EQ(runner->state().drafts.computed, runner->state().drafts.accepted);
}

TEST_P(Law1Drafts, ThroughTheEngineTheSameBits) {
  batch::EngineOptions options;
  options.prefill_tokens_max = 24;
  for (const std::uint32_t kv_tokens : {2048U, 120U}) {
    for (const auto policy : {CapacityPolicy::kAdaptive,
                              CapacityPolicy::kMaxUtilization,
                              CapacityPolicy::kGuaranteedNoEvict}) {
      options.policy = policy;
      const RunnerSetup setup{
          .block_tokens = 4, .n_threads = 2, .kv_tokens = kv_tokens, .draft_tokens_max = 5};
      const Happened happened =
          expect_same_through_engine(folder_.path(), setup, options, specs_, expected_);
      EXPECT_GT(happened.n_drafts, 60U);
      if (kv_tokens == 120 && policy == CapacityPolicy::kMaxUtilization) {
        EXPECT_GT(happened.n_pauses, 0U);
      }
    }
  }
}

TEST_P(Law1Drafts, HowManyAreComputedChangesNothing) {
  RunnerOptions options;
  options.model_dir = folder_.path();
  options.without_text = true;
  options.dtype = tensor::DType::kF32;
  options.n_threads = 1;
  options.kv_blocks = 200;
  options.max_total_tokens = 50;
  options.output_bytes_max = std::uint64_t{16} << 20;
  options.draft_tokens_max = 8;  // by gain, as the clock says
  const auto runner = LocalRunner::create(options);
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  expect_same_outcomes(expected_, drive(**runner, specs_, {.n_draft_max = 8}), "by gain");
}

// Drafts of the model itself, which are right where it is greedy, and of another model, which hardly are.
TEST_P(Law1Drafts, ADraftModelChangesNothing) {
  const base::TempFolder other;
  ASSERT_TRUE(model::write_random_checkpoint(model::small_config(R"({"model_type":"llama"})"),
                                             {.dir = other.path(), .seed = 5, .progress = {}})
                  .ok());
  for (SequenceSpec& spec : specs_) spec.draft.clear();
  const bool is_short =
      GetParam().fields.find("\"max_position_embeddings\":24") != std::string::npos;
  for (const std::string& dir : {folder_.path(), other.path()}) {
    SCOPED_TRACE(dir == other.path() ? "another model" : "the model itself");
    const auto expect_same = [&](const std::string& name, RunnerSetup setup, DriveOptions drive) {
      setup.draft_tokens_max = drive.n_draft_max;
      setup.speculative_model_dir = dir;
      const Happened happened =
          expect_same_when_driven(folder_.path(), {}, {name, setup, drive}, specs_, expected_);
      EXPECT_TRUE(dir == other.path() || is_short || happened.n_drafts > 60) << happened.n_drafts;
      return happened;
    };
    expect_same("together", {.n_threads = 2}, {.n_draft_max = 4});
    const Happened paused = expect_same("ahead, pauses, shared prefixes",
                                        {.block_tokens = 4, .n_threads = 3},
                                        {.seed = 4,
                                         .chunk_tokens_max = 9,
                                         .include_share = 0.7,
                                         .pause_share = 0.1,
                                         .share_prefixes = true,
                                         .look_ahead = true,
                                         .n_draft_max = 7});
    EXPECT_GT(paused.n_pauses, 0U);
    expect_same("few rows, a draft's cache for two",
                {.rows_max = 3, .batch_size_max = 2},
                {.seed = 6, .n_draft_max = 9});
  }
  batch::EngineOptions options;
  options.prefill_tokens_max = 24;
  options.policy = CapacityPolicy::kMaxUtilization;
  const RunnerSetup setup{.block_tokens = 4,
                          .n_threads = 2,
                          .kv_tokens = 120,
                          .draft_tokens_max = 5,
                          .speculative_model_dir = folder_.path()};
  const Happened happened =
      expect_same_through_engine(folder_.path(), setup, options, specs_, expected_);
  EXPECT_GT(happened.n_pauses, 0U);
}

INSTANTIATE_TEST_SUITE_P(Families,
                         Law1Drafts,
                         ::testing::ValuesIn(model::small_models()),
                         [](const auto& family) { return std::string(family.param.name); });

class Law1DraftsByHeads : public Law1Drafts {};

TEST_P(Law1DraftsByHeads, ChangeNothing) {
  for (SequenceSpec& spec : specs_) spec.draft.clear();
  for (const model::TestHeads& heads : model::test_heads()) {
    const base::TempFolder folder;
    model::write_heads(folder, heads, 48, kVocab);
    for (const bool paused : {false, true}) {
      const RunnerSetup setup{.block_tokens = 4,
                              .n_threads = paused ? 3U : 1U,
                              .draft_tokens_max = 2,
                              .speculative_model_dir = folder.path()};
      const auto runner = start(folder_.path(), setup);
      ASSERT_NE(runner, nullptr);
      const auto seen = drive(*runner,
                              specs_,
                              {.seed = 3,
                               .chunk_tokens_max = 9,
                               .include_share = 0.8,
                               .pause_share = paused ? 0.1 : 0.0,
                               .share_prefixes = paused,
                               .look_ahead = paused,
                               .n_draft_max = 2});
      expect_same_outcomes(expected_, seen, heads.name);
      EXPECT_GT(runner->state().drafts.computed, 200U) << heads.name;
      EXPECT_GT(runner->state().drafts.accepted, 0U) << heads.name;
      EXPECT_GT(runner->memory_plan().draft_bytes, 0U);
    }
  }
}

TEST_P(Law1DraftsByHeads, WhatDoesNotFitIsRefused) {
  const auto message = [&](const std::string& dir, std::uint32_t draft_tokens_max) {
    RunnerOptions options;
    options.model_dir = folder_.path();
    options.without_text = true;
    options.draft_tokens_max = draft_tokens_max;
    options.speculative_model_dir = dir;
    options.kv_blocks = 64;
    const auto runner = LocalRunner::create(options);
    return runner.ok() ? (*runner)->speculation() : runner.status().message();
  };
  const base::TempFolder medusa;
  model::write_heads(medusa, model::test_heads()[0], 48, kVocab);
  EXPECT_EQ(message(medusa.path(), 4),
            "Speculate is set to `4` but this medusa models only has `3` heads, please make them "
            "match");
  EXPECT_EQ(message(medusa.path(), 0), "Using speculation medusa with 3 input ids.");
  EXPECT_EQ(message(medusa.path(), 1), "Using speculation medusa with 1 input ids.");
  EXPECT_EQ(message(folder_.path(), 2), "Using speculation draft model with 2 input ids.");
  EXPECT_EQ(message("", 2), "Using speculation n-gram with 2 input ids.");
  EXPECT_NE(message(folder_.path(), 0).find("`speculate` must be above 0"), std::string::npos);
  const base::TempFolder wide;
  model::write_heads(wide, model::test_heads()[0], 40, kVocab);
  EXPECT_NE(message(wide.path(), 2).find("0.0.linear"), std::string::npos)
      << message(wide.path(), 2);
  const base::TempFolder other;
  ASSERT_TRUE(model::write_random_checkpoint(
                  model::small_config(R"({"model_type":"llama","vocab_size":60})"),
                  {.dir = other.path(), .progress = {}})
                  .ok());
  EXPECT_NE(message(other.path(), 2).find("a vocabulary of 60 tokens, the model one of 61"),
            std::string::npos);
}

INSTANTIATE_TEST_SUITE_P(OneFamily,
                         Law1DraftsByHeads,
                         ::testing::Values(model::small_models().front()),
                         [](const auto& family) { return std::string(family.param.name); });

class Law1DraftsOverWire : public Law1Drafts {};

TEST_P(Law1DraftsOverWire, TheSameBits) {
  for (std::size_t i = 0; i < specs_.size(); ++i) {
    specs_[i].outputs = {};  // no message has them
    expected_[i].outputs = {};
  }
  testing::Peer peer(start(folder_.path(), {.n_threads = 2, .draft_tokens_max = 6}), true);
  EXPECT_EQ(peer->info().capabilities.draft_tokens_max, 6U);
  const auto seen = drive(*peer, specs_, {.look_ahead = true, .n_draft_max = 6});
  expect_same_outcomes(expected_, seen, "behind a socket");
  EXPECT_GT(peer.local().state().drafts.accepted, 60U);
}

INSTANTIATE_TEST_SUITE_P(OneFamily,
                         Law1DraftsOverWire,
                         ::testing::Values(model::small_models().front()),
                         [](const auto& family) { return std::string(family.param.name); });

// ---- a trained model, with text ----

std::unique_ptr<LocalRunner> start_trained(std::uint32_t draft_tokens_max, bool by_model = false) {
  const char* data = std::getenv("COXSWAIN_DATA");
  const std::string dir = data == nullptr ? "" : std::string(data) + "/models/stories260K";
  if (data == nullptr || !std::filesystem::exists(dir)) return nullptr;
  RunnerOptions options;
  options.model_dir = dir;
  options.n_threads = 2;
  options.kv_blocks = 256;
  options.draft_tokens_max = draft_tokens_max;
  options.draft_policy = DraftPolicy::kAlways;
  if (by_model) options.speculative_model_dir = dir;
  auto created = LocalRunner::create(options);
  EXPECT_TRUE(created.ok()) << created.status().message();
  return created.ok() ? std::move(created).value() : nullptr;
}

// Grammars, stop strings and ids, end tokens, a limit; the text is long enough that it repeats itself.
std::vector<SequenceSpec> texts(const TextCodec& codec) {
  std::vector<SequenceSpec> out;
  const auto add = [&](auto change) {
    const auto i = static_cast<std::uint32_t>(out.size());
    SequenceSpec spec{.id = SequenceId{i + 1}};
    spec.prompt = codec.encode("Once upon a time there was a dog. Once upon a time", true).value();
    spec.stopping.max_new_tokens = 90;
    spec.sampling.n_top_tokens = i % 3;
    if (i % 2 == 1) {
      spec.sampling.do_sample = true;
      spec.sampling.seed = 5 + i;
      spec.sampling.temperature = 0.7F;
    }
    change(spec);
    out.push_back(std::move(spec));
  };
  add([](SequenceSpec&) {});
  add([](SequenceSpec& s) { s.sampling.repetition_penalty = 1.1F; });
  for (const char* stop : {" the", "a ", ". "}) {
    add([&](SequenceSpec& s) { s.stopping.stop_sequences = {"zebra", stop}; });
  }
  add([&](SequenceSpec& s) {
    s.stopping.stop_token_sequences = {codec.encode(" was", false).value()};
  });
  add([](SequenceSpec& s) {
    s.sampling.grammar = testing::regex_grammar("[a-f]{1,12}(, [a-f]{1,12}){3}\\.");
  });
  add([](SequenceSpec& s) {
    s.sampling.grammar = testing::regex_grammar("(once|twice) upon a time");
  });
  add([](SequenceSpec& s) { s.sampling.grammar = testing::regex_grammar("(ab ){40}"); });
  add([](SequenceSpec& s) { s.stopping.ignore_eos = true; });
  return out;
}

TEST(Law1DraftsText, ADraftWithAnotherTokenizerIsRefused) {
  const char* data = std::getenv("COXSWAIN_DATA");
  const char* source = std::getenv("COXSWAIN_SOURCE_DIR");
  const std::string stories = std::string(data == nullptr ? "" : data) + "/models/stories260K";
  if (source == nullptr || !std::filesystem::exists(stories))
    GTEST_SKIP() << "COXSWAIN_DATA has no models/stories260K";
  RunnerOptions options;
  options.model_dir = std::string(source) + "/models/demo";
  options.speculative_model_dir = stories;
  options.draft_tokens_max = 3;
  options.kv_blocks = 64;
  options.max_total_tokens = 500;
  const auto refused = LocalRunner::create(options);
  EXPECT_EQ(refused.status().message(),
            "speculative_model " + stories +
                ": its tokenizer is not the model's: 512 tokens, the model has 3072");
  options.speculative_model_dir = std::string(source) + "/models/demo-draft";
  const auto created = LocalRunner::create(options);
  EXPECT_TRUE(created.ok()) << created.status().message();
}

TEST(Law1DraftsText, GrammarsStopStringsAndEnds) {
  const auto reference = start_trained(0);
  if (reference == nullptr) GTEST_SKIP() << "COXSWAIN_DATA has no models/stories260K";
  std::vector<SequenceSpec> specs = texts(*reference->codec());
  const auto expected = drive_each_alone(*reference, specs);
  // By look-up alone, told what comes, and by a model's guesses.
  for (const bool by_model : {false, true}) {
    const auto drafting = start_trained(6, by_model);
    ASSERT_NE(drafting, nullptr);
    for (const bool told : {false, true}) {
      if (told) guess(specs, expected);
      std::uint32_t n_drafts = 0;
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        const auto seen = drive(*drafting,
                                specs,
                                {.seed = seed,
                                 .include_share = 0.8,
                                 .pause_share = seed == 2 ? 0.05 : 0.0,
                                 .look_ahead = seed % 2 == 0,
                                 .n_draft_max = static_cast<std::uint32_t>(seed + 2)});
        expect_same_outcomes(expected, seen, "seed " + std::to_string(seed));
        for (const DriveOutcome& outcome : seen) n_drafts += outcome.n_drafts;
      }
      EXPECT_GT(n_drafts, 60U);
    }
    EXPECT_GT(drafting->state().drafts.accepted, 0U);
    EXPECT_GT(drafting->state().drafts.computed, drafting->state().drafts.accepted);
    for (SequenceSpec& spec : specs) spec.draft.clear();
  }
}

}  // namespace
}  // namespace coxswain::runner
