#include "api/documents.h"

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::api {
namespace {

json::Value parse(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? value.value() : json::Value();
}

const DocumentLimits kLimits;

GenerateRequest generate(std::string_view text) {
  auto out = read_generate_request(parse(text), kLimits);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? out.value() : GenerateRequest{};
}

TEST(GenerateDocument, EveryFieldArrives) {
  const GenerateRequest r = generate(
      R"({"inputs":"a\u0000b","stream":true,"parameters":{"best_of":2,"temperature":0.5,"repetition_penalty":1.5,
      "frequency_penalty":-0.5,"top_k":7,"top_p":0.25,"typical_p":0.75,"do_sample":true,"max_new_tokens":9,"return_full_text":true,
      "stop":["x","y"],"truncate":3,"watermark":false,"details":true,"decoder_input_details":true,"seed":18446744073709551615,
      "top_n_tokens":4,"grammar":null,"adapter_id":null}})");
  EXPECT_EQ(r.inputs, std::string("a\0b", 3));
  EXPECT_EQ(r.stream, true);
  const Parameters& p = r.parameters;
  EXPECT_EQ(p.best_of, 2u);
  EXPECT_EQ(p.temperature, 0.5F);
  EXPECT_EQ(p.repetition_penalty, 1.5F);
  EXPECT_EQ(p.frequency_penalty, -0.5F);
  EXPECT_EQ(p.top_k, 7);
  EXPECT_EQ(p.top_p, 0.25F);
  EXPECT_EQ(p.typical_p, 0.75F);
  EXPECT_TRUE(p.do_sample);
  EXPECT_EQ(p.max_new_tokens, 9u);
  EXPECT_EQ(p.return_full_text, true);
  EXPECT_EQ(p.stop, (std::vector<std::string>{"x", "y"}));
  EXPECT_EQ(p.truncate, 3u);
  EXPECT_TRUE(p.details);
  EXPECT_TRUE(p.decoder_input_details);
  EXPECT_EQ(p.seed, 18446744073709551615u);
  EXPECT_EQ(p.top_n_tokens, 4u);
  EXPECT_TRUE(r.ignored.empty());
}

TEST(GenerateDocument, AbsentParametersSampleAndPresentOnesDoNot) {
  EXPECT_TRUE(generate(R"({"inputs":"x"})").parameters.do_sample);
  EXPECT_TRUE(generate(R"({"inputs":"x","parameters":null})").parameters.do_sample);
  EXPECT_FALSE(generate(R"({"inputs":"x","parameters":{}})").parameters.do_sample);
}

TEST(GenerateDocument, NullMeansAbsentInEveryField) {
  const GenerateRequest r = generate(
      R"({"inputs":"x","stream":null,"parameters":{"best_of":null,"temperature":null,"repetition_penalty":null,
      "frequency_penalty":null,"top_k":null,"top_p":null,"typical_p":null,"do_sample":null,"max_new_tokens":null,
      "return_full_text":null,"stop":null,"truncate":null,"watermark":null,"details":null,"decoder_input_details":null,"seed":null,
      "top_n_tokens":null,"grammar":null,"adapter_id":null}})");
  EXPECT_FALSE(r.parameters.temperature || r.parameters.max_new_tokens || r.parameters.details);
  EXPECT_TRUE(r.parameters.stop.empty());
  EXPECT_TRUE(r.ignored.empty());
}

TEST(GenerateDocument, UnknownFieldsAreListedOrRefused) {
  const char* text = R"({"inputs":"x","foo":1,"parameters":{"bar":2}})";
  EXPECT_EQ(generate(text).ignored, (IgnoredFields{"foo", "bar"}));
  DocumentLimits strict;
  strict.strict_fields = true;
  EXPECT_EQ(read_generate_request(parse(text), strict).status().message(), "unknown field `foo`");
  const auto inner =
      read_generate_request(parse(R"({"inputs":"x","parameters":{"bar":2}})"), strict);
  EXPECT_EQ(inner.status().field(), "bar");
}

struct BadDocument {
  const char* text;
  const char* message;
  const char* field;
};

TEST(GenerateDocument, WrongTypesAreRefusedByName) {
  const BadDocument rows[] = {
      {"[]", "the body must be an object. Given: an array", ""},
      {"{}", "`inputs` is missing", "inputs"},
      {R"({"inputs":null})", "`inputs` is missing", "inputs"},
      {R"({"inputs":1})", "`inputs` must be a string. Given: 1", "inputs"},
      {R"({"inputs":"x","stream":"yes"})", "`stream` must be a boolean. Given: a string", "stream"},
      {R"({"inputs":"x","parameters":[]})",
       "`parameters` must be an object. Given: an array",
       "parameters"},
      {R"({"inputs":"x","parameters":{"temperature":"1"}})",
       "`temperature` must be a finite number. Given: a string",
       "temperature"},
      {R"({"inputs":"x","parameters":{"temperature":1e39}})",
       "`temperature` must be a finite number. Given: 1e39",
       "temperature"},
      {R"({"inputs":"x","parameters":{"top_k":1.0}})",
       "`top_k` must be an integer of 32 bits. Given: 1.0",
       "top_k"},
      {R"({"inputs":"x","parameters":{"top_k":2147483648}})",
       "`top_k` must be an integer of 32 bits. Given: 2147483648",
       "top_k"},
      {R"({"inputs":"x","parameters":{"max_new_tokens":-1}})",
       "`max_new_tokens` must be an integer from 0 to 4294967295. Given: -1",
       "max_new_tokens"},
      {R"({"inputs":"x","parameters":{"max_new_tokens":4294967296}})",
       "`max_new_tokens` must be an integer from 0 to 4294967295. Given: 4294967296",
       "max_new_tokens"},
      {R"({"inputs":"x","parameters":{"max_new_tokens":true}})",
       "`max_new_tokens` must be an integer from 0 to 4294967295. Given: a boolean",
       "max_new_tokens"},
      {R"({"inputs":"x","parameters":{"seed":18446744073709551616}})",
       "`seed` must be an integer from 0 to 18446744073709551615. Given: 18446744073709551616",
       "seed"},
      {R"({"inputs":"x","parameters":{"do_sample":1}})",
       "`do_sample` must be a boolean. Given: 1",
       "do_sample"},
      {R"({"inputs":"x","parameters":{"stop":"x"}})",
       "`stop` must be an array of strings. Given: a string",
       "stop"},
      {R"({"inputs":"x","parameters":{"stop":["a",1]}})",
       "`stop` must be an array of strings. Given: an array with an integer",
       "stop"},
      {R"({"inputs":"x","parameters":{"watermark":1}})",
       "`watermark` must be a boolean. Given: 1",
       "watermark"},
      {R"({"inputs":"x","parameters":{"dry_sequence_breakers":"a"}})",
       "`dry_sequence_breakers` must be an array of strings. Given: a string",
       "dry_sequence_breakers"},
      {R"({"inputs":"x","parameters":{"samplers":[]}})",
       "`samplers` must have at least one name. Given: none",
       "samplers"},
      {R"({"inputs":"x","parameters":{"allowed_token_ids":[-1]}})",
       "`allowed_token_ids` must have token ids that are integers from 0 to 2147483647. Given: -1",
       "allowed_token_ids"},
      {R"({"inputs":"x","parameters":{"adapter_id":"a"}})",
       "`adapter_id` is not supported yet. Given: \"a\"",
       "adapter_id"},
      {R"({"inputs":"x","max_new_tokens":5})",
       "`max_new_tokens` must stand in `parameters`. Given: 5",
       "max_new_tokens"},
      {R"({"inputs":"x","stop":["a"]})",
       "`stop` must stand in `parameters`, except as []. Given: an array",
       "stop"},
      {R"({"inputs":"x","parameters":{"max_tokens":5}})",
       "`max_tokens` is a field of another route, not of this one. Given: 5",
       "max_tokens"},
      {R"({"inputs":"x","parameters":{"n":2}})",
       "`n` is a field of another route, not of this one, except as 1. Given: 2",
       "n"},
  };
  for (const BadDocument& row : rows) {
    const auto out = read_generate_request(parse(row.text), kLimits);
    ASSERT_FALSE(out.ok()) << row.text;
    EXPECT_EQ(out.status().message(), row.message) << row.text;
    EXPECT_EQ(out.status().field(), row.field) << row.text;
    EXPECT_EQ(out.status().kind(), ErrorKind::kValidation);
  }
}

TEST(ChatDocument, MessagesKeepTheirMembersAndPartsBecomeText) {
  const auto out = read_chat_request(
      parse(
          R"({"messages":[{"role":"user","name":"Ann","content":[{"type":"text","text":"a"},{"type":"text","text":"b"}],"x":null}],
      "max_completion_tokens":5,"stop":"END","logit_bias":{"7":-100},"n":2,"logprobs":true,"top_logprobs":3,
      "stream_options":{"include_usage":true},"tools":[],"tool_choice":"auto","response_format":{"type":"text"},"user":"u"})"),
      kLimits);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_EQ(json::write(out->messages), R"([{"role":"user","name":"Ann","content":"ab"}])");
  EXPECT_EQ(out->parameters.max_new_tokens, 5u);
  EXPECT_EQ(out->parameters.stop, std::vector<std::string>{"END"});
  EXPECT_EQ(out->parameters.logit_bias, (std::vector<std::pair<TokenId, float>>{{7, -100.0F}}));
  EXPECT_EQ(out->parameters.n, 2u);
  EXPECT_EQ(out->parameters.top_n_tokens, 3u);
  EXPECT_TRUE(out->logprobs);
  EXPECT_TRUE(out->include_usage);
  EXPECT_EQ(out->ignored, IgnoredFields{"user"});
}

TEST(ChatDocument, WrongDocumentsAreRefusedByName) {
  const BadDocument rows[] = {
      {R"({})", "`messages` is missing", "messages"},
      {R"({"messages":{}})", "`messages` must be an array. Given: an object", "messages"},
      {R"({"messages":[]})", "`messages` cannot be empty", "messages"},
      {R"({"messages":["hi"]})",
       "`messages` must be an array of objects. Given: a string",
       "messages"},
      {R"({"messages":[{"content":"x"}]})", "messages[0]: `role` is missing", "messages[0].role"},
      {R"({"messages":[{"role":1,"content":"x"}]})",
       "messages[0]: `role` must be a string. Given: 1",
       "messages[0].role"},
      {R"({"messages":[{"role":"user"}]})",
       "`messages[0].content` is missing",
       "messages[0].content"},
      {R"({"messages":[{"role":"user","content":3}]})",
       "`messages[0].content` must be a string or an array of parts. Given: an integer",
       "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"image_url","image_url":{"url":"x"}}]}]})",
       "`messages[0].content` must have parts of type `text`: `image_url` modality is not "
       "supported",
       "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"text"}]}]})",
       "a text part of `messages[0].content` needs a `text`. Given: none",
       "messages[0].content"},
      {R"({"messages":[{"role":"user","content":[{"type":"text","text":"x","cache_control":{}}]}]})",
       "a part of `messages[0].content`: `cache_control` is not supported yet. Given: an object",
       "messages[0].content.cache_control"},
      {R"({"messages":[{"role":"user","content":"x","images":["x"]}]})",
       "messages[0]: `images` is not supported yet, except as []. Given: an array",
       "messages[0].images"},
      {R"({"messages":[{"role":"assistant","content":"x","tool_calls":"x"}]})",
       "`messages[0].tool_calls` must be an array of objects with a `function`, which is an "
       "object. "
       "Given: a string",
       "messages[0].tool_calls"},
      {R"({"messages":[{"role":"assistant","content":"x","tool_calls":[{}]}]})",
       "`messages[0].tool_calls` must be an array of objects with a `function`, which is an "
       "object. "
       "Given: an array with an object without it",
       "messages[0].tool_calls"},
      {R"({"messages":[{"role":"assistant","content":"x","tool_calls":[{"type":"custom"}]}]})",
       "`messages[0].tool_calls` must be an array of objects with a `function`, their `type`. "
       "Given: another type",
       "messages[0].tool_calls"},
      {R"({"messages":[{"role":"assistant","content":"x","tool_calls":[{"function":{"arguments":""}}]}]})",
       "`messages[0].tool_calls` must be an array of objects with a `function`, whose `name` is a "
       "string",
       "messages[0].tool_calls"},
      {R"({"messages":[{"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":1}}]}]})",
       "`messages[0].tool_calls` must be an array of objects with a `function`, whose `arguments` "
       "are a string or an object",
       "messages[0].tool_calls"},
      {R"({"messages":[{"role":"assistant","tool_calls":[]}]})",
       "`messages[0].content` is missing",
       "messages[0].content"},
      {R"({"messages":[{"role":"u","content":"x"}],"max_tokens":1,"max_completion_tokens":2})",
       "`max_tokens` and `max_completion_tokens` must be equal if both are set. Given: 1 and 2",
       "max_completion_tokens"},
      {R"({"messages":[{"role":"u","content":"x"}],"tools":[{"type":"function"}]})",
       "`tools.0` must have a `function`. Given: none",
       "tools.0"},
      {R"({"messages":[{"role":"u","content":"x"}],"tools":{},"tool_choice":"none"})",
       "`tools` must be an array. Given: an object",
       "tools"},
      {R"({"messages":[{"role":"u","content":"x"}],"functions":[{}],"function_call":"auto"})",
       "`functions` is not supported, except as [] or with `function_call` \"none\": `tools` has "
       "what it had. Given: an array",
       "functions"},
      {R"({"messages":[{"role":"u","content":"x"}],"chat_template_kwargs":{"messages":null}})",
       "`chat_template_kwargs.messages` is not allowed: the server sets it",
       "chat_template_kwargs.messages"},
      {R"({"messages":[{"role":"u","content":"x"}],"stream_options":{"bar":false}})",
       "`stream_options`: `bar` is not supported yet. Given: false",
       "stream_options.bar"},
      {R"({"messages":[{"role":"u","content":"x"}],"stream_options":{"include_obfuscation":true}})",
       "`stream_options`: `include_obfuscation` is not supported yet, except as false. Given: true",
       "stream_options.include_obfuscation"},
      {R"({"messages":[{"role":"u","content":"x"}],"seed":1.0})",
       "`seed` must be an integer of 64 bits. Given: 1.0",
       "seed"},
      {R"({"messages":[{"role":"u","content":"x"}],"logit_bias":{"5":1,"05":-1}})",
       "`logit_bias` must have token ids, as plain decimals, as keys. Given: 05",
       "logit_bias"},
      {R"({"messages":[{"role":"u","content":"x"}],"logit_bias":{"-0":1}})",
       "`logit_bias` must have token ids, as plain decimals, as keys. Given: -0",
       "logit_bias"},
      {R"({"messages":[{"role":"u","content":"x"}],"tool_choice":"required"})",
       "`tool_choice` must be none or auto where there are no `tools`. Given: required",
       "tool_choice"},
      {R"({"messages":[{"role":"u","content":"x"}],"logit_bias":{"a":1}})",
       "`logit_bias` must have token ids, as plain decimals, as keys. Given: a",
       "logit_bias"},
      {R"({"messages":[{"role":"u","content":"x"}],"logit_bias":{"1":101}})",
       "`logit_bias` must have numbers from -100 to 100 as values. Given: 101 for 1",
       "logit_bias"},
      {R"({"messages":[{"role":"u","content":"x"}],"logit_bias":[1.0]})",
       "`logit_bias` must be an object of token ids and numbers. Given: an array",
       "logit_bias"},
      {R"({"messages":[{"role":"u","content":"x"}],"top_logprobs":2})",
       "`top_logprobs` needs `logprobs` to be true. Given: 2",
       "top_logprobs"},
      {R"({"messages":[{"role":"u","content":"x"}],"max_new_tokens":2})",
       "`max_new_tokens` is a field of another route, not of this one. Given: 2",
       "max_new_tokens"},
      {R"({"messages":[{"role":"u","content":"x"}],"prompt":"x"})",
       "`prompt` is a field of another route, not of this one. Given: \"x\"",
       "prompt"},
      {R"({"messages":[{"role":"u","content":"x"}],"stream_options":[]})",
       "`stream_options` must be an object. Given: an array",
       "stream_options"},
  };
  for (const BadDocument& row : rows) {
    const auto out = read_chat_request(parse(row.text), kLimits);
    ASSERT_FALSE(out.ok()) << row.text;
    EXPECT_EQ(out.status().message(), row.message) << row.text;
    EXPECT_EQ(out.status().field(), row.field) << row.text;
  }
}

ChatRequest chat(std::string_view text) {
  auto out = read_chat_request(parse(text), kLimits);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? out.value() : ChatRequest{};
}

TEST(ChatDocument, ValuesThatChangeNothingAreTaken) {
  const ChatRequest out = chat(
      R"({"messages":[{"role":"u","content":"x"}],"top_k":-1,"seed":-1,"store":false,"service_tier":"default",
      "verbosity":"medium","stream_options":{"include_obfuscation":false},"max_tokens":7,"max_completion_tokens":7,
      "tools":[{"type":"function","function":{"name":"f"}}],"tool_choice":"none","functions":[],"cache_prompt":true})");
  EXPECT_FALSE(out.parameters.top_k.has_value());
  EXPECT_FALSE(out.parameters.seed.has_value());
  EXPECT_EQ(out.parameters.max_new_tokens, 7u);
  EXPECT_TRUE(out.ignored.empty());
  EXPECT_EQ(
      chat(R"({"messages":[{"role":"u","content":"x"}],"seed":-2,"top_k":0})").parameters.seed,
      18446744073709551614U);
}

TEST(ChatDocument, AHistoryOfFunctionCallsIsKept) {
  const ChatRequest out = chat(
      R"({"messages":[{"role":"user","content":null},
      {"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function","function":{"name":"f","arguments":"{}"}}]},
      {"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}]},
      {"role":"tool","tool_call_id":"a","content":[{"type":"text","text":"4","annotations":[],"own":1}]}]})");
  EXPECT_EQ(
      json::write(out.messages),
      R"([{"role":"user","content":""},)"
      R"({"role":"assistant","content":null,"tool_calls":[{"id":"a","type":"function",)"
      R"("function":{"name":"f","arguments":"{}"}}]},)"
      R"({"role":"assistant","tool_calls":[{"function":{"name":"f","arguments":{}}}],"content":null},)"
      R"({"role":"tool","tool_call_id":"a","content":"4"}])");
  EXPECT_EQ(out.ignored, (IgnoredFields{"content.own"}));
}

// The names that a review found open, and one of each API.
TEST(Documents, WhatOtherApisDocumentIsRefusedByName) {
  const std::string_view names[] = {"regex",
                                    "ebnf",
                                    "json_schema",
                                    "format",
                                    "options",
                                    "keep_alive",
                                    "n_keep",
                                    "n_probs",
                                    "mirostat",
                                    "mirostat_tau",
                                    "mirostat_eta",
                                    "tfs_z",
                                    "n_discard",
                                    "id_slot",
                                    "sampling_params",
                                    "separate_reasoning",
                                    "thinking_budget_message",
                                    "return_tokens",
                                    "guided_whitespace_pattern",
                                    "guided_decoding_backend",
                                    "logits_processors",
                                    "vllm_xargs",
                                    "prompt_cache_retention",
                                    "lora",
                                    "lora_path",
                                    "previous_response_id",
                                    "adapter_name",
                                    "lora_request",
                                    "add_special_tokens"};
  DocumentLimits strict;
  strict.strict_fields = true;
  for (const std::string_view name : names) {
    const std::string field = "\"" + std::string(name) + "\":[7]";
    const Status refusals[] = {
        read_generate_request(parse("{\"inputs\":\"x\"," + field + "}"), kLimits).status(),
        read_generate_request(parse("{\"inputs\":\"x\",\"parameters\":{" + field + "}}"), kLimits)
            .status(),
        read_chat_request(parse(R"({"messages":[{"role":"u","content":"x"}],)" + field + "}"),
                          kLimits)
            .status(),
        read_completion_request(parse("{\"prompt\":\"x\"," + field + "}"), kLimits).status()};
    for (const Status& status : refusals) {
      const std::string named = "`" + std::string(name) + "` is ";
      EXPECT_THAT(status.message(),
                  ::testing::AnyOf(::testing::StartsWith(named + "not supported yet"),
                                   ::testing::StartsWith(named + "a field of another route")));
      EXPECT_EQ(status.field(), name);
    }
    EXPECT_TRUE(read_completion_request(
                    parse("{\"prompt\":\"x\",\"" + std::string(name) + "\":null}"), strict)
                    .ok());
  }
}

TEST(Documents, FieldsOfOtherPlacesSayWhereTheyBelong) {
  const auto message = [](std::string_view text) {
    return read_generate_request(parse(text), kLimits).status().message();
  };
  EXPECT_EQ(message(R"({"inputs":"x","max_new_tokens":1})"),
            "`max_new_tokens` must stand in `parameters`. Given: 1");
  EXPECT_EQ(message(R"({"inputs":"x","parameters":{"stream":true}})"),
            "`stream` must stand beside `parameters`, not in it, except as false. Given: true");
  EXPECT_EQ(message(R"({"inputs":"x","parameters":{"max_tokens":1}})"),
            "`max_tokens` is a field of another route, not of this one. Given: 1");
  EXPECT_EQ(message(R"({"inputs":"x","system":"y"})"),
            "`system` is a field of another route, not of this one. Given: \"y\"");
}

TEST(ChatDocument, SizesAreLimited) {
  DocumentLimits limits;
  limits.messages_max = 1;
  limits.parts_per_message_max = 1;
  limits.model_bytes_max = 2;
  limits.role_bytes_max = 2;
  limits.user_bytes_max = 2;
  auto message = [&](std::string_view text) {
    return read_chat_request(parse(text), limits).status().message();
  };
  EXPECT_EQ(message(R"({"messages":[{"role":"u","content":"x"},{"role":"u","content":"x"}]})"),
            "`messages` must have at most 1 entries. Given: 2");
  EXPECT_EQ(message(R"({"messages":[{"role":"usr","content":"x"}]})"),
            "messages[0]: `role` must have at most 2 bytes. Given: 3");
  EXPECT_EQ(message(R"({"model":"abc","messages":[]})"),
            "`model` must have at most 2 bytes. Given: 3");
  EXPECT_EQ(message(R"({"user":"abc","messages":[{"role":"u","content":"x"}]})"),
            "`user` must have at most 2 bytes. Given: 3");
  EXPECT_EQ(
      message(
          R"({"messages":[{"role":"u","content":[{"type":"text","text":""},{"type":"text","text":""}]}]})"),
      "`messages[0].content` must have at most 1 parts. Given: 2");
}

TEST(CompletionDocument, AllFormsOfAPrompt) {
  auto prompts = [](std::string_view text) {
    auto out = read_completion_request(parse(text), kLimits);
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? out->prompts : std::vector<Prompt>();
  };
  using Ids = std::vector<TokenId>;
  EXPECT_EQ(prompts(R"({"prompt":"a"})"), (std::vector<Prompt>{std::string("a")}));
  EXPECT_EQ(prompts(R"({"prompt":["a","b"]})"),
            (std::vector<Prompt>{std::string("a"), std::string("b")}));
  EXPECT_EQ(prompts(R"({"prompt":[1,2]})"), (std::vector<Prompt>{Ids{1, 2}}));
  EXPECT_EQ(prompts(R"({"prompt":[[1],[2,3]]})"), (std::vector<Prompt>{Ids{1}, Ids{2, 3}}));
}

TEST(CompletionDocument, WrongDocumentsAreRefusedByName) {
  const std::string forms =
      "`prompt` must be a string, an array of strings, an array of token ids or an array of such "
      "arrays. Given: ";
  const std::string object = forms + "an object";
  const std::string null_in_array = forms + "an array with null";
  const std::string mixed = forms + "an array with a string and an integer";
  const BadDocument rows[] = {
      {R"({})", "`prompt` is missing", "prompt"},
      {R"({"prompt":{}})", object.c_str(), "prompt"},
      {R"({"prompt":[null]})", null_in_array.c_str(), "prompt"},
      {R"({"prompt":["a",1]})", mixed.c_str(), "prompt"},
      {R"({"prompt":[]})",
       "Empty array detected. Do not use an empty array for the prompt.",
       "prompt"},
      {R"({"prompt":[[]]})",
       "Empty array detected. Do not use an empty array for the prompt.",
       "prompt"},
      {R"({"prompt":[1,-2]})",
       "`prompt` must have token ids that are integers from 0 to 2147483647. Given: -2",
       "prompt"},
      {R"({"prompt":[1,2.5]})",
       "`prompt` must have token ids that are integers from 0 to 2147483647. Given: 2.5",
       "prompt"},
      {R"({"prompt":["a","b","c","d","e"]})",
       "Number of prompts exceeds the maximum allowed batch size of 4",
       "prompt"},
      {R"({"prompt":"a","suffix":""})",
       "Suffix is not supported and can be achieved by preprocessing the prompt.",
       "suffix"},
      {R"({"prompt":"a","max_completion_tokens":3})",
       "`max_completion_tokens` is a field of another route, not of this one. Given: 3",
       "max_completion_tokens"},
      {R"({"prompt":"a","user":1})", "`user` must be a string. Given: 1", "user"},
      {R"({"prompt":"a","echo":1})", "`echo` must be a boolean. Given: 1", "echo"},
      {R"({"prompt":"a","best_of":-1})",
       "`best_of` must be an integer from 0 to 18446744073709551615. Given: -1",
       "best_of"},
      {R"({"prompt":"a","logprobs":true})",
       "`logprobs` must be an integer from 0 to 4294967295. Given: a boolean",
       "logprobs"},
  };
  for (const BadDocument& row : rows) {
    const auto out = read_completion_request(parse(row.text), kLimits);
    ASSERT_FALSE(out.ok()) << row.text;
    EXPECT_EQ(out.status().message(), row.message) << row.text;
    EXPECT_EQ(out.status().field(), row.field) << row.text;
  }
}

TEST(CompletionDocument, NeutralValuesOfUnsupportedFieldsAreAccepted) {
  const auto out = read_completion_request(
      parse(
          R"({"prompt":"a","best_of":1,"echo":false,"suffix":null,"logprobs":null,"min_tokens":0,"ignore_eos":true,"temperature":0})"),
      kLimits);
  ASSERT_TRUE(out.ok()) << out.status().message();
  EXPECT_TRUE(out->parameters.ignore_eos);
  EXPECT_EQ(out->parameters.temperature, 0.0F);
  EXPECT_TRUE(out->ignored.empty());
  EXPECT_FALSE(out->echo || out->logprobs);
}

TEST(CompletionDocument, LogprobsSayWhetherAndHowMany) {
  const auto none = read_completion_request(parse(R"({"prompt":"a","logprobs":0})"), kLimits);
  ASSERT_TRUE(none.ok()) << none.status().message();
  EXPECT_TRUE(none->logprobs);
  EXPECT_EQ(none->parameters.top_n_tokens, 0U);
  const auto some =
      read_completion_request(parse(R"({"prompt":"a","logprobs":3,"echo":true})"), kLimits);
  ASSERT_TRUE(some.ok()) << some.status().message();
  EXPECT_TRUE(some->logprobs && some->echo);
  EXPECT_EQ(some->parameters.top_n_tokens, 3U);
}

}  // namespace
}  // namespace coxswain::api
