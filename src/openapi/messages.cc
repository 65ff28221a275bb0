// Anthropic's routes.

#include "openapi/families.h"

namespace coxswain::openapi {
namespace {

constexpr auto kRequest = Object::Side::kRequest;
constexpr auto kAnswer = Object::Side::kAnswer;

constexpr std::array kMaxTokensToGenerate{
    Member{.name = "max_tokens", .type = "u32 >= 1", .presence = kRequired},
};
constexpr std::array kMaxTokensToCount{Member{"max_tokens", "u32", "Not needed."}};
constexpr std::array kMessages{
    Member{"model", "string <= 256", "As in chats."},
    Member{.name = "messages", .type = "[AnthropicMessage] >= 1 <= 1024", .presence = kRequired},
    Member{"system", "string|[TextBlock] <= 64", "The first message."},
    Member{"stop_sequences", "[string >= 1 <= 1024]", "At most --max-stop-sequences; cut off."},
    Member{"temperature", "number >= 0", "0 is greedy.", "1"},
    Member{"top_p", "number > 0 <= 1", "", "1"},
    Member{"top_k", "i32 >= -1", "0 and -1 are off.", "-1"},
    Member{"stream", "bool", "", "false"},
    Member{"tools", "[AnthropicTool] <= 1024"},
    Member{"tool_choice", "AnthropicToolChoice"},
    Member{"thinking", "Thinking"},
    Member{"output_config", "OutputConfig"},
    Member{"metadata", "AnthropicMetadata", "A label."},
    Member{"cache_control", "any", "Changes nothing: every prefix is kept."},
};
constexpr std::array kMessage{
    Member{.name = "role", .type = "'user'|'assistant'", .presence = kRequired},
    Member{.name = "content", .type = "string|[ContentBlock] <= 64", .presence = kRequired},
};
constexpr std::array kMark{Member{"cache_control", "any", "Changes nothing."}};
constexpr std::array kTextBlock{
    Member{.name = "type", .type = "'text'", .presence = kRequired},
    Member{.name = "text", .type = "string", .presence = kRequired},
};
constexpr std::array kUseBlock{
    Member{
        .name = "type", .type = "'tool_use'", .about = "The assistant's.", .presence = kRequired},
    Member{.name = "id", .type = "string", .presence = kRequired},
    Member{.name = "name", .type = "string", .presence = kRequired},
    Member{.name = "input", .type = "object", .presence = kRequired},
};
constexpr std::array kResultBlock{
    Member{.name = "type", .type = "'tool_result'", .about = "A user's.", .presence = kRequired},
    Member{.name = "tool_use_id", .type = "string", .presence = kRequired},
    Member{"content", "string|[TextBlock] <= 64"},
    Member{"is_error", "bool"},
};
constexpr std::array kThinkingBlock{
    Member{
        .name = "type", .type = "'thinking'", .about = "The assistant's.", .presence = kRequired},
    Member{.name = "thinking", .type = "string", .presence = kRequired},
    Member{"signature", "any", "Nothing here reads it."},
};
constexpr std::array kTool{
    Member{"type", "'custom'"},
    Member{.name = "name", .type = "string >= 1 <= 256", .presence = kRequired},
    Member{"description", "any"},
    Member{.name = "input_schema", .type = "object", .presence = kRequired},
    Member{"strict", "bool", "Calls follow the schema."},
};
constexpr std::array kToolChoice{
    Member{.name = "type", .type = "'auto'|'any'|'none'|'tool'", .presence = kRequired},
    Member{"name", "string <= 256", "Of tool."},
    Member{"disable_parallel_tool_use", "bool", "", "false"},
};
constexpr std::array kThinking{
    Member{.name = "type", .type = "'enabled'|'adaptive'|'disabled'", .presence = kRequired},
    Member{"budget_tokens", "u32", "Tokens of thoughts at most."},
};
constexpr std::array kOutputConfig{
    Member{"effort", "string <= 64", "For the template."},
    Member{"format", "AnthropicFormat", "The form of the answer."},
};
constexpr std::array kFormat{
    Member{.name = "type", .type = "'json_schema'", .presence = kRequired},
    Member{.name = "schema", .type = "object", .presence = kRequired},
};
constexpr std::array kMetadata{Member{"user_id", "string <= 256"}};

constexpr std::array kAnswered{
    Member{"id", "string"},
    Member{"type", "'message'"},
    Member{"role", "'assistant'"},
    Member{"model", "string"},
    Member{"content", "[AnsweredBlock]"},
    Member{"stop_reason", "StopReason|null"},
    Member{"stop_sequence", "string|null"},
    Member{"usage", "AnthropicUsage"},
};
constexpr std::array kUsage{
    Member{"input_tokens", "u32", "Without those of the cache."},
    Member{"cache_creation_input_tokens", "u32"},
    Member{"cache_read_input_tokens", "u32"},
    Member{"output_tokens", "u32"},
};
constexpr std::array kAnsweredText{Member{"type", "'text'"}, Member{"text", "string"}};
constexpr std::array kAnsweredThoughts{
    Member{"type", "'thinking'"},
    Member{"thinking", "string"},
    Member{"signature", "string"},
};
constexpr std::array kAnsweredCall{
    Member{"type", "'tool_use'"},
    Member{"id", "string"},
    Member{"name", "string"},
    Member{"input", "object"},
};
constexpr std::array kEvent{
    Member{"type",
           "'message_start'|'ping'|'content_block_start'|'content_block_delta'|"
           "'content_block_stop'|'message_delta'|'message_stop'"},
    Member{.name = "message", .type = "AnthropicAnswer", .presence = kMayBeAbsent},
    Member{.name = "index", .type = "u32", .presence = kMayBeAbsent},
    Member{.name = "content_block", .type = "AnsweredBlock", .presence = kMayBeAbsent},
    Member{.name = "delta", .type = "BlockDelta|MessageDelta", .presence = kMayBeAbsent},
    Member{.name = "usage", .type = "AnthropicUsage", .presence = kMayBeAbsent},
};
constexpr std::array kBlockDelta{
    Member{"type", "'text_delta'|'thinking_delta'|'input_json_delta'"},
    Member{.name = "text", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "thinking", .type = "string", .presence = kMayBeAbsent},
    Member{.name = "partial_json", .type = "string", .presence = kMayBeAbsent},
};
constexpr std::array kMessageDelta{
    Member{"stop_reason", "StopReason"},
    Member{"stop_sequence", "string|null"},
};
constexpr std::array kCounted{Member{"input_tokens", "u64"}};

void describe_requests(Description& out) {
  out.request("MessagesRequest",
              {kMaxTokensToGenerate, kMessages, scheduling()},
              "",
              R"({"max_tokens":1,"messages":[{"role":"user","content":"a"}]})");
  out.request("CountTokensRequest",
              {kMaxTokensToCount, kMessages, scheduling()},
              "",
              R"({"messages":[{"role":"user","content":"a"}]})");
  out.request("AnthropicMessage", {kMessage}, "", R"({"role":"user","content":"a"})");
  out.alias("ContentBlock", kRequest, "TextBlock|ToolUseBlock|ToolResultBlock|ThinkingBlock");
  out.request("TextBlock", {kTextBlock, kMark}, "", R"({"type":"text","text":"a"})");
  out.request("ToolUseBlock",
              {kUseBlock, kMark},
              "",
              R"({"type":"tool_use","id":"a","name":"a","input":{}})");
  out.request(
      "ToolResultBlock", {kResultBlock, kMark}, "", R"({"type":"tool_result","tool_use_id":"a"})");
  out.request(
      "ThinkingBlock", {kThinkingBlock, kMark}, "", R"({"type":"thinking","thinking":"a"})");
  out.request("AnthropicTool", {kTool}, "", R"({"name":"a","input_schema":{}})");
  out.request("AnthropicToolChoice", {kToolChoice}, "", R"({"type":"auto"})");
  out.request("Thinking", {kThinking}, "", R"({"type":"disabled"})");
  out.request("OutputConfig", {kOutputConfig});
  out.request("AnthropicFormat", {kFormat}, "", R"({"type":"json_schema","schema":{}})");
  out.request("AnthropicMetadata", {kMetadata});
}

void describe_answers(Description& out) {
  out.answer("AnthropicAnswer", {kAnswered});
  out.alias("StopReason", kAnswer, "'end_turn'|'max_tokens'|'stop_sequence'|'tool_use'");
  out.answer("AnthropicUsage", {kUsage});
  out.alias("AnsweredBlock", kAnswer, "AnsweredText|AnsweredThoughts|AnsweredCall");
  out.answer("AnsweredText", {kAnsweredText});
  out.answer("AnsweredThoughts", {kAnsweredThoughts});
  out.answer("AnsweredCall", {kAnsweredCall});
  out.answer("AnthropicEvent", {kEvent}, "`type` says which members are there.");
  out.answer("BlockDelta", {kBlockDelta});
  out.answer("MessageDelta", {kMessageDelta});
  out.answer("CountedTokens", {kCounted});
}

}  // namespace

void describe_messages(Description& out) {
  using Kind = Operation::Kind;
  out.begin_family("anthropic", "Anthropic's Messages API, version 2023-06-01.");
  describe_requests(out);
  describe_answers(out);
  out.operation(
      {.method = "POST",
       .path = "/v1/messages",
       .id = "create_message",
       .about = "A message, or a stream if `stream` is true.",
       .kind = Kind::kGenerates,
       .request = "MessagesRequest",
       .example =
           R"({"max_tokens":8,"messages":[{"role":"user","content":"What is the capital of France?"}]})",
       .answer = "AnthropicAnswer",
       .event = "AnthropicEvent",
       .refusals = {ErrorKind::kTemplateError, ErrorKind::kToolError, ErrorKind::kNotFound}});
  out.operation(
      {.method = "POST",
       .path = "/v1/messages/count_tokens",
       .id = "count_message_tokens",
       .about = "The tokens of the prompt that the same document makes.",
       .kind = Kind::kTokens,
       .request = "CountTokensRequest",
       .example = R"({"messages":[{"role":"user","content":"What is the capital of France?"}]})",
       .answer = "CountedTokens",
       .refusals = {ErrorKind::kTemplateError, ErrorKind::kToolError, ErrorKind::kNotFound}});
}

}  // namespace coxswain::openapi
