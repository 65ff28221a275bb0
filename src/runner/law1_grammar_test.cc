// Law 1 with grammars: each request gives the same tokens, bit for bit, whatever grammars run beside it, and each text
// is one that its grammar allows.

#include <cstdlib>
#include <filesystem>
#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/regex.h"
#include "grammar/testing/texts.h"
#include "runner/local_runner.h"
#include "runner/plan_driver.h"
#include "runner/testing/law1_runs.h"

namespace coxswain::runner {
namespace {

CompiledGrammar compiled(const std::string& pattern) {
  grammar::Expressions expressions;
  const auto root = grammar::parse_regex(expressions, pattern);
  EXPECT_TRUE(root.ok()) << root.status().message();
  const auto program = grammar::compile_program(expressions, root.value());
  EXPECT_TRUE(program.ok()) << program.status().message();
  return {std::make_shared<const std::string>(program->to_bytes())};
}

// Of a trained model, so that its tokenizer cuts texts as tokenizers do.
std::string model_dir() {
  const char* data = std::getenv("COXSWAIN_DATA");
  const std::string dir = data == nullptr ? "" : std::string(data) + "/models/stories260K";
  return data == nullptr || !std::filesystem::exists(dir) ? "" : dir;
}

std::unique_ptr<LocalRunner> start(std::size_t n_threads,
                                   DraftPolicy policy = DraftPolicy::kByGain,
                                   std::uint32_t draft_tokens_max = 0) {
  const std::string dir = model_dir();
  if (dir.empty()) return nullptr;
  RunnerOptions options;
  options.draft_policy = policy;
  options.draft_tokens_max = draft_tokens_max;
  options.model_dir = dir;
  options.n_threads = n_threads;
  options.kv_blocks = 256;
  auto created = LocalRunner::create(options);
  EXPECT_TRUE(created.ok()) << created.status().message();
  return created.ok() ? std::move(created).value() : nullptr;
}

// The last is free; two have the same grammar; "é" has no token of its own, so that masks cut characters.
const std::vector<std::string>& patterns() {
  static const std::vector<std::string> all = {"(once|twice) upon a time",
                                               "[a-f]{1,12}(, [a-f]{1,12}){3}\\.",
                                               "\\{\"n\": -?[0-9]{1,9}\\}",
                                               "(é|日)+ !",
                                               "[a-f]{1,12}(, [a-f]{1,12}){3}\\.",
                                               "[A-Z][a-z ]*(\\. [A-Z][a-z ]*)*",
                                               ""};
  return all;
}

std::vector<SequenceSpec> requests(const TextCodec& codec) {
  std::vector<SequenceSpec> out;
  for (std::uint32_t i = 0; i < patterns().size(); ++i) {
    SequenceSpec spec{.id = SequenceId{i + 1}};
    spec.prompt = codec.encode("Once upon a time there was a dog", true).value();
    spec.stopping.max_new_tokens = 40;
    spec.sampling.n_top_tokens = i % 3;
    if (i % 2 == 0) {
      spec.sampling.do_sample = true;
      spec.sampling.seed = 5 + i;
      spec.sampling.repetition_penalty = i == 2 ? 1.2F : 1.0F;
      spec.sampling.top_p = i == 4 ? 0.9F : 1.0F;
    }
    if (!patterns()[i].empty()) spec.sampling.grammar = compiled(patterns()[i]);
    out.push_back(std::move(spec));
  }
  return out;
}

TEST(Law1Grammar, AGrammarBindsItsRequestAndNoOther) {
  const auto reference = start(1);
  if (reference == nullptr) GTEST_SKIP() << "COXSWAIN_DATA has no models/stories260K";
  const std::vector<SequenceSpec> specs = requests(*reference->codec());
  const auto alone = drive_each_alone(*reference, specs);
  std::size_t n_whole = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    ASSERT_TRUE(alone[i].status.ok()) << alone[i].status.message();
    const std::string& text = alone[i].finish.generated_text;
    if (patterns()[i].empty() || alone[i].finish.reason == FinishReason::kLength) continue;
    ++n_whole;
    const auto program = grammar::Program::from_bytes(*specs[i].sampling.grammar.bytes);
    EXPECT_TRUE(grammar::testing::Acceptor(program.value()).accepts(text)) << text;
  }
  EXPECT_GE(n_whole, 4U);

  expect_same_outcomes(alone, drive(*reference, specs, {}), "together");
  const auto other = start(3);
  ASSERT_NE(other, nullptr);
  for (std::uint64_t seed = 1; seed <= 6; ++seed) {
    const auto seen = drive(*other,
                            specs,
                            {.seed = seed,
                             .chunk_tokens_max = 5,
                             .include_share = 0.7,
                             .pause_share = 0.05,
                             .share_prefixes = seed % 2 == 0,
                             .look_ahead = true});
    expect_same_outcomes(alone, seen, "seed " + std::to_string(seed));
  }
}

// Most of each text has to be as it is: in one piece, in several, behind a choice, in characters that no token spells
// as a whole. Sampled ones leave the tokens that are guessed. The last is free.
std::vector<SequenceSpec> forced_requests(const TextCodec& codec) {
  const std::vector<std::string> patterns = {
      "\\{\"the name of the dog\": \"[a-z]{1,8}\", \"the name of the cat\": \"[a-z]{1,8}\"\\}",
      "(once upon a time there was a bird|twice upon a time there was a fish)",
      "(a long way to go, ){6}home\\.",
      "日本語日本語 [0-9]{2} 日本語日本語",
      ""};
  std::vector<SequenceSpec> out;
  for (std::uint32_t i = 0; i < 3 * patterns.size(); ++i) {
    SequenceSpec spec{.id = SequenceId{i + 1}};
    spec.prompt = codec.encode("Once upon a time there was a dog", true).value();
    spec.stopping.max_new_tokens = i % 4 == 3 ? 17 : 60;
    spec.stopping.ignore_eos = i == 5;
    if (i == 7) spec.stopping.stop_sequences = {"go, a"};
    spec.sampling.n_top_tokens = i % 3;
    if (i >= patterns.size()) {
      spec.sampling.do_sample = true;
      spec.sampling.seed = 5 + i;
      spec.sampling.temperature = i >= 2 * patterns.size() ? 2.0F : 0.7F;
      spec.sampling.repetition_penalty = i % 2 == 0 ? 1.2F : 1.0F;
    }
    const std::string& pattern = patterns[i % patterns.size()];
    if (!pattern.empty()) spec.sampling.grammar = compiled(pattern);
    out.push_back(std::move(spec));
  }
  return out;
}

std::uint32_t n_beyond_one(const std::vector<DriveOutcome>& outcomes) {
  std::uint32_t out = 0;
  for (const DriveOutcome& outcome : outcomes) out += outcome.n_drafts;
  return out;
}

TEST(Law1Grammar, ForcedTextIsTheSameInFewerSteps) {
  const auto reference = start(1);
  if (reference == nullptr) GTEST_SKIP() << "COXSWAIN_DATA has no models/stories260K";
  const std::vector<SequenceSpec> specs = forced_requests(*reference->codec());
  const auto alone = drive_each_alone(*reference, specs);
  for (const DriveOutcome& outcome : alone)
    ASSERT_TRUE(outcome.status.ok()) << outcome.status.message();
  EXPECT_EQ(n_beyond_one(alone), 0U);
  for (const std::uint32_t draft_tokens_max : {0U, 3U}) {
    for (const std::size_t n_threads : {1U, 2U, 3U}) {
      const auto other = start(n_threads, DraftPolicy::kAlways, draft_tokens_max);
      ASSERT_NE(other, nullptr);
      for (std::uint64_t seed = 1; seed <= 4; ++seed) {
        const auto seen = drive(*other,
                                specs,
                                {.seed = seed,
                                 .chunk_tokens_max = seed == 1 ? 99U : 5U,
                                 .include_share = seed == 1 ? 1.0 : 0.7,
                                 .pause_share = seed % 2 == 0 ? 0.05 : 0.0,
                                 .share_prefixes = seed == 2,
                                 .look_ahead = seed != 3,
                                 .n_draft_max = draft_tokens_max,
                                 .n_forced_max = static_cast<std::uint32_t>(2 * seed)});
        expect_same_outcomes(alone, seen, "seed " + std::to_string(seed));
        EXPECT_GT(n_beyond_one(seen), 60U);
      }
    }
  }
  expect_same_outcomes(alone, drive(*reference, specs, {.n_forced_max = 8}), "by gain");

  // A text that is forced as a whole, as the model would write it.
  SequenceSpec natural = specs.front();
  natural.prompt = reference->codec()->encode("Once upon a time, there was a", true).value();
  natural.sampling.grammar =
      compiled(" little girl named Lily\\. She loved to play outside in the park\\.");
  const auto always = start(1, DraftPolicy::kAlways);
  ASSERT_NE(always, nullptr);
  const auto one_by_one = drive_each_alone(*reference, {natural});
  const auto n_steps = [&](std::uint32_t n_forced_max) {
    const std::uint64_t before = always->state().steps;
    const auto seen = drive(*always, {natural}, {.n_forced_max = n_forced_max});
    expect_same_outcomes(one_by_one, seen, "steps");
    return always->state().steps - before;
  };
  EXPECT_GT(n_steps(0), n_steps(8) + one_by_one.front().tokens.size() / 2);
}

TEST(Law1Grammar, ForcedTextIsTheSameThroughTheEngine) {
  const auto reference = start(1);
  if (reference == nullptr) GTEST_SKIP() << "COXSWAIN_DATA has no models/stories260K";
  const std::vector<SequenceSpec> specs = forced_requests(*reference->codec());
  const auto expected = drive_each_alone(*reference, specs);
  batch::EngineOptions options;
  options.prefill_tokens_max = 24;
  for (const std::uint32_t kv_tokens : {4096U, 240U}) {
    for (const auto policy : {CapacityPolicy::kAdaptive,
                              CapacityPolicy::kMaxUtilization,
                              CapacityPolicy::kGuaranteedNoEvict}) {
      options.policy = policy;
      const testing::RunnerSetup setup{.block_tokens = 8,
                                       .n_threads = 2,
                                       .kv_tokens = kv_tokens,
                                       .request_tokens_max = 200,
                                       .with_text = true};
      const testing::Happened happened =
          testing::expect_same_through_engine(model_dir(), setup, options, specs, expected);
      EXPECT_GT(happened.n_drafts, 60U);
      if (kv_tokens == 240 && policy == CapacityPolicy::kMaxUtilization) {
        EXPECT_GT(happened.n_pauses, 0U);
      }
    }
  }
}

// Room for guesses is given for the grammar alone.
TEST(Law1Grammar, WithoutAGrammarThereIsNoRoom) {
  const auto runner = start(1);
  if (runner == nullptr) GTEST_SKIP() << "COXSWAIN_DATA has no models/stories260K";
  std::vector<SequenceSpec> specs = forced_requests(*runner->codec());
  EXPECT_TRUE(drive(*runner, {specs[0]}, {.n_draft_max = 8}).front().status.ok());
  EXPECT_EQ(drive(*runner, {specs[0]}, {.n_draft_max = 9}).front().status.message(),
            "this runner has draft_tokens_max 0: `n_draft_max` is 9");
  EXPECT_EQ(drive(*runner, {specs[4]}, {.n_draft_max = 1}).front().status.message(),
            "this runner has draft_tokens_max 0: `n_draft_max` is 1");
}

TEST(Law1Grammar, BytesThatAreNoGrammarFailTheirSequenceAlone) {
  const auto runner = start(1);
  if (runner == nullptr) GTEST_SKIP() << "COXSWAIN_DATA has no models/stories260K";
  std::vector<SequenceSpec> specs = requests(*runner->codec());
  const auto expected = drive_each_alone(*runner, specs);
  specs[1].sampling.grammar.bytes = std::make_shared<const std::string>("CXG1\x01");
  const auto seen = drive(*runner, specs, {});
  EXPECT_EQ(seen[1].status.message(), "the compiled grammar is broken: it ends too early");
  for (std::size_t i = 0; i < specs.size(); ++i) {
    if (i == 1) continue;
    EXPECT_TRUE(same_outcome(expected[i], seen[i])) << i;
  }
}

}  // namespace
}  // namespace coxswain::runner
