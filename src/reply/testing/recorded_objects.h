#pragma once
// Recorded outputs of formats whose arguments are JSON objects.

#include <vector>

#include "reply/testing/recorded.h"

namespace coxswain::reply::testing {

// NOLINTNEXTLINE(readability-function-size): a table
inline std::vector<RecordedPage> recorded_objects() {
  return {
      {{ToolFormat::kHermes, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_hermes_tool_parser.py",
       {
           {R"__(<tool_call>
{"name": "final_answer", "arguments": {"trigger": true}}
</tool_call>)__",
            {"", "", {{"final_answer", R"__({"trigger": true})__"}}}},
           {R"__(<tool_call>
{"name": "final_answer", "arguments": {"trigger": true}})__",
            {"", "", {{"final_answer", R"__({"trigger": true})__"}}}},
           {"<tool_call>{\"name\": \"get_current_temperature\",\"arguments\": {\"location\":\"San "
            "Francisco, California, United States\", \"unit\": \"celsius\"}}</tool_call>",
            {"",
             "",
             {{"get_current_temperature",
               R"__({"location":"San Francisco, California, United States", "unit": "celsius"})__"}}}},
           {"Sure, let me check the weather.<tool_call>{\"name\": \"get_weather\", \"arguments\": "
            "{\"city\": \"NYC\"}}</tool_call>",
            {"", "Sure, let me check the weather.", {{"get_weather", R"__({"city": "NYC"})__"}}}},
           {"<tool_call>{\"name\": \"search\", \"arguments\": {\"q\": "
            "\"cats\"}}</tool_call><tool_call>{\"name\": \"search\", \"arguments\": {\"q\": "
            "\"dogs\"}}</tool_call>",
            {"", "", {{"search", R"__({"q": "cats"})__"}, {"search", R"__({"q": "dogs"})__"}}}},
           {R"__(<tool_call>
{"name": "get_db_config", "arguments": "{\"param\": \"max_connections\"}"}
</tool_call>)__",
            {"", "", {{"get_db_config", R"__({"param": "max_connections"})__"}}}},
           {R"__(<tool_call>
{"name": "final_answer", "arguments": {"trigger": true})__",
            {"", "", {{"final_answer", R"__({"trigger": true})__"}}}},
       }},
      {{ToolFormat::kLlama3Json, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_llama3_json_tool_parser.py",
       {
           {R"__({"name": "searchTool", "parameters": {"query": "test query", "limit": 10}})__",
            {"", "", {{"searchTool", R"__({"query": "test query", "limit": 10})__"}}}},
           {R"__({"name": "searchTool", "arguments": {"query": "test"}})__",
            {"", "", {{"searchTool", R"__({"query": "test"})__"}}}},
           {"{\"name\": \"searchTool\", \"parameters\": {\"query\": \"test1\"}} ; {\"name\": "
            "\"getOpenIncidentsTool\", \"parameters\": {}} ; {\"name\": \"searchTool\", "
            "\"parameters\": {\"query\": \"test2\"}}",
            {"",
             "",
             {{"searchTool", R"__({"query": "test1"})__"},
              {"getOpenIncidentsTool", "{}"},
              {"searchTool", R"__({"query": "test2"})__"}}}},
           {"{\"name\": \"searchTool\", \"parameters\": {\"query\": \"test1\"}}; {\"name\": "
            "\"getOpenIncidentsTool\", \"parameters\": {}}; {\"name\": \"searchTool\", "
            "\"parameters\": {\"query\": \"test2\"}}",
            {"",
             "",
             {{"searchTool", R"__({"query": "test1"})__"},
              {"getOpenIncidentsTool", "{}"},
              {"searchTool", R"__({"query": "test2"})__"}}}},
           {"{\"name\": \"complexTool\", \"parameters\": {\"level1\": {\"level2\": {\"level3\": "
            "{\"level4\": {\"value\": \"deep\"}}}}}}",
            {"",
             "",
             {{"complexTool",
               R"__({"level1": {"level2": {"level3": {"level4": {"value": "deep"}}}}})__"}}}},
           {"{\"name\": \"searchTool\", \"parameters\": {\"query\": \"test {value} "
            "[complex]\",\"nested\": {\"inner\": \"more {brackets}\"}}}",
            {"",
             "",
             {{"searchTool",
               R"__({"query": "test {value} [complex]","nested": {"inner": "more {brackets}"}})__"}}}},
           {R"__({"name": "parserTool", "parameters": {"text": "He said \"Hello {world}\""}})__",
            {"", "", {{"parserTool", R"__({"text": "He said \"Hello {world}\""})__"}}}},
           {R"__({"parameters": {}})__", {"", R"__({"parameters": {}})__", {}}},
       }},
      {{ToolFormat::kMistral, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_mistral_tool_parser.py",
       {
           {R"__([TOOL_CALLS][{"name": "add", "arguments":{"a": 3.5, "b": 4}}])__",
            {"", "", {{"add", R"__({"a": 3.5, "b": 4})__"}}}},
           {"[TOOL_CALLS] [{\"arguments\":{\"city\": \"San Francisco\", \"state\": \"CA\", "
            "\"unit\": \"celsius\"}, \"name\": \"get_current_weather\"}]",
            {"",
             "",
             {{"get_current_weather",
               R"__({"city": "San Francisco", "state": "CA", "unit": "celsius"})__"}}}},
           {R"__([TOOL_CALLS] [{"arguments":{"name": "John Doe"}, "name": "get_age"}])__",
            {"", "", {{"get_age", R"__({"name": "John Doe"})__"}}}},
           {"[TOOL_CALLS] [{\"name\": \"add\", \"arguments\": {\"a\": 3.5, \"b\": 4}}, {\"name\": "
            "\"get_current_weather\", \"arguments\":{\"city\": \"San Francisco\", \"state\": "
            "\"CA\", \"unit\": \"celsius\"}}]",
            {"",
             "",
             {{"add", R"__({"a": 3.5, "b": 4})__"},
              {"get_current_weather",
               R"__({"city": "San Francisco", "state": "CA", "unit": "celsius"})__"}}}},
           {R"__(Hello[TOOL_CALLS] [{"name": "add", "arguments":{"a": 1, "b": 2}}])__",
            {"", "Hello", {{"add", R"__({"a": 1, "b": 2})__"}}}},
           {R"__([TOOL_CALLS]  [ {"name":"add" , "arguments" : {"a": 3, "b": 4} } ])__",
            {"", "", {{"add", R"__({"a": 3, "b": 4})__"}}}},
       }},
      {{ToolFormat::kMistralArgs, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_mistral_tool_parser.py",
       {
           {R"__([TOOL_CALLS]add_this_and_that{"a": 3.5, "b": 4})__",
            {"", "", {{"add_this_and_that", R"__({"a": 3.5, "b": 4})__"}}}},
           {"[TOOL_CALLS]get_current_weather{\"city\": \"San Francisco\", \"state\": \"CA\", "
            "\"unit\": \"celsius\"}",
            {"",
             "",
             {{"get_current_weather",
               R"__({"city": "San Francisco", "state": "CA", "unit": "celsius"})__"}}}},
           {R"__([TOOL_CALLS]add{"a": 3.5, "b": 4}[TOOL_CALLS]multiply{"a": 3, "b": 6})__",
            {"",
             "",
             {{"add", R"__({"a": 3.5, "b": 4})__"}, {"multiply", R"__({"a": 3, "b": 6})__"}}}},
           {R"__(bla[TOOL_CALLS]add_this_and_that{"a": 3.5, "b": 4})__",
            {"", "bla", {{"add_this_and_that", R"__({"a": 3.5, "b": 4})__"}}}},
           {R"__(hi{hi[TOOL_CALLS]bash{"command": "print(\"hello world!\")\nre.compile(r'{}')"})__",
            {"",
             "hi{hi",
             {{"bash", R"__({"command": "print(\"hello world!\")\nre.compile(r'{}')"})__"}}}},
       }},
      {{ToolFormat::kDeepSeekV3, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_deepseekv3_tool_parser.py",
       {
           {R"__(<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
```json
{"city": "Tokyo", "unit": "celsius"}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>)__",
            {"", "", {{"get_weather", R"__({"city": "Tokyo", "unit": "celsius"})__"}}}},
           {R"__(<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather
```json
{"city": "Tokyo", "unit": "celsius"}
```<｜tool▁call▁end｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>search_hotels
```json
{"location": "Tokyo", "check_in": "2025-01-15"}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>)__",
            {"",
             "",
             {{"get_weather", R"__({"city": "Tokyo", "unit": "celsius"})__"},
              {"search_hotels", R"__({"location": "Tokyo", "check_in": "2025-01-15"})__"}}}},
           {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>test_function\n```"
            "json\n{\"string_field\": \"hello\", \"int_field\": 42, \"float_field\": 3.14, "
            "\"bool_field\": true, \"null_field\": null, \"array_field\": [\"a\", \"b\", \"c\"], "
            "\"object_field\": {\"nested\": \"value\"}, \"empty_array\": [], \"empty_object\": "
            "{}}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            {"",
             "",
             {{"test_function",
               "{\"string_field\": \"hello\", \"int_field\": 42, \"float_field\": 3.14, "
               "\"bool_field\": true, \"null_field\": null, \"array_field\": [\"a\", \"b\", "
               "\"c\"], \"object_field\": {\"nested\": \"value\"}, \"empty_array\": [], "
               "\"empty_object\": {}}"}}}},
           {"<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_current_time\n```"
            "json\n{}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            {"", "", {{"get_current_time", "{}"}}}},
           {"Let me check the weather for "
            "you.<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>get_weather\n```"
            "json\n{\"city\": \"Paris\"}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            {"",
             "Let me check the weather for you.",
             {{"get_weather", R"__({"city": "Paris"})__"}}}},
           {R"__(<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>send_message
```json
{"text": "He said \"hello\"", "path": "C:\\Users\\file", "newline": "line1\nline2"}
```<｜tool▁call▁end｜><｜tool▁calls▁end｜>)__",
            {"",
             "",
             {{"send_message",
               R"__({"text": "He said \"hello\"", "path": "C:\\Users\\file", "newline": "line1\nline2"})__"}}}},
       }},
      {{ToolFormat::kDeepSeekV31, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_deepseekv31_tool_parser.py",
       {
           {"normal "
            "text<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>foo<｜tool▁sep｜>{\"x\":1}<"
            "｜tool▁call▁end｜><｜tool▁calls▁end｜>",
            {"", "normal text", {{"foo", R"__({"x":1})__"}}}},
           {"some prefix "
            "text<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>foo<｜tool▁sep｜>{\"x\":1}<"
            "｜tool▁call▁end｜><｜tool▁call▁begin｜>bar<｜tool▁sep｜>{\"y\":2}<｜tool▁call▁end｜><"
            "｜tool▁calls▁end｜> some suffix text",
            {"",
             "some prefix textsome suffix text",
             {{"foo", R"__({"x":1})__"}, {"bar", R"__({"y":2})__"}}}},
           {"Let me look that up.<｜tool▁calls▁begin｜>get_weather",
            {"", "Let me look that up.<｜tool▁calls▁begin｜>get_weather", {}}},
           {R"__(<｜tool▁calls▁begin｜>foo<｜tool▁sep｜>{"x":1}<｜tool▁calls▁end｜>)__",
            {"", R"__(<｜tool▁calls▁begin｜>foo<｜tool▁sep｜>{"x":1}<｜tool▁calls▁end｜>)__", {}}},
       }},
      {{ToolFormat::kGranite, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_granite_tool_parser.py",
       {
           {R"__(<|tool_call|> [{"name": "get_weather", "arguments": {"city": "Tokyo"}}])__",
            {"", "", {{"get_weather", R"__({"city": "Tokyo"})__"}}}},
           {R"__(<|tool_call|> [
  {"name": "get_weather", "arguments": {"city": "Tokyo"}},
  {"name": "get_time", "arguments": {"timezone": "Asia/Tokyo"}}
])__",
            {"",
             "",
             {{"get_weather", R"__({"city": "Tokyo"})__"},
              {"get_time", R"__({"timezone": "Asia/Tokyo"})__"}}}},
           {R"__(<tool_call> [{"name": "get_weather", "arguments": {"city": "Tokyo"}}])__",
            {"", "", {{"get_weather", R"__({"city": "Tokyo"})__"}}}},
           {R"__(<|tool_call|> [{"name": "refresh", "arguments": {}}])__",
            {"", "", {{"refresh", "{}"}}}},
           {R"__(Let me check the weather for you.
<|tool_call|> [{"name": "get_weather", "arguments": {"city": "Tokyo"}}]
I'll get that information.)__",
            {"",
             "Let me check the weather for you.I'll get that information.",
             {{"get_weather", R"__({"city": "Tokyo"})__"}}}},
           {R"__(<tool_call> [{
  "name": "test_function",
  "arguments": {
    "quoted": "He said \"hello\"",
    "path": "C:\\Users\\file.txt",
    "newline": "line1\nline2",
    "unicode": "emoji: 🎉"
  }
}])__",
            {"", "", {{"test_function", R"__({
    "quoted": "He said \"hello\"",
    "path": "C:\\Users\\file.txt",
    "newline": "line1\nline2",
    "unicode": "emoji: 🎉"
  })__"}}}},
           {"<|tool_call|> [{\"arguments\": {\"city\": \"Tokyo\"}, \"name\": \"get_weather\"}, "
            "{\"arguments\": {\"timezone\": \"Asia/Tokyo\"}, \"name\": \"get_time\"}]",
            {"",
             "",
             {{"get_weather", R"__({"city": "Tokyo"})__"},
              {"get_time", R"__({"timezone": "Asia/Tokyo"})__"}}}},
       }},
      {{ToolFormat::kPhi4, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_phi4mini_tool_parser.py",
       {
           {R"__(functools[{"name": "get_weather", "arguments": {"city": "Tokyo"}}])__",
            {"", "", {{"get_weather", R"__({"city": "Tokyo"})__"}}}},
           {R"__(functools[
  {"name": "get_weather", "arguments": {"city": "Tokyo"}},
  {"name": "get_time", "arguments": {"timezone": "Asia/Tokyo"}}
])__",
            {"",
             "",
             {{"get_weather", R"__({"city": "Tokyo"})__"},
              {"get_time", R"__({"timezone": "Asia/Tokyo"})__"}}}},
           {R"__(functools[{"name": "refresh", "arguments": {}}])__",
            {"", "", {{"refresh", "{}"}}}},
           {R"__(Let me check the weather for you.
functools[{"name": "get_weather", "arguments": {"city": "Tokyo"}}]
Would you like to know more?)__",
            {"",
             "Let me check the weather for you.Would you like to know more?",
             {{"get_weather", R"__({"city": "Tokyo"})__"}}}},
           {R"__(functools[{
  "name": "test_function",
  "arguments": {
    "quoted": "He said \"hello\"",
    "path": "C:\\Users\\file.txt",
    "newline": "line1\nline2",
    "unicode": "emoji: 🎉"
  }
}])__",
            {"", "", {{"test_function", R"__({
    "quoted": "He said \"hello\"",
    "path": "C:\\Users\\file.txt",
    "newline": "line1\nline2",
    "unicode": "emoji: 🎉"
  })__"}}}},
           {R"__(functools[{"name": "func", "arguments": "not a dict"}])__",
            {"", R"__(functools[{"name": "func", "arguments": "not a dict"}])__", {}}},
           {"functools[] This is just text", {"", "functools[] This is just text", {}}},
           {"functools[ This is just text ]", {"", "functools[ This is just text ]", {}}},
       }},
      {{ToolFormat::kFunctionary, ReasoningFormat::kNone},
       false,
       "MeetKai/functionary tests/prompt_test_v3-llama3.1.txt",
       {
           {"James Kaplan is the Co-Founder and CEO of MeetKai Inc.",
            {"", "James Kaplan is the Co-Founder and CEO of MeetKai Inc.", {}}},
           {"I will get the price of 2 cars and compare<function=get_car_price>{\"car_name\": "
            "\"Song\"}</function><function=get_car_price>{\"car_name\": \"Tang\"}</function>",
            {"",
             "I will get the price of 2 cars and compare",
             {{"get_car_price", R"__({"car_name": "Song"})__"},
              {"get_car_price", R"__({"car_name": "Tang"})__"}}}},
           {R"__(<function=get_weather>{"location": "Hanoi"}</function>)__",
            {"", "", {{"get_weather", R"__({"location": "Hanoi"})__"}}}},
           {"I will use code interpreter to handle "
            "this<|python_tag|>l=[0,1,2,3,4,5]\nl.remove(3.6)",
            {"",
             "I will use code interpreter to handle this",
             {{"python", R"__({"code": "l=[0,1,2,3,4,5]\nl.remove(3.6)"})__"}}}},
           {"I will fix the code<|python_tag|>l=[0,1,2,3,4,5]\nl.remove(4)\nl",
            {"",
             "I will fix the code",
             {{"python", R"__({"code": "l=[0,1,2,3,4,5]\nl.remove(4)\nl"})__"}}}},
       }},
      {{ToolFormat::kFunctionaryV3, ReasoningFormat::kNone},
       false,
       "MeetKai/functionary tests/prompt_test_v3.llama3.txt",
       {
           {"all\nJames Kaplan is the Co-Founder and CEO of MeetKai Inc.",
            {"", "James Kaplan is the Co-Founder and CEO of MeetKai Inc.", {}}},
           {R"__(all
I will get the price of 2 cars and compare>>>get_car_price
{"car_name": "Song"}>>>get_car_price
{"car_name": "Tang"})__",
            {"",
             "I will get the price of 2 cars and compare",
             {{"get_car_price", R"__({"car_name": "Song"})__"},
              {"get_car_price", R"__({"car_name": "Tang"})__"}}}},
           {R"__(get_weather
{"location": "Hanoi"})__",
            {"", "", {{"get_weather", R"__({"location": "Hanoi"})__"}}}},
           {"all\nI'll use code interpreter to handle "
            "this>>>python\nl=[int('0'),int('1'),int('2'),int('3'),int('4'),int('5')]\nl.remove(3."
            "6)",
            {"",
             "I'll use code interpreter to handle this",
             {{"python",
               R"__({"code": "l=[int('0'),int('1'),int('2'),int('3'),int('4'),int('5')]\nl.remove(3.6)"})__"}}}},
           {"all\nI will fix the code>>>python\nl.remove(round(3.6))\nl",
            {"",
             "I will fix the code",
             {{"python", R"__({"code": "l.remove(round(3.6))\nl"})__"}}}},
       }},
      {{ToolFormat::kKimiK2, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_kimi_k2_tool_parser.py",
       {
           {"I'll check. <|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0 "
            "<|tool_call_argument_begin|>{\"city\": "
            "\"Beijing\"}<|tool_call_end|><|tool_calls_section_end|>",
            {"",
             "I'll check.",
             {{"get_weather", R"__({"city": "Beijing"})__", "functions.get_weather:0"}}}},
           {"Compare weather. "
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0 "
            "<|tool_call_argument_begin|>{\"city\": "
            "\"Beijing\"}<|tool_call_end|><|tool_call_begin|>functions.get_weather:1 "
            "<|tool_call_argument_begin|>{\"city\": "
            "\"Shanghai\"}<|tool_call_end|><|tool_calls_section_end|>",
            {"",
             "Compare weather.",
             {{"get_weather", R"__({"city": "Beijing"})__", "functions.get_weather:0"},
              {"get_weather", R"__({"city": "Shanghai"})__", "functions.get_weather:1"}}}},
           {"Multiple tasks. "
            "<|tool_calls_section_begin|><|tool_call_begin|>functions.get_weather:0 "
            "<|tool_call_argument_begin|>{\"city\": \"New "
            "York\"}<|tool_call_end|><|tool_call_begin|>functions.get_news:1 "
            "<|tool_call_argument_begin|>{\"topic\": "
            "\"technology\"}<|tool_call_end|><|tool_call_begin|>functions.send_email:2 "
            "<|tool_call_argument_begin|>{\"to\": \"user@example.com\", \"subject\": \"Daily "
            "Update\"}<|tool_call_end|><|tool_calls_section_end|>",
            {"",
             "Multiple tasks.",
             {{"get_weather", R"__({"city": "New York"})__", "functions.get_weather:0"},
              {"get_news", R"__({"topic": "technology"})__", "functions.get_news:1"},
              {"send_email",
               R"__({"to": "user@example.com", "subject": "Daily Update"})__",
               "functions.send_email:2"}}}},
           {"Process HTML. <|tool_calls_section_begin|><|tool_call_begin|>functions.process_html:0 "
            "<|tool_call_argument_begin|>{\"html\": "
            "\"<div>content</div>\"}<|tool_call_end|><|tool_calls_section_end|>",
            {"",
             "Process HTML.",
             {{"process_html",
               R"__({"html": "<div>content</div>"})__",
               "functions.process_html:0"}}}},
           {"Formatted. <|tool_calls_section_begin|><|tool_call_begin|>functions.process_data:0 "
            "<|tool_call_argument_begin|>{\n  \"name\": \"test\",\n  \"value\": "
            "123\n}<|tool_call_end|><|tool_calls_section_end|>",
            {"",
             "Formatted.",
             {{"process_data",
               R"__({
  "name": "test",
  "value": 123
})__",
               "functions.process_data:0"}}}},
           {"No prefix. <|tool_calls_section_begin|><|tool_call_begin|>get_weather:0 "
            "<|tool_call_argument_begin|>{\"city\": "
            "\"Tokyo\"}<|tool_call_end|><|tool_calls_section_end|>",
            {"", "No prefix.", {{"get_weather", R"__({"city": "Tokyo"})__", "get_weather:0"}}}},
           {"Empty args. <|tool_calls_section_begin|><|tool_call_begin|>functions.test:0 "
            "<|tool_call_argument_begin|>{}<|tool_call_end|><|tool_calls_section_end|>",
            {"", "Empty args.", {{"test", "{}", "functions.test:0"}}}},
       }},
      {{ToolFormat::kCohere, ReasoningFormat::kCohere},
       false,
       "vllm-project/vllm tests/tool_parsers/test_cohere_command_tool_parser.py",
       {
           {R"__(<|START_THINKING|> i will call foo with query1<|END_THINKING|><|START_ACTION|>
[
    {"tool_call_id": "0", "tool_name": "foo", "parameters": {"query": "query1"}}
]
<|END_ACTION|>)__",
            {" i will call foo with query1", "", {{"foo", R"__({"query": "query1"})__", "0"}}}},
           {R"__(<|START_THINKING|>first I think about foo<|END_THINKING|><|START_ACTION|>
[
    {"tool_call_id": "0", "tool_name": "foo", "parameters": {"query": "query1"}},
    {"tool_call_id": "1", "tool_name": "bar", "parameters": {"x": 42}}
]
<|END_ACTION|>)__",
            {"first I think about foo",
             "",
             {{"foo", R"__({"query": "query1"})__", "0"}, {"bar", R"__({"x": 42})__", "1"}}}},
           {"<|START_THINKING|>just think, no response<|END_THINKING|>",
            {"just think, no response", "", {}}},
       }},
      {{ToolFormat::kCohere, ReasoningFormat::kCohere},
       true,
       "ollama/ollama model/parsers/cohere_test.go",
       {
           {"Let me think about this.<|END_THINKING|><|START_TEXT|>Hello world!<|END_TEXT|>",
            {"Let me think about this.", "Hello world!", {}}},
           {"plan<|END_THINKING|><|START_ACTION|>[\n    {\"tool_call_id\": \"0\", \"tool_name\": "
            "\"get_weather\", \"parameters\": {\"city\": \"Paris\"}},    {\"tool_call_id\": \"1\", "
            "\"tool_name\": \"get_time\", \"parameters\": {}}\n]<|END_ACTION|>",
            {"plan",
             "",
             {{"get_weather", R"__({"city": "Paris"})__", "0"}, {"get_time", "{}", "1"}}}},
           {"thought<|END_THINKING|>Just plain text output",
            {"thought", "Just plain text output", {}}},
           {"plan<|END_THINKING|><|START_RESPONSE|>Hello there<|END_RESPONSE|>",
            {"plan", "Hello there", {}}},
           {"x<|END_THINKING|><|START_ACTION|>[!!!]<|END_ACTION|>",
            {"x", "<|START_ACTION|>[!!!]<|END_ACTION|>", {}}},
       }},
  };
}

}  // namespace coxswain::reply::testing
