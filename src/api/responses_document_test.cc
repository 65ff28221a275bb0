#include <string>

#include <gtest/gtest.h>

#include "api/documents.h"

namespace coxswain::api {
namespace {

json::Value parse(const std::string& text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? value.value() : json::Value();
}

const DocumentLimits kLimits;

// The messages of `input`, behind `earlier`; or why there are none.
std::string messages_of(const std::string& input,
                        const std::string& earlier = "[]",
                        const DocumentLimits& limits = kLimits) {
  auto request = read_responses_request(parse("{\"input\":" + input + "}"), limits);
  if (!request.ok()) return request.status().message();
  const Status status = set_response_messages(*request, parse(earlier).as_array(), limits);
  return status.ok() ? json::write(request->chat.messages) : status.message();
}

TEST(ResponsesDocument, PartsOfOneAnswerAreOneMessage) {
  EXPECT_EQ(
      messages_of(
          R"([{"role":"user","content":"a"},{"type":"reasoning","summary":[],"content":[{"type":"reasoning_text","text":"t"}]},
          {"role":"assistant","content":"b"},{"type":"function_call","call_id":"1","name":"f","arguments":"{}"},
          {"type":"function_call","call_id":"2","name":"g","arguments":"{}"},
          {"type":"function_call_output","call_id":"2","output":[{"type":"input_text","text":"r"}]}])"),
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"b","reasoning_content":"t","tool_calls":[)"
      R"({"id":"1","type":"function","function":{"name":"f","arguments":"{}"}},)"
      R"({"id":"2","type":"function","function":{"name":"g","arguments":"{}"}}]},)"
      R"({"role":"tool","content":"r","name":"g","tool_call_id":"2"}])");
}

TEST(ResponsesDocument, ANewAnswerIsAMessageOfItsOwn) {
  EXPECT_EQ(
      messages_of(
          R"([{"role":"assistant","content":"a"},{"type":"reasoning","summary":[{"type":"summary_text","text":"t"}]},
          {"role":"assistant","content":"b"}])"),
      R"([{"role":"assistant","content":"a"},{"role":"assistant","content":"b","reasoning_content":"t"}])");
  EXPECT_EQ(messages_of(
                R"([{"type":"reasoning","encrypted_content":"x"},{"role":"user","content":"a"}])"),
            R"([{"role":"user","content":"a"}])");
}

TEST(ResponsesDocument, EarlierItemsComeFirst) {
  EXPECT_EQ(
      messages_of("\"b\"", R"([{"role":"user","content":"a"},{"role":"assistant","content":"x"}])"),
      R"([{"role":"user","content":"a"},{"role":"assistant","content":"x"},{"role":"user","content":"b"}])");
  DocumentLimits narrow;
  narrow.messages_max = 2;
  EXPECT_EQ(
      messages_of(
          "\"b\"", R"([{"role":"user","content":"a"},{"role":"user","content":"x"}])", narrow),
      "`input` must have at most 2 items, those before it included. Given: 3");
}

TEST(ResponsesDocument, NullMeansAbsentInEveryField) {
  const auto got = read_responses_request(
      parse(
          R"({"input":"a","model":null,"instructions":null,"previous_response_id":null,"store":null,"max_output_tokens":null,
          "tools":null,"tool_choice":null,"parallel_tool_calls":null,"text":null,"reasoning":null,"include":null,"top_logprobs":null,
          "metadata":null,"temperature":null,"top_p":null,"stream":null,"background":null,"conversation":null,"truncation":null})"),
      kLimits);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_FALSE(got->previous || got->store || got->chat.tools ||
               got->chat.parameters.max_new_tokens);
  EXPECT_TRUE(got->chat.ignored.empty());
}

TEST(ResponsesDocument, UnknownMembersAreListedOrRefused) {
  const std::string text = R"({"input":[{"role":"user","content":"a","other":1}],"more":2})";
  auto request = read_responses_request(parse(text), kLimits);
  ASSERT_TRUE(request.ok());
  ASSERT_TRUE(set_response_messages(*request, {}, kLimits).ok());
  EXPECT_EQ(request->chat.ignored, (IgnoredFields{"more", "input.other"}));
  DocumentLimits strict;
  strict.strict_fields = true;
  EXPECT_EQ(messages_of(R"([{"role":"user","content":"a","other":1}])", "[]", strict),
            "`input.0`: unknown field `other`");
}

}  // namespace
}  // namespace coxswain::api
