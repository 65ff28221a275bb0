// Requests whose thoughts are bounded, through whole runners: the block closes in time, and law 1 holds.

#include <algorithm>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/compiler.h"
#include "runner/fake_model.h"
#include "runner/local_runner.h"
#include "runner/plan_driver.h"
#include "runner/testing/seam_peer.h"
#include "runner/testing/test_grammars.h"

namespace coxswain::runner {
namespace {

std::unique_ptr<LocalRunner> runner_of(std::size_t n_threads) {
  RunnerOptions options = testing::small_options();
  options.n_threads = n_threads;
  options.max_batch_prefill_tokens = 64;
  return testing::fake_runner(options);
}

// Blocks of 0 to 6 tokens, with and without draws, cuts and penalties.
std::vector<SequenceSpec> requests() {
  std::vector<SequenceSpec> specs;
  for (std::uint32_t i = 0; i < 7; ++i) {
    SequenceSpec spec{.id = SequenceId{i + 1}};
    for (std::uint32_t p = 0; p < 3 + i * 3; ++p)
      spec.prompt.push_back(static_cast<TokenId>(5 + (p * 7 + (p > 7 ? i : 0)) % 50));
    spec.stopping = {.max_new_tokens = 24, .ignore_eos = true};
    spec.sampling.thoughts.emplace(ThoughtBudget{.tokens_max = i, .close = {30, 31, 32}});
    if (i % 2 == 1) {
      spec.sampling.do_sample = true;
      spec.sampling.seed = 11 + i;
      spec.sampling.temperature = 1.5F;
      spec.sampling.n_top_tokens = 3;
      spec.sampling.top_k = 2;
    }
    if (i == 2) spec.sampling.repetition_penalty = 1.3F;
    specs.push_back(std::move(spec));
  }
  return specs;
}

TEST(Thoughts, TheBlockIsClosedAtItsBound) {
  const std::vector<SequenceSpec> specs = requests();
  const auto outcomes = drive_each_alone(*runner_of(1), specs);
  for (std::uint32_t i = 0; i < specs.size(); ++i) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(outcomes[i].status.ok()) << outcomes[i].status.message();
    const auto& tokens = outcomes[i].tokens;
    ASSERT_EQ(tokens.size(), 24U);
    // The model may have begun with it by itself.
    const std::vector<TokenId>& close = specs[i].sampling.thoughts->close;
    const auto same = [](const OutputToken& token, TokenId id) { return token.id == id; };
    const auto at = std::search(tokens.begin(), tokens.end(), close.begin(), close.end(), same);
    ASSERT_LE(at - tokens.begin(), i);
    for (const OutputToken& token : tokens) EXPECT_LE(token.logprob, 0.0F);
  }
  // All survive without cuts: the log-probability is the model's, not that of a certain token.
  EXPECT_LT(outcomes[0].tokens[0].logprob, -0.01F);
}

TEST(Thoughts, InEveryWayTheSameBits) {
  std::vector<SequenceSpec> specs = requests();
  const auto whole = drive_each_alone(*runner_of(1), specs);
  struct Way {
    const char* name;
    std::size_t n_threads;
    DriveOptions drive;
  };
  const std::vector<Way> ways = {
      {"batched, 3 threads", 3, {.include_share = 0.7}},
      {"look-ahead", 2, {.seed = 2, .chunk_tokens_max = 5, .look_ahead = true}},
      {"shared prefixes", 1, {.seed = 3, .include_share = 0.5, .share_prefixes = true}},
      {"pauses", 2, {.seed = 4, .include_share = 0.8, .pause_share = 0.15}},
  };
  for (const Way& way : ways)
    expect_same_outcomes(whole, drive(*runner_of(way.n_threads), specs, way.drive), way.name);
  testing::Peer peer(runner_of(2), true);
  expect_same_outcomes(whole, drive(*peer, specs, {.seed = 6, .pause_share = 0.1}), "streamed");
}

// Thoughts of a grammar are closed where it lets them be, and what follows is its text; what it does not let follow
// is not forced.
TEST(Thoughts, AGrammarComesBefore) {
  const auto runner = runner_of(1);
  SequenceSpec spec{.id = SequenceId{1}, .prompt = {5, 6, 7}, .stopping = {.max_new_tokens = 24}};
  grammar::Source source{.kind = grammar::Source::Kind::kRegex, .text = "[a-c]{3}"};
  source.preamble = {.begin = "", .end = "xy", .is_open = true};
  spec.sampling.grammar = grammar::compile_source(source).value();
  const auto close = runner->codec()->encode("xy", false).value();
  spec.sampling.thoughts.emplace(ThoughtBudget{.tokens_max = 4, .close = close});
  const auto closed = drive_each_alone(*runner, std::vector{spec})[0];
  ASSERT_TRUE(closed.status.ok()) << closed.status.message();
  const std::string text = closed.finish.generated_text;
  const std::size_t at = text.find("xy");
  ASSERT_NE(at, std::string::npos) << text;
  for (std::size_t k = 0; k < close.size(); ++k) EXPECT_EQ(closed.tokens.at(4 + k).id, close[k]);
  EXPECT_TRUE(testing::matches("[ \\t\\n]*[a-c]{3}", text.substr(at + 2))) << text;

  spec.sampling.grammar = testing::regex_grammar("[a-c]{8}");
  const auto bound = drive_each_alone(*runner, std::vector{spec})[0];
  EXPECT_TRUE(testing::matches("[a-c]{8}", bound.finish.generated_text))
      << bound.finish.generated_text;
}

TEST(Thoughts, ARunnerChecksThem) {
  std::vector<SequenceSpec> specs = requests();
  specs[1].sampling.thoughts->close.clear();
  specs[2].sampling.thoughts->open = {1'000'000};
  const auto outcomes = drive(*runner_of(1), specs, {});
  EXPECT_EQ(outcomes[1].status.field(), "thoughts.close");
  EXPECT_EQ(outcomes[2].status.field(), "thoughts.open");
  EXPECT_TRUE(outcomes[0].status.ok());
}

}  // namespace
}  // namespace coxswain::runner
