#include "api/tools_document.h"

#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/documents.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

json::Value parsed(const std::string& text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text << ": " << value.status().message();
  return value.ok() ? std::move(value).value() : json::Value();
}

Result<ChatRequest> chat_with(const std::string& members) {
  return read_chat_request(
      parsed(R"({"messages":[{"role":"user","content":"Hi"}],)" + members + "}"), {});
}

Result<ChatRequest> message_with(const std::string& members) {
  return read_messages_request(
      parsed(R"({"max_tokens":9,"messages":[{"role":"user","content":"Hi"}],)" + members + "}"),
      {});
}

const std::string kTwo =
    R"("tools":[{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},)"
    R"({"function":{"name":"g","strict":true,"arguments":{"type":"object","properties":{}}}}])";

std::vector<std::string> names(const AskedTools& tools) {
  std::vector<std::string> out;
  if (tools.callable == nullptr) return out;
  for (const reply::Tool& tool : *tools.callable) out.push_back(tool.name);
  return out;
}

TEST(ToolsDocument, FunctionsAreReadAndListedInOneForm) {
  const auto request = chat_with(kTwo);
  ASSERT_TRUE(request.ok()) << request.status().message();
  const AskedTools& tools = request->tools;
  EXPECT_THAT(names(tools), ::testing::ElementsAre("f", "g"));
  EXPECT_EQ(
      json::write(tools.list),
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}},)"
      R"({"type":"function","function":{"name":"g","strict":true,"parameters":{"type":"object","properties":{}}}}])");
  EXPECT_THAT(tools.strict, ::testing::ElementsAre("g"));
  EXPECT_EQ(tools.choice, AskedTools::Choice::kAuto);
  EXPECT_TRUE(tools.parallel);
  EXPECT_EQ(tools.prompt, std::nullopt);
}

TEST(ToolsDocument, TheChoiceSaysWhichMayBeCalled) {
  struct Row {
    std::string choice;
    std::vector<std::string> callable;
    AskedTools::Choice kind = AskedTools::Choice::kAuto;
  };
  using Choice = AskedTools::Choice;
  const Row rows[] = {
      {R"("auto")", {"f", "g"}},
      {"null", {"f", "g"}},
      {R"("none")", {}},
      {R"("required")", {"f", "g"}, Choice::kRequired},
      {R"({"type":"function","function":{"name":"g"}})", {"g"}, Choice::kNamed},
      {R"({"function":{"name":"f"}})", {"f"}, Choice::kNamed},
      {R"("g")", {"g"}, Choice::kNamed},
  };
  for (const Row& row : rows) {
    const auto request = chat_with(kTwo + R"(,"tool_choice":)" + row.choice);
    ASSERT_TRUE(request.ok()) << row.choice << ": " << request.status().message();
    EXPECT_EQ(names(request->tools), row.callable) << row.choice;
    EXPECT_EQ(request->tools.choice, row.kind) << row.choice;
    EXPECT_EQ(request->tools.list.is_null(), row.callable.empty()) << row.choice;
  }
}

TEST(ToolsDocument, OtherMembersAreRead) {
  const auto request =
      chat_with(kTwo + R"(,"parallel_tool_calls":false,"tool_prompt":"Use them.")");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_FALSE(request->tools.parallel);
  EXPECT_EQ(request->tools.prompt, "Use them.");
  const auto empty = chat_with(R"("tools":[],"tool_prompt":"")");
  ASSERT_TRUE(empty.ok());
  EXPECT_FALSE(empty->tools);
  EXPECT_EQ(empty->tools.prompt, std::nullopt);
}

TEST(ToolsDocument, RefusesByName) {
  struct Row {
    std::string members;
    std::string field;
    std::string message;
  };
  const std::string f = R"("tools":[{"function":{"name":"f"}}],)";
  const Row rows[] = {
      {R"("tools":5)", "tools", "`tools` must be an array. Given: 5"},
      {R"("tools":[5])", "tools.0", "`tools.0` must be an object with a `function`. Given: 5"},
      {R"("tools":[{"type":"web_search"}])",
       "tools.0.type",
       "`tools.0.type` must be function. Given: web_search"},
      {R"("tools":[{"function":[]}])",
       "tools.0.function",
       "`tools.0.function` must be an object. Given: an array"},
      {R"("tools":[{"function":{}}])",
       "tools.0.function.name",
       "`tools.0.function.name` must be a string that is not empty. Given: none"},
      {R"("tools":[{"function":{"name":""}}])",
       "tools.0.function.name",
       "`tools.0.function.name` must be a string that is not empty. Given: \"\""},
      {R"("tools":[{"function":{"name":"f","parameters":[]}}])",
       "tools.0.function.parameters",
       "`tools.0.function.parameters` must be an object. Given: an array"},
      {f + R"("tool_choice":[])",
       "tool_choice",
       R"(`tool_choice` must be "none", "auto", "required" or {"type":"function","function":{"name":...}}. Given: an array)"},
      {f + R"("tool_choice":{"type":"allowed_tools"})",
       "tool_choice.type",
       "`tool_choice.type` must be function. Given: allowed_tools"},
      {f + R"("tool_choice":{"function":{}})",
       "tool_choice.function",
       "`tool_choice.function` must have a `name`. Given: none"},
      {f + R"("tool_choice":"g")", "tool_choice", "Tool with name g not found"},
      {f + R"("parallel_tool_calls":1)",
       "parallel_tool_calls",
       "`parallel_tool_calls` must be a boolean. Given: 1"},
      {R"("thinking_budget":-2)",
       "thinking_budget",
       "`thinking_budget` must be >= 0, or -1 for no bound. Given: -2"},
      {R"("reasoning_effort":5)",
       "reasoning_effort",
       "`reasoning_effort` must be a string. Given: 5"},
  };
  for (const Row& row : rows) {
    const auto request = chat_with(row.members);
    ASSERT_FALSE(request.ok()) << row.members;
    EXPECT_EQ(request.status().field(), row.field) << row.members;
    EXPECT_EQ(request.status().message(), row.message) << row.members;
  }
}

TEST(ToolsDocument, TooManyAreRefused) {
  DocumentLimits limits;
  limits.tools_max = 1;
  const auto request = read_chat_request(
      parsed(R"({"messages":[{"role":"user","content":"Hi"}],)" + kTwo + "}"), limits);
  ASSERT_FALSE(request.ok());
  EXPECT_EQ(request.status().message(), "`tools` must have at most 1 entries. Given: 2");
}

TEST(ToolsDocument, HowMuchToThinkGoesToTheTemplate) {
  const auto arguments = [](const std::string& members) {
    const auto request = chat_with(members);
    EXPECT_TRUE(request.ok()) << request.status().message();
    return request.ok() ? json::write(request->template_arguments) : std::string();
  };
  EXPECT_EQ(arguments(R"("reasoning_effort":"low")"), R"({"reasoning_effort":"low"})");
  EXPECT_EQ(arguments(R"("reasoning_effort":"none")"),
            R"({"reasoning_effort":"none","enable_thinking":false})");
  EXPECT_EQ(arguments(R"("enable_thinking":true)"), R"({"enable_thinking":true})");
  EXPECT_EQ(
      arguments(R"("reasoning_effort":"none","chat_template_kwargs":{"enable_thinking":true})"),
      R"({"enable_thinking":true,"reasoning_effort":"none"})");
  EXPECT_EQ(arguments(R"("seed":1)"), "null");
}

TEST(ToolsDocument, ThoughtsMayBeBounded) {
  for (const std::string name :
       {"thinking_token_budget", "thinking_budget", "thinking_budget_tokens"}) {
    const auto bounded = chat_with("\"" + name + "\":7");
    ASSERT_TRUE(bounded.ok() && bounded->thoughts) << name;
    EXPECT_EQ(bounded->thoughts->tokens_max, 7U);
    EXPECT_EQ(bounded->thoughts->field, name);
    const auto unbounded = chat_with("\"" + name + "\":-1");
    ASSERT_TRUE(unbounded.ok()) << name;
    EXPECT_FALSE(unbounded->thoughts);
  }
  const auto anthropics = message_with(R"("thinking":{"type":"enabled","budget_tokens":9})");
  ASSERT_TRUE(anthropics.ok() && anthropics->thoughts);
  EXPECT_EQ(anthropics->thoughts->tokens_max, 9U);
  EXPECT_FALSE(message_with(R"("thinking":{"type":"disabled","budget_tokens":9})")->thoughts);
}

TEST(ToolsDocument, AnthropicsFormBecomesTheSame) {
  const std::string tools =
      R"("tools":[{"name":"f","description":"d","input_schema":{"type":"object"},"cache_control":{"type":"ephemeral"}}])";
  const auto request =
      message_with(tools + R"(,"tool_choice":{"type":"any","disable_parallel_tool_use":true})");
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(
      json::write(request->tools.list),
      R"([{"type":"function","function":{"name":"f","description":"d","parameters":{"type":"object"}}}])");
  EXPECT_EQ(request->tools.choice, AskedTools::Choice::kRequired);
  EXPECT_FALSE(request->tools.parallel);
  const auto named = message_with(tools + R"(,"tool_choice":{"type":"tool","name":"f"})");
  ASSERT_TRUE(named.ok());
  EXPECT_EQ(named->tools.choice, AskedTools::Choice::kNamed);
  const auto none = message_with(tools + R"(,"tool_choice":{"type":"none"})");
  ASSERT_TRUE(none.ok());
  EXPECT_FALSE(none->tools);
}

TEST(ToolsDocument, AnthropicsBlocksBecomeMessages) {
  const auto request = read_messages_request(parsed(R"({"max_tokens":9,
    "thinking":{"type":"enabled","budget_tokens":1024},
    "messages":[
      {"role":"user","content":"Weather?"},
      {"role":"assistant","content":[
        {"type":"thinking","thinking":"I look.","signature":"x"},
        {"type":"redacted_thinking","data":"x"},
        {"type":"tool_use","id":"1","name":"f","input":{"a":1}},
        {"type":"tool_use","id":"2","name":"g","input":{}}]},
      {"role":"user","content":[
        {"type":"tool_result","tool_use_id":"1","content":"4"},
        {"type":"tool_result","tool_use_id":"2","is_error":true,
         "content":[{"type":"text","text":"no"},{"type":"text","text":"pe"}]},
        {"type":"text","text":"And"},{"type":"text","text":"?"}]},
      {"role":"assistant","content":[{"type":"text","text":"Cold."}]},
      {"role":"assistant","content":"Very."}]})"),
                                             {});
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(json::write(request->messages),
            R"([{"role":"user","content":"Weather?"},)"
            R"({"role":"assistant","content":null,"reasoning_content":"I look.","tool_calls":[)"
            R"({"id":"1","type":"function","function":{"name":"f","arguments":{"a":1}}},)"
            R"({"id":"2","type":"function","function":{"name":"g","arguments":{}}}]},)"
            R"({"role":"tool","content":"4","name":"f","tool_call_id":"1"},)"
            R"({"role":"tool","content":"nope","name":"g","tool_call_id":"2"},)"
            R"({"role":"user","content":"And?"},)"
            R"({"role":"assistant","content":"Cold.\n\nVery."}])");
  EXPECT_EQ(json::write(request->template_arguments), R"({"enable_thinking":true})");
  ASSERT_TRUE(request->thoughts);
  EXPECT_EQ(request->thoughts->tokens_max, 1024U);
}

TEST(ToolsDocument, AnthropicsBlocksAreRefusedByTheirPlace) {
  const auto refusal = [](const std::string& role, const std::string& block) {
    const auto request = read_messages_request(parsed(R"({"max_tokens":9,"messages":[{"role":")" +
                                                      role + R"(","content":[)" + block + "]}]}"),
                                               {});
    return request.ok() ? "taken" : request.status().message();
  };
  EXPECT_EQ(refusal("user", R"({"type":"tool_use","id":"1","name":"f","input":{}})"),
            "`messages.0.content.0` must be of type `text` or `tool_result`: `tool_use` blocks are "
            "not supported");
  EXPECT_EQ(refusal("assistant", R"({"type":"tool_result","tool_use_id":"1"})"),
            "`messages.0.content.0` must be of type `text`, `tool_use` or `thinking`: "
            "`tool_result` blocks are not supported");
  EXPECT_EQ(refusal("assistant", R"({"type":"tool_use","id":"1","input":{}})"),
            "`messages.0.content.0` must have a `name` that is a string, as a tool_use block has");
  EXPECT_EQ(refusal("assistant", R"({"type":"tool_use","id":"1","name":"f","input":"{}"})"),
            "`messages.0.content.0.input` must be an object");
  EXPECT_EQ(refusal("user", R"({"type":"tool_result","content":"x"})"),
            "`messages.0.content.0` must have a `tool_use_id` that is a string, as a tool_result "
            "block has");
}

}  // namespace
}  // namespace coxswain::api
