// The document of POST /v1/messages and /v1/messages/count_tokens, Anthropic's, as the chat that it stands for.

#include <array>
#include <string_view>

#include "api/document_parts.h"
#include "api/documents.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/grammar_document.h"
#include "api/tools_document.h"
#include "api/turns.h"

namespace coxswain::api {
namespace {

// They label a request or mark what a cache may keep, which is everything here.
constexpr std::array<std::string_view, 2> kWithoutEffect{"metadata", "cache_control"};
constexpr std::size_t kTypeBytesMax = 64;

struct Reading {
  const DocumentLimits& limits;
  IgnoredFields& ignored;
  std::vector<Turn> turns = {};
};

// A block's members, of which `type` is read; the others are for the caller.
Result<std::string> type_of_block(const json::Value& block, const std::string& path) {
  if (!block.is_object()) return bad_type(path, "an object with a `type`", block);
  const json::Value* type = block.find("type");
  if (type == nullptr || !type->is_string())
    return invalid_argument(quoted(path) + " must have a `type` that is a string", path);
  return type->as_string();
}

Status finish_block(FieldReader& fields, const std::string& path, Reading& reading) {
  fields.find("cache_control");
  const IgnoredFields unknown = finish_fields(fields, reading.limits);
  if (!fields.ok())
    return within(fields.status(), quoted(path), path + "." + fields.status().field());
  for (const std::string& name : unknown) reading.ignored.push_back("content." + name);
  return {};
}

// A member that has to be a string.
Result<std::string> text_member(FieldReader& fields,
                                const std::string& path,
                                std::string_view name,
                                std::string_view kind) {
  const json::Value* text = fields.find(name);
  if (text != nullptr && text->is_string()) return text->as_string();
  std::string message = quoted(path);
  message.append(" must have a `").append(name).append("` that is a string");
  if (kind != "text") message.append(", as a ").append(kind).append(" block has");
  return invalid_argument(std::move(message), path);
}

Status unsupported_block(const std::string& path, std::string_view must, const std::string& type) {
  std::string text = quoted(path);
  text.append(" must be of type ").append(must).append(": `").append(echo(type));
  text.append("` blocks are not supported");
  return unsupported(std::move(text), path);
}

Result<std::string> read_text_block(const json::Value& block,
                                    const std::string& path,
                                    Reading& reading) {
  FieldReader fields(block.as_object());
  fields.find("type");
  COXSWAIN_ASSIGN_OR_RETURN(std::string text, text_member(fields, path, "text", "text"));
  fields.require_neutral("citations", "[]");
  COXSWAIN_RETURN_IF_ERROR(finish_block(fields, path, reading));
  return text;
}

Status check_n_blocks(const json::Array& blocks, const std::string& path, const Reading& reading) {
  if (blocks.size() <= reading.limits.parts_per_message_max) return {};
  return invalid_argument(quoted(path) + " must have at most " +
                              std::to_string(reading.limits.parts_per_message_max) +
                              " blocks. Given: " + std::to_string(blocks.size()),
                          path);
}

// A string, or the texts of blocks, one after another.
Result<std::string> read_text(const json::Value& value, const std::string& path, Reading& reading) {
  if (value.is_string()) return value.as_string();
  if (!value.is_array()) return bad_type(path, "a string or an array of blocks", value);
  const json::Array& blocks = value.as_array();
  COXSWAIN_RETURN_IF_ERROR(check_n_blocks(blocks, path, reading));
  std::string out;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string at = path + "." + std::to_string(i);
    COXSWAIN_ASSIGN_OR_RETURN(const std::string type, type_of_block(blocks[i], at));
    if (type != "text") return unsupported_block(at, "`text`", type);
    COXSWAIN_ASSIGN_OR_RETURN(const std::string text, read_text_block(blocks[i], at, reading));
    out += text;
  }
  return out;
}

Status read_call(const json::Value& block, const std::string& path, Reading& reading) {
  FieldReader fields(block.as_object());
  fields.find("type");
  COXSWAIN_ASSIGN_OR_RETURN(std::string id, text_member(fields, path, "id", "tool_use"));
  COXSWAIN_ASSIGN_OR_RETURN(std::string name, text_member(fields, path, "name", "tool_use"));
  const json::Value* input = fields.find("input");
  if (input == nullptr || !input->is_object())
    return invalid_argument(quoted(path + ".input") + " must be an object", path + ".input");
  COXSWAIN_RETURN_IF_ERROR(finish_block(fields, path, reading));
  json::Object function;
  function.append_new("name", std::move(name));
  function.append_new("arguments", *input);
  json::Object call;
  call.append_new("id", std::move(id));
  call.append_new("type", std::string("function"));
  call.append_new("function", std::move(function));
  reading.turns.back().calls.emplace_back(std::move(call));
  return {};
}

Status read_thoughts(const json::Value& block, const std::string& path, Reading& reading) {
  FieldReader fields(block.as_object());
  fields.find("type");
  fields.find("signature");
  COXSWAIN_ASSIGN_OR_RETURN(const std::string text,
                            text_member(fields, path, "thinking", "thinking"));
  reading.turns.back().thoughts += text;
  return finish_block(fields, path, reading);
}

// What a function answered: a turn of its own.
Status read_result(const json::Value& block, const std::string& path, Reading& reading) {
  FieldReader fields(block.as_object());
  fields.find("type");
  fields.read_bool("is_error");
  COXSWAIN_ASSIGN_OR_RETURN(std::string id,
                            text_member(fields, path, "tool_use_id", "tool_result"));
  const json::Value* content = fields.find("content");
  COXSWAIN_RETURN_IF_ERROR(finish_block(fields, path, reading));
  Turn turn{.role = "tool", .call_id = std::move(id)};
  if (content != nullptr) {
    COXSWAIN_ASSIGN_OR_RETURN(turn.text, read_text(*content, path + ".content", reading));
  }
  reading.turns.push_back(std::move(turn));
  return {};
}

Status read_user_block(const json::Value& block,
                       const std::string& type,
                       const std::string& path,
                       Reading& reading) {
  if (type == "tool_result") return read_result(block, path, reading);
  if (type != "text") return unsupported_block(path, "`text` or `tool_result`", type);
  COXSWAIN_ASSIGN_OR_RETURN(const std::string text, read_text_block(block, path, reading));
  if (reading.turns.back().role != "user") reading.turns.push_back({.role = "user"});
  reading.turns.back().text += text;
  return {};
}

Status read_assistant_block(const json::Value& block,
                            const std::string& type,
                            const std::string& path,
                            Reading& reading) {
  if (type == "tool_use") return read_call(block, path, reading);
  if (type == "thinking") return read_thoughts(block, path, reading);
  if (type == "redacted_thinking") return {};  // nothing that a model here could read
  if (type != "text") return unsupported_block(path, "`text`, `tool_use` or `thinking`", type);
  COXSWAIN_ASSIGN_OR_RETURN(const std::string text, read_text_block(block, path, reading));
  reading.turns.back().text += text;
  return {};
}

Status read_content(const json::Value& content,
                    const std::string& role,
                    const std::string& path,
                    Reading& reading) {
  if (content.is_string()) {
    open_turn(role, reading.turns);
    reading.turns.back().text += content.as_string();
    return {};
  }
  if (!content.is_array()) return bad_type(path, "a string or an array of blocks", content);
  const json::Array& blocks = content.as_array();
  COXSWAIN_RETURN_IF_ERROR(check_n_blocks(blocks, path, reading));
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    const std::string at = path + "." + std::to_string(i);
    COXSWAIN_ASSIGN_OR_RETURN(const std::string type, type_of_block(blocks[i], at));
    if (i == 0 && type != "tool_result") open_turn(role, reading.turns);
    COXSWAIN_RETURN_IF_ERROR(role == "user" ? read_user_block(blocks[i], type, at, reading)
                                            : read_assistant_block(blocks[i], type, at, reading));
  }
  if (blocks.empty()) open_turn(role, reading.turns);
  return {};
}

Status read_message(const json::Value& value, const std::string& path, Reading& reading) {
  if (!value.is_object()) return bad_type(path, "an object", value);
  FieldReader fields(value.as_object());
  const std::string role =
      fields.read_string("role", reading.limits.role_bytes_max).value_or(std::string());
  const json::Value* content = fields.find("content");
  const IgnoredFields unknown = finish_fields(fields, reading.limits);
  if (!fields.ok())
    return within(fields.status(), quoted(path), path + "." + fields.status().field());
  for (const std::string& name : unknown) reading.ignored.push_back("messages." + name);
  if (role != "user" && role != "assistant") {
    return invalid_argument(quoted(path + ".role") + " must be \"user\" or \"assistant\". Given: " +
                                (role.empty() ? "none" : echo(role)),
                            path + ".role");
  }
  if (content == nullptr)
    return invalid_argument(quoted(path + ".content") + " is missing", path + ".content");
  return read_content(*content, role, path + ".content", reading);
}

Status read_turns(const json::Value* value, Reading& reading) {
  if (value == nullptr) return invalid_argument("`messages` is missing", "messages");
  if (!value->is_array()) return bad_type("messages", "an array", *value);
  const json::Array& in = value->as_array();
  const DocumentLimits& limits = reading.limits;
  if (in.empty()) return invalid_argument("`messages` cannot be empty", "messages");
  if (in.size() > limits.messages_max) {
    return invalid_argument("`messages` must have at most " + std::to_string(limits.messages_max) +
                                " entries. Given: " + std::to_string(in.size()),
                            "messages");
  }
  for (std::size_t i = 0; i < in.size(); ++i)
    COXSWAIN_RETURN_IF_ERROR(read_message(in[i], "messages." + std::to_string(i), reading));
  return {};
}

// {"type": "enabled" | "adaptive" | "disabled"}, as templates read it.
void read_thinking(FieldReader& fields, ChatRequest& out, json::Object& arguments) {
  const json::Value* value = fields.find("thinking");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail(bad_type("thinking", "an object", *value));
  FieldReader members(value->as_object());
  const auto type = members.read_string("type", kTypeBytesMax);
  const auto budget = members.read_u32("budget_tokens");
  if (!members.ok()) {
    return fields.fail(
        within(members.status(), "`thinking`", "thinking." + members.status().field()));
  }
  if (type != "enabled" && type != "adaptive" && type != "disabled") {
    return fields.fail("`thinking.type` must be enabled, adaptive or disabled. Given: " +
                           (type ? echo(*type) : "none"),
                       "thinking.type");
  }
  if (budget && type == "enabled")
    out.thoughts.emplace(AskedThoughts{*budget, "thinking.budget_tokens"});
  arguments.append_new("enable_thinking", json::Value(type != "disabled"));
}

void check_metadata(FieldReader& fields, const DocumentLimits& limits) {
  const json::Value* value = fields.find("metadata");
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail(bad_type("metadata", "an object", *value));
  FieldReader members(value->as_object());
  members.read_string("user_id", limits.user_bytes_max);
  if (!members.ok()) fields.fail(within(members.status(), "`metadata`", "metadata.user_id"));
}

Parameters read_parameters(FieldReader& fields) {
  Parameters out;
  out.do_sample = true;
  out.max_new_tokens = fields.read_u32("max_tokens");
  out.stop = fields.read_strings("stop_sequences", FieldReader::BareString::kRefused);
  out.temperature = fields.read_float("temperature");
  out.top_p = fields.read_float("top_p");
  out.top_k = fields.read_i32("top_k");
  if (out.top_k == 0 || out.top_k == -1) out.top_k.reset();  // off
  read_scheduling(fields, out);
  return out;
}

enum class MaxTokens : std::uint8_t { kRequired, kOptional };

Result<ChatRequest> read_document(const json::Value& body,
                                  const DocumentLimits& limits,
                                  MaxTokens max_tokens) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  ChatRequest out;
  out.model = fields.read_string("model", limits.model_bytes_max);
  const json::Value* messages = fields.find("messages");
  const json::Value* system = fields.find("system");
  out.parameters = read_parameters(fields);
  out.stream = fields.read_bool("stream").value_or(false);
  check_metadata(fields, limits);
  fields.require_neutral("service_tier", R"("auto" "standard_only")");
  read_messages_grammar(fields, out.parameters);
  json::Object arguments;
  read_thinking(fields, out, arguments);
  const json::Value* config = fields.find("output_config");
  const json::Value* effort = config == nullptr ? nullptr : config->find("effort");
  if (effort != nullptr && effort->is_string()) arguments.append_new("reasoning_effort", *effort);
  if (!arguments.empty()) out.template_arguments = json::Value(std::move(arguments));
  out.tools = read_anthropic_tools(fields, limits);
  fields.note_without_effect(kWithoutEffect);
  fields.refuse_documented(kMessagesDocument);
  if (max_tokens == MaxTokens::kRequired && !out.parameters.max_new_tokens)
    fields.fail("`max_tokens` is missing", "max_tokens");
  for (std::string& name : finish_fields(fields, limits)) out.ignored.push_back(std::move(name));
  COXSWAIN_RETURN_IF_ERROR(fields.status());

  Reading reading{limits, out.ignored};
  json::Array chat;
  if (system != nullptr) {
    COXSWAIN_ASSIGN_OR_RETURN(std::string text, read_text(*system, "system", reading));
    if (!text.empty()) chat.push_back(message_of("system", std::move(text)));
  }
  COXSWAIN_RETURN_IF_ERROR(read_turns(messages, reading));
  out.messages = chat_of(std::move(reading.turns), std::move(chat));
  return out;
}

}  // namespace

Result<ChatRequest> read_messages_request(const json::Value& body, const DocumentLimits& limits) {
  return read_document(body, limits, MaxTokens::kRequired);
}

Result<ChatRequest> read_count_tokens_request(const json::Value& body,
                                              const DocumentLimits& limits) {
  return read_document(body, limits, MaxTokens::kOptional);
}

}  // namespace coxswain::api
