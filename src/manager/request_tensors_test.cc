#include "manager/request_tensors.h"

#include <cmath>
#include <optional>
#include <tuple>

#include <coxswain/grammar.h>
#include <gtest/gtest.h>

#include "manager/testing/program.h"

namespace coxswain::manager {
namespace {

using testing::make_request;

constexpr std::uint32_t kVocab = 50;
const std::vector<TokenId> kPrompt{5, 7, 9};

Result<ParsedRequest> parse(const NamedTensor& tensor) {
  auto request = make_request(7, kPrompt, 6);
  request->set(tensor);
  return parse_request(*request, {.vocab_size = kVocab, .sequences_max = 4, .max_beam_width = 4});
}

struct Honoured {
  NamedTensor tensor;
  std::function<bool(const ParsedRequest&)> is_there;
};

using P = const ParsedRequest&;

NamedTensor i32(const char* name, std::int32_t value) {
  return NamedTensor::of<std::int32_t>(name, {1}, {value});
}

NamedTensor f32(const char* name, float value) {
  return NamedTensor::of<float>(name, {1}, {value});
}

std::vector<Honoured> of_lengths_and_beams() {
  return {
      {NamedTensor::of<std::int32_t>("input_ids", {1, 2}, {1, 2}),
       [](P p) {
         return p.request.prompt == std::vector<TokenId>{1, 2};
       }},
      {i32("request_output_len", 9), [](P p) { return p.request.stopping.max_new_tokens == 9; }},
      {NamedTensor::of<std::int32_t>("input_lengths", {1, 1}, {3}),
       [](P p) { return p.request.prompt == kPrompt; }},
      {NamedTensor::of<std::int32_t>("position_ids", {1, 3}, {0, 1, 2}),
       [](P p) { return p.request.prompt == kPrompt; }},
      {NamedTensor::of<bool>("streaming", {1}, {true}), [](P p) { return p.outputs.streaming; }},
      {f32("priority", 0.5F), [](P p) { return p.request.priority == 0; }},
      {f32("priority", 1.0F), [](P p) { return p.request.priority > 0; }},
      {f32("priority", 0.0F), [](P p) { return p.request.priority < 0; }},
      {i32("beam_width", 3),
       [](P p) {
         return p.request.beams.width == 3 && p.request.n_beam_answers == 3 &&
                p.outputs.n_beams == 3;
       }},
      {NamedTensor::of<std::int32_t>("draft_input_ids", {1, 2}, {1, 2}),
       [](P p) {
         return p.request.draft == std::vector<TokenId>{1, 2};
       }},
      {f32("len_penalty", -1), [](P p) { return p.request.beams.length_penalty == -1.0F; }},
      {i32("early_stopping", 0), [](P p) { return p.request.beams.early_stopping == 0; }},
      {f32("beam_search_diversity_rate", 1),
       [](P p) { return p.request.beams.diversity_rate == 1.0F; }},
  };
}

std::vector<Honoured> of_sampling() {
  return {
      {f32("temperature", 0.5F), [](P p) { return p.request.sampling.temperature == 0.5F; }},
      {f32("temperature", 0.0F), [](P p) { return !p.request.sampling.do_sample; }},
      {i32("runtime_top_k", 4),
       [](P p) { return p.request.sampling.top_k == 4 && p.request.sampling.do_sample; }},
      {f32("runtime_top_p", 0.5F),
       [](P p) { return p.request.sampling.top_p == 0.5F && p.request.sampling.do_sample; }},
      {f32("runtime_top_p", 0.0F),
       [](P p) { return p.request.sampling.top_p == 1.0F && !p.request.sampling.do_sample; }},
      {f32("runtime_top_p_min", 1e-6F), [](P p) { return p.request.sampling.top_p == 1.0F; }},
      {f32("runtime_top_p_decay", 1.0F), [](P p) { return p.request.sampling.top_p == 1.0F; }},
      {i32("runtime_top_p_reset_ids", -1), [](P p) { return p.request.sampling.top_p == 1.0F; }},
      {f32("runtime_min_p", 0.5F), [](P p) { return p.request.sampling.min_p == 0.5F; }},
      {f32("repetition_penalty", 2),
       [](P p) { return p.request.sampling.repetition_penalty == 2.0F; }},
      {NamedTensor::of<std::uint64_t>("random_seed", {1}, {~0ULL}),
       [](P p) { return p.request.sampling.seed == ~0ULL; }},
  };
}

std::vector<Honoured> of_words_and_outputs() {
  std::vector<float> bias(kVocab, 0.0F);
  bias[3] = -2.0F;
  return {
      {f32("presence_penalty", 0.5F),
       [](P p) { return p.request.sampling.presence_penalty == 0.5F; }},
      {f32("frequency_penalty", 0.5F),
       [](P p) {
         return p.request.sampling.frequency_penalty == 0.5F &&
                p.request.sampling.penalties_count_prompt;
       }},
      {i32("min_length", 4), [](P p) { return p.request.stopping.min_new_tokens == 4; }},
      {i32("no_repeat_ngram_size", 2),
       [](P p) { return p.request.sampling.no_repeat_ngram_size == 2; }},
      {i32("noRepeatNgramSize", 2),
       [](P p) { return p.request.sampling.no_repeat_ngram_size == 2; }},
      {NamedTensor::of<std::int32_t>(
           "bad_words_list", {1, 2, 5}, {5, 7, 3, 9, 2, 3, 5, -1, -1, -1}),
       [](P p) {
         return p.request.sampling.bad_words ==
                std::vector<std::vector<TokenId>>{{5, 7, 3}, {9, 2}};
       }},
      {NamedTensor::of<std::int32_t>("stop_words_list", {1, 2, 2}, {5, 7, 1, 2}),
       [](P p) {
         return p.request.stopping.stop_token_sequences ==
                std::vector<std::vector<TokenId>>{{5}, {7}};
       }},
      {NamedTensor::of<std::int32_t>("stop_words_list", {1, 2, 1}, {0, -1}),
       [](P p) { return p.request.stopping.stop_token_sequences.empty(); }},
      {NamedTensor::of<std::int32_t>("stop_words_list", {1, 2, 0}, {}),
       [](P p) { return p.request.stopping.stop_token_sequences.empty(); }},
      {i32("end_id", 4),
       [](P p) {
         return p.request.stopping.end_ids == std::vector<TokenId>{4} &&
                !p.request.stopping.ignore_eos;
       }},
      {i32("end_id", -1), [](P p) { return p.request.stopping.ignore_eos; }},
      {i32("pad_id", 3), [](P p) { return p.request.stopping.ignore_eos; }},
      {NamedTensor::of<float>("embedding_bias", {1, kVocab}, bias),
       [](P p) {
         return p.request.sampling.logit_bias == std::vector<std::pair<TokenId, float>>{{3, -2.0F}};
       }},
      {NamedTensor::of<bool>("return_log_probs", {1}, {true}),
       [](P p) { return p.outputs.log_probs; }},
      {NamedTensor::of<bool>("return_context_logits", {1}, {true}),
       [](P p) { return p.request.outputs.context_logits; }},
      {NamedTensor::of<bool>("return_generation_logits", {1}, {true}),
       [](P p) { return p.request.outputs.generation_logits; }},
      {i32("num_return_sequences", 1), [](P p) { return p.request.more_seeds.empty(); }},
      {i32("num_return_sequences", 3),
       [](P p) {
         return p.request.more_seeds == std::vector<std::uint64_t>{1, 2};
       }},
      {NamedTensor::of<bool>("return_perf_metrics", {1}, {false}),
       [](P p) { return p.request.prompt == kPrompt; }},
      {NamedTensor::of<bool>("stop", {1}, {false}),
       [](P p) { return p.request.prompt == kPrompt; }},
  };
}

TEST(RequestTensors, EachRowDoesWhatItSays) {
  for (const auto& rows : {of_lengths_and_beams(), of_sampling(), of_words_and_outputs()}) {
    for (const Honoured& row : rows) {
      const auto parsed = parse(row.tensor);
      ASSERT_TRUE(parsed.ok()) << row.tensor.name << ": " << parsed.status().message();
      EXPECT_TRUE(row.is_there(parsed.value())) << row.tensor.name;
    }
  }
}

TEST(RequestTensors, ScalarsMayHaveABatchDimension) {
  const auto parsed = parse(NamedTensor::of<float>("temperature", {1, 1}, {0.5F}));
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed.value().request.sampling.temperature, 0.5F);
}

struct Wrong {
  NamedTensor tensor;
  std::string message;
};

TEST(RequestTensors, SaysWhatIsWrong) {
  const std::vector<Wrong> cases{
      {NamedTensor::of<float>("input_ids", {1, 2}, {1, 2}),
       "`input_ids` must be int32 [1, n]. Given: float32 [1, 2]"},
      {NamedTensor::of<std::int32_t>("input_ids", {2}, {1, 2}),
       "`input_ids` must be int32 [1, n]. Given: int32 [2]"},
      {NamedTensor::of<std::int32_t>("input_ids", {1, 3}, {1, 2}),
       "`input_ids` must be as many values as its shape [1, 3] says, 3. Given: 2"},
      {NamedTensor::of<std::int32_t>("input_ids", {1, std::int64_t{1} << 40}, {}),
       "`input_ids` must be smaller than 2^32 elements. Given: [1, 1099511627776]"},
      {NamedTensor::of<std::int32_t>("input_ids", {1, -1}, {}),
       "`input_ids` must be int32 [1, n]. Given: int32 [1, -1]"},
      {NamedTensor::of<float>("temperature", {2}, {1, 1}),
       "`temperature` must be float32 [1]. Given: float32 [2]"},
      {NamedTensor::of<float>("embedding_bias", {1, 3}, {1, 1, 1}),
       "`embedding_bias` must be float32 [1, V] with V = 50. Given: float32 [1, 3]"},
      {NamedTensor::of<std::int32_t>("request_output_len", {1, 1}, {0}),
       "`request_output_len` must be >= 1. Given: 0"},
      {NamedTensor::of<std::int32_t>("input_lengths", {1, 1}, {4}),
       "`input_lengths` must be the number of `input_ids`, 3. Given: 4"},
      {NamedTensor::of<std::int32_t>("beam_width", {1}, {5}),
       "`beam_width` must be >= 1 and <= `max_beam_width`, 4. Given: 5"},
      {NamedTensor::of<std::int32_t>("beam_width", {1}, {0}),
       "`beam_width` must be >= 1 and <= `max_beam_width`, 4. Given: 0"},
      {NamedTensor::of<float>("len_penalty", {1}, {INFINITY}),
       "`len_penalty` must be finite. Given: inf"},
      {NamedTensor::of<float>("beam_search_diversity_rate", {1}, {-1}),
       "`beam_search_diversity_rate` must be >= 0 and finite. Given: -1.000000"},
      {NamedTensor::of<std::int32_t>("num_return_sequences", {1}, {0}),
       "`num_return_sequences` must be >= 1. Given: 0"},
      {NamedTensor::of<std::int32_t>("num_return_sequences", {1}, {5}),
       "`num_return_sequences` must be >= 1 and <= 4. Given: 5"},
      {NamedTensor::of<std::int32_t>("min_length", {1}, {-1}),
       "`min_length` must be >= 0. Given: -1"},
      {NamedTensor::of<std::int32_t>("bad_words_list", {1, 5}, {1, 2, 3, 4, 5}),
       "`bad_words_list` must be int32 [1, 2, m]. Given: int32 [1, 5]"},
      {NamedTensor::of<std::int32_t>("bad_words_list", {1, 2, 2}, {1, 2, 2, 1}),
       "`bad_words_list` must be a list whose row 1 has the ends of the words, rising and at most "
       "2. Given: 1 behind 2"},
      {NamedTensor::of<std::int32_t>("bad_words_list", {1, 2, 2}, {1, 2, 3, -1}),
       "`bad_words_list` must be a list whose row 1 has the ends of the words, rising and at most "
       "2. Given: 3 behind 0"},
      {NamedTensor::of<std::int32_t>("stop_words_list", {1, 2, 2}, {1, 2, -1, 2}),
       "`stop_words_list` must be a list whose row 1 ends with its padding of -1. Given: -1 before "
       "an end"},
      {NamedTensor::of<std::int32_t>("end_id", {1}, {50}),
       "`end_id` must be -1, or >= 0 and < 50. Given: 50"},
      {NamedTensor::of<float>("runtime_top_p", {1}, {1.5F}),
       "`runtime_top_p` must be >= 0 and <= 1. Given: 1.500000"},
      {NamedTensor::of<float>("priority", {1}, {-1.0F}),
       "`priority` must be >= 0 and <= 1. Given: -1.000000"},
      {NamedTensor::of<float>("temprature", {1}, {1.0F}),
       "`temprature` is no tensor of a request; did you mean `temperature`?"},
      {NamedTensor::of<float>("completely_unknown", {1}, {1.0F}),
       "`completely_unknown` is no tensor of a request"},
      {NamedTensor::of<float>("runtime_top_p_decay", {1}, {0.9F}),
       "`runtime_top_p_decay` is not supported: top-p does not change from token to token; only 1 "
       "is taken"},
      {NamedTensor::of<std::int32_t>("position_ids", {1, 3}, {0, 1, 5}),
       "`position_ids` is not supported: positions are 0, 1, 2 ... of the whole prompt"},
      {NamedTensor::text("guided_decoding_guide_type", "ebnf"),
       "`guided_decoding_guide_type` must be json, json_schema, regex or ebnf_grammar. Given: "
       "ebnf"},
      {i32("guided_decoding_guide_type", 1),
       "`guided_decoding_guide_type` must be uint8 [1, n]. Given: int32 [1]"},
      {NamedTensor::of<float>("draft_logits", {1, 2}, {1, 2}),
       "`draft_logits` is not supported: a draft token counts if it is the one chosen"},
      {NamedTensor::of<std::uint64_t>("lora_task_id", {1}, {1}),
       "`lora_task_id` is not supported: the engine has no LoRA adapters"},
      {NamedTensor::of<float>("prompt_embedding_table", {1, 1, 1}, {1}),
       "`prompt_embedding_table` is not supported: the engine has no prompt tables"},
  };
  for (const Wrong& wrong : cases) {
    const auto parsed = parse(wrong.tensor);
    ASSERT_FALSE(parsed.ok()) << wrong.message;
    EXPECT_EQ(parsed.status().message(), wrong.message);
    EXPECT_EQ(parsed.status().field(), wrong.tensor.name);
  }
}

TEST(RequestTensors, AGuideIsCompiled) {
  const auto guided =
      [](const char* type, std::optional<std::string> guide, std::int32_t width = 1) {
        auto request = make_request(7, kPrompt, 6);
        request->set(i32("beam_width", width));
        if (*type != '\0') request->set(NamedTensor::text("guided_decoding_guide_type", type));
        if (guide) request->set(NamedTensor::text("guided_decoding_guide", *guide));
        return parse_request(*request, {.vocab_size = kVocab, .max_beam_width = 4});
      };
  for (const auto& [type, kind, guide] :
       {std::tuple("json", GuideType::kJson, ""),
        std::tuple("json_schema", GuideType::kJsonSchema, R"({"type": "integer"})"),
        std::tuple("regex", GuideType::kRegex, "a+"),
        std::tuple("ebnf_grammar", GuideType::kEbnfGrammar, "root ::= \"a\"+")}) {
    const auto parsed = guided(type, guide);
    ASSERT_TRUE(parsed.ok()) << parsed.status().message();
    EXPECT_EQ(parsed->request.sampling.grammar, compile_grammar(kind, guide).value());
  }
  EXPECT_TRUE(guided("json", std::nullopt).ok());
  const auto refusal =
      [&](const char* type, std::optional<std::string> guide, std::int32_t width = 1) {
        return guided(type, std::move(guide), width).status().message();
      };
  EXPECT_EQ(refusal("", "a+"),
            "`guided_decoding_guide_type` must be there beside `guided_decoding_guide`. Given: no "
            "tensor");
  EXPECT_EQ(refusal("regex", std::nullopt),
            "`guided_decoding_guide` must be there for a guide of this type. Given: no tensor");
  EXPECT_EQ(
      refusal("regex", "(a"),
      "`guided_decoding_guide` is not valid: at byte 2 of the pattern: a group without its ')'");
  EXPECT_EQ(refusal("regex", "a", 2),
            "`beam_width` must be 1 beside `guided_decoding_guide_type`. Given: 2");
}

TEST(RequestTensors, TwoMustBeThere) {
  InferenceRequest request(std::uint64_t{7});
  EXPECT_EQ(parse_request(request, {.vocab_size = kVocab}).status().field(), "input_ids");
  request.set(NamedTensor::of<std::int32_t>("input_ids", {1, 1}, {1}));
  EXPECT_EQ(parse_request(request, {.vocab_size = kVocab}).status().field(), "request_output_len");
}

TEST(RequestTensors, WhatBeamsDoNotHonourIsRefused) {
  struct Beside {
    NamedTensor tensor;
    std::string what;
  };
  const std::vector<Beside> cases{
      {i32("runtime_top_k", 4), "`runtime_top_k` and `runtime_top_p`"},
      {NamedTensor::of<std::int32_t>("stop_words_list", {1, 2, 1}, {4, 1}), "`stop_words_list`"},
      {NamedTensor::of<bool>("return_generation_logits", {1}, {true}),
       "`return_generation_logits`"},
  };
  for (const Beside& beside : cases) {
    const auto request = make_request(7, kPrompt, 6);
    request->set(i32("beam_width", 2));
    request->set(beside.tensor);
    EXPECT_EQ(
        parse_request(*request, {.vocab_size = kVocab, .max_beam_width = 4}).status().message(),
        "`beam_width` must be 1 beside " + beside.what + ". Given: 2");
  }
}

TEST(RequestTensors, SomeBeamsOrAllAreAnswered) {
  const auto request = make_request(7, kPrompt, 6);
  const TensorRules rules{.vocab_size = kVocab, .max_beam_width = 4};
  request->set(i32("beam_width", 3));
  request->set(i32("num_return_sequences", 2));
  const auto parsed = parse_request(*request, rules);
  ASSERT_TRUE(parsed.ok()) << parsed.status().message();
  EXPECT_EQ(parsed.value().request.n_beam_answers, 2U);
  EXPECT_EQ(parsed.value().outputs.n_beams, 2U);
  EXPECT_TRUE(parsed.value().request.more_seeds.empty());
  request->set(i32("num_return_sequences", 4));
  EXPECT_EQ(parse_request(*request, rules).status().message(),
            "`num_return_sequences` must be >= 1 and <= `beam_width`, 3. Given: 4");
}

TEST(RequestTensors, StreamingNeedsDecoupled) {
  const auto request = make_request(7, kPrompt, 6, true);
  EXPECT_EQ(parse_request(*request, {.vocab_size = kVocab, .streaming_allowed = false})
                .status()
                .message(),
            "`streaming` must be false, `decoupled` is off. Given: true");
}

}  // namespace
}  // namespace coxswain::manager
