#include "request/sampling_rules.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace coxswain::request {
namespace {

constexpr std::uint32_t kVocabSize = 10;
constexpr float kInfinity = std::numeric_limits<float>::infinity();

Status check(float SamplingParams::*member, float value) {
  SamplingParams params;
  params.*member = value;
  return check_sampling(params, kVocabSize);
}

TEST(Range, TextAndEnds) {
  EXPECT_EQ(kPositive.text(), "> 0.0");
  EXPECT_EQ(kProbability.text(), "> 0.0 and <= 1.0");
  EXPECT_EQ(kMinP.text(), ">= 0.0 and < 1.0");
  EXPECT_EQ((Range{.low = -2.5F, .high = 2.0F}.text()), ">= -2.5 and <= 2.0");
  EXPECT_EQ((Range{.high = 1e-7F}.text()), "<= 1e-07");
  EXPECT_EQ(kFinite.text(), "a finite number");
  EXPECT_TRUE(kPositive.is_positive());
  EXPECT_FALSE(kProbability.is_positive());
  EXPECT_FALSE((Range{.low = 0.0F}.is_positive()));
  for (const Range& range : {kPositive, kProbability, kMinP, kFinite}) {
    EXPECT_FALSE(range.contains(NAN));
    EXPECT_FALSE(range.contains(kInfinity));
    EXPECT_FALSE(range.contains(-kInfinity));
    EXPECT_TRUE(range.contains(0.5F));
  }
}

TEST(SamplingRules, GrammarsAreBounded) {
  const auto of_size = [](std::size_t n) {
    SamplingParams params;
    params.grammar.bytes = std::make_shared<const std::string>(n, 'g');
    return check_sampling(params, kVocabSize);
  };
  EXPECT_TRUE(of_size(1).ok());
  EXPECT_TRUE(of_size(kGrammarBytesMax).ok());
  const Status long_one = of_size(kGrammarBytesMax + 1);
  EXPECT_EQ(long_one.field(), "grammar");
  EXPECT_EQ(long_one.message(),
            "`grammar` must be at most 8388608 bytes when compiled. Given: 8388609");
  // Nothing would be left of it on the wire.
  EXPECT_EQ(of_size(0).field(), "grammar");
}

TEST(SamplingRules, DefaultsAreLegal) {
  EXPECT_EQ(check_sampling({}, kVocabSize), Status());
}

// What include/coxswain/types.h promises of each field, at its ends.
TEST(SamplingRules, EndsOfEveryRange) {
  const float tiny = std::numeric_limits<float>::denorm_min();
  const float below_one = std::nextafter(1.0F, 0.0F);
  const float above_one = std::nextafter(1.0F, 2.0F);
  struct Case {
    float SamplingParams::*member;
    std::vector<float> legal;
    std::vector<float> illegal;
  };
  const std::vector<Case> cases{
      {&SamplingParams::temperature, {tiny, 1e-7F, 100.0F}, {0.0F, -1.0F}},
      {&SamplingParams::top_p, {tiny, 1.0F}, {0.0F, above_one, -0.5F}},
      {&SamplingParams::typical_p, {tiny, 1.0F}, {0.0F, above_one, -0.5F}},
      {&SamplingParams::min_p, {0.0F, below_one}, {1.0F, -tiny}},
      {&SamplingParams::repetition_penalty, {tiny, 3.0F}, {0.0F, -1.0F}},
      {&SamplingParams::relative_frequency_penalty, {-9.0F, 9.0F}, {}},
      {&SamplingParams::frequency_penalty, {-9.0F, 9.0F}, {}},
      {&SamplingParams::presence_penalty, {-9.0F, 9.0F}, {}},
      {&SamplingParams::epsilon_cutoff, {0.0F, below_one}, {1.0F, -tiny}},
      {&SamplingParams::eta_cutoff, {0.0F, below_one}, {1.0F, -tiny}},
      {&SamplingParams::top_n_sigma, {0.0F, 9.0F}, {-tiny}},
      {&SamplingParams::dynatemp_range, {0.0F, 9.0F}, {-tiny}},
      {&SamplingParams::dynatemp_exponent, {tiny, 9.0F}, {0.0F, -1.0F}},
      {&SamplingParams::xtc_probability, {0.0F, 1.0F}, {-tiny, above_one}},
      {&SamplingParams::xtc_threshold, {tiny, 1.0F}, {0.0F, above_one}},
      {&SamplingParams::dry_multiplier, {0.0F, 9.0F}, {-tiny}},
      {&SamplingParams::dry_base, {1.0F, 9.0F}, {below_one, -2.0F}},
  };
  ASSERT_EQ(cases.size(), kSamplingRules.size());
  for (const Case& c : cases) {
    for (const float value : c.legal) EXPECT_TRUE(check(c.member, value).ok()) << value;
    for (const float value : c.illegal) EXPECT_FALSE(check(c.member, value).ok()) << value;
    for (const float value : {NAN, kInfinity, -kInfinity}) {
      EXPECT_FALSE(check(c.member, value).ok()) << value;
    }
  }
}

TEST(SamplingRules, RefusalsNameFieldRuleAndValue) {
  EXPECT_EQ(check(&SamplingParams::top_p, 1.5F),
            invalid_argument("`top_p` must be > 0.0 and <= 1.0. Given: 1.5", "top_p"));
  EXPECT_EQ(check(&SamplingParams::temperature, kInfinity),
            invalid_argument("`temperature` must be a finite number. Given: inf", "temperature"));
  EXPECT_EQ(check_sampling({.top_k = -1}, kVocabSize),
            invalid_argument("`top_k` must be >= 0. Given: -1", "top_k"));
  EXPECT_TRUE(check_sampling({.n_top_tokens = 64}, kVocabSize).ok());
  EXPECT_EQ(check_sampling({.n_top_tokens = 65}, kVocabSize),
            invalid_argument("`top_n_tokens` must be <= 64. Given: 65", "top_n_tokens"));
}

TEST(SamplingRules, BiasesAreOfTheVocabularyAndNumbers) {
  EXPECT_TRUE(check_sampling({.logit_bias = {{0, -kInfinity}, {9, 100.0F}}}, kVocabSize).ok());
  EXPECT_EQ(check_sampling({.logit_bias = {{10, 1.0F}}}, kVocabSize),
            invalid_argument("`logit_bias` token ids must be < 10. Given: 10", "logit_bias"));
  EXPECT_FALSE(check_sampling({.logit_bias = {{-1, 1.0F}}}, kVocabSize).ok());
  EXPECT_FALSE(check_sampling({.logit_bias = {{1, NAN}}}, kVocabSize).ok());
}

TEST(SamplingRules, SequencesOfIdsAreOfTheVocabularyAndFew) {
  const auto of_words = [](std::vector<std::vector<TokenId>> words) {
    return check_sampling({.bad_words = std::move(words)}, kVocabSize);
  };
  const auto of_stops = [](std::vector<std::vector<TokenId>> words) {
    return check_stopping({.max_new_tokens = 1, .stop_token_sequences = std::move(words)},
                          kVocabSize);
  };
  EXPECT_TRUE(of_words({{0}, {9, 9}}).ok());
  EXPECT_EQ(of_words({{1}, {}}),
            invalid_argument(
                "`bad_words` must be sequences of at least one token id. Given: an empty one",
                "bad_words"));
  EXPECT_EQ(
      of_words({{10}}),
      invalid_argument("`bad_words` must be token ids >= 0 and < 10. Given: 10", "bad_words"));
  EXPECT_TRUE(of_words(std::vector<std::vector<TokenId>>(1024, {1})).ok());
  EXPECT_EQ(
      of_words(std::vector<std::vector<TokenId>>(1025, {1})),
      invalid_argument("`bad_words` must be at most 1024 sequences. Given: 1025", "bad_words"));
  EXPECT_TRUE(of_words({std::vector<TokenId>(16'384, 1)}).ok());
  EXPECT_EQ(of_words({std::vector<TokenId>(16'384, 1), {1}}),
            invalid_argument("`bad_words` must be at most 16384 token ids together. Given: 16385",
                             "bad_words"));
  EXPECT_TRUE(of_stops({{0}, {9, 9}}).ok());
  EXPECT_EQ(of_stops({{-1}}).field(), "stop_token_sequences");
  EXPECT_EQ(of_stops({{}}).field(), "stop_token_sequences");
}

TEST(SamplingRules, ThoughtsAreClosedByFewIdsOfTheVocabulary) {
  const auto of = [](std::vector<TokenId> open, std::vector<TokenId> close) {
    SamplingParams params;
    params.thoughts.emplace(
        ThoughtBudget{.tokens_max = 5, .open = std::move(open), .close = std::move(close)});
    return check_sampling(params, kVocabSize);
  };
  const std::vector<TokenId> longest(64, 1);
  const std::vector<TokenId> longer(65, 1);
  EXPECT_TRUE(of({}, {9}).ok());
  EXPECT_TRUE(of(longest, longest).ok());
  EXPECT_EQ(of({1}, {}),
            invalid_argument("`thoughts.close` must be at least one token id. Given: none",
                             "thoughts.close"));
  EXPECT_EQ(of({}, longer),
            invalid_argument("`thoughts.close` must be at most 64 token ids. Given: 65",
                             "thoughts.close"));
  EXPECT_EQ(of(longer, {1}).field(), "thoughts.open");
  EXPECT_EQ(of({-1}, {1}).field(), "thoughts.open");
  EXPECT_EQ(of({}, {10}),
            invalid_argument("`thoughts.close` must be token ids >= 0 and < 10. Given: 10",
                             "thoughts.close"));
}

TEST(SamplingRules, AllowedTokensAreOfTheVocabulary) {
  EXPECT_TRUE(check_sampling({.allowed_tokens = {0, 9, 9}}, kVocabSize).ok());
  EXPECT_EQ(check_sampling({.allowed_tokens = {0, 10}}, kVocabSize),
            invalid_argument("`allowed_token_ids` must be token ids >= 0 and < 10. Given: 10",
                             "allowed_token_ids"));
  EXPECT_EQ(check_sampling({.allowed_tokens = std::vector<TokenId>(11, 1)}, kVocabSize),
            invalid_argument("`allowed_token_ids` must be at most 10 token ids. Given: 11",
                             "allowed_token_ids"));
}

TEST(SamplingRules, DryHasALengthAndFewShortBreakers) {
  const auto of_breakers = [](std::vector<std::string> texts) {
    return check_sampling({.dry_sequence_breakers = std::move(texts)}, kVocabSize);
  };
  EXPECT_EQ(check_sampling({.dry_allowed_length = 0}, kVocabSize),
            invalid_argument("`dry_allowed_length` must be >= 1. Given: 0", "dry_allowed_length"));
  EXPECT_TRUE(of_breakers(std::vector<std::string>(64, std::string(256, 'a'))).ok());
  EXPECT_EQ(of_breakers(std::vector<std::string>(65, "a")),
            invalid_argument("`dry_sequence_breakers` must be at most 64 texts. Given: 65",
                             "dry_sequence_breakers"));
  for (const std::size_t size : {0U, 257U}) {
    EXPECT_EQ(of_breakers({"a", std::string(size, 'a')}),
              invalid_argument("`dry_sequence_breakers` must be texts of 1 to 256 bytes. Given: " +
                                   std::to_string(size),
                               "dry_sequence_breakers"));
  }
}

TEST(SamplingRules, AStepStandsInTheOrderOnce) {
  using Step = SamplerStep;
  EXPECT_TRUE(check_sampling({.samplers = {Step::kTemperature, Step::kDry}}, kVocabSize).ok());
  EXPECT_EQ(check_sampling({.samplers = {Step::kTopK, Step::kDry, Step::kTopK}}, kVocabSize),
            invalid_argument("`samplers` must be steps that stand there once. Given: `top_k` twice",
                             "samplers"));
  EXPECT_EQ(check_sampling({.samplers = {static_cast<Step>(10)}}, kVocabSize),
            invalid_argument("`samplers` must be known steps. Given: 10", "samplers"));
}

TEST(SamplingRules, EndTokensAndTheLeastLength) {
  EXPECT_TRUE(
      check_stopping({.max_new_tokens = 3, .min_new_tokens = 3, .end_ids = {0, 9}}, kVocabSize)
          .ok());
  EXPECT_EQ(check_stopping({.max_new_tokens = 3, .min_new_tokens = 4}, kVocabSize),
            invalid_argument("`min_new_tokens` must be <= `max_new_tokens`, 3. Given: 4",
                             "min_new_tokens"));
  EXPECT_EQ(check_stopping({.max_new_tokens = 3, .end_ids = {-1}}, kVocabSize),
            invalid_argument("`end_ids` must be token ids >= 0 and < 10. Given: -1", "end_ids"));
  EXPECT_EQ(check_stopping({.end_ids = std::vector<TokenId>(257, 1)}, kVocabSize),
            invalid_argument("`end_ids` must be at most 256 token ids. Given: 257", "end_ids"));
}

TEST(SamplingRules, ForeignIds) {
  EXPECT_EQ(find_foreign_id(std::vector<TokenId>{0, 9}, kVocabSize), std::nullopt);
  EXPECT_EQ(find_foreign_id(std::vector<TokenId>{0, 10, 11}, kVocabSize), 10);
  EXPECT_EQ(find_foreign_id(std::vector<TokenId>{-1}, kVocabSize), -1);
}

}  // namespace
}  // namespace coxswain::request
