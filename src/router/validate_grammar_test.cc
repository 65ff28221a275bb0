// Grammars of requests: compiled once, refused in the words of the route, in the form that shards take.

#include <gtest/gtest.h>

#include "grammar/pattern.h"
#include "router/test_tokenizer.h"
#include "router/validate.h"

namespace coxswain::router {
namespace {

ValidationLimits limits_of_bytes() {
  ValidationLimits limits;
  limits.input_tokens_max = 10;
  limits.total_tokens_max = 16;
  limits.vocab_size = 258;
  return limits;
}

class ValidateGrammarsTest : public testing::Test {
 protected:
  Result<ValidRequest> check(api::ApiStyle style,
                             const api::Parameters& parameters,
                             std::string_view text = "hello") {
    ValidationInput input;
    input.style = style;
    input.parameters = &parameters;
    input.text.text = text;
    return validator_.validate(input);
  }

  Validator validator_{
      limits_of_bytes(), std::make_shared<ByteTokenizer>(), [] { return std::uint64_t{1}; }};
};

api::AskedGrammar asked_for(std::string pattern) {
  return {{.kind = grammar::Source::Kind::kRegex, .text = std::move(pattern)}, "guided_regex"};
}

TEST_F(ValidateGrammarsTest, AGrammarIsCompiledOnceForAllRoutes) {
  api::Parameters p;
  EXPECT_FALSE(check(api::ApiStyle::kNative, p)->sampling().grammar);
  p.grammar = asked_for("ab*");
  const auto native = check(api::ApiStyle::kNative, p);
  ASSERT_TRUE(native.ok()) << native.status().message();
  const CompiledGrammar first = native->sampling().grammar;
  ASSERT_TRUE(first);
  EXPECT_TRUE(grammar::Program::from_bytes(*first.bytes).ok());
  const auto openai = check(api::ApiStyle::kOpenAi, p);
  EXPECT_EQ(openai->sampling().grammar.bytes, first.bytes);  // the same bytes, not such ones again
  EXPECT_EQ(openai->engine_request(RequestId{1}).sampling.grammar.bytes, first.bytes);
  p.grammar = asked_for("ab+");
  EXPECT_NE(check(api::ApiStyle::kOpenAi, p)->sampling().grammar, first);
}

TEST_F(ValidateGrammarsTest, AGrammarThatDoesNotCompileIsRefusedInTheWordsOfTheRoute) {
  api::Parameters p;
  p.grammar = asked_for("(");
  const Status native = check(api::ApiStyle::kNative, p).status();
  const Status openai = check(api::ApiStyle::kOpenAi, p).status();
  EXPECT_TRUE(native.message().starts_with("grammar is not valid: ")) << native.message();
  EXPECT_TRUE(openai.message().starts_with("`guided_regex` is not valid: ")) << openai.message();
  for (const Status& status : {native, openai}) {
    EXPECT_EQ(status.code(), Code::kInvalidArgument);
    EXPECT_EQ(status.kind(), ErrorKind::kValidation);
    EXPECT_EQ(status.field(), "guided_regex");
  }
  // It is looked at last.
  EXPECT_EQ(check(api::ApiStyle::kNative, p, "").status().message(), "`inputs` cannot be empty");
}

TEST(ValidateGrammars, AreRefusedWhereTheyAreNotAllowed) {
  ValidationLimits limits = limits_of_bytes();
  limits.allows_grammars = false;
  const Validator validator(
      limits, std::make_shared<ByteTokenizer>(), [] { return std::uint64_t{1}; });
  api::Parameters p;
  ValidationInput input;
  input.parameters = &p;
  input.text.text = "hello";
  EXPECT_TRUE(validator.validate(input).ok());
  p.grammar = asked_for("a");
  for (const api::ApiStyle style : {api::ApiStyle::kNative, api::ApiStyle::kTgi}) {
    input.style = style;
    EXPECT_EQ(validator.validate(input).status().message(), "grammar is not supported");
  }
  input.style = api::ApiStyle::kOpenAi;
  EXPECT_EQ(validator.validate(input).status().message(),
            "`guided_regex` is not supported: --disable-grammar-support is set");
}

TEST(ValidateGrammars, ArePatternsWhereShardsTakeNoOtherForm) {
  ValidationLimits limits = limits_of_bytes();
  limits.grammars_are_patterns = true;
  const Validator validator(
      limits, std::make_shared<ByteTokenizer>(), [] { return std::uint64_t{1}; });
  api::Parameters p;
  ValidationInput input;
  input.style = api::ApiStyle::kOpenAi;
  input.parameters = &p;
  input.text.text = "hello";
  p.grammar = asked_for("a(b)?");
  const auto taken = validator.validate(input);
  ASSERT_TRUE(taken.ok()) << taken.status().message();
  EXPECT_EQ(grammar::carried_pattern(taken->sampling().grammar), "ab?");
  p.grammar = api::AskedGrammar{{.kind = grammar::Source::Kind::kJsonObject}, "response_format"};
  const Status status = validator.validate(input).status();
  EXPECT_EQ(status.code(), Code::kUnimplemented);
  EXPECT_EQ(status.field(), "response_format");
  EXPECT_EQ(status.message(),
            "`response_format` is not supported by this shard, which takes regular expressions: it "
            "is recursive, which no regular expression is");
}

}  // namespace
}  // namespace coxswain::router
