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
std::unique_ptr<LocalRunner> start(std::size_t n_threads) {
  const char* data = std::getenv("COXSWAIN_DATA");
  const std::string dir = data == nullptr ? "" : std::string(data) + "/models/stories260K";
  if (data == nullptr || !std::filesystem::exists(dir)) return nullptr;
  RunnerOptions options;
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
