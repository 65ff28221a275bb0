// Requests that go on in another engine over another runner of the same model: tokens, log-probabilities, texts, logits
// and ends are the rest of those of the undisturbed request, bit for bit, wherever it is cut.

#include <algorithm>
#include <cstdlib>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "batch/testing/recorder.h"
#include "json/json.h"
#include "model/test_models.h"
#include "runner/testing/law1_runs.h"
#include "runner/testing/test_grammars.h"

namespace coxswain::runner {
namespace {

using batch::GenerationRequest;
using batch::testing::Recorder;
using testing::RunnerSetup;
using testing::start;

std::unique_ptr<batch::Engine> engine_over(std::unique_ptr<LocalRunner> runner) {
  batch::EngineOptions options;
  options.check_invariants = true;
  options.batch_size_max = 8;
  options.prefill_tokens_max = 24;
  return batch::Engine::create(std::move(runner), options);
}

struct Life {
  std::vector<OutputToken> tokens;
  std::vector<PromptToken> prompt;
  SequenceOutputs outputs;
  batch::TokenEvent last;
};

std::vector<Life> run(batch::Engine& engine, const std::vector<GenerationRequest>& requests) {
  std::vector<std::shared_ptr<Recorder>> sinks;
  for (const GenerationRequest& request : requests) {
    sinks.push_back(std::make_shared<Recorder>(request.progress));
    const Status status = engine.submit(request, sinks.back());
    EXPECT_TRUE(status.ok()) << status.message();
    if (!status.ok()) return {};
  }
  std::vector<Life> out;
  for (const auto& sink : sinks) {
    sink->wait_final();
    out.push_back({.tokens = sink->tokens(),
                   .prompt = sink->prompt(),
                   .outputs = sink->outputs(),
                   .last = sink->final_event()});
    EXPECT_TRUE(out.back().last.status.ok()) << out.back().last.status.message();
  }
  return out;
}

template <typename T>
std::vector<T> behind(const std::vector<T>& all, std::size_t n) {
  return {all.begin() + static_cast<std::ptrdiff_t>(std::min(n, all.size())), all.end()};
}

// Returns at how many places it was cut.
std::size_t expect_rest_everywhere(batch::Engine& first,
                                   batch::Engine& second,
                                   const GenerationRequest& request) {
  const Life whole = run(first, {request}).at(0);
  std::vector<GenerationRequest> cut;
  batch::Progress progress;
  for (std::size_t n = 1; n < whole.tokens.size(); ++n) {
    progress.ids.push_back(whole.tokens[n - 1].id);
    progress.cumulative_logprob += static_cast<double>(whole.tokens[n - 1].logprob);
    cut.push_back(request);
    cut.back().progress = progress;
    cut.back().id = RequestId{1000 + n};
  }
  const std::vector<Life> rest = run(second, cut);
  for (std::size_t i = 0; i < rest.size(); ++i) {
    const std::size_t n = i + 1;
    SCOPED_TRACE("behind " + std::to_string(n) + " tokens");
    EXPECT_EQ(rest[i].tokens, behind(whole.tokens, n));
    EXPECT_EQ(rest[i].last.finish, whole.last.finish);
    EXPECT_EQ(rest[i].last.n_generated, whole.last.n_generated);
    EXPECT_EQ(rest[i].last.cumulative_logprob, whole.last.cumulative_logprob);
    EXPECT_TRUE(rest[i].prompt.empty());
    EXPECT_TRUE(rest[i].outputs.context_logits.empty());
    const std::size_t n_all = whole.tokens.size();
    EXPECT_EQ(rest[i].outputs.generation_logits,
              behind(whole.outputs.generation_logits,
                     whole.outputs.generation_logits.size() / n_all * n));
    EXPECT_EQ(rest[i].outputs.generation_hidden,
              behind(whole.outputs.generation_hidden,
                     whole.outputs.generation_hidden.size() / n_all * n));
  }
  return rest.size();
}

GenerationRequest plain(std::vector<TokenId> prompt, std::uint32_t n_new) {
  GenerationRequest out;
  out.id = RequestId{1};
  out.prompt = std::move(prompt);
  out.stopping = {.max_new_tokens = n_new, .ignore_eos = true};
  return out;
}

// Everything whose state follows from the ids.
std::vector<GenerationRequest> variants(const GenerationRequest& greedy) {
  std::vector<GenerationRequest> out(9, greedy);
  out[1].sampling.do_sample = true;
  out[1].sampling.seed = 17;
  out[1].sampling.temperature = 1.3F;
  out[2].sampling = out[1].sampling;
  out[2].sampling.repetition_penalty = 1.2F;
  out[2].sampling.frequency_penalty = 0.3F;
  out[2].sampling.relative_frequency_penalty = 0.2F;
  out[3].sampling.no_repeat_ngram_size = 2;
  out[4].sampling = out[1].sampling;
  out[4].sampling.n_top_tokens = 3;
  out[4].prompt_logprobs = true;
  out[5].outputs = {.context_logits = true, .generation_logits = true, .generation_hidden = true};
  out[6].sampling.presence_penalty = 0.7F;
  out[6].sampling.penalties_count_prompt = true;
  for (TokenId id = 3; id < 30; ++id) out[6].sampling.bad_words.push_back({id, id + 1});
  out[7].stopping.min_new_tokens = greedy.stopping.max_new_tokens / 2;
  out[7].stopping.ignore_eos = false;
  out[8].sampling = out[1].sampling;
  out[8].sampling.thoughts.emplace(ThoughtBudget{.tokens_max = 4, .close = {9, 8, 9}});
  return out;
}

class Resume : public ::testing::TestWithParam<model::SmallModel> {};

TEST_P(Resume, BehindEveryTokenTheSameBits) {
  base::TempFolder folder;
  model::RandomCheckpointOptions options;
  options.dir = folder.path();
  options.type = tensor::DType::kF32;
  ASSERT_TRUE(write_random_checkpoint(model::small_config(GetParam().fields), options).ok());
  std::vector<TokenId> prompt;
  prompt.reserve(19);
  for (TokenId i = 0; i < 19; ++i) prompt.push_back(3 + i * 11 % 58);
  auto one = start(folder.path(), {.block_tokens = 16});
  auto other = start(folder.path(), {.block_tokens = 4, .n_threads = 2, .kv_tokens = 320});
  ASSERT_TRUE(one != nullptr && other != nullptr);
  const auto first = engine_over(std::move(one));
  const auto second = engine_over(std::move(other));
  std::size_t n_cuts = 0;
  for (const GenerationRequest& request : variants(plain(prompt, 12)))
    n_cuts += expect_rest_everywhere(*first, *second, request);
  EXPECT_GT(n_cuts, 40U);
}

INSTANTIATE_TEST_SUITE_P(Families,
                         Resume,
                         ::testing::ValuesIn(model::small_models()),
                         [](const auto& family) { return std::string(family.param.name); });

// With texts: stop strings and stop sequences that begin before the cut and end behind it.
TEST(ResumeText, StopsAndPiecesOfText) {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  const std::string dir = std::string(root != nullptr ? root : ".") + "/models/demo";
  const auto golden = json::parse_file(dir + "/golden.json", std::size_t{1} << 20);
  ASSERT_TRUE(golden.ok()) << golden.status().message();
  const json::Value& sum = golden->find("entries")->as_array().at(5);
  std::vector<TokenId> prompt;
  for (const json::Value& id : sum.find("prompt_ids")->as_array())
    prompt.push_back(static_cast<TokenId>(id.to_int64().value()));
  std::vector<TokenId> ids;
  for (const json::Value& id : sum.find("ids")->as_array())
    ids.push_back(static_cast<TokenId>(id.to_int64().value()));
  ASSERT_GT(ids.size(), 40U);

  RunnerOptions options;
  options.model_dir = dir;
  options.kv_blocks = 80;
  options.max_total_tokens = 200;
  options.max_batch_size = 8;
  options.n_threads = 1;
  auto one = LocalRunner::create(options);
  options.block_tokens = 4;
  options.kv_blocks = 200;
  options.n_threads = 2;
  auto other = LocalRunner::create(options);
  ASSERT_TRUE(one.ok() && other.ok());
  const auto first = engine_over(std::move(one).value());
  const auto second = engine_over(std::move(other).value());

  GenerationRequest request = plain(prompt, 60);
  request.stopping.ignore_eos = false;
  std::vector<GenerationRequest> all(6, request);
  all[1].stopping.stop_sequences = {"=13, 3+5", "never"};
  all[1].stopping.order = FinishOrder::kStopFirst;
  all[2].stopping.stop_token_sequences = {{ids[30], ids[31], ids[32], ids[33]}};
  all[3].sampling.do_sample = true;
  all[3].sampling.temperature = 3.0F;
  all[3].sampling.seed = 5;
  all[3].stopping.stop_sequences = {"zzzz"};
  all[4].sampling.grammar = testing::regex_grammar("([0-9]{1,3}[+=,] ?){6,8}");
  all[5].sampling = all[4].sampling;
  all[5].sampling.do_sample = true;
  all[5].sampling.temperature = 2.0F;
  all[5].sampling.seed = 6;
  all[5].stopping.ignore_eos = true;
  std::size_t n_stopped = 0;
  for (const GenerationRequest& each : all) {
    EXPECT_GT(expect_rest_everywhere(*first, *second, each), 3U);
    GenerationRequest again = each;
    again.id = RequestId{2};
    const Life life = run(*first, {again}).at(0);
    n_stopped += life.last.finish->reason == FinishReason::kStopSequence ? 1 : 0;
    if (each.sampling.grammar) {
      EXPECT_TRUE(testing::matches("([0-9]{1,3}[+=,] ?){6,8}", life.last.finish->generated_text))
          << life.last.finish->generated_text;
    }
    EXPECT_FALSE(life.last.finish->generated_text.empty());
  }
  EXPECT_GE(n_stopped, 2U);
}

}  // namespace
}  // namespace coxswain::runner
