#include "router/chat_form.h"

#include <memory>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/token_trie.h"
#include "router/test_tokenizer.h"

namespace coxswain::router {
namespace {

using Choice = api::AskedTools::Choice;
using grammar::Source;

json::Value parsed(const char* text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << value.status().message();
  return std::move(value).value();
}

api::AskedTools two_tools(Choice choice) {
  api::AskedTools out;
  out.list = parsed(R"([{"type":"function","function":{"name":"a"}}])");
  out.callable = std::make_shared<const std::vector<reply::Tool>>(std::vector<reply::Tool>{
      {"a", parsed(R"({"type":"object"})")},
      {"say \"b\"", json::Value()},
  });
  out.choice = choice;
  return out;
}

class ChatFormTest : public testing::Test {
 protected:
  Result<speech::Form> make() {
    return chat_form(request_,
                     {.model = model_,
                      .tokenizer = tokenizer_,
                      .style = style_,
                      .allows_grammars = allows_grammars_,
                      .prompt = prompt_});
  }
  // Which has to be.
  speech::Form form() {
    auto out = make();
    EXPECT_TRUE(out.ok()) << out.status().message();
    return out.ok() ? std::move(out).value() : speech::Form{};
  }
  void ask_for(Source source) {
    request_.parameters.grammar = api::AskedGrammar{std::move(source), "response_format"};
  }

  ByteTokenizer tokenizer_;
  ChatModel model_{
      .render = [](const chat::RenderInput&) -> Result<chat::Rendered> { return chat::Rendered{}; },
      .manner = {.reads_tools = true,
                 .formats = {reply::ToolFormat::kHermes, reply::ReasoningFormat::kNone}}};
  api::ChatRequest request_;
  api::ApiStyle style_ = api::ApiStyle::kOpenAi;
  bool allows_grammars_ = true;
  std::string prompt_;
};

TEST_F(ChatFormTest, ATextWithoutPartsIsNotRead) {
  const speech::Form got = form();
  EXPECT_FALSE(got.grammar);
  EXPECT_FALSE(got.reply);
}

TEST_F(ChatFormTest, AnswersMayHoldCallsAndAreFree) {
  request_.tools = two_tools(Choice::kAuto);
  const speech::Form got = form();
  EXPECT_FALSE(got.grammar);
  ASSERT_TRUE(got.reply);
  EXPECT_EQ(got.reply->parser.formats.tools, reply::ToolFormat::kHermes);
  EXPECT_FALSE(got.reply->one_call);
  EXPECT_FALSE(got.reply->numbers_calls);
}

TEST_F(ChatFormTest, ARequiredCallIsAllThereIs) {
  request_.tools = two_tools(Choice::kRequired);
  const speech::Form got = form();
  ASSERT_TRUE(got.grammar);
  EXPECT_EQ(got.grammar->field, "tool_choice");
  const Source& source = got.grammar->source;
  EXPECT_EQ(source.kind, Source::Kind::kTags);
  EXPECT_TRUE(source.triggers.empty());
  ASSERT_EQ(source.tags.size(), 2U);
  EXPECT_EQ(source.tags[0].begin, "<tool_call>\n{\"name\": \"a\", \"arguments\": ");
  EXPECT_EQ(source.tags[0].schema, R"({"type":"object"})");
  EXPECT_EQ(source.tags[0].end, "}");
  EXPECT_EQ(source.tags[1].begin, "<tool_call>\n{\"name\": \"say \\\"b\\\"\", \"arguments\": ");
  EXPECT_EQ(source.tags[1].schema,
            R"({"type":"object","properties":{},"additionalProperties":false})");
}

// Where no grammar says how a format spells a call, a forced one is JSON, and is read as that.
TEST_F(ChatFormTest, AForcedCallIsSpelledAsItCanBe) {
  model_.manner.formats.tools = reply::ToolFormat::kLlama3Pythonic;
  request_.tools = two_tools(Choice::kRequired);
  const speech::Form got = form();
  ASSERT_TRUE(got.grammar && got.reply);
  EXPECT_EQ(got.grammar->source.tags[0].begin, "{\"name\": \"a\", \"arguments\": ");
  EXPECT_EQ(got.reply->parser.formats.tools, reply::ToolFormat::kJson);
  request_.tools.choice = Choice::kAuto;
  EXPECT_EQ(form().reply->parser.formats.tools, reply::ToolFormat::kLlama3Pythonic);
}

TEST_F(ChatFormTest, StrictCallsStandInFreeText) {
  request_.tools = two_tools(Choice::kAuto);
  request_.tools.strict = {"a"};
  const speech::Form got = form();
  ASSERT_TRUE(got.grammar);
  EXPECT_EQ(got.grammar->field, "tools");
  EXPECT_EQ(got.grammar->source.triggers, std::vector<std::string>{"<tool_call>"});
  allows_grammars_ = false;
  EXPECT_FALSE(form().grammar) << "nobody asked for a grammar";
}

TEST_F(ChatFormTest, StrictCallsStandAmongFramedMessages) {
  request_.tools = two_tools(Choice::kAuto);
  request_.tools.strict = {"a"};
  model_.manner.formats = {reply::ToolFormat::kHarmony, reply::ReasoningFormat::kHarmony};
  const speech::Form harmony = form();
  ASSERT_TRUE(harmony.grammar);
  EXPECT_TRUE(harmony.grammar->source.triggers.empty());
  EXPECT_EQ(harmony.grammar->source.tags[0].begin,
            "<|channel|>commentary to=functions.a <|constrain|>json<|message|>");
  EXPECT_EQ(harmony.grammar->source.messages.begins.size(), 3U);
  model_.manner.formats = {reply::ToolFormat::kCohere, reply::ReasoningFormat::kCohere};
  const speech::Form cohere = form();
  ASSERT_TRUE(cohere.grammar);
  EXPECT_EQ(cohere.grammar->source.messages.between,
            (std::vector<std::string>{"<|END_THINKING|>", "<|END_RESPONSE|>"}));
  // Calls of one format in the frames of another.
  model_.manner.formats.tools = reply::ToolFormat::kHermes;
  EXPECT_FALSE(form().grammar);
}

TEST_F(ChatFormTest, SpecialTokensAreMarked) {
  model_.manner.formats.reasoning = reply::ReasoningFormat::kThink;
  ask_for({.kind = Source::Kind::kJsonObject});
  request_.tools = two_tools(Choice::kNamed);
  auto tools = *request_.tools.callable;
  tools[0].name = "x</s>y";
  request_.tools.callable = std::make_shared<const std::vector<reply::Tool>>(tools);
  const speech::Form got = form();
  ASSERT_TRUE(got.grammar);
  const std::string marked = std::string(1, grammar::kSpecialToken) + "</s>";
  EXPECT_EQ(got.grammar->source.tags[0].begin,
            "<tool_call>\n{\"name\": \"x" + marked + "y\", \"arguments\": ");
  EXPECT_EQ(got.grammar->source.preamble.begin, "<think>");
}

TEST_F(ChatFormTest, ThoughtsComeBeforeAForm) {
  ask_for({.kind = Source::Kind::kJsonObject});
  EXPECT_EQ(form().grammar->source.preamble, grammar::Preamble{});
  model_.manner.formats.reasoning = reply::ReasoningFormat::kThink;
  EXPECT_EQ(form().grammar->source.preamble, (grammar::Preamble{"<think>", "</think>", false}));
  prompt_ = "<|im_start|>assistant\n<think>\n";
  EXPECT_EQ(form().grammar->source.preamble, (grammar::Preamble{"<think>", "</think>", true}));
  EXPECT_TRUE(form().reply->parser.in_reasoning);
}

TEST_F(ChatFormTest, ABoundOnThoughtsIsTokens) {
  request_.thoughts = api::AskedThoughts{5, "thinking_budget"};
  const auto unknown = make();
  ASSERT_FALSE(unknown.ok());
  EXPECT_EQ(unknown.status().field(), "thinking_budget");
  style_ = api::ApiStyle::kAnthropic;
  EXPECT_FALSE(form().thoughts);
  style_ = api::ApiStyle::kOpenAi;
  model_.manner.formats.reasoning = reply::ReasoningFormat::kThink;
  const auto bytes = [](std::string_view text) {
    return std::vector<TokenId>(text.begin(), text.end());
  };
  EXPECT_EQ(form().thoughts, (ThoughtBudget{5, bytes("<think>"), bytes("</think>")}));
  prompt_ = "<assistant><think>";
  EXPECT_EQ(form().thoughts, (ThoughtBudget{5, {}, bytes("</think>")}));
  style_ = api::ApiStyle::kTgi;
  EXPECT_TRUE(form().thoughts);
}

TEST_F(ChatFormTest, ACallOrTheFormThatIsAskedFor) {
  ask_for({.kind = Source::Kind::kJsonSchema, .text = R"({"type":"null"})"});
  request_.tools = two_tools(Choice::kAuto);
  const speech::Form got = form();
  ASSERT_TRUE(got.grammar);
  EXPECT_EQ(got.grammar->field, "response_format");
  ASSERT_EQ(got.grammar->source.tags.size(), 3U);
  EXPECT_EQ(got.grammar->source.tags[2].schema, R"({"type":"null"})");
  EXPECT_TRUE(got.grammar->source.triggers.empty());
}

TEST_F(ChatFormTest, FormsThatHaveNoPlaceBesideCallsAreRefused) {
  request_.tools = two_tools(Choice::kAuto);
  ask_for({.kind = Source::Kind::kRegex, .text = "a"});
  const auto regex = make();
  ASSERT_FALSE(regex.ok());
  EXPECT_EQ(regex.status().code(), Code::kUnimplemented);
  EXPECT_NE(regex.status().message().find("`response_format` is not supported beside `tools`"),
            std::string::npos);
  model_.manner.formats.tools = reply::ToolFormat::kLlama3Pythonic;
  ask_for({.kind = Source::Kind::kJsonObject});
  EXPECT_FALSE(make().ok());
}

TEST_F(ChatFormTest, ClientsOfTgiGetAllOfTheText) {
  style_ = api::ApiStyle::kTgi;
  model_.manner.formats.reasoning = reply::ReasoningFormat::kThink;
  EXPECT_FALSE(form().reply);
  request_.tools = two_tools(Choice::kAuto);
  EXPECT_TRUE(form().reply->numbers_calls);
  ask_for({.kind = Source::Kind::kJsonObject});
  const auto both = make();
  ASSERT_FALSE(both.ok());
  EXPECT_EQ(both.status().message(), "Grammar and tools are mutually exclusive");
}

TEST_F(ChatFormTest, ATemplateThatShowsNoToolsIsHelped) {
  model_.manner.reads_tools = false;
  request_.tools = two_tools(Choice::kAuto);
  EXPECT_EQ(form().reply->parser.formats.tools, reply::ToolFormat::kJson);

  const json::Value messages = parsed(R"([{"role":"user","content":"Hi"}])");
  const auto last = [&](bool reads_tools) {
    const json::Value out = speech::messages_with_tools(messages, request_.tools, reads_tools);
    return out.as_array().back().find("content")->as_string();
  };
  EXPECT_EQ(last(true), "Hi");
  EXPECT_TRUE(last(false).starts_with(
      "Hi\n---\n[{\"type\":\"function\",\"function\":{\"name\":\"a\"}}]\nThese functions"));
  request_.tools.prompt = "Use them.";
  EXPECT_EQ(last(true), "Hi\n---\nUse them.");
  request_.tools = {};
  EXPECT_EQ(last(false), "Hi");
}

}  // namespace
}  // namespace coxswain::router
