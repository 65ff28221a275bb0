#include "reply/parser.h"

#include <gtest/gtest.h>

#include "reply/testing/answers.h"

namespace coxswain::reply {
namespace {

using testing::Call;
using testing::Reply;

std::shared_ptr<const std::vector<Tool>> tools() {
  auto declared = std::make_shared<std::vector<Tool>>();
  declared->reserve(2);
  declared->push_back({"f", json::Value{}});
  declared->push_back({"get_weather", json::Value{}});
  return declared;
}

ParserSetup setup_for(ToolFormat format, ReasoningFormat reasoning = ReasoningFormat::kNone) {
  return {{format, reasoning}, tools(), false};
}

// What comes out of `text`, which has to be the same for every cut.
Reply read(const ParserSetup& setup,
           std::string_view text,
           const std::vector<std::string>& special = {}) {
  std::optional<long> differs;
  const std::vector<Part> parts =
      testing::parts_at_every_cut(setup, testing::pieces_of(text, special), differs);
  EXPECT_FALSE(differs) << "cut at " << *differs << " of " << text;
  return testing::gathered(parts);
}

Reply read(ToolFormat format, std::string_view text) {
  return read(setup_for(format), text);
}

Reply only_text(std::string_view text) {
  return {"", std::string(text), {}};
}

TEST(ReplyParser, WithoutAFormatAllIsText) {
  const std::string_view text = " \n<think>x</think> <tool_call>{\"name\": \"f\"}</tool_call>\n ";
  EXPECT_EQ(read(ToolFormat::kNone, text), only_text(text));
  EXPECT_EQ(read(ToolFormat::kNone, ""), Reply{});
}

TEST(ReplyParser, WithoutToolsNoCallsAreLookedFor) {
  const std::string_view text = "<tool_call>{\"name\": \"f\", \"arguments\": {}}</tool_call>";
  ParserSetup setup = setup_for(ToolFormat::kHermes);
  setup.tools = nullptr;
  EXPECT_EQ(read(setup, text), only_text(text));
  setup.tools = std::make_shared<std::vector<Tool>>();
  EXPECT_EQ(read(setup, text), only_text(text));
}

TEST(ReplyParser, SpecialTokensOfNoFrameAreDropped) {
  EXPECT_EQ(read(setup_for(ToolFormat::kHermes),
                 "a<|im_end|>b<tool_call>{\"name\":\"f\"}</tool_call><|im_end|>",
                 {"<|im_end|>", "<tool_call>", "</tool_call>"}),
            (Reply{"", "ab", {{"f", "{}"}}}));
}

TEST(ReplyParser, SpaceAroundACallIsDroppedAndWithinTextKept) {
  EXPECT_EQ(read(ToolFormat::kHermes,
                 "\n One  two.\n\n<tool_call>\n{\"name\": \"f\", \"arguments\": {\"a\":  "
                 "1}}\n</tool_call>\n\nThree. \n"),
            (Reply{"", "\n One  two.Three. \n", {{"f", "{\"a\":  1}"}}}));
}

TEST(ReplyParser, SeveralCalls) {
  const Reply two{"", "", {{"f", "{\"x\": {}}"}, {"get_weather", "{\"city\": \"Bern\"}"}}};
  EXPECT_EQ(
      read(ToolFormat::kHermes,
           "<tool_call>\n{\"name\": \"f\", \"arguments\": {\"x\": {}}}\n</tool_call>\n<tool_call>\n"
           "{\"arguments\": {\"city\": \"Bern\"}, \"name\": \"get_weather\"}\n</tool_call>"),
      two);
  EXPECT_EQ(read(ToolFormat::kHermes,
                 "<tool_call>[{\"name\": \"f\", \"arguments\": {\"x\": {}}} , "
                 "{\"arguments\": {\"city\": \"Bern\"}, \"name\": \"get_weather\"} ]</tool_call>"),
            two);
  EXPECT_EQ(
      read(ToolFormat::kDemo,
           "<|tool_call|>{\"name\": \"f\", \"arguments\": {\"x\": {}}}<|tool_call|> {\"name\": "
           "\"get_weather\", \"arguments\": {\"city\": \"Bern\"}}"),
      two);
}

TEST(ReplyParser, AFrameThatIsNotClosedEndsWithItsCall) {
  EXPECT_EQ(read(ToolFormat::kHermes,
                 "<tool_call>{\"name\": \"f\", \"arguments\": {}}\n<tool_call>{\"name\": \"f\"}"),
            (Reply{"", "", {{"f", "{}"}, {"f", "{}"}}}));
}

TEST(ReplyParser, WhatIsNoCallIsTextWithItsMarker) {
  for (const std::string_view text : {"Use <tool_call> to call.",
                                      "<tool_call>",
                                      "a <tool_call>{\"name\": 1}</tool_call> b",
                                      "<tool_call>{\"arguments\": {\"x\": 1}}</tool_call>",
                                      "<tool_call>[]</tool_call>",
                                      "<tool_call>{\"name\": \"f\", \"arguments\": 5}</tool_call>",
                                      "<tool_call>\n{\"name\": \"f\", \"argum",
                                      "<tool_call>{\"name\": \"\", \"arguments\": {}}",
                                      "<tool_call>{\"name\": \"f\" \"arguments\": {}}",
                                      "<tool_call>{\"name\": \"f\", \"arguments\": \"[1]\"}",
                                      "< <t <tool_ca",
                                      "<tool_call>{} x"}) {
    EXPECT_EQ(read(ToolFormat::kHermes, text), only_text(text)) << text;
  }
}

TEST(ReplyParser, AMarkerWithinAFailedFrameOpensACall) {
  EXPECT_EQ(
      read(ToolFormat::kHermes, "<tool_call>{\"name\": <tool_call>{\"name\": \"f\"}</tool_call>"),
      (Reply{"", "<tool_call>{\"name\":", {{"f", "{}"}}}));
}

TEST(ReplyParser, ArgumentsThatBreakOffStay) {
  EXPECT_EQ(read(ToolFormat::kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": \"b"),
            (Reply{"", "", {{"f", "{\"a\": \"b"}}}));
  EXPECT_EQ(read(ToolFormat::kHermes,
                 "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": oops}}</tool_call> x"),
            (Reply{"", "oops}}</tool_call> x", {{"f", "{\"a\": "}}}));
  EXPECT_EQ(
      read(ToolFormat::kHermes, "<tool_call>[{\"name\": \"f\", \"arguments\": {}}, {\"a\": 1}]"),
      (Reply{"", "{\"a\": 1}]", {{"f", "{}"}}}));
}

TEST(ReplyParser, ArgumentsInOtherShapes) {
  const auto arguments = [](std::string_view value) {
    std::string text = "<tool_call>{\"name\": \"f\", \"parameters\": ";
    text += value;
    text += ", \"type\": [1]}</tool_call>";
    const Reply reply = read(ToolFormat::kHermes, text);
    EXPECT_EQ(reply.content, "");
    return reply.calls.size() == 1 ? reply.calls[0].arguments : "";
  };
  EXPECT_EQ(arguments("null"), "{}");
  EXPECT_EQ(arguments("\"\""), "{}");
  EXPECT_EQ(arguments(R"("{\"a\": \"\u00e9\"}")"), "{\"a\": \"é\"}");
  EXPECT_EQ(arguments("{\"a\": \"1\n2\t3\x01\"}"), R"({"a": "1\n2\t3\u0001"})");
  EXPECT_EQ(arguments("{\n \"a\": {\"b\": [1, 2.50]}}"), "{\n \"a\": {\"b\": [1, 2.50]}}");
}

TEST(ReplyParser, ACallMayHaveAnId) {
  EXPECT_EQ(read(ToolFormat::kHermes,
                 R"(<tool_call>{"id": "c1", "name": "f", "arguments": {}}</tool_call>)"),
            (Reply{"", "", {{"f", "{}", "c1"}}}));
  EXPECT_EQ(
      read(ToolFormat::kHermes, R"(<tool_call>{"tool_call_id": 7, "tool_name": "f"}</tool_call>)"),
      (Reply{"", "", {{"f", "{}", "7"}}}));
}

TEST(ReplyParser, BareCalls) {
  const Reply one{"", "", {{"f", "{\"a\": 1}"}}};
  EXPECT_EQ(read(ToolFormat::kJson, R"({"name": "f", "arguments": {"a": 1}})"), one);
  EXPECT_EQ(read(ToolFormat::kJson, "\n\n {\"parameters\": {\"a\": 1}, \"name\": \"f\"} \n"), one);
  EXPECT_EQ(read(ToolFormat::kJson, "```json\n{\"name\": \"f\", \"arguments\": {\"a\": 1}}\n```\n"),
            one);
  EXPECT_EQ(read(ToolFormat::kJson, "```[{\"name\": \"f\", \"arguments\": {\"a\": 1}}]```"), one);
  EXPECT_EQ(read(ToolFormat::kJson,
                 R"([{"name": "f", "arguments": {}}, {"name": "get_weather", "arguments": {}}])"),
            (Reply{"", "", {{"f", "{}"}, {"get_weather", "{}"}}}));
  EXPECT_EQ(
      read(ToolFormat::kJson, R"({"name": "f", "arguments": {}}; {"name": "f", "arguments": {}})"),
      (Reply{"", "", {{"f", "{}"}, {"f", "{}"}}}));
}

TEST(ReplyParser, BareCallsAreDeclaredAndComeFirst) {
  for (const std::string_view text : {R"({"name": "g", "arguments": {}})",
                                      R"(So: {"name": "f", "arguments": {}})",
                                      R"({"name": "f"})",
                                      "```python\nprint()\n```",
                                      "```json\n{\"a\": 1}\n```",
                                      "[1, 2]",
                                      "{",
                                      "[",
                                      "``",
                                      "{\"name\": \"f\", \"age\": 3}"}) {
    EXPECT_EQ(read(ToolFormat::kJson, text), only_text(text)) << text;
  }
}

TEST(ReplyParser, ReasoningComesFirst) {
  const ParserSetup setup = setup_for(ToolFormat::kHermes, ReasoningFormat::kThink);
  EXPECT_EQ(read(setup, "<think>\na\n\n<b\n</think>\n\nYes."), (Reply{"a\n\n<b", "Yes.", {}}));
  EXPECT_EQ(read(setup, "\n<think>\n\n</think>\n\nYes."), (Reply{"", "Yes.", {}}));
  EXPECT_EQ(read(setup, "<think>a</think><tool_call>{\"name\":\"f\"}</tool_call><think>b</think>c"),
            (Reply{"ab", "c", {{"f", "{}"}}}));
  EXPECT_EQ(read(setup, "<think>a <tool_call>{\"name\":\"f\"}</tool_call> b\n"),
            (Reply{"a <tool_call>{\"name\":\"f\"}</tool_call> b\n", "", {}}));
  EXPECT_EQ(read(setup, "Tags like <think>a</think>"), only_text("Tags like <think>a</think>"));
  EXPECT_EQ(read(setup, "a</think>b"), only_text("a</think>b"));
}

TEST(ReplyParser, ReasoningThatThePromptHasOpened) {
  ParserSetup setup = setup_for(ToolFormat::kHermes, ReasoningFormat::kThink);
  setup.in_reasoning = true;
  EXPECT_EQ(read(setup, "\na</thin </think>\nb"), (Reply{"a</thin ", "b", {}}));
  EXPECT_EQ(read(setup, "<think>\na\n</think>b"), (Reply{"a", "b", {}}));
  EXPECT_EQ(read(setup, "never"), (Reply{"never", "", {}}));
  EXPECT_TRUE(opens_reasoning(ReasoningFormat::kThink, "<|im_start|>assistant\n<think>\n"));
  EXPECT_FALSE(opens_reasoning(ReasoningFormat::kThink, "<think>\n\n</think>\n\n"));
  EXPECT_FALSE(opens_reasoning(ReasoningFormat::kNone, "<think>\n"));
}

TEST(ReplyParser, TextComesOutAtOnceUnlessItMayBeginAFrame) {
  const std::unique_ptr<Parser> parser = make_parser(setup_for(ToolFormat::kHermes));
  const auto pushed = [&parser](std::string_view text) {
    std::vector<Part> parts;
    parser->push(text, false, parts);
    return parts;
  };
  const auto one = [](Part::Kind kind, std::string_view text) {
    return std::vector<Part>{{kind, std::string(text)}};
  };
  EXPECT_EQ(pushed("a <b"), one(Part::Kind::kText, "a <b"));
  EXPECT_EQ(pushed(" <tool"), std::vector<Part>{});
  EXPECT_EQ(pushed("s "), one(Part::Kind::kText, " <tools"));
  EXPECT_EQ(pushed("<tool_call>{\"name\": \"f\", \"arguments\": "), std::vector<Part>{});
  EXPECT_EQ(pushed("{"),
            (std::vector<Part>{{Part::Kind::kCall, "f"}, {Part::Kind::kArguments, "{"}}));
  EXPECT_EQ(pushed("\"a\""), one(Part::Kind::kArguments, "\"a\""));
  EXPECT_EQ(pushed(": 1}}"), one(Part::Kind::kArguments, ": 1}"));
}

TEST(ReplyParser, AnswersOfACallShapeAreCalls) {
  for (int i = 0; i <= static_cast<int>(ToolFormat::kCohere); ++i) {
    const auto format = static_cast<ToolFormat>(i);
    const CallShape shape = call_shape(format);
    std::string text = shape.marker;
    for (const std::string_view part : {std::string_view(shape.before_name),
                                        std::string_view("f"),
                                        std::string_view(shape.between),
                                        std::string_view("{\"a\": [1]}"),
                                        std::string_view(shape.after)}) {
      text += part;
    }
    Reply reply = read(shape.format, text);
    ASSERT_EQ(reply.calls.size(), 1U) << text;
    reply.calls[0].id.clear();
    EXPECT_EQ(reply, (Reply{"", "", {{"f", "{\"a\": [1]}"}}})) << text;
  }
}

TEST(ReplyParser, HarmonyWithoutToolsOrWithoutThoughts) {
  const std::string_view text =
      "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final<|message|>b";
  ParserSetup setup = setup_for(ToolFormat::kHarmony, ReasoningFormat::kHarmony);
  setup.tools = nullptr;
  EXPECT_EQ(read(setup, text), (Reply{"a", "b", {}}));
  EXPECT_EQ(read(setup_for(ToolFormat::kHarmony), text), only_text("a\n\nb"));
  // A call that nobody asked for is text, with its header.
  const std::string_view call = "<|channel|>commentary to=functions.f<|message|>{}";
  EXPECT_EQ(read(setup, call), only_text(call));
  // Tools whose calls are asked for as JSON stand in the final message.
  EXPECT_EQ(read(setup_for(ToolFormat::kJson, ReasoningFormat::kHarmony),
                 "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>final"
                 "<|message|>{\"name\": \"f\", \"arguments\": {}}"),
            (Reply{"a", "", {{"f", "{}"}}}));
}

TEST(ReplyParser, HarmonyHeaders) {
  const ParserSetup setup = setup_for(ToolFormat::kHarmony, ReasoningFormat::kHarmony);
  const Reply call{"", "", {{"f", "{}"}}};
  EXPECT_EQ(read(setup, "<|channel|>commentary to=functions.f code<|message|><|call|>"), call);
  EXPECT_EQ(read(setup, "<|channel|>analysis to=f json<|message|> {} <|end|>"), call);
  EXPECT_EQ(read(setup, "<|start|>assistant<|message|>a<|end|>"), only_text("a"));
  for (const std::string_view text : {"<|start|>user<|message|>Hello",
                                      "<|channel|>",
                                      "<|channel|>final",
                                      "<|channel|>commentary to=",
                                      "<|channel|>commentary to=browser.search<|message|>{}",
                                      "<|channel|>commentary to=functions.<|message|>{}",
                                      "<|channel|>commentary to=functions.f<|message|>text",
                                      "<|channel|>a b c d e f<|message|>g",
                                      "to=f without a header",
                                      " to be"}) {
    EXPECT_EQ(read(setup, text), only_text(text)) << text;
  }
  EXPECT_EQ(read(setup,
                 "<|channel|>analysis<|message|>a <|channel|>, b<|start|>assistant<|channel|>final"
                 "<|message|>c"),
            (Reply{"a <|channel|>, b", "c", {}}));
  EXPECT_EQ(read(setup, "<|channel|>commentary to=functions.f<|message|>{\"a\": ]<|call|>"),
            (Reply{"", "]", {{"f", "{\"a\": "}}}));
}

TEST(ReplyParser, HarmonysMessagesOfTextAreParted) {
  const ParserSetup setup = setup_for(ToolFormat::kHarmony, ReasoningFormat::kHarmony);
  const std::string final_text = "<|start|>assistant<|channel|>final<|message|> b";
  const std::string preamble = "<|channel|>commentary<|message|>a \n<|end|>";
  EXPECT_EQ(read(setup, preamble + final_text), only_text("a\n\nb"));
  EXPECT_EQ(
      read(setup,
           preamble + "<|start|>assistant<|channel|>analysis<|message|>t<|end|>" + final_text),
      (Reply{"t", "a\n\nb", {}}));
  // Nothing to part from.
  EXPECT_EQ(read(setup, "<|channel|>commentary<|message|> <|end|>" + final_text), only_text("b"));
  EXPECT_EQ(read(setup, preamble + "<|start|>assistant<|channel|>final<|message|>"),
            only_text("a"));
}

TEST(ReplyParser, HarmonyThatThePromptHasOpened) {
  ParserSetup setup = setup_for(ToolFormat::kHarmony, ReasoningFormat::kHarmony);
  setup.in_reasoning = true;
  EXPECT_EQ(read(setup, "a<|end|><|start|>assistant<|channel|>final<|message|>b"),
            (Reply{"a", "b", {}}));
  EXPECT_EQ(read(setup, "<|channel|>analysis<|message|>a"), (Reply{"a", "", {}}));
  EXPECT_TRUE(opens_reasoning(ReasoningFormat::kHarmony,
                              "<|start|>assistant<|channel|>analysis<|message|>"));
  EXPECT_FALSE(opens_reasoning(ReasoningFormat::kHarmony, "<|start|>assistant"));
}

TEST(ReplyParser, SpecialTokensOfHarmonyAreNoText) {
  EXPECT_EQ(read(setup_for(ToolFormat::kHarmony, ReasoningFormat::kHarmony),
                 "<|channel|>analysis<|message|>a<|end|><|start|>assistant<|channel|>commentary "
                 "to=functions.f <|constrain|>json<|message|>{}<|call|><|endoftext|>",
                 {"<|channel|>",
                  "<|message|>",
                  "<|end|>",
                  "<|start|>",
                  "<|constrain|>",
                  "<|call|>",
                  "<|endoftext|>"}),
            (Reply{"a", "", {{"f", "{}"}}}));
}

TEST(ReplyParser, FramesOfThoughts) {
  const auto thoughts = [](ReasoningFormat format, std::string_view text) {
    return read(setup_for(ToolFormat::kHermes, format), text);
  };
  EXPECT_EQ(thoughts(ReasoningFormat::kGranite,
                     "Here's my thought process:\na\n\nHere's my response:\nb"),
            (Reply{"a\n", "b", {}}));
  const ReasoningFormat granite = ReasoningFormat::kGranite33;
  EXPECT_EQ(thoughts(granite, "<think>a</think>\n<response> b </response>\n"),
            (Reply{"a", "b", {}}));
  EXPECT_EQ(thoughts(granite, "<think>a</think><response><response>1</response> 2</response>"),
            (Reply{"a", "<response>12</response>", {}}));
  EXPECT_EQ(thoughts(granite, "<response>1</response>"), only_text("<response>1</response>"));
  EXPECT_EQ(thoughts(ReasoningFormat::kThink, "<think>a</think><response>1</response>"),
            (Reply{"a", "<response>1</response>", {}}));
  EXPECT_EQ(thoughts(ReasoningFormat::kGemma,
                     "<|channel>thought\na\n<channel|><tool_call>{\"name\": \"f\"}"),
            (Reply{"a", "", {{"f", "{}"}}}));
  EXPECT_TRUE(opens_reasoning(ReasoningFormat::kGemma, "<|turn>model\n<|channel>thought\n"));
  EXPECT_FALSE(opens_reasoning(ReasoningFormat::kGemma, "model\n<|channel>thought\n<channel|>"));
}

TEST(ReplyParser, FramesOfThoughtsAreReadAsGrammarsWriteThem) {
  for (int i = 1; i <= static_cast<int>(ReasoningFormat::kHarmony); ++i) {
    const auto format = static_cast<ReasoningFormat>(i);
    const ReasoningFrames frames = reasoning_frames(format);
    std::string text = frames.begin;
    text.append("a").append(frames.end).append(frames.content_begin).append("b");
    ParserSetup setup = setup_for(ToolFormat::kNone, format);
    EXPECT_EQ(read(setup, text), (Reply{"a", "b", {}})) << name_of(format);
    setup.in_reasoning = opens_reasoning(format, frames.begin);
    EXPECT_TRUE(setup.in_reasoning) << name_of(format);
    EXPECT_EQ(read(setup, text.substr(frames.begin.size())), (Reply{"a", "b", {}}));
  }
  EXPECT_TRUE(reasoning_frames(ReasoningFormat::kNone).begin.empty());
}

TEST(ReplyParser, FunctionaryCallsPythonWithCode) {
  ParserSetup setup = setup_for(ToolFormat::kFunctionaryV3);
  auto declared = std::make_shared<std::vector<Tool>>(*setup.tools);
  declared->push_back({"python"});
  const std::string_view code = "python\n>>> \"a\\n\"\n\tb>>>c>>f\n{}";
  EXPECT_EQ(read(setup, code).calls.size(), 0U);
  setup.tools = declared;
  EXPECT_EQ(read(setup, code),
            (Reply{"", ">>>c>>f\n{}", {{"python", R"({"code": ">>> \"a\\n\"\n\tb"})"}}}));
  EXPECT_EQ(read(setup, "python\n1>>>f\n{}"),
            (Reply{"", "", {{"python", R"({"code": "1"})"}, {"f", "{}"}}}));
  EXPECT_EQ(read(setup, "python\n{\"code\": \"1\"}"),
            (Reply{"", "", {{"python", R"({"code": "1"})"}}}));
}

// A reader that looks at a text again and again would not come to an end with these.
TEST(ReplyParser, TakesTimeInProportionToTheText) {
  struct Case {
    ToolFormat format;
    std::string_view unit;
  };
  constexpr std::size_t kBytes = std::size_t{1} << 20;
  for (const auto& [format, unit] :
       {Case{ToolFormat::kHermes, "<tool_call>"},
        Case{ToolFormat::kHermes, "<tool_call>{\"name\": \"f\", \"arguments\": {\"a\": ["},
        Case{ToolFormat::kHermes, "<think></thin"},
        Case{ToolFormat::kHermes, " \n"},
        Case{ToolFormat::kJson, "{\"arguments\": {\"a\": [1, 2]},"},
        Case{ToolFormat::kLlama3Json, "<|python_tag|>f(a={"},
        Case{ToolFormat::kLlama3Pythonic, "[f(a=["},
        Case{ToolFormat::kMistral, "[TOOL_CALLS][{"},
        Case{ToolFormat::kMistralArgs, "[TOOL_CALLS]f"},
        Case{ToolFormat::kQwen3Coder, "<function=f><parameter=a></para"},
        Case{ToolFormat::kDeepSeekV31, "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>"},
        Case{ToolFormat::kHarmony, "<|channel|>analysis"},
        Case{ToolFormat::kHarmony, "<|channel|>analysis<|message|><|channel|>"},
        Case{ToolFormat::kGemma, "<|tool_call>call:f{a:{"},
        Case{ToolFormat::kGlm45, "<tool_call>f<arg_key>"},
        Case{ToolFormat::kPhi4, "functools[{\"name\": \"f\"}, "},
        Case{ToolFormat::kFunctionary, "<function=f>{"},
        Case{ToolFormat::kFunctionaryV3, ">>>f\n>>"},
        Case{ToolFormat::kKimiK2, "<|tool_calls_section_begin|><|tool_call_begin|>"},
        Case{ToolFormat::kCohere, "<|START_ACTION|>[{\"tool_call_id\": \""}}) {
    std::string text;
    while (text.size() < kBytes) text += unit;
    const bool channels = format == ToolFormat::kHarmony;
    const std::unique_ptr<Parser> parser = make_parser(
        setup_for(format, channels ? ReasoningFormat::kHarmony : ReasoningFormat::kThink));
    std::size_t n_bytes = 0;
    std::vector<Part> parts;
    const auto count = [&] {
      for (const Part& part : parts) n_bytes += part.text.size();
      parts.clear();
    };
    for (std::size_t at = 0; at < text.size(); at += 5) {
      parser->push(std::string_view(text).substr(at, 5), false, parts);
      count();
    }
    parser->finish(parts);
    count();
    EXPECT_LE(n_bytes, text.size()) << name_of(format);
  }
}

TEST(ReplyFormats, HaveNames) {
  EXPECT_EQ(tool_format_named("hermes"), ToolFormat::kHermes);
  EXPECT_EQ(tool_format_named("Hermes"), std::nullopt);
  EXPECT_EQ(name_of(ToolFormat::kDemo), "demo");
  EXPECT_EQ(reasoning_format_named("think"), ReasoningFormat::kThink);
  EXPECT_EQ(name_of(ReasoningFormat::kNone), "none");
  EXPECT_EQ(tool_format_names().substr(0, 24), "none, json, demo, hermes");
  EXPECT_EQ(reasoning_format_names().substr(0, 11), "none, think");
}

}  // namespace
}  // namespace coxswain::reply
