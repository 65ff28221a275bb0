#include "api/reply_reader.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::api {
namespace {

using Kind = reply::Part::Kind;

OutputToken token(std::string text, bool special = false) {
  OutputToken out;
  out.text = std::move(text);
  out.special = special;
  return out;
}

ReplyOptions options(reply::ToolFormat tools, reply::ReasoningFormat reasoning = {}) {
  ReplyOptions out;
  out.parser.formats = {tools, reasoning};
  out.parser.tools = std::make_shared<const std::vector<reply::Tool>>(
      std::vector<reply::Tool>{{"f", {}}, {"g", {}}});
  out.id_seed = 7;
  return out;
}

SequenceAnswer ended(std::vector<OutputToken> tokens, std::vector<std::string> stops = {}) {
  SequenceAnswer out;
  out.tokens = std::move(tokens);
  for (const OutputToken& one : out.tokens) {
    if (!one.special) out.finish.generated_text += one.text;
  }
  out.finish.reason = FinishReason::kEosToken;
  for (const std::string& stop : stops) {
    const std::size_t at = out.finish.generated_text.find(stop);
    if (at == std::string::npos) continue;
    out.finish.reason = FinishReason::kStopSequence;
    out.finish.stop_text_begin = at;
  }
  out.stops = std::move(stops);
  return out;
}

TEST(ReplyReader, SpecialTokensStandWhereTheyCame) {
  const Reply reply = read_reply(options(reply::ToolFormat::kDemo),
                                 ended({token("One"),
                                        token("<|tool_call|>", true),
                                        token(R"({"name": "f", "argu)"),
                                        token(R"(ments": {"a": 1}})"),
                                        token("<|end|>", true)}),
                                 0);
  EXPECT_EQ(reply.content, "One");
  ASSERT_EQ(reply.calls.size(), 1U);
  EXPECT_EQ(reply.calls[0].name, "f");
  EXPECT_EQ(reply.calls[0].arguments, R"({"a": 1})");
}

// The marker is text that somebody wrote: for a model that has it as a token, too.
TEST(ReplyReader, ASpecialTokenWaitsForTextThatIsHeldBack) {
  ReplyReader reader(options(reply::ToolFormat::kDemo), 0, {"ONE MORE"});
  EXPECT_TRUE(reader.push(token("ONE"), nullptr).empty());
  EXPECT_TRUE(reader.push(token("<|tool_call|>", true), nullptr).empty());
  const auto parts = reader.push(token(R"({"name": "f"})"), nullptr);
  ASSERT_GE(parts.size(), 2U);
  EXPECT_EQ(parts[0], (reply::Part{Kind::kText, "ONE"}));
  EXPECT_EQ(parts[1].kind, Kind::kCall);
}

TEST(ReplyReader, WhatAStopCutsOffIsNotRead) {
  const Reply reply = read_reply(
      options(reply::ToolFormat::kDemo),
      ended({token("a"), token("STO"), token("P"), token("<|tool_call|>", true)}, {"STOP"}),
      0);
  EXPECT_EQ(reply.content, "a");
  EXPECT_TRUE(reply.calls.empty());
}

std::vector<Reply::Call> two_calls(const ReplyOptions& options, std::size_t index) {
  return read_reply(options,
                    ended({token("<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>"),
                           token("<tool_call>{\"name\": \"g\", \"argum"),
                           token("ents\": {}}</tool_call>")}),
                    index)
      .calls;
}

TEST(ReplyReader, CallsHaveIdsOfTheirOwn) {
  const ReplyOptions drawn = options(reply::ToolFormat::kHermes);
  const auto first = two_calls(drawn, 0);
  const auto second = two_calls(drawn, 1);
  ASSERT_EQ(first.size(), 2U);
  EXPECT_EQ(first[0].id.size(), 9U);
  EXPECT_NE(first[0].id, first[1].id);
  EXPECT_NE(first[0].id, second[0].id);
  EXPECT_EQ(first[0].id, two_calls(drawn, 0)[0].id);
  ReplyOptions numbered = drawn;
  numbered.numbers_calls = true;
  EXPECT_EQ(two_calls(numbered, 0)[0].id, "0");
  EXPECT_EQ(two_calls(numbered, 0)[1].id, "1");
}

TEST(ReplyReader, OneCallIsAllWhereNoMoreAreWanted) {
  ReplyOptions one = options(reply::ToolFormat::kHermes);
  one.one_call = true;
  const auto calls = two_calls(one, 0);
  ASSERT_EQ(calls.size(), 1U);
  EXPECT_EQ(calls[0].name, "f");
  EXPECT_EQ(calls[0].arguments, "{}");
}

TEST(ReplyReader, CountsTokensThatThought) {
  const Reply reply = read_reply(
      options(reply::ToolFormat::kNone, reply::ReasoningFormat::kThink),
      ended(
          {token("<think>"), token("a"), token("b"), token("</think>"), token("\n\n"), token("c")}),
      0);
  EXPECT_EQ(reply.reasoning, "ab");
  EXPECT_EQ(reply.content, "c");
  EXPECT_EQ(reply.n_reasoning_tokens, 3U);
}

}  // namespace
}  // namespace coxswain::api
