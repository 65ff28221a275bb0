// Requests with a grammar through whole runners: their texts match it, and law 1 holds for them as for all others.

#include "runner/grammars.h"

#include <atomic>
#include <cstdlib>
#include <string>
#include <thread>
#include <vector>

#include <gtest/gtest.h>

#include "runner/fake_model.h"
#include "runner/local_runner.h"
#include "runner/plan_driver.h"
#include "runner/testing/seam_peer.h"
#include "runner/testing/test_grammars.h"

namespace coxswain::runner {
namespace {

using testing::matches;
using testing::regex_grammar;

// Counts how often it was asked for the bytes of a token.
class CountingCodec final : public TextCodec {
 public:
  Result<std::vector<TokenId>> encode(std::string_view text, bool special) const override {
    return inner_->encode(text, special);
  }
  std::string decode(std::span<const TokenId> ids, bool skip_special) const override {
    return inner_->decode(ids, skip_special);
  }
  std::unique_ptr<Stream> stream(std::span<const TokenId> context,
                                 bool skip_special) const override {
    return inner_->stream(context, skip_special);
  }
  std::string token_text(TokenId id) const override { return inner_->token_text(id); }
  bool is_special(TokenId id) const override {
    ++n_asked;
    return inner_->is_special(id);
  }
  std::string token_bytes(TokenId id) const override { return inner_->token_bytes(id); }
  mutable std::atomic<std::size_t> n_asked{0};

 private:
  std::shared_ptr<const TextCodec> inner_ = make_fake_codec();
};

TEST(Grammars, TheVocabularyIsReadOnceBeforeAGrammarComes) {
  const auto codec = std::make_shared<const CountingCodec>();
  Grammars grammars(*codec, 64);
  while (codec->n_asked < 64) std::this_thread::yield();
  ASSERT_TRUE(grammars.open(regex_grammar("a+")).ok());
  ASSERT_TRUE(grammars.open(regex_grammar("b+")).ok());
  EXPECT_EQ(codec->n_asked, 64U);
}

constexpr std::size_t kKept = 32;

TEST(Grammars, EqualBytesShareTheirMasksUntilTheyAreDropped) {
  const auto codec = make_fake_codec();
  Grammars grammars(*codec, 64);
  const auto first = grammars.open(regex_grammar("a+"));
  ASSERT_TRUE(first.ok());
  EXPECT_EQ(grammars.open(regex_grammar("a+")).value(), first.value());
  for (std::size_t i = 0; i + 1 < kKept; ++i)
    ASSERT_TRUE(grammars.open(regex_grammar("b{" + std::to_string(i + 1) + "}")).ok());
  // Used again, so that another is the one used longest ago.
  EXPECT_EQ(grammars.open(regex_grammar("a+")).value(), first.value());
  const auto oldest = grammars.open(regex_grammar("b{2}")).value();
  ASSERT_TRUE(grammars.open(regex_grammar("c+")).ok());
  EXPECT_EQ(grammars.open(regex_grammar("a+")).value(), first.value());
  EXPECT_EQ(grammars.open(regex_grammar("b{2}")).value(), oldest);
  for (std::size_t i = 0; i < kKept; ++i)
    ASSERT_TRUE(grammars.open(regex_grammar("d{" + std::to_string(i + 1) + "}")).ok());
  EXPECT_NE(grammars.open(regex_grammar("a+")).value(), first.value());
  // Who holds it keeps it.
  const grammar::TokenMasks& masks = *first.value();
  auto place = masks.begin();
  EXPECT_TRUE(masks.advance(place, "aa"));
  EXPECT_TRUE(masks.is_whole(place));
}

TEST(Grammars, BytesThatAreNoGrammarAreRefused) {
  const auto codec = make_fake_codec();
  Grammars grammars(*codec, 64);
  const std::string whole = *regex_grammar("(ab|cd)*").bytes;
  for (std::size_t n = 0; n < whole.size(); ++n) {
    const auto opened = grammars.open({std::make_shared<const std::string>(whole.substr(0, n))});
    ASSERT_EQ(opened.status().code(), Code::kInvalidArgument) << n;
    EXPECT_EQ(opened.status().field(), "grammar");
  }
}

constexpr const char* kWords = "(ab|cde|\xC3\xA9){2,5}f";
constexpr const char* kLetters = "[a-m]*";

std::vector<SequenceSpec> requests() {
  std::vector<SequenceSpec> specs;
  for (std::uint32_t i = 0; i < 8; ++i) {
    SequenceSpec spec{.id = SequenceId{i + 1}};
    for (std::uint32_t p = 0; p < 3 + i * 3; ++p)
      spec.prompt.push_back(static_cast<TokenId>(5 + (p * 7 + (p > 7 ? i : 0)) % 50));
    spec.stopping = {.max_new_tokens = 24};
    if (i == 1 || i == 2 || i == 3 || i == 6) spec.sampling.grammar = regex_grammar(kWords);
    if (i == 4 || i == 5) spec.sampling.grammar = regex_grammar(kLetters);
    spec.stopping.ignore_eos = i == 3 || i == 4;
    if (i % 2 == 1) {
      spec.sampling.do_sample = true;
      spec.sampling.seed = 11 + i;
      spec.sampling.temperature = 1.5F;
      spec.sampling.n_top_tokens = 3;
    }
    if (i == 2) spec.sampling.repetition_penalty = 1.3F;
    if (i == 6) {
      spec.sampling.no_repeat_ngram_size = 2;
      spec.stopping.min_new_tokens = 24;  // longer than any text of the grammar
    }
    specs.push_back(std::move(spec));
  }
  return specs;
}

std::unique_ptr<LocalRunner> runner_of(std::size_t n_threads, std::uint32_t rows_max = 64) {
  RunnerOptions options = testing::small_options();
  options.n_threads = n_threads;
  options.max_batch_prefill_tokens = rows_max;
  return testing::fake_runner(options);
}

TEST(GrammarRuns, TextsMatchAndEndWhereTheyAreWhole) {
  const auto runner = runner_of(1);
  const std::vector<SequenceSpec> specs = requests();
  const auto outcomes = drive_each_alone(*runner, specs);
  for (const std::size_t i : {1U, 2U, 3U, 6U}) {
    SCOPED_TRACE(i);
    ASSERT_TRUE(outcomes[i].status.ok()) << outcomes[i].status.message();
    EXPECT_TRUE(matches(kWords, outcomes[i].finish.generated_text))
        << outcomes[i].finish.generated_text;
    EXPECT_EQ(outcomes[i].finish.stop_text_begin, outcomes[i].finish.generated_text.size());
    const bool has_end = i != 3;
    EXPECT_EQ(outcomes[i].finish.reason,
              has_end ? FinishReason::kEosToken : FinishReason::kStopSequence);
    EXPECT_EQ(outcomes[i].tokens.back().id == 2, has_end);
  }
  EXPECT_EQ(outcomes[4].tokens.size(), 24U);  // whole everywhere, and never at its end
  EXPECT_EQ(outcomes[4].finish.reason, FinishReason::kLength);
  EXPECT_TRUE(matches(kLetters, outcomes[4].finish.generated_text));
  EXPECT_FALSE(matches(kLetters, outcomes[0].finish.generated_text));
}

TEST(GrammarRuns, InEveryWayTheSameBits) {
  const std::vector<SequenceSpec> specs = requests();
  const auto expected = drive_each_alone(*runner_of(1), specs);
  struct Way {
    const char* name;
    std::size_t n_threads;
    std::uint32_t rows_max;
    DriveOptions drive;
  };
  const std::vector<Way> ways = {
      {"batched", 1, 64, {}},
      {"batched, 3 threads", 3, 64, {.include_share = 0.7}},
      {"single positions", 2, 64, {.chunk_tokens_max = 1}},
      {"look-ahead", 2, 64, {.seed = 2, .chunk_tokens_max = 5, .look_ahead = true}},
      {"shared prefixes", 1, 64, {.seed = 3, .include_share = 0.5, .share_prefixes = true}},
      {"pauses", 2, 64, {.seed = 4, .include_share = 0.8, .pause_share = 0.15}},
      {"few rows", 2, 3, {.seed = 5, .pause_share = 0.05, .look_ahead = true}},
  };
  std::uint32_t n_pauses = 0;
  for (const Way& way : ways) {
    const auto seen = drive(*runner_of(way.n_threads, way.rows_max), specs, way.drive);
    expect_same_outcomes(expected, seen, way.name);
    for (const DriveOutcome& outcome : seen) n_pauses += outcome.n_pauses;
  }
  EXPECT_GT(n_pauses, 5U);
}

// The same through a shard's socket: what the wire carries of a grammar is all of it.
TEST(GrammarRuns, OverTheWireTheSameBits) {
  const std::vector<SequenceSpec> specs = requests();
  const auto expected = drive_each_alone(*runner_of(1), specs);
  testing::Peer peer(runner_of(2), true);
  expect_same_outcomes(expected, drive(*peer, specs, {.seed = 6, .pause_share = 0.1}), "streamed");
}

TEST(GrammarRuns, AHistoryOutsideTheGrammarFailsThatSequenceAlone) {
  const auto results_of = [](std::vector<std::vector<TokenId>> histories) {
    testing::Peer peer(runner_of(2), false);
    StepPlan plan;
    for (std::uint32_t i = 0; i < histories.size(); ++i) {
      SequenceSpec spec{.id = SequenceId{i + 1},
                        .prompt = {5, 6, 7},
                        .produced = histories[i],
                        .stopping = {.max_new_tokens = 9}};
      spec.sampling.grammar = regex_grammar("a(b|cd)*");
      plan.rows.push_back({.sequence = spec.id,
                           .n_tokens = testing::length(spec),
                           .table_changes = testing::table_of(*peer, i),
                           .emit = Emit::kSample});
      plan.new_sequences.push_back(std::move(spec));
    }
    return peer.run(std::move(plan)).sequences;
  };
  const std::vector<TokenId> good = {5, 7, 8, 6};                                    // "acdb"
  const auto results = results_of({good, {5, 5}, {5, 0}, {6}, {5, 7, 6, 8}, good});  // "aa", ...
  ASSERT_EQ(results.size(), 6U);
  const SequenceResult alone = results_of({good}).at(0);
  ASSERT_TRUE(alone.status.ok()) << alone.status.message();
  EXPECT_EQ(results[0].tokens, alone.tokens);
  EXPECT_EQ(results[5].tokens, alone.tokens);
  for (std::size_t i = 1; i < 5; ++i) {
    SCOPED_TRACE(i);
    EXPECT_EQ(results[i].status.code(), Code::kInvalidArgument);
    EXPECT_EQ(results[i].status.field(), "grammar");
    EXPECT_TRUE(results[i].tokens.empty());
  }
}

// Rewinds and forks of a sequence keep its grammar, from the place that their history reaches.
TEST(GrammarRuns, EditsKeepTheGrammar) {
  SequenceSpec spec{.id = SequenceId{1}, .prompt = {5, 6, 7}, .stopping = {.max_new_tokens = 24}};
  spec.sampling.grammar = regex_grammar("[a-c]{4}[d-f]{4}");
  testing::Peer peer(runner_of(1), false);
  StepPlan plan;
  plan.new_sequences = {spec};
  const testing::Text whole =
      testing::generate(peer, spec.id, {.place = 0, .first = 0, .end = 3}, 24, plan);
  ASSERT_TRUE(whole.finish);
  EXPECT_TRUE(matches("[a-c]{4}[d-f]{4}", whole.finish->generated_text));

  StepPlan fork;
  fork.edits = {{.sequence = SequenceId{2}, .source = spec.id, .n_output = 2, .append = {7}}};
  const testing::Text forked =
      testing::generate(peer, SequenceId{2}, {.place = 1, .first = 0, .end = 6}, 24, fork);
  ASSERT_TRUE(forked.finish);
  EXPECT_EQ(forked.finish->generated_text.substr(0, 3),
            whole.finish->generated_text.substr(0, 2) + "c");
  EXPECT_TRUE(matches("[a-c]{4}[d-f]{4}", forked.finish->generated_text));

  StepPlan foreign;
  foreign.edits = {{.sequence = SequenceId{3}, .source = spec.id, .n_output = 2, .append = {9}}};
  foreign.rows.push_back({.sequence = SequenceId{3},
                          .n_tokens = 6,
                          .table_changes = testing::table_of(*peer, 2),
                          .emit = Emit::kSample});
  const StepResult refused = peer.run(std::move(foreign));
  EXPECT_EQ(refused.sequences.at(0).status.message(),
            "the tokens produced before do not follow the grammar");
}

TEST(GrammarRuns, ARunnerWithoutTextRefusesGrammars) {
  auto runner =
      LocalRunner::create_with(testing::small_options(), make_fake_model(), nullptr, "fake-1");
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  std::vector<SequenceSpec> specs = requests();
  const auto outcomes = drive(**runner, specs, {});
  EXPECT_EQ(outcomes[1].status.code(), Code::kFailedPrecondition);
  EXPECT_EQ(outcomes[1].status.field(), "grammar");
  EXPECT_TRUE(outcomes[0].status.ok());
}

// A trained model: what it would say is digits and signs, and what it may say is its own words.
TEST(GrammarRuns, ARealTokenizerSpellsTheGrammar) {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");  // NOLINT(concurrency-mt-unsafe)
  RunnerOptions options;
  options.model_dir = std::string(root != nullptr ? root : ".") + "/models/demo";
  options.kv_blocks = 80;
  options.max_total_tokens = 200;
  options.max_batch_size = 8;
  options.n_threads = 1;
  auto runner = LocalRunner::create(options);
  ASSERT_TRUE(runner.ok()) << runner.status().message();
  const std::vector<std::string> patterns = {
      R"(\{"answer": (true|false), "words": \["[a-z ]{3,12}"(, "[a-z]{2,9}"){1,2}\]\})",
      "(yes|no|perhaps), \xE2\x82\xAC[1-9][0-9]{0,3}",
      "[\\u3042-\\u3050]{2,4}"};
  std::vector<SequenceSpec> specs;
  for (const std::string& pattern : patterns) {
    for (const bool do_sample : {false, true}) {
      SequenceSpec spec{.id = SequenceId{specs.size() + 1}};
      spec.prompt = (*runner)->codec()->encode("Is 3 + 5 = 8?", true).value();
      spec.stopping = {.max_new_tokens = 120};
      spec.sampling.do_sample = do_sample;
      spec.sampling.temperature = 2.0F;
      spec.sampling.seed = 3;
      spec.sampling.grammar = regex_grammar(pattern);
      specs.push_back(std::move(spec));
    }
  }
  const auto expected = drive_each_alone(**runner, specs);
  for (std::size_t i = 0; i < specs.size(); ++i) {
    ASSERT_TRUE(expected[i].status.ok()) << expected[i].status.message();
    EXPECT_EQ(expected[i].finish.reason, FinishReason::kEosToken);
    EXPECT_TRUE(matches(patterns[i / 2], expected[i].finish.generated_text))
        << expected[i].finish.generated_text;
  }
  expect_same_outcomes(
      expected,
      drive(**runner, specs, {.seed = 9, .include_share = 0.7, .pause_share = 0.05}),
      "batched");
}

}  // namespace
}  // namespace coxswain::runner
