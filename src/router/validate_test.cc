#include "router/validate.h"

#include <limits>

#include <gtest/gtest.h>

#include "router/test_tokenizer.h"

namespace coxswain::router {
namespace {

ValidationLimits small_limits() {
  ValidationLimits limits;
  limits.input_tokens_max = 10;
  limits.total_tokens_max = 16;
  limits.vocab_size = 258;
  return limits;
}

class ValidateTest : public testing::Test {
 protected:
  Result<ValidRequest> check(api::ApiStyle style,
                             const api::Parameters& parameters,
                             std::string_view text = "hello",
                             bool stream = false) {
    ValidationInput input;
    input.style = style;
    input.stream = stream;
    input.parameters = &parameters;
    input.text.text = text;
    return validator_.validate(input);
  }

  std::uint64_t next_seed_ = 100;
  Validator validator_{
      small_limits(), std::make_shared<ByteTokenizer>(), [this] { return next_seed_++; }};
};

// Each row breaks one rule. Native texts are TGI's; those below /v1 name field, limit and value.
struct BadValue {
  const char* name;
  void (*set)(api::Parameters&);
  const char* message;
  const char* field;
  const char* openai_message;  // null: the same
  const char* openai_field;    // null: the same
};

const BadValue kBadValues[] = {
    {"repetition_penalty 0",
     [](api::Parameters& p) { p.repetition_penalty = 0.0F; },
     "`repetition_penalty` must be strictly positive",
     "repetition_penalty",
     "`repetition_penalty` must be > 0.0. Given: 0",
     nullptr},
    {"repetition_penalty -1",
     [](api::Parameters& p) { p.repetition_penalty = -1.0F; },
     "`repetition_penalty` must be strictly positive",
     "repetition_penalty",
     "`repetition_penalty` must be > 0.0. Given: -1",
     nullptr},
    {"temperature -1",
     [](api::Parameters& p) { p.temperature = -1.0F; },
     "`temperature` must be strictly positive",
     "temperature",
     "`temperature` must be >= 0.0. Given: -1",
     nullptr},
    {"temperature NaN",
     [](api::Parameters& p) { p.temperature = std::numeric_limits<float>::quiet_NaN(); },
     "`temperature` must be strictly positive",
     "temperature",
     "`temperature` must be >= 0.0. Given: nan",
     nullptr},
    {"frequency_penalty 2.5",
     [](api::Parameters& p) { p.frequency_penalty = 2.5F; },
     "`frequency_penalty` must be >= -2.0 and <= 2.0",
     "frequency_penalty",
     "`frequency_penalty` must be >= -2.0 and <= 2.0. Given: 2.5",
     nullptr},
    {"frequency_penalty -2.5",
     [](api::Parameters& p) { p.frequency_penalty = -2.5F; },
     "`frequency_penalty` must be >= -2.0 and <= 2.0",
     "frequency_penalty",
     "`frequency_penalty` must be >= -2.0 and <= 2.0. Given: -2.5",
     nullptr},
    {"presence_penalty 3",
     [](api::Parameters& p) { p.presence_penalty = 3.0F; },
     "`presence_penalty` must be >= -2.0 and <= 2.0",
     "presence_penalty",
     "`presence_penalty` must be >= -2.0 and <= 2.0. Given: 3",
     nullptr},
    {"top_p 0",
     [](api::Parameters& p) { p.top_p = 0.0F; },
     "`top_p` must be > 0.0 and < 1.0",
     "top_p",
     "`top_p` must be > 0.0 and <= 1.0. Given: 0",
     nullptr},
    {"top_p 1.5",
     [](api::Parameters& p) { p.top_p = 1.5F; },
     "`top_p` must be > 0.0 and < 1.0",
     "top_p",
     "`top_p` must be > 0.0 and <= 1.0. Given: 1.5",
     nullptr},
    {"typical_p 0",
     [](api::Parameters& p) { p.typical_p = 0.0F; },
     "`typical_p` must be > 0.0 and < 1.0",
     "typical_p",
     "`typical_p` must be > 0.0 and <= 1.0. Given: 0",
     nullptr},
    {"top_k 0",
     [](api::Parameters& p) { p.top_k = 0; },
     "`top_k` must be strictly positive",
     "top_k",
     "`top_k` must be >= 1. Given: 0",
     nullptr},
    {"top_k -5",
     [](api::Parameters& p) { p.top_k = -5; },
     "`top_k` must be strictly positive",
     "top_k",
     "`top_k` must be >= 1. Given: -5",
     nullptr},
    {"min_p 1",
     [](api::Parameters& p) { p.min_p = 1.0F; },
     "`min_p` must be >= 0.0 and < 1.0",
     "min_p",
     "`min_p` must be >= 0.0 and < 1.0. Given: 1",
     nullptr},
    {"max_new_tokens 0",
     [](api::Parameters& p) { p.max_new_tokens = 0; },
     "`max_new_tokens` must be strictly positive",
     "max_new_tokens",
     "`max_tokens` must be >= 1. Given: 0",
     "max_tokens"},
    {"five stops",
     [](api::Parameters& p) { p.stop.assign(5, "x"); },
     "`stop` supports up to 4 stop sequences. Given: 5",
     "stop",
     nullptr,
     nullptr},
    {"empty stop",
     [](api::Parameters& p) { p.stop = {""}; },
     "`stop` cannot have empty strings",
     "stop",
     nullptr,
     nullptr},
    {"long stop",
     [](api::Parameters& p) { p.stop = {std::string(1025, 'x')}; },
     "`stop` strings must have at most 1024 bytes. Given: 1025",
     "stop",
     nullptr,
     nullptr},
    {"top_n_tokens 21",
     [](api::Parameters& p) { p.top_n_tokens = 21; },
     "`top_n_tokens` must be >= 0 and <= 5. Given: 21",
     "top_n_tokens",
     "`top_logprobs` must be >= 0 and <= 20. Given: 21",
     "top_logprobs"},
    {"logit_bias id",
     [](api::Parameters& p) {
       p.logit_bias = {{258, 1.0F}};
     },
     "`logit_bias` token ids must be < 258. Given: 258",
     "logit_bias",
     nullptr,
     nullptr},
    {"n 0",
     [](api::Parameters& p) { p.n = 0; },
     "`n` must be > 0 and <= 16. Given: 0",
     "n",
     nullptr,
     nullptr},
    {"n 17",
     [](api::Parameters& p) { p.n = 17; },
     "`n` must be > 0 and <= 16. Given: 17",
     "n",
     nullptr,
     nullptr},
    {"too many new tokens",
     [](api::Parameters& p) { p.max_new_tokens = 11; },
     "`inputs` tokens + `max_new_tokens` must be <= 16. Given: 6 `inputs` tokens and 11 "
     "`max_new_tokens`",
     "inputs",
     "This model's maximum context length is 16 tokens, at most 10 of them in the prompt. Given: 6 "
     "tokens in `inputs` and 11 in `max_tokens` (context_length_exceeded: `inputs` tokens + "
     "`max_new_tokens` must be <= 16)",
     nullptr},
    {"huge max_new_tokens",
     [](api::Parameters& p) { p.max_new_tokens = std::numeric_limits<std::uint32_t>::max(); },
     "`inputs` tokens + `max_new_tokens` must be <= 16. Given: 6 `inputs` tokens and 4294967295 "
     "`max_new_tokens`",
     "inputs",
     "This model's maximum context length is 16 tokens, at most 10 of them in the prompt. Given: 6 "
     "tokens in `inputs` and 4294967295 in `max_tokens` (context_length_exceeded: `inputs` tokens "
     "+ `max_new_tokens` must "
     "be <= 16)",
     nullptr},
    {"truncate 0",
     [](api::Parameters& p) { p.truncate = 0; },
     "`truncate` must be strictly positive and less than 10. Given: 0",
     "truncate",
     "`truncate_prompt_tokens` must be >= 1 and <= 10, or -1 for all that fits. Given: 0",
     "truncate_prompt_tokens"},
    {"truncate 11",
     [](api::Parameters& p) { p.truncate = 11; },
     "`truncate` must be strictly positive and less than 10. Given: 11",
     "truncate",
     "`truncate_prompt_tokens` must be >= 1 and <= 10, or -1 for all that fits. Given: 11",
     "truncate_prompt_tokens"},
};

// However high the operator's limit is, a runner reports no more.
TEST_F(ValidateTest, TopTokensStayBelowWhatRunnersReport) {
  ValidationLimits limits = small_limits();
  limits.top_n_tokens_max = 1000;
  const Validator wide(limits, std::make_shared<ByteTokenizer>(), [] { return std::uint64_t{1}; });
  api::Parameters parameters;
  ValidationInput input;
  input.parameters = &parameters;
  input.text.text = "hello";
  parameters.top_n_tokens = 64;
  EXPECT_TRUE(wide.validate(input).ok());
  parameters.top_n_tokens = 65;
  EXPECT_EQ(wide.validate(input).status(),
            invalid_argument("`top_n_tokens` must be >= 0 and <= 64. Given: 65", "top_n_tokens"));
}

// Without `max_tokens` a prompt below /v1 is measured against the limit of prompts alone.
TEST_F(ValidateTest, APromptAboveTheTotalIsAPromptThatIsTooLong) {
  const std::string text(20, 'a');
  EXPECT_EQ(check(api::ApiStyle::kOpenAi, {}, text).status().message(),
            "This model's maximum context length is 16 tokens, at most 10 of them in the prompt. "
            "Given: 21 tokens in `inputs` (context_length_exceeded: `inputs` must have less than "
            "10 tokens)");
  EXPECT_EQ(check(api::ApiStyle::kNative, {}, text).status().message(),
            "`inputs` tokens + `max_new_tokens` must be <= 16. Given: 21 `inputs` tokens and 0 "
            "`max_new_tokens`");
}

TEST_F(ValidateTest, BadValuesAreRefusedAlikeByEveryFrontEnd) {
  for (const BadValue& row : kBadValues) {
    for (api::ApiStyle style : {api::ApiStyle::kNative, api::ApiStyle::kOpenAi}) {
      for (bool stream : {false, true}) {
        api::Parameters parameters;
        row.set(parameters);
        const auto out = check(style, parameters, "hello", stream);
        ASSERT_FALSE(out.ok()) << row.name;
        const bool openai = style == api::ApiStyle::kOpenAi;
        EXPECT_EQ(out.status().message(),
                  openai && row.openai_message != nullptr ? row.openai_message : row.message);
        const bool no_room =
            openai && row.openai_message != nullptr &&
            std::string_view(row.openai_message).starts_with("This model's maximum context");
        EXPECT_EQ(out.status().kind(),
                  no_room ? ErrorKind::kContextLength : ErrorKind::kValidation);
        EXPECT_EQ(out.status().field(),
                  openai && row.openai_field != nullptr ? row.openai_field : row.field);
      }
    }
  }
}

TEST_F(ValidateTest, FieldsHaveTheNamesOfTheirRoute) {
  api::Parameters p;
  p.max_new_tokens = 0;
  EXPECT_EQ(check(api::ApiStyle::kOpenAi, p).status().field(), "max_tokens");

  p.new_tokens_field = "max_completion_tokens";
  EXPECT_EQ(check(api::ApiStyle::kOpenAi, p).status().message(),
            "`max_completion_tokens` must be >= 1. Given: 0");
}

TEST_F(ValidateTest, APromptThatIsTooLongIsNamedAsItsRouteDoes) {
  api::Parameters p;
  ValidationInput input;
  input.style = api::ApiStyle::kOpenAi;
  input.parameters = &p;
  input.prompt_field = "messages";
  const std::string text(16, 'x');
  input.text.text = text;
  EXPECT_EQ(validator_.validate(input).status().message(),
            "This model's maximum context length is 16 tokens, at most 10 of them in the prompt. "
            "Given: 17 tokens in `messages` (context_length_exceeded: `inputs` must have less than "
            "10 tokens)");
  p.max_new_tokens = 2;
  const Status both = validator_.validate(input).status();
  EXPECT_EQ(both.message(),
            "This model's maximum context length is 16 tokens, at most 10 of them in the prompt. "
            "Given: 17 tokens in `messages` and 2 in `max_tokens` "
            "(context_length_exceeded: `inputs` tokens + `max_new_tokens` must be <= 16)");
  EXPECT_EQ(both.kind(), ErrorKind::kContextLength);
  EXPECT_EQ(both.field(), "messages");
}

TEST_F(ValidateTest, BestOf) {
  auto message = [&](const api::Parameters& p, bool stream = false) {
    return check(api::ApiStyle::kNative, p, "hello", stream).status().message();
  };
  api::Parameters p;
  p.best_of = 2;
  EXPECT_EQ(message(p), "you must use sampling when `best_of` is > 1");
  p.temperature = 0.5F;
  EXPECT_EQ(message(p), "");
  EXPECT_EQ(message(p, true), "`best_of` != 1 is not supported when streaming tokens");
  p.seed = 1;
  EXPECT_EQ(message(p), "`seed` must not be set when `best_of` > 1");
  p.best_of = 3;
  EXPECT_EQ(message(p), "`best_of` must be > 0 and <= 2. Given: 3");
  p.best_of = 0;
  EXPECT_EQ(message(p), "`best_of` must be > 0 and <= 2. Given: 0");
  p.best_of = 1;
  EXPECT_EQ(message(p, true), "");
  ValidationLimits one = small_limits();
  one.best_of_max = 1;
  const Validator strict(one, std::make_shared<ByteTokenizer>(), [] { return std::uint64_t{1}; });
  p.best_of = 2;
  ValidationInput input;
  input.parameters = &p;
  input.text.text = "x";
  EXPECT_EQ(strict.validate(input).status().message(),
            "`best_of` != 1 is not allowed for this endpoint");
}

TEST_F(ValidateTest, DecoderInputDetailsNotOnStreams) {
  api::Parameters p;
  p.decoder_input_details = true;
  EXPECT_EQ(check(api::ApiStyle::kNative, p, "hello", true).status().message(),
            "`decoder_input_details` == true is not supported when streaming tokens");
  EXPECT_TRUE(check(api::ApiStyle::kNative, p)->prompt_logprobs());
}

TEST_F(ValidateTest, LengthsAtTheirLimits) {
  api::Parameters p;
  EXPECT_EQ(check(api::ApiStyle::kNative, p, "").status().message(), "`inputs` cannot be empty");
  EXPECT_EQ(check(api::ApiStyle::kNative, p, "123456789")->input_length(), 10u);
  EXPECT_EQ(check(api::ApiStyle::kNative, p, "1234567890").status().message(),
            "`inputs` must have less than 10 tokens. Given: 11");
  EXPECT_EQ(check(api::ApiStyle::kNative, p, std::string(16, 'x')).status().message(),
            "`inputs` tokens + `max_new_tokens` must be <= 16. Given: 17 `inputs` tokens and 0 "
            "`max_new_tokens`");
  p.max_new_tokens = 6;
  EXPECT_TRUE(check(api::ApiStyle::kNative, p, "123456789").ok());
  p.max_new_tokens = 7;
  EXPECT_EQ(check(api::ApiStyle::kNative, p, "123456789").status().message(),
            "`inputs` tokens + `max_new_tokens` must be <= 16. Given: 10 `inputs` tokens and 7 "
            "`max_new_tokens`");
}

TEST_F(ValidateTest, VeryLongTextIsRefusedWithoutCountingItAll) {
  const api::Parameters p;
  const std::string text(std::size_t{1} << 20, 'x');
  EXPECT_EQ(check(api::ApiStyle::kNative, p, text).status().message(),
            "`inputs` tokens + `max_new_tokens` must be <= 16. Given: at least 17 `inputs` tokens "
            "and 0 `max_new_tokens`");
}

TEST_F(ValidateTest, MissingMaxNewTokensIsEverythingThatFits) {
  EXPECT_EQ(check(api::ApiStyle::kNative, {})->stopping().max_new_tokens, 10u);
}

// TGI reserves 1024 of the tokens that were asked for at most.
TEST_F(ValidateTest, MoreTokensThanRoomEndAtTheRoomOnNativeRoutes) {
  ValidationLimits limits = small_limits();
  limits.total_tokens_max = 1034;
  const Validator validator(limits, std::make_shared<ByteTokenizer>(), [] { return 0; });
  api::Parameters p;
  p.max_new_tokens = 1025;
  ValidationInput input;
  input.parameters = &p;
  input.text.text = "123456789";  // 10 tokens
  const auto fits = validator.validate(input);
  ASSERT_TRUE(fits.ok()) << fits.status().message();
  EXPECT_EQ(fits->stopping().max_new_tokens, 1024U);
  EXPECT_EQ(fits->stopping().order, FinishOrder::kLengthFirst);
  input.style = api::ApiStyle::kOpenAi;
  EXPECT_EQ(validator.validate(input).status().kind(), ErrorKind::kContextLength);
  p.max_new_tokens = 1024;
  EXPECT_EQ(validator.validate(input)->stopping().order, FinishOrder::kStopFirst);
}

TEST_F(ValidateTest, TruncateKeepsTheEnd) {
  api::Parameters p;
  p.truncate = 3;
  const auto out = check(api::ApiStyle::kNative, p, std::string(100, 'x') + "abc");
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->prompt(), (std::vector<TokenId>{'a', 'b', 'c'}));
  EXPECT_EQ(out->stopping().max_new_tokens, 13u);
}

TEST_F(ValidateTest, WhetherItSamples) {
  auto sampled = [&](api::ApiStyle style, const api::Parameters& p) {
    return check(style, p)->sampling().do_sample;
  };
  api::Parameters p;
  EXPECT_FALSE(sampled(api::ApiStyle::kNative, p));
  EXPECT_TRUE(sampled(api::ApiStyle::kOpenAi, p));
  p.do_sample = true;
  EXPECT_TRUE(sampled(api::ApiStyle::kNative, p));
  p = {};
  p.temperature = 1.0F;
  EXPECT_FALSE(sampled(api::ApiStyle::kNative, p));
  p.temperature = 0.5F;
  EXPECT_TRUE(sampled(api::ApiStyle::kNative, p));
  p.temperature = 1e-7F;
  EXPECT_FALSE(sampled(api::ApiStyle::kNative, p));
  for (int i = 0; i < 3; ++i) {
    p = {};
    if (i == 0) p.top_k = 3;
    if (i == 1) p.top_p = 0.5F;
    if (i == 2) p.typical_p = 0.5F;
    EXPECT_TRUE(sampled(api::ApiStyle::kNative, p)) << i;
  }
  void (*const reshaping[])(api::Parameters&) = {
      [](api::Parameters& q) { q.min_p = 0.1F; },
      [](api::Parameters& q) { q.steps.top_n_sigma = 1.0F; },
      [](api::Parameters& q) { q.steps.epsilon_cutoff = 0.1F; },
      [](api::Parameters& q) { q.steps.eta_cutoff = 0.1F; },
      [](api::Parameters& q) { q.steps.dynatemp_range = 0.1F; },
      [](api::Parameters& q) { q.steps.xtc_probability = 0.1F; }};
  for (const auto& set : reshaping) {
    p = {};
    p.best_of = 2;
    EXPECT_EQ(check(api::ApiStyle::kNative, p).status().field(), "best_of");
    set(p);
    EXPECT_TRUE(sampled(api::ApiStyle::kNative, p));
  }
  p = {};
  p.steps.dry_multiplier = 1.0F;
  p.steps.watermark = true;
  p.steps.samplers = {SamplerStep::kDry};
  EXPECT_FALSE(sampled(api::ApiStyle::kNative, p));
}

TEST_F(ValidateTest, BadWordsAreFewAndHaveLetters) {
  api::Parameters p;
  p.bad_words.assign(512, "  a");
  const auto out = check(api::ApiStyle::kNative, p);
  ASSERT_TRUE(out.ok()) << out.status().message();
  ASSERT_EQ(out->sampling().bad_words.size(), 1024U);
  EXPECT_EQ(out->sampling().bad_words[0], (std::vector<TokenId>{'a'}));
  EXPECT_EQ(out->sampling().bad_words[1], (std::vector<TokenId>{' ', 'a'}));
  p.bad_words.emplace_back("b");
  EXPECT_EQ(check(api::ApiStyle::kNative, p).status(),
            invalid_argument("`bad_words` must be at most 512 words. Given: 513", "bad_words"));
  p.bad_words = {std::string(8193, 'a')};
  EXPECT_EQ(check(api::ApiStyle::kOpenAi, p).status(),
            invalid_argument("`bad_words` must be at most 16384 token ids together. Given: 16387",
                             "bad_words"));
}

TEST_F(ValidateTest, ZeroTemperatureIsGreedyBelowV1Only) {
  api::Parameters p;
  p.temperature = 0.0F;
  p.top_p = 0.5F;
  const auto out = check(api::ApiStyle::kOpenAi, p);
  ASSERT_TRUE(out.ok());
  EXPECT_EQ(out->sampling(), SamplingParams{});
  EXPECT_EQ(check(api::ApiStyle::kNative, p).status().message(),
            "`temperature` must be strictly positive");
}

TEST_F(ValidateTest, TopPOfOneIsOffBelowV1Only) {
  api::Parameters p;
  p.top_p = 1.0F;
  EXPECT_TRUE(check(api::ApiStyle::kOpenAi, p).ok());
  EXPECT_EQ(check(api::ApiStyle::kNative, p).status().message(), "`top_p` must be > 0.0 and < 1.0");
}

TEST_F(ValidateTest, PenaltiesMeanWhatTheRouteSays) {
  api::Parameters p;
  p.frequency_penalty = 0.5F;
  p.presence_penalty = 0.25F;
  const SamplingParams native = check(api::ApiStyle::kNative, p)->sampling();
  EXPECT_EQ(native.relative_frequency_penalty, 0.5F);
  EXPECT_EQ(native.frequency_penalty, 0.0F);
  const SamplingParams openai = check(api::ApiStyle::kOpenAi, p)->sampling();
  EXPECT_EQ(openai.relative_frequency_penalty, 0.0F);
  EXPECT_EQ(openai.frequency_penalty, 0.5F);
  EXPECT_EQ(openai.presence_penalty, 0.25F);
}

TEST_F(ValidateTest, SeedsAreGivenOrDrawnForEachSequence) {
  api::Parameters p;
  p.n = 2;
  const auto drawn = check(api::ApiStyle::kOpenAi, p);
  EXPECT_EQ(drawn->n_sequences(), 2u);
  EXPECT_NE(drawn->seed(0), drawn->seed(1));
  p.seed = std::numeric_limits<std::uint64_t>::max();
  const auto given = check(api::ApiStyle::kOpenAi, p);
  EXPECT_EQ(given->seed(0), std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(given->seed(1), 0u);
  const batch::GenerationRequest request = given->engine_request(RequestId{7});
  EXPECT_EQ(request.id, RequestId{7});
  EXPECT_EQ(request.sampling.seed, std::numeric_limits<std::uint64_t>::max());
  EXPECT_EQ(request.more_seeds, std::vector<std::uint64_t>{0});
  EXPECT_EQ(request.prompt.size(), 6u);
}

TEST_F(ValidateTest, TokenIdsAreCheckedAgainstTheVocabulary) {
  const api::Parameters p;
  ValidationInput input;
  input.style = api::ApiStyle::kOpenAi;
  input.parameters = &p;
  input.prompt_field = "prompt";
  std::vector<TokenId> ids{1, 257};
  input.ids = &ids;
  EXPECT_EQ(validator_.validate(input)->prompt(), ids);
  ids.push_back(258);
  const auto out = validator_.validate(input);
  EXPECT_EQ(out.status().message(), "`prompt` token ids must be < 258. Given: 258");
  EXPECT_EQ(out.status().field(), "prompt");
  ids.clear();
  EXPECT_EQ(validator_.validate(input).status().message(), "`prompt` cannot be empty");
}

TEST_F(ValidateTest, TextOfUsersTurnsIntoNoSpecialToken) {
  const api::Parameters p;
  ValidationInput input;
  input.parameters = &p;
  input.text.text = "a</s>";
  input.text.add_special_tokens = false;
  EXPECT_EQ(validator_.validate(input)->prompt(), (std::vector<TokenId>{'a', 257}));
  const TextSpan user{0, 5};
  input.text.untrusted = std::span(&user, 1);
  EXPECT_EQ(validator_.validate(input)->input_length(), 5u);
}

}  // namespace
}  // namespace coxswain::router
