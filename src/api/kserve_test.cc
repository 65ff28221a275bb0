#include "api/kserve.h"

#include <gmock/gmock.h>
#include <gtest/gtest.h>

namespace coxswain::api {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

Result<KserveInferRequest> infer(std::string_view text) {
  return read_kserve_infer(json::parse(text).value(), DocumentLimits{});
}

TEST(KserveDocument, ATensorOfStringsIsSeveralTexts) {
  const auto request = infer(
      R"({"id":"7","inputs":[{"name":"a","shape":[2,1],"datatype":"BYTES","data":[["Hi"],["you"]]},)"
      R"({"name":"b","shape":[1],"datatype":"BYTES","data":["!"],"parameters":{"x":1}}],)"
      R"("parameters":{"max_tokens":3,"temperature":0.5},"extra":1})");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->id, "7");
  EXPECT_THAT(request->texts, ElementsAre("Hi", "you", "!"));
  ASSERT_EQ(request->outputs.size(), 2U);
  EXPECT_EQ(request->outputs[0].name, "a");
  EXPECT_EQ(request->outputs[0].n_texts, 2U);
  EXPECT_FALSE(request->outputs[0].as_bytes);
  EXPECT_EQ(request->outputs[1].name, "b");
  EXPECT_EQ(request->parameters.max_new_tokens, 3U);
  EXPECT_EQ(request->parameters.temperature, 0.5F);
  EXPECT_THAT(request->ignored, ElementsAre("extra"));
}

TEST(KserveDocument, ATensorOfNumbersIsTheBytesOfOneText) {
  const auto request =
      infer(R"({"inputs":[{"name":"a","shape":[1,3],"datatype":"BYTES","data":[72,195,169]}],)"
            R"("outputs":[{"name":"out"}]})");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_THAT(request->texts, ElementsAre("Hé"));
  EXPECT_EQ(request->outputs[0].name, "out");
  EXPECT_TRUE(request->outputs[0].as_bytes);
  EXPECT_TRUE(request->parameters.do_sample);  // without parameters, as on the native routes
  const auto unsigned_bytes =
      infer(R"({"inputs":[{"name":"a","shape":[1],"datatype":"UINT8","data":[72]}]})");
  ASSERT_TRUE(unsigned_bytes.ok());
  EXPECT_EQ(unsigned_bytes->outputs[0].name, "text_output");
}

TEST(KserveDocument, WhatIsWrongIsNamed) {
  struct Case {
    const char* text;
    const char* field;
    const char* message;
  };
  const std::string head =
      R"({"inputs":[{"name":"a","shape":[1],"datatype":"BYTES","data":["x"]}])";
  for (
      const Case& c : std::vector<Case>{
          {R"([])", "", "object"},
          {R"({})", "inputs", "Given: none"},
          {R"({"inputs":[]})", "inputs", "a tensor or more"},
          {R"({"inputs":[5]})", "inputs.0", "Given: 5"},
          {R"({"inputs":[{"shape":[1],"datatype":"BYTES","data":["x"]}]})",
           "inputs.0.name",
           "none"},
          {R"({"inputs":[{"name":1,"shape":[1],"datatype":"BYTES","data":["x"]}]})",
           "inputs.0.name",
           "name"},
          {R"({"inputs":[{"name":"a","shape":[1],"datatype":"FP32","data":["x"]}]})",
           "inputs.0.datatype",
           "Given: FP32"},
          {R"({"inputs":[{"name":"a","shape":[1],"datatype":"UINT8","data":["x"]}]})",
           "inputs.0.datatype",
           "Given: UINT8"},
          {R"({"inputs":[{"name":"a","shape":[2],"datatype":"BYTES","data":["x"]}]})",
           "inputs.0.shape",
           "Given: 2 and 1"},
          {R"({"inputs":[{"name":"a","shape":[4294967295,4294967295,4294967295],"datatype":"BYTES","data":["x"]}]})",
           "inputs.0.shape",
           "as many elements"},
          {R"({"inputs":[{"name":"a","shape":[-1],"datatype":"BYTES","data":["x"]}]})",
           "inputs.0.shape",
           "Given: -1"},
          {R"({"inputs":[{"name":"a","datatype":"BYTES","data":["x"]}]})",
           "inputs.0.shape",
           "none"},
          {R"({"inputs":[{"name":"a","shape":[1],"datatype":"BYTES"}]})", "inputs.0.data", "none"},
          {R"({"inputs":[{"name":"a","shape":[0],"datatype":"BYTES","data":[]}]})",
           "inputs.0.data",
           "empty"},
          {R"({"inputs":[{"name":"a","shape":[2],"datatype":"BYTES","data":["x",1]}]})",
           "inputs.0.data",
           "Given: 1"},
          {R"({"inputs":[{"name":"a","shape":[1],"datatype":"BYTES","data":[256]}]})",
           "inputs.0.data",
           "Given: 256"},
          {R"({"inputs":[{"name":"a","shape":[1],"datatype":"BYTES","data":[255]}]})",
           "inputs.0.data",
           "UTF-8"},
          {R"({"inputs":[{"name":"a","shape":[5],"datatype":"BYTES","data":["a","b","c","d","e"]}]})",
           "inputs",
           "at most 4 texts (--max-client-batch-size). Given: 5"}}) {
    const Status status = infer(c.text).status();
    EXPECT_EQ(status.field(), c.field) << c.text;
    EXPECT_THAT(status.message(), HasSubstr(c.message)) << c.text;
  }
  const Status mismatch = infer(head + R"(,"outputs":[{"name":"x"},{"name":"y"}]})").status();
  EXPECT_EQ(mismatch.field(), "outputs");
  EXPECT_THAT(mismatch.message(), HasSubstr("Given: 2 and 1"));
  EXPECT_EQ(infer(head + R"(,"outputs":[{}]})").status().field(), "outputs.0.name");
  EXPECT_EQ(infer(head + R"(,"parameters":{"max_tokens":1,"max_new_tokens":1}})").status().field(),
            "max_tokens");
  for (const char* number : {"0", "-1", "\"8\"", "4294967296"}) {
    const Status status = infer(head + R"(,"parameters":{"max_tokens":)" + number + "}}").status();
    EXPECT_EQ(status.field(), "max_tokens") << number;
  }
  EXPECT_EQ(infer(head + R"(,"parameters":{"temperature":"x"}})").status().field(), "temperature");
  EXPECT_EQ(infer(head + R"(,"parameters":5})").status().field(), "parameters");
}

TEST(KserveDocument, GenerateTakesOneText) {
  const auto request = read_kserve_generate(
      json::parse(R"({"text_input":"Hi","parameters":{"max_tokens":2,"details":true}})").value(),
      DocumentLimits{});
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(request->text, "Hi");
  EXPECT_EQ(request->parameters.max_new_tokens, 2U);
  EXPECT_TRUE(request->parameters.details);
  const Status missing = read_kserve_generate(json::parse("{}").value(), DocumentLimits{}).status();
  EXPECT_EQ(missing.field(), "text_input");
}

SequenceAnswer ended(std::string text, double logprob) {
  SequenceAnswer out;
  out.finish.generated_text = std::move(text);
  out.n_generated = 1;
  out.logprob_sum = logprob;
  return out;
}

// Two sequences of each text; the more probable one is the answer.
TEST(KserveAnswer, TensorsHaveTheFormOfTheirQuestions) {
  const std::vector<SequenceAnswer> sequences{ended("no", -2),
                                              ended("a\"", -1),
                                              ended("b", -1),
                                              ended("no", -2),
                                              ended("é", -1),
                                              ended("no", -2)};
  const auto format = make_kserve_infer_answer(
      {.id = "7",
       .model = "m",
       .outputs = {{.name = "x", .n_texts = 2}, {.name = "y", .as_bytes = true}},
       .per_text = 2});
  EXPECT_EQ(format->body(sequences),
            R"({"model_name":"m","model_version":"1","id":"7","outputs":[)"
            R"({"name":"x","shape":[2],"datatype":"BYTES","data":["a\"","b"]},)"
            R"({"name":"y","shape":[1,2],"datatype":"BYTES","data":[195,169]}]})");
}

TEST(KserveAnswer, GenerateTellsDetailsIfAskedFor) {
  SequenceAnswer sequence = ended("Hi", -1);
  sequence.finish.reason = FinishReason::kEosToken;
  OutputToken text;
  text.id = 5;
  text.text = "Hi";
  text.logprob = -0.5F;
  OutputToken end;
  end.id = 2;
  end.text = "</s>";
  end.logprob = -0.25F;
  end.special = true;
  sequence.tokens = {text, end};
  const KserveAnswerOptions options{.id = "7", .model = "m", .details = true};
  EXPECT_EQ(make_kserve_generate_answer({.id = "7", .model = "m"})->body({&sequence, 1}),
            R"({"model_name":"m","model_version":"1","id":"7","text_output":"Hi"})");
  EXPECT_EQ(
      make_kserve_generate_answer(options)->body({&sequence, 1}),
      R"({"model_name":"m","model_version":"1","id":"7","text_output":"Hi","details":)"
      R"({"finish_reason":"eos_token","logprobs":[{"id":5,"text":"Hi","logprob":-0.5,"special":false},)"
      R"({"id":2,"text":"</s>","logprob":-0.25,"special":true}]}})");
  const auto stream = make_kserve_generate_stream(options);
  EXPECT_THAT(
      stream->events(sequence, 0, {.tokens = sequence.tokens, .final = true}),
      ElementsAre(
          "data: {\"model_name\":\"m\",\"model_version\":\"1\",\"id\":\"7\",\"text_output\":\"Hi\","
          "\"details\":{\"finish_reason\":null,\"logprobs\":[{\"id\":5,\"text\":\"Hi\",\"logprob\":"
          "-0.5,"
          "\"special\":false}]}}\n\n",
          "data: {\"model_name\":\"m\",\"model_version\":\"1\",\"id\":\"7\",\"text_output\":\"\","
          "\"details\":{\"finish_reason\":\"eos_token\",\"logprobs\":[{\"id\":2,\"text\":\"</s>\","
          "\"logprob\":-0.25,\"special\":true}]}}\n\n"));
}

}  // namespace
}  // namespace coxswain::api
