// The small trained models of COXSWAIN_DATA through the whole runner: text in, tokens,
// log-probabilities and text out, against the answers stored beside the models.

#include <algorithm>
#include <cmath>
#include <cstdlib>
#include <filesystem>
#include <string>

#include <gtest/gtest.h>

#include "json/json.h"
#include "runner/local_runner.h"
#include "runner/plan_driver.h"

namespace coxswain::runner {
namespace {

constexpr double kLogprobTolerance = 1e-4;
constexpr double kGapMin = 1e-3;  // below it rounding may choose another id

std::vector<TokenId> ids_of(const json::Value& object, const char* field) {
  std::vector<TokenId> out;
  for (const json::Value& id : object.find(field)->as_array())
    out.push_back(static_cast<TokenId>(id.to_int64().value()));
  return out;
}

std::string without_leading_blanks(const std::string& text) {
  return text.substr(std::min(text.find_first_not_of(' '), text.size()));
}

void compare_prompt(const json::Value& golden, const DriveOutcome& outcome) {
  const auto& expected = golden.find("prompt_logprobs")->as_array();
  ASSERT_EQ(outcome.prompt.size(), expected.size());
  EXPECT_TRUE(std::isnan(outcome.prompt[0].logprob));
  for (std::size_t i = 1; i < expected.size(); ++i) {
    EXPECT_NEAR(outcome.prompt[i].logprob, expected[i].to_double().value(), kLogprobTolerance)
        << "position " << i;
  }
}

// Returns whether every id could be compared.
bool compare_output(const json::Value& golden, const DriveOutcome& outcome) {
  const auto ids = ids_of(golden, "greedy_ids");
  const auto& logprobs = golden.find("greedy_logprobs")->as_array();
  const auto& gaps = golden.find("gap_to_second")->as_array();
  EXPECT_EQ(outcome.tokens.size(), ids.size());
  for (std::size_t i = 0; i < std::min(ids.size(), outcome.tokens.size()); ++i) {
    if (gaps[i].to_double().value() < kGapMin) return false;
    EXPECT_EQ(outcome.tokens[i].id, ids[i]) << "output " << i;
    EXPECT_NEAR(outcome.tokens[i].logprob, logprobs[i].to_double().value(), kLogprobTolerance)
        << "output " << i;
    if (outcome.tokens[i].id != ids[i]) return false;
  }
  return true;
}

class TrainedModels : public testing::TestWithParam<std::string> {};

TEST_P(TrainedModels, GreedyTextIsTheReferences) {
  const char* data = std::getenv("COXSWAIN_DATA");
  const std::string dir = data == nullptr ? "" : std::string(data) + "/models/" + GetParam();
  if (data == nullptr || !std::filesystem::exists(dir))
    GTEST_SKIP() << "COXSWAIN_DATA has no models/" << GetParam();
  const auto golden = json::parse_file(dir + "/golden.json", std::size_t{64} << 20);
  ASSERT_TRUE(golden.ok()) << golden.status().message();

  RunnerOptions options;
  options.model_dir = dir;
  options.n_threads = 2;
  options.kv_blocks = 256;
  options.dtype = tensor::DType::kF32;
  options.kv_dtype = tensor::DType::kF32;
  auto created = LocalRunner::create(options);
  ASSERT_TRUE(created.ok()) << created.status().message();
  LocalRunner& runner = **created;

  std::vector<SequenceSpec> specs;
  for (const json::Value& prompt : golden->find("prompts")->as_array()) {
    SequenceSpec spec{.id = SequenceId{specs.size() + 1}, .prompt = ids_of(prompt, "prompt_ids")};
    const auto encoded = runner.codec()->encode(prompt.find("text")->as_string(), true);
    ASSERT_TRUE(encoded.ok());
    EXPECT_EQ(*encoded, spec.prompt);
    spec.stopping.max_new_tokens = 96;
    spec.prompt_logprobs = true;
    specs.push_back(std::move(spec));
  }
  const auto outcomes =
      drive(runner, specs, {.chunk_tokens_max = 7, .include_share = 0.7, .look_ahead = true});
  std::size_t n_whole = 0;
  for (std::size_t i = 0; i < specs.size(); ++i) {
    const json::Value& prompt = golden->find("prompts")->as_array()[i];
    SCOPED_TRACE(prompt.find("name")->as_string());
    ASSERT_TRUE(outcomes[i].status.ok()) << outcomes[i].status.message();
    compare_prompt(prompt, outcomes[i]);
    if (!compare_output(prompt, outcomes[i])) continue;
    ++n_whole;
    const bool by_length = prompt.find("finish")->as_string() == "length";
    EXPECT_EQ(outcomes[i].finish.reason,
              by_length ? FinishReason::kLength : FinishReason::kEosToken);
    const std::string text =
        golden->find("decoded")->find(prompt.find("name")->as_string())->as_string();
    std::string spelled;  // the reference spells special tokens out
    std::string plain;
    for (const OutputToken& token : outcomes[i].tokens) {
      spelled += token.text;
      plain += token.special ? "" : token.text;
    }
    EXPECT_EQ(without_leading_blanks(spelled), without_leading_blanks(text));
    EXPECT_EQ(without_leading_blanks(plain),
              without_leading_blanks(outcomes[i].finish.generated_text));
  }
  EXPECT_GT(n_whole, specs.size() / 2);
}

INSTANTIATE_TEST_SUITE_P(Models,
                         TrainedModels,
                         testing::Values("stories260K", "TinyStories-656K"),
                         [](const auto& model) {
                           std::string name = model.param;
                           std::erase(name, '-');
                           return name;
                         });

}  // namespace
}  // namespace coxswain::runner
