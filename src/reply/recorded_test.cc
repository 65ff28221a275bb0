// Outputs that public pages show, cut at every character.

#include <gtest/gtest.h>

#include "reply/testing/answers.h"

namespace coxswain::reply {
namespace {

using testing::Reply;

struct Recorded {
  ToolFormat format;
  std::string_view page;  // below github.com
  std::string_view text;
  Reply reply;
};

constexpr std::string_view kVllm = "vllm-project/vllm tests/tool_parsers/";

ParserSetup setup_for(ToolFormat format) {
  auto tools = std::make_shared<std::vector<Tool>>();
  for (const std::string_view name : {"get_weather", "searchTool", "getOpenIncidentsTool"})
    tools->push_back({std::string(name)});
  tools->push_back({"calculate_area", *json::parse(R"({"properties": {"shape": {"type": "string"},
      "dimensions": {"type": "object"}, "precision": {"type": "integer"}}})")});
  return {{format, ReasoningFormat::kNone}, tools, false};
}

TEST(ReplyRecorded, ComesOutTheSameForEveryCut) {
  const std::vector<Recorded> all = {
      {ToolFormat::kLlama3Json,
       "test_llama3_json_tool_parser.py",
       R"({"name": "searchTool", "parameters": {"query": "test1"}}; {"name": "getOpenIncidentsTool", "parameters": {}})",
       {"", "", {{"searchTool", R"({"query": "test1"})"}, {"getOpenIncidentsTool", "{}"}}}},
      {ToolFormat::kLlama3Pythonic,
       "test_pythonic_tool_parser.py",
       R"([get_weather(city='Martha\'s Vineyard', metric='\"cool units\"')])",
       {"", "", {{"get_weather", R"({"city": "Martha's Vineyard", "metric": "\"cool units\""})"}}}},
      {ToolFormat::kLlama3Pythonic,
       "test_llama4_pythonic_tool_parser.py",
       "<|python_start|>[get_weather(city='LA', metric='C'), register_user(name='Doe', role=None, "
       "ok=True)]<|python_end|>",
       {"",
        "",
        {{"get_weather", R"({"city": "LA", "metric": "C"})"},
         {"register_user", R"({"name": "Doe", "role": null, "ok": true})"}}}},
      {ToolFormat::kMistral,
       "test_mistral_tool_parser.py",
       R"([TOOL_CALLS] [{"arguments":{"name": "John Doe"}, "name": "get_age"}])",
       {"", "", {{"get_age", R"({"name": "John Doe"})"}}}},
      {ToolFormat::kMistral,
       "test_mistral_tool_parser.py",
       R"([TOOL_CALLS]add{"a": 3.5, "b": 4}[TOOL_CALLS]multiply{"a": 3, "b": 6})",
       {"", "", {{"add", R"({"a": 3.5, "b": 4})"}, {"multiply", R"({"a": 3, "b": 6})"}}}},
      {ToolFormat::kQwen3Coder,
       "test_qwen3coder_tool_parser.py",
       "Let me calculate that area for "
       "you.<tool_call>\n<function=calculate_area>\n<parameter=shape>\ncircle\n"
       "</parameter>\n<parameter=dimensions>\n{\"radius\": "
       "15.5}\n</parameter>\n<parameter=precision>\n3\n"
       "</parameter>\n</function>\n</tool_call>",
       {"",
        "Let me calculate that area for you.",
        {{"calculate_area",
          R"({"shape": "circle", "dimensions": {"radius": 15.5}, "precision": 3})"}}}},
      {ToolFormat::kDeepSeekV3,
       "test_deepseekv3_tool_parser.py",
       "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```json\n{"
       "\"city\": \"Tokyo\"}\n"
       "```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"", "", {{"get_weather", R"({"city": "Tokyo"})"}}}},
      {ToolFormat::kDeepSeekV31,
       "test_deepseekv31_tool_parser.py",
       "some prefix "
       "text<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>foo<｜tool▁sep｜>{\"x\":1}<"
       "｜tool▁call▁end｜>"
       "<｜tool▁call▁begin｜>bar<｜tool▁sep｜>{\"y\":2}<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
       {"", "some prefix text", {{"foo", "{\"x\":1}"}, {"bar", "{\"y\":2}"}}}},
      {ToolFormat::kGemma,
       "test_functiongemma_tool_parser.py",
       "<start_function_call>call:get_weather{location:<escape>London<escape>}<end_function_call>",
       {"", "", {{"get_weather", R"({"location": "London"})"}}}},
      {ToolFormat::kGemma,
       "test_gemma4_tool_parser.py",
       "<|tool_call>call:complex_function{nested:{inner:<|\"|>value<|\"|>},list:[<|\"|>a<|\"|>,<|"
       "\"|>b<|\"|>]}<tool_call|>",
       {"", "", {{"complex_function", R"({"nested": {"inner": "value"}, "list": ["a", "b"]})"}}}},
      {ToolFormat::kGlm45,
       "test_glm4_moe_tool_parser.py",
       "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</"
       "arg_value>\n<arg_key>date</arg_key>\n"
       "<arg_value>2025-08-01</arg_value>\n</tool_call>",
       {"", "", {{"get_weather", R"({"city": "Beijing", "date": "2025-08-01"})"}}}},
      {ToolFormat::kGranite,
       "test_granite_tool_parser.py",
       "<|tool_call|> [{\"name\": \"get_weather\", \"arguments\": {\"city\": \"Tokyo\"}}]",
       {"", "", {{"get_weather", R"({"city": "Tokyo"})"}}}},
      {ToolFormat::kPhi4,
       "test_phi4mini_tool_parser.py",
       "functools[{\"name\": \"refresh\", \"arguments\": {}}]",
       {"", "", {{"refresh", "{}"}}}},
      {ToolFormat::kFunctionary,
       "MeetKai/functionary tests/prompt_test_v3-llama3.1.txt",
       "<function=get_weather>{\"location\": \"Hanoi\"}</function>",
       {"", "", {{"get_weather", R"({"location": "Hanoi"})"}}}},
      {ToolFormat::kKimiK2,
       "test_kimi_k2_tool_parser.py",
       "I'll check. <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0 "
       "<|tool_call_argument_begin|>{\"city\": "
       "\"Beijing\"}<|tool_call_end|><|tool_calls_section_end|>",
       {"", "I'll check.", {{"get_weather", R"({"city": "Beijing"})", "functions.get_weather:0"}}}},
      {ToolFormat::kCohere,
       "test_cohere_command_tool_parser.py",
       "<|START_ACTION|>\n[\n    {\"tool_call_id\": \"0\", \"tool_name\": \"foo\", \"parameters\": "
       "{\"query\": "
       "\"query1\"}}\n]\n<|END_ACTION|>",
       {"", "", {{"foo", R"({"query": "query1"})", "0"}}}},
  };
  for (const Recorded& one : all) {
    std::optional<long> differs;
    const auto parts = testing::parts_at_every_cut(
        setup_for(one.format), {{std::string(one.text), false}}, differs);
    EXPECT_FALSE(differs) << one.page << " cut at " << *differs;
    EXPECT_EQ(testing::gathered(parts), one.reply) << kVllm << one.page << ": " << one.text;
  }
}

}  // namespace
}  // namespace coxswain::reply
