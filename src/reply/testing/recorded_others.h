#pragma once
// Recorded outputs of formats that spell arguments in other ways, of channels, and of thoughts.

#include <vector>

#include "reply/testing/recorded.h"

namespace coxswain::reply::testing {

// NOLINTNEXTLINE(readability-function-size): a table
inline std::vector<RecordedPage> recorded_others() {
  return {
      {{ToolFormat::kLlama3Pythonic, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_pythonic_tool_parser.py",
       {
           {"[get_weather(city='San Francisco', metric='celsius')]",
            {"", "", {{"get_weather", R"__({"city": "San Francisco", "metric": "celsius"})__"}}}},
           {"[register_user(name='John Doe', age=37, address={'city': 'San Francisco', 'state': "
            "'CA'}, role=None, passed_test=True, aliases=['John', 'Johnny'])]",
            {"",
             "",
             {{"register_user",
               "{\"name\": \"John Doe\", \"age\": 37, \"address\": {\"city\": \"San Francisco\", "
               "\"state\": \"CA\"}, \"role\": null, \"passed_test\": true, \"aliases\": [\"John\", "
               "\"Johnny\"]}"}}}},
           {"[get_weather()]", {"", "", {{"get_weather", "{}"}}}},
           {"[do_something_cool(additional_data={})]",
            {"", "", {{"do_something_cool", R"__({"additional_data": {}})__"}}}},
           {R"__([get_weather(city='Martha\'s Vineyard', metric='\"cool units\"')])__",
            {"",
             "",
             {{"get_weather",
               R"__({"city": "Martha's Vineyard", "metric": "\"cool units\""})__"}}}},
           {"[get_weather(city='San Francisco', metric='celsius'), register_user(name='John Doe', "
            "age=37, address={'city': 'San Francisco', 'state': 'CA'}, role=None, "
            "passed_test=True, aliases=['John', 'Johnny'])]",
            {"",
             "",
             {{"get_weather", R"__({"city": "San Francisco", "metric": "celsius"})__"},
              {"register_user",
               "{\"name\": \"John Doe\", \"age\": 37, \"address\": {\"city\": \"San Francisco\", "
               "\"state\": \"CA\"}, \"role\": null, \"passed_test\": true, \"aliases\": [\"John\", "
               "\"Johnny\"]}"}}}},
           {"[f(a='x 'y' 'z), g(b='p 'q' 'r)]", {"", "[f(a='x 'y' 'z), g(b='p 'q' 'r)]", {}}},
       }},
      {{ToolFormat::kLlama3Pythonic, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_llama4_pythonic_tool_parser.py",
       {
           {"<|python_start|>[get_weather(city='LA', metric='C')]<|python_end|>",
            {"", "", {{"get_weather", R"__({"city": "LA", "metric": "C"})__"}}}},
           {"<|python_start|>[get_weather(city='LA', metric='C'), register_user(name='Doe', "
            "age=9)]",
            {"",
             "",
             {{"get_weather", R"__({"city": "LA", "metric": "C"})__"},
              {"register_user", R"__({"name": "Doe", "age": 9})__"}}}},
           {"<|python_start|>[get_weather(city='LA', metric='C'), get_weather(), "
            "do_something_cool(steps=[])]<|python_end|>",
            {"",
             "",
             {{"get_weather", R"__({"city": "LA", "metric": "C"})__"},
              {"get_weather", "{}"},
              {"do_something_cool", R"__({"steps": []})__"}}}},
       }},
      {{ToolFormat::kQwen3Coder, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_qwen3coder_tool_parser.py",
       {
           {"<tool_call>\n<function=get_current_weather>\n<parameter=city>\nDallas\n</"
            "parameter>\n<parameter=state>\nTX\n</parameter>\n<parameter=unit>\nfahrenheit\n</"
            "parameter>\n</function>\n</tool_call>",
            {"",
             "",
             {{"get_current_weather",
               R"__({"city": "Dallas", "state": "TX", "unit": "fahrenheit"})__"}}}},
           {"Sure! Let me check the weather for "
            "you.<tool_call>\n<function=get_current_weather>\n<parameter=city>\nDallas\n</"
            "parameter>\n<parameter=state>\nTX\n</parameter>\n<parameter=unit>\nfahrenheit\n</"
            "parameter>\n</function>\n</tool_call>",
            {"",
             "Sure! Let me check the weather for you.",
             {{"get_current_weather",
               R"__({"city": "Dallas", "state": "TX", "unit": "fahrenheit"})__"}}}},
           {R"__(<tool_call>
<function=calculate_area>
<parameter=shape>
rectangle
</parameter>
<parameter=dimensions>
{"width": 10, 
 "height": 20}
</parameter>
<parameter=precision>
2
</parameter>
</function>
</tool_call>)__",
            {"", "", {{"calculate_area", R"__({"shape": "rectangle", "dimensions": {"width": 10, 
 "height": 20}, "precision": 2})__"}}}},
           {"<tool_call>\n<function=get_current_weather>\n<parameter=city>\nDallas\n</"
            "parameter>\n<parameter=state>\nTX\n</parameter>\n<parameter=unit>\nfahrenheit\n</"
            "parameter>\n</function>\n</"
            "tool_call>\n<tool_call>\n<function=get_current_weather>\n<parameter=city>\nOrlando\n</"
            "parameter>\n<parameter=state>\nFL\n</parameter>\n<parameter=unit>\nfahrenheit\n</"
            "parameter>\n</function>\n</tool_call>",
            {"",
             "",
             {{"get_current_weather",
               R"__({"city": "Dallas", "state": "TX", "unit": "fahrenheit"})__"},
              {"get_current_weather",
               R"__({"city": "Orlando", "state": "FL", "unit": "fahrenheit"})__"}}}},
           {R"__(Let me calculate that area for you.<tool_call>
<function=calculate_area>
<parameter=shape>
circle
</parameter>
<parameter=dimensions>
{"radius": 15.5}
</parameter>
<parameter=precision>
3
</parameter>
</function>
</tool_call>)__",
            {"",
             "Let me calculate that area for you.",
             {{"calculate_area",
               R"__({"shape": "circle", "dimensions": {"radius": 15.5}, "precision": 3})__"}}}},
           {"<function=get_current_weather>\n<parameter=city>\nDallas\n</"
            "parameter>\n<parameter=state>\nTX\n</parameter>\n</function>",
            {"", "", {{"get_current_weather", R"__({"city": "Dallas", "state": "TX"})__"}}}},
           {R"__(<tool_call>
<function=test_types>
<parameter=int_param>
42
</parameter>
<parameter=float_param>
3.14
</parameter>
<parameter=bool_param>
true
</parameter>
<parameter=str_param>
hello world
</parameter>
<parameter=obj_param>
{"key": "value"}
</parameter>
</function>
</tool_call>)__",
            {"",
             "",
             {{"test_types",
               "{\"int_param\": 42, \"float_param\": 3.14, \"bool_param\": true, \"str_param\": "
               "\"hello world\", \"obj_param\": {\"key\": \"value\"}}"}}}},
       }},
      {{ToolFormat::kGemma, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_functiongemma_tool_parser.py",
       {
           {"<start_function_call>call:get_weather{location:<escape>London<escape>}<end_function_"
            "call>",
            {"", "", {{"get_weather", R"__({"location": "London"})__"}}}},
           {"Let me check the weather for you. "
            "<start_function_call>call:get_weather{location:<escape>Paris<escape>}<end_function_"
            "call>",
            {"",
             "Let me check the weather for you.",
             {{"get_weather", R"__({"location": "Paris"})__"}}}},
           {"<start_function_call>call:get_weather{location:<escape>London<escape>}<end_function_"
            "call><start_function_call>call:get_time{timezone:<escape>UTC<escape>}<end_function_"
            "call>",
            {"",
             "",
             {{"get_weather", R"__({"location": "London"})__"},
              {"get_time", R"__({"timezone": "UTC"})__"}}}},
       }},
      {{ToolFormat::kGemma, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_gemma4_tool_parser.py",
       {
           {"<|tool_call>call:get_weather{location:<|\"|>San "
            "Francisco<|\"|>,unit:<|\"|>celsius<|\"|>}<tool_call|>",
            {"", "", {{"get_weather", R"__({"location": "San Francisco", "unit": "celsius"})__"}}}},
           {"<|tool_call>call:get_weather{location:<|\"|>London<|\"|>}<tool_call|><|tool_call>call:"
            "get_time{location:<|\"|>London<|\"|>}<tool_call|>",
            {"",
             "",
             {{"get_weather", R"__({"location": "London"})__"},
              {"get_time", R"__({"location": "London"})__"}}}},
           {"<|tool_call>call:complex_function{nested:{inner:<|\"|>value<|\"|>},list:[<|\"|>a<|\"|>"
            ",<|\"|>b<|\"|>]}<tool_call|>",
            {"",
             "",
             {{"complex_function", R"__({"nested": {"inner": "value"}, "list": ["a", "b"]})__"}}}},
           {"<|tool_call>call:set_status{is_active:true,count:42,score:3.14}<tool_call|>",
            {"", "", {{"set_status", R"__({"is_active": true, "count": 42, "score": 3.14})__"}}}},
           {R"__(<|tool_call>call:get_weather{location:<|"|>London)__",
            {"", R"__(<|tool_call>call:get_weather{location:<|"|>London)__", {}}},
           {"<|tool_call>call:get_status{}<tool_call|>", {"", "", {{"get_status", "{}"}}}},
       }},
      {{ToolFormat::kGlm45, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_glm4_moe_tool_parser.py",
       {
           {"<tool_call>get_current_weather\n    <arg_key>city</arg_key>\n    "
            "<arg_value>Dallas</arg_value>\n    <arg_key>state</arg_key>\n    "
            "<arg_value>TX</arg_value>\n    <arg_key>unit</arg_key>\n    "
            "<arg_value>fahrenheit</arg_value>\n    </tool_call>",
            {"",
             "",
             {{"get_current_weather",
               R"__({"city": "Dallas", "state": "TX", "unit": "fahrenheit"})__"}}}},
           {"<tool_call>get_current_weather\n    <arg_key>city</arg_key>\n    "
            "<arg_value>Dallas</arg_value>\n    <arg_key>state</arg_key>\n    "
            "<arg_value>TX</arg_value>\n    <arg_key>unit</arg_key>\n    "
            "<arg_value>fahrenheit</arg_value>\n    </tool_call>\n    "
            "<tool_call>get_current_weather\n    <arg_key>city</arg_key>\n    "
            "<arg_value>Orlando</arg_value>\n    <arg_key>state</arg_key>\n    "
            "<arg_value>FL</arg_value>\n    <arg_key>unit</arg_key>\n    "
            "<arg_value>fahrenheit</arg_value>\n    </tool_call>",
            {"",
             "",
             {{"get_current_weather",
               R"__({"city": "Dallas", "state": "TX", "unit": "fahrenheit"})__"},
              {"get_current_weather",
               R"__({"city": "Orlando", "state": "FL", "unit": "fahrenheit"})__"}}}},
           {"I will help you get the weather.<tool_call>get_weather\n    <arg_key>city</arg_key>\n "
            "   <arg_value>Beijing</arg_value>\n    <arg_key>date</arg_key>\n    "
            "<arg_value>2025-08-01</arg_value>\n    </tool_call>",
            {"",
             "I will help you get the weather.",
             {{"get_weather", R"__({"city": "Beijing", "date": "2025-08-01"})__"}}}},
       }},
      {{ToolFormat::kGlm45, ReasoningFormat::kThink},
       false,
       "vllm-project/vllm tests/tool_parsers/test_glm4_moe_tool_parser.py",
       {
           {"<think>I want to get the weather.</think>\n\nI will help you get the "
            "weather.\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</"
            "arg_value>\n<arg_key>date</arg_key>\n<arg_value>2025-08-01</arg_value>\n</tool_call>",
            {"I want to get the weather.",
             "I will help you get the weather.",
             {{"get_weather", R"__({"city": "Beijing", "date": "2025-08-01"})__"}}}},
       }},
      {{ToolFormat::kGlm45, ReasoningFormat::kNone},
       false,
       "vllm-project/vllm tests/tool_parsers/test_glm4_moe_tool_parser.py",
       {
           {"<tool_call>get_current_time\n</tool_call>", {"", "", {{"get_current_time", "{}"}}}},
           {"I will help you get the weather "
            "info.\n\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</"
            "arg_value>\n<arg_key>date</arg_key>\n<arg_value>2025-08-01</arg_value>\n</"
            "tool_call>\n\nmeaningwhile, I will also check the weather in "
            "Shanghai.\n\n<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Shanghai</"
            "arg_value>\n<arg_key>date</arg_key>\n<arg_value>2025-08-01</arg_value>\n</tool_call>",
            {"",
             "I will help you get the weather info.meaningwhile, I will also check the weather in "
             "Shanghai.",
             {{"get_weather", R"__({"city": "Beijing", "date": "2025-08-01"})__"},
              {"get_weather", R"__({"city": "Shanghai", "date": "2025-08-01"})__"}}}},
           {"<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</"
            "arg_value>\n<arg_key>date</arg_key>\n<arg_value>2025-08-01</arg_value>",
            {"",
             "<tool_call>get_weather\n<arg_key>city</arg_key>\n<arg_value>Beijing</"
             "arg_value>\n<arg_key>date</arg_key>\n<arg_value>2025-08-01</arg_value>",
             {}}},
           {"<tool_call>send_message\n<arg_key>recipient</arg_key>\n<arg_value>Amy</"
            "arg_value>\n<arg_key>message</arg_key>\n<arg_value>It is a nice "
            "day</arg_value>\n<arg_key>priority</arg_key>\n<arg_value>high</arg_value>\n</"
            "tool_call>",
            {"",
             "",
             {{"send_message",
               R"__({"recipient": "Amy", "message": "It is a nice day", "priority": "high"})__"}}}},
       }},
      {{ToolFormat::kHarmony, ReasoningFormat::kHarmony},
       false,
       "openai/harmony docs/format.md",
       {
           {"<|channel|>analysis<|message|>User asks: \"What is 2 + 2?\" Simple arithmetic. "
            "Provide answer.<|end|>\n<|start|>assistant<|channel|>final<|message|>2 + 2 = "
            "4.<|return|>",
            {R"__(User asks: "What is 2 + 2?" Simple arithmetic. Provide answer.)__",
             "2 + 2 = 4.",
             {}}},
           {"<|channel|>analysis<|message|>Need to use function "
            "get_weather.<|end|><|start|>assistant<|channel|>commentary to=functions.get_weather "
            "<|constrain|>json<|message|>{\"location\":\"San Francisco\"}<|call|>",
            {"Need to use function get_weather.",
             "",
             {{"get_weather", R"__({"location":"San Francisco"})__"}}}},
           {"<|channel|>analysis<|message|>{long chain of "
            "thought}<|end|><|start|>assistant<|channel|>commentary<|message|>**Action plan**:\n1. "
            "Generate an HTML file\n2. Generate a JavaScript for the Node.js server\n3. Start the "
            "server\n---\nWill start executing the plan step by "
            "step<|end|><|start|>assistant<|channel|>commentary "
            "to=functions.generate_file<|constrain|>json<|message|>{\"template\": \"basic_html\", "
            "\"path\": \"index.html\"}<|call|>",
            {"{long chain of thought}",
             "**Action plan**:\n1. Generate an HTML file\n2. Generate a JavaScript for the Node.js "
             "server\n3. Start the server\n---\nWill start executing the plan step by step",
             {{"generate_file", R"__({"template": "basic_html", "path": "index.html"})__"}}}},
       }},
      {{ToolFormat::kHarmony, ReasoningFormat::kHarmony},
       false,
       "ggml-org/llama.cpp tests/test-chat.cpp",
       {
           {"<|channel|>final<|message|>Hello, world!\nWhat's up?",
            {"", "Hello, world!\nWhat's up?", {}}},
           {"<|channel|>commentary<|message|>Hello, world!\nWhat's up?",
            {"", "Hello, world!\nWhat's up?", {}}},
           {"<|channel|>analysis<|message|>I'm\nthinking<|end|><|start|>assistant<|channel|>final<|"
            "message|>Hello, world!\nWhat's up?",
            {"I'm\nthinking", "Hello, world!\nWhat's up?", {}}},
           {"<|channel|>analysis<|message|>I'm\nthinking", {"I'm\nthinking", "", {}}},
           {R"__( to=functions.special_function<|channel|>analysis<|message|>{"arg1": 1})__",
            {"", "", {{"special_function", R"__({"arg1": 1})__"}}}},
           {R"__(<|channel|>analysis to=functions.special_function<|message|>{"arg1": 1})__",
            {"", "", {{"special_function", R"__({"arg1": 1})__"}}}},
           {" to=functions.special_function<|channel|>analysis "
            "<|constrain|>json<|message|>{\"arg1\": 1}",
            {"", "", {{"special_function", R"__({"arg1": 1})__"}}}},
           {"<|channel|>analysis<|message|>I'm\nthinking<|end|><|start|>assistant "
            "to=functions.special_function<|channel|>analysis<|message|>{\"arg1\": 1}",
            {"I'm\nthinking", "", {{"special_function", R"__({"arg1": 1})__"}}}},
           {"<|channel|>analysis<|message|>Thinking about "
            "edit...<|end|><|start|>assistant<|channel|>commentary to=functions.edit "
            "<|constrain|>json<|message|>{\"oldString\": \"if (part < railCount - 1) {\", "
            "\"newString\": \"if (part < 4) {\", \"replaceAll\": false}",
            {"Thinking about edit...",
             "",
             {{"edit",
               "{\"oldString\": \"if (part < railCount - 1) {\", \"newString\": \"if (part < 4) "
               "{\", \"replaceAll\": false}"}}}},
           {"<|channel|>analysis<|message|>I need to output the invoice details in "
            "JSON<|end|><|start|>assistant<|channel|>final "
            "<|constrain|>json<|message|>{\"amount\": 123.45, \"date\": \"2025-12-03\"}",
            {"I need to output the invoice details in JSON",
             R"__({"amount": 123.45, "date": "2025-12-03"})__",
             {}}},
           {"<|channel|>analysis<|message|>I will execute python to say "
            "hello<|end|><|start|>assistant "
            "to=container.exec<|channel|>commentary<|message|>python3 -c 'print(\"hello\")'",
            {"I will execute python to say hello",
             "<|start|>assistant to=container.exec<|channel|>commentary<|message|>python3 -c "
             "'print(\"hello\")'",
             {}}},
           {"<|channel|>commentary "
            "to=assistant<|channel|>analysis<|message|>I'm\nthinking<|end|><|start|>assistant<|"
            "channel|>final<|message|>Hello, world!\nWhat's up?",
            {"I'm\nthinking", "Hello, world!\nWhat's up?", {}}},
           {"<|channel|>analysis<|message|>I'm\nthinking<|end|><|start|>assistant<|channel|>"
            "commentary to=assistant<|channel|>final<|message|>Hello, world!\nWhat's up?",
            {"I'm\nthinking", "Hello, world!\nWhat's up?", {}}},
           {"<|channel|> analysis<|message|> I'm\nthinking<|end|><|start|> assistant "
            "to=functions.special_function<|channel|> commentary <|constrain|>  json<|message|> "
            "{\"arg1\": 1}<|end|><|start|> assistant to=functions.special_function<|channel|> "
            "commentary <|constrain|>  json<|message|> {\"arg1\": 2}",
            {" I'm\nthinking",
             "",
             {{"special_function", R"__({"arg1": 1})__"},
              {"special_function", R"__({"arg1": 2})__"}}}},
       }},
      {{ToolFormat::kHarmony, ReasoningFormat::kHarmony},
       false,
       "vllm-project/vllm tests/reasoning/test_gptoss_reasoning_parser.py",
       {
           {"<|end|><|start|>assistant<|channel|>analysis<|message|>This is "
            "reasoning<|end|><|start|>assistant<|channel|>final<|message|>This is the rest",
            {"This is reasoning", "This is the rest", {}}},
           {"<|end|><|start|>assistant<|channel|>analysis<|message|>This is "
            "reasoning<|end|><|start|>assistant<|channel|>final<|constrain|> JSON <|message|>This "
            "is the rest",
            {"This is reasoning", "This is the rest", {}}},
           {"<|end|><|start|>assistant<|channel|>analysis<|message|>This is "
            "reasoning<|end|><|start|>assistant<|channel|>final<|constrain|>ReplyAction "
            "<|message|>This is the rest",
            {"This is reasoning", "This is the rest", {}}},
       }},
      {{ToolFormat::kNone, ReasoningFormat::kThink},
       true,
       "vllm-project/vllm tests/reasoning/test_deepseekr1_reasoning_parser.py",
       {
           {"This is a reasoning section</think>This is the rest",
            {"This is a reasoning section", "This is the rest", {}}},
           {"This\nThat</think>This is the rest\nThat",
            {"This\nThat", "This is the rest\nThat", {}}},
           {"</think>This is the rest", {"", "This is the rest", {}}},
           {"<think>This is a reasoning section</think>This is the rest",
            {"This is a reasoning section", "This is the rest", {}}},
       }},
      {{ToolFormat::kNone, ReasoningFormat::kThink},
       false,
       "vllm-project/vllm tests/reasoning/test_deepseekr1_reasoning_parser.py",
       {
           {"<think>This is a reasoning section", {"This is a reasoning section", "", {}}},
           {"\n<think>This is a reasoning section</think>\nThis is the rest",
            {"This is a reasoning section", "This is the rest", {}}},
       }},
      {{ToolFormat::kNone, ReasoningFormat::kMistral},
       false,
       "vllm-project/vllm tests/reasoning/test_mistral_reasoning_parser.py",
       {
           {"[THINK]This is a reasoning section[/THINK]This is the rest",
            {"This is a reasoning section", "This is the rest", {}}},
           {"[THINK]This\nThat[/THINK]This is the rest\nThat",
            {"This\nThat", "This is the rest\nThat", {}}},
           {"[THINK]This is a reasoning section", {"This is a reasoning section", "", {}}},
       }},
      {{ToolFormat::kNone, ReasoningFormat::kGranite},
       false,
       "vllm-project/vllm tests/reasoning/test_granite_reasoning_parser.py",
       {
           {"Here is my thought process:This is a reasoning sectionHere is my response:This is the "
            "rest",
            {"This is a reasoning section", "This is the rest", {}}},
           {"Here is my thought process:This\nThatHere is my response:This is the rest\nThat",
            {"This\nThat", "This is the rest\nThat", {}}},
           {"Here is my thought failure", {"", "Here is my thought failure", {}}},
           {"Here is my thought process: foo Here is Here", {" foo Here is Here", "", {}}},
       }},
      {{ToolFormat::kNone, ReasoningFormat::kGranite33},
       false,
       "vllm-project/vllm tests/reasoning/test_granite_thinking_reasoning_parser.py",
       {
           {"<think>line1\nline2</think>\nresult1\nresult2",
            {"line1\nline2", "result1\nresult2", {}}},
       }},
      {{ToolFormat::kNone, ReasoningFormat::kGemma},
       false,
       "vllm-project/vllm tests/reasoning/test_gemma4_reasoning_parser.py",
       {
           {"<|channel>thought\nLine1\nLine2<channel|>Answer", {"Line1\nLine2", "Answer", {}}},
           {"<|channel>This is a reasoning section<channel|>This is the rest",
            {"This is a reasoning section", "This is the rest", {}}},
           {"<|channel>thousand reasons<channel|>Done", {"thousand reasons", "Done", {}}},
           {"<|channel>thought\n<channel|>", {"", "", {}}},
           {"<|channel>This is a reasoning section", {"This is a reasoning section", "", {}}},
       }},
  };
}

}  // namespace coxswain::reply::testing
