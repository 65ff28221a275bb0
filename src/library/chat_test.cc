// Chats with functions over the demo model, and replies of other formats as they would come.

#include <cstdlib>
#include <fstream>
#include <string>
#include <vector>

#include <coxswain/chat.h>
#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <gtest/gtest.h>

#include "json/json.h"
#include "library/testing/requests.h"

namespace coxswain::library {
namespace {

using Kind = ReplyEvent::Kind;

std::string demo_model() {
  const char* root = std::getenv("COXSWAIN_SOURCE_DIR");
  return std::string(root != nullptr ? root : ".") + "/models/demo";
}

LocalModel open_demo(const std::string& tools = {}, const std::string& thoughts = {}) {
  auto model = open_model(demo_model(),
                          {.n_threads = 1,
                           .kv_bytes = std::uint64_t{8} << 20,
                           .total_tokens_max = 256,
                           .prefill_tokens_max = 64,
                           .batch_size_max = 8,
                           .tool_call_parser = tools,
                           .reasoning_parser = thoughts});
  EXPECT_TRUE(model.ok()) << model.status().message();
  return model.value();
}

// What the reference makes of a conversation; /v1/chat/completions is held to the same.
struct Golden {
  std::vector<TokenId> prompt;
  std::vector<TokenId> ids;
  std::string text;
};

std::vector<TokenId> ids_of(const json::Value& list) {
  std::vector<TokenId> out;
  for (const json::Value& id : list.as_array())
    out.push_back(static_cast<TokenId>(std::stoi(json::write(id))));
  return out;
}

// Of the conversation of golden.json about two functions that has so many messages.
Golden golden_of(std::size_t n_messages) {
  std::ifstream file(demo_model() + "/golden.json");
  for (std::string line; std::getline(file, line);) {
    if (line.ends_with(",")) line.pop_back();
    const auto value = json::parse(line);
    if (!value.ok() || !value->is_object()) continue;
    const json::Value* tools = value->find("tools");
    if (tools == nullptr || tools->as_array().size() != 2) continue;
    if (value->find("messages")->as_array().size() != n_messages) continue;
    return {ids_of(*value->find("prompt_ids")),
            ids_of(*value->find("ids")),
            value->find("text")->as_string()};
  }
  ADD_FAILURE() << "golden.json has no such conversation";
  return {};
}

ChatOptions two_tools() {
  ChatOptions out;
  out.tools = {
      {.name = "get_weather",
       .description = "Weather of a city",
       .parameters =
           R"({"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]})"},
      {.name = "set_timer",
       .description = "Start a timer",
       .parameters =
           R"({"type": "object", "properties": {"minutes": {"type": "integer"}}, "required": ["minutes"]})"}};
  return out;
}

std::vector<ChatMessage> question(std::string text) {
  std::vector<ChatMessage> out;
  out.push_back({"user", std::move(text)});
  return out;
}

struct Answer {
  Response whole;
  std::vector<ReplyEvent> events;
  ChatMessage message;
};

Answer answer(Executor& engine, const ChatTurn& turn) {
  Answer out;
  Request request = turn.request();
  request.stopping.max_new_tokens = 64;
  const auto id = engine.enqueue(std::move(request));
  EXPECT_TRUE(id.ok()) << id.status().message();
  if (!id.ok()) return out;
  ReplyParser parser(turn);
  while (!out.whole.final) {
    Response piece = engine.await(*id);
    for (ReplyEvent& event : parser.push(piece)) out.events.push_back(std::move(event));
    testing::append(out.whole, std::move(piece));
  }
  out.message = parser.message();
  EXPECT_TRUE(out.whole.status.ok()) << out.whole.status.message();
  return out;
}

TEST(Chat, ACallAndWhatFollowsItsResultAreTheReferences) {
  const LocalModel model = open_demo();
  Executor engine(model);
  std::vector<ChatMessage> messages = question("What is the weather in Oslo?");
  const auto asked = model.chat(messages, two_tools());
  ASSERT_TRUE(asked.ok()) << asked.status().message();
  const Golden call = golden_of(1);
  EXPECT_EQ(asked->prompt.ids, call.prompt);
  EXPECT_FALSE(asked->grammar);
  const Answer called = answer(engine, *asked);
  EXPECT_EQ(testing::ids_of(called.whole.tokens), call.ids);
  ASSERT_EQ(called.message.tool_calls.size(), 1U);
  const ToolCall& weather = called.message.tool_calls[0];
  EXPECT_EQ(weather.name, "get_weather");
  EXPECT_EQ(weather.arguments, R"({"city": "Oslo"})");
  EXPECT_EQ(weather.id.size(), 9U);
  EXPECT_EQ(called.message.content, "");
  ASSERT_GE(called.events.size(), 3U);
  EXPECT_EQ(called.events.front(),
            (ReplyEvent{.kind = Kind::kCallBegin, .text = "get_weather", .id = weather.id}));
  EXPECT_EQ(called.events.back(), (ReplyEvent{.kind = Kind::kCallEnd}));

  messages.push_back(called.message);
  messages.push_back({.role = "tool",
                      .content = R"({"temperature": 4, "sky": "cloudy"})",
                      .tool_call_id = weather.id,
                      .name = weather.name});
  const auto told = model.chat(messages, two_tools());
  ASSERT_TRUE(told.ok()) << told.status().message();
  const Golden end = golden_of(3);
  EXPECT_EQ(told->prompt.ids, end.prompt);
  const Answer said = answer(engine, *told);
  EXPECT_EQ(testing::ids_of(said.whole.tokens), end.ids);
  EXPECT_EQ(said.message.content, end.text);
  EXPECT_TRUE(said.message.tool_calls.empty());
}

TEST(Chat, CallsAreForcedByAGrammar) {
  const LocalModel model = open_demo();
  Executor engine(model);
  ChatOptions options = two_tools();
  options.tool_choice = ToolChoice::kRequired;
  const auto required = model.chat(question("Hello!"), options);
  ASSERT_TRUE(required.ok()) << required.status().message();
  EXPECT_TRUE(required->grammar);
  EXPECT_EQ(answer(engine, *required).message.tool_calls.size(), 1U);
  options.tool_name = "set_timer";
  const auto named = model.chat(question("What is the weather in Oslo?"), options);
  ASSERT_TRUE(named.ok()) << named.status().message();
  const ChatMessage message = answer(engine, *named).message;
  ASSERT_EQ(message.tool_calls.size(), 1U);
  EXPECT_EQ(message.tool_calls[0].name, "set_timer");
  EXPECT_TRUE(json::parse(message.tool_calls[0].arguments)->find("minutes") != nullptr);
}

TEST(Chat, WithoutToolsThereIsNothingToCall) {
  const LocalModel model = open_demo();
  Executor engine(model);
  ChatOptions options = two_tools();
  options.tool_choice = ToolChoice::kNone;
  const auto turn = model.chat(question("Hello!"), options);
  ASSERT_TRUE(turn.ok());
  EXPECT_EQ(turn->prompt, model.chat(question("Hello!")).value());
  const Answer got = answer(engine, *turn);
  EXPECT_EQ(got.message.content, got.whole.text);
}

TEST(Chat, AGuideIsTheFormOfWhatIsSaid) {
  const LocalModel model = open_demo();
  Executor engine(model);
  ChatOptions options;
  options.guide.emplace(Guide{GuideType::kRegex, "(yes|no)"});
  const auto turn = model.chat(question("Hello!"), options);
  ASSERT_TRUE(turn.ok()) << turn.status().message();
  const std::string text = answer(engine, *turn).message.content;
  EXPECT_TRUE(text == "yes" || text == "no") << text;
}

TEST(Chat, TheTemplateIsToldHowMuchToThink) {
  const LocalModel model = open_demo("", "think");
  ChatOptions options;
  options.thinking_tokens_max = 5;
  const auto turn = model.chat(question("Hello!"), options);
  ASSERT_TRUE(turn.ok()) << turn.status().message();
  ASSERT_TRUE(turn->thoughts);
  EXPECT_EQ(turn->thoughts->tokens_max, 5U);
  EXPECT_FALSE(turn->thoughts->close.empty());
  EXPECT_EQ(turn->request().sampling.thoughts, turn->thoughts);
}

TEST(Chat, WhatIsWrongIsNamed) {
  const LocalModel model = open_demo();
  struct Case {
    std::string field;
    ChatOptions options;
  };
  std::vector<Case> cases(7);
  cases[0] = {"tools.0.name", {.tools = {{.name = ""}}}};
  cases[1] = {"tools.1.parameters", {.tools = {{.name = "a"}, {.name = "b", .parameters = "[]"}}}};
  cases[2] = {"tool_name", {.tools = {{.name = "a"}}, .tool_name = "b"}};
  cases[3] = {"tool_choice", {.tool_choice = ToolChoice::kRequired}};
  cases[4] = {"template_arguments", {.template_arguments = "{"}};
  cases[5] = {"thinking_tokens_max", {.thinking_tokens_max = 3}};
  cases[6].field = "tools";
  cases[6].options.tools.resize(1025, {.name = "a"});
  for (const Case& wrong : cases) {
    const auto turn = model.chat(question("Hello!"), wrong.options);
    ASSERT_FALSE(turn.ok()) << wrong.field;
    EXPECT_EQ(turn.status().field(), wrong.field) << turn.status().message();
  }
  ChatOptions schema{.tools = {{.name = "a", .parameters = R"({"type": 3})"}},
                     .tool_choice = ToolChoice::kRequired};
  EXPECT_FALSE(model.chat(question("Hello!"), schema).ok());
  EXPECT_FALSE(open_model(demo_model(), {.tool_call_parser = "nobody's"}).ok());
}

OutputToken token(std::string text, bool special = false) {
  OutputToken out;
  out.text = std::move(text);
  out.special = special;
  return out;
}

// Neighbours of one kind joined, as they are however the answer is cut.
std::vector<ReplyEvent> joined(const std::vector<ReplyEvent>& events) {
  std::vector<ReplyEvent> out;
  for (const ReplyEvent& event : events) {
    const bool same =
        !out.empty() && out.back().kind == event.kind && out.back().call == event.call;
    if (same && event.kind != Kind::kCallBegin)
      out.back().text += event.text;
    else
      out.push_back(event);
  }
  return out;
}

class ReplyParserTest : public ::testing::Test {
 protected:
  ReplyParserTest() {
    auto turn = open_demo("hermes", "think").chat(question("Hello!"), two_tools());
    EXPECT_TRUE(turn.ok()) << turn.status().message();
    turn_ = std::move(turn).value();
  }

  // `cuts`: bit i: a response ends behind token i. `n_held`: bytes of text that come one response later.
  std::vector<ReplyEvent> events(const std::vector<OutputToken>& tokens,
                                 std::size_t cuts,
                                 std::size_t n_held) {
    ReplyParser parser(turn_);
    std::vector<ReplyEvent> out;
    Response piece;
    std::string held;
    for (std::size_t i = 0; i < tokens.size(); ++i) {
      if (!tokens[i].special) held += tokens[i].text;
      piece.tokens.push_back(tokens[i]);
      const bool last = i + 1 == tokens.size();
      if (!last && (cuts >> i & 1U) == 0) continue;
      const std::size_t n = last ? held.size() : held.size() - std::min(n_held, held.size());
      piece.text = held.substr(0, n);
      held.erase(0, n);
      if (last) piece.finish = FinishReason::kEosToken;
      for (ReplyEvent& event : parser.push(piece)) out.push_back(std::move(event));
      piece = {};
    }
    message_ = parser.message();
    n_reasoning_ = parser.n_reasoning_tokens();
    return joined(out);
  }

  ChatTurn turn_;
  ChatMessage message_;
  std::uint32_t n_reasoning_ = 0;
};

TEST_F(ReplyParserTest, EventsAreTheSameForEveryCut) {
  std::vector<OutputToken> tokens{token("<think>", true),
                                  token("I loo"),
                                  token("k."),
                                  token("</think>", true),
                                  token("One moment.\n")};
  for (const char* call : {R"({"name": "get_weather", "arguments": {"city": "Oslo"}})",
                           R"({"name": "x", "arguments": {}})"}) {
    tokens.push_back(token("<tool_call>"));
    tokens.push_back(token(call));
    tokens.push_back(token("</tool_call>"));
  }
  tokens.push_back(token("<|end|>", true));
  const std::vector<ReplyEvent> whole = events(tokens, 0, 0);
  ASSERT_EQ(whole.size(), 8U);
  EXPECT_EQ(whole[0], (ReplyEvent{.kind = Kind::kReasoning, .text = "I look."}));
  EXPECT_EQ(whole[1], (ReplyEvent{.kind = Kind::kText, .text = "One moment."}));
  EXPECT_EQ(whole[2].text, "get_weather");
  EXPECT_EQ(whole[3], (ReplyEvent{.kind = Kind::kArguments, .text = R"({"city": "Oslo"})"}));
  EXPECT_EQ(whole[4], (ReplyEvent{.kind = Kind::kCallEnd}));
  EXPECT_EQ(whole[6], (ReplyEvent{.kind = Kind::kArguments, .text = "{}", .call = 1}));
  EXPECT_EQ(message_.reasoning, "I look.");
  EXPECT_EQ(message_.tool_calls.size(), 2U);
  EXPECT_NE(message_.tool_calls[0].id, message_.tool_calls[1].id);
  EXPECT_EQ(n_reasoning_, 3U);
  for (std::size_t cuts = 0; cuts < std::size_t{1} << (tokens.size() - 1); ++cuts) {
    for (const std::size_t n_held : {0U, 3U}) {
      ASSERT_EQ(events(tokens, cuts, n_held), whole) << cuts << ' ' << n_held;
      if (n_held == 0) {
        ASSERT_EQ(n_reasoning_, 3U) << cuts;
      }
    }
  }
}

TEST_F(ReplyParserTest, AnAnswerThatFailsKeepsWhatCame) {
  ReplyParser parser(turn_);
  Response piece;
  piece.tokens = {token(R"(<tool_call>{"name": "get_weather", "arguments": {"ci)")};
  piece.text = piece.tokens[0].text;
  parser.push(piece);
  Response end;
  end.status = Status(Code::kCancelled, "cancelled");
  end.final = true;
  EXPECT_EQ(parser.push(end).back().kind, Kind::kCallEnd);
  EXPECT_EQ(parser.message().tool_calls.at(0).arguments, R"({"ci)");
  EXPECT_TRUE(parser.push(piece).empty()) << "it has ended";
}

TEST_F(ReplyParserTest, OtherSequencesAreOthers) {
  ReplyParser parser(turn_, 1);
  Response piece;
  piece.tokens = {token("a")};
  piece.text = "a";
  EXPECT_TRUE(parser.push(piece).empty());
  piece.sequence = 1;
  EXPECT_EQ(parser.push(piece).size(), 1U);
}

}  // namespace
}  // namespace coxswain::library
