// The document of POST /v1/messages and /v1/messages/count_tokens, Anthropic's, as the chat that it stands for.

#include <array>
#include <string_view>

#include "api/document_parts.h"
#include "api/documents.h"
#include "api/errors.h"
#include "api/fields.h"

namespace coxswain::api {
namespace {

// They label a request or mark what a cache may keep, which is everything here.
constexpr std::array<std::string_view, 2> kWithoutEffect{"metadata", "cache_control"};
constexpr std::string_view kBetweenTurns = "\n\n";  // of one role

std::string quoted(std::string_view path) {
  return "`" + std::string(path) + "`";
}

Status bad_type(const std::string& path, std::string_view must, const json::Value& given) {
  std::string text = quoted(path) + " must be ";
  text.append(must).append(". Given: ").append(type_name(given));
  return invalid_argument(std::move(text), path);
}

// The text of one block.
Result<std::string> read_block(const json::Value& block,
                               const std::string& path,
                               const DocumentLimits& limits,
                               IgnoredFields& ignored) {
  if (!block.is_object()) return bad_type(path, "an object with a `type`", block);
  FieldReader fields(block.as_object());
  const json::Value* type = fields.find("type");
  if (type == nullptr || !type->is_string()) {
    return invalid_argument(quoted(path) + " must have a `type` that is a string", path);
  }
  if (type->as_string() != "text") {
    return unsupported(quoted(path) + " must be of type `text`: `" + echo(type->as_string()) +
                           "` blocks are not supported",
                       path);
  }
  const json::Value* text = fields.find("text");
  if (text == nullptr || !text->is_string()) {
    return invalid_argument(quoted(path) + " must have a `text` that is a string", path);
  }
  fields.find("cache_control");
  fields.require_neutral("citations", "[]");
  const IgnoredFields unknown = finish_fields(fields, limits);
  if (!fields.ok())
    return within(fields.status(), quoted(path), path + "." + fields.status().field());
  for (const std::string& name : unknown) ignored.push_back("content." + name);
  return text->as_string();
}

// A string, or the texts of blocks, one after another.
Result<std::string> read_text(const json::Value& value,
                              const std::string& path,
                              const DocumentLimits& limits,
                              IgnoredFields& ignored) {
  if (value.is_string()) return value.as_string();
  if (!value.is_array()) return bad_type(path, "a string or an array of blocks", value);
  const json::Array& blocks = value.as_array();
  if (blocks.size() > limits.parts_per_message_max) {
    return invalid_argument(quoted(path) + " must have at most " +
                                std::to_string(limits.parts_per_message_max) +
                                " blocks. Given: " + std::to_string(blocks.size()),
                            path);
  }
  std::string out;
  for (std::size_t i = 0; i < blocks.size(); ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(
        const std::string text,
        read_block(blocks[i], path + "." + std::to_string(i), limits, ignored));
    out += text;
  }
  return out;
}

struct Turn {
  std::string role;
  std::string text;
};

Result<Turn> read_turn(const json::Value& value,
                       const std::string& path,
                       const DocumentLimits& limits,
                       IgnoredFields& ignored) {
  if (!value.is_object()) return bad_type(path, "an object", value);
  FieldReader fields(value.as_object());
  Turn out;
  out.role = fields.read_string("role", limits.role_bytes_max).value_or(std::string());
  const json::Value* content = fields.find("content");
  const IgnoredFields unknown = finish_fields(fields, limits);
  if (!fields.ok())
    return within(fields.status(), quoted(path), path + "." + fields.status().field());
  for (const std::string& name : unknown) ignored.push_back("messages." + name);
  if (out.role != "user" && out.role != "assistant") {
    return invalid_argument(quoted(path + ".role") + " must be \"user\" or \"assistant\". Given: " +
                                (out.role.empty() ? "none" : echo(out.role)),
                            path + ".role");
  }
  if (content == nullptr)
    return invalid_argument(quoted(path + ".content") + " is missing", path + ".content");
  COXSWAIN_ASSIGN_OR_RETURN(out.text, read_text(*content, path + ".content", limits, ignored));
  return out;
}

Result<std::vector<Turn>> read_turns(const json::Value* value,
                                     const DocumentLimits& limits,
                                     IgnoredFields& ignored) {
  if (value == nullptr) return invalid_argument("`messages` is missing", "messages");
  if (!value->is_array()) return bad_type("messages", "an array", *value);
  const json::Array& in = value->as_array();
  if (in.empty()) return invalid_argument("`messages` cannot be empty", "messages");
  if (in.size() > limits.messages_max) {
    return invalid_argument("`messages` must have at most " + std::to_string(limits.messages_max) +
                                " entries. Given: " + std::to_string(in.size()),
                            "messages");
  }
  std::vector<Turn> out;
  for (std::size_t i = 0; i < in.size(); ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(Turn turn,
                              read_turn(in[i], "messages." + std::to_string(i), limits, ignored));
    if (!out.empty() && out.back().role == turn.role) {
      out.back().text.append(kBetweenTurns).append(turn.text);
    } else {
      out.push_back(std::move(turn));
    }
  }
  return out;
}

json::Value message_of(std::string role, std::string text) {
  json::Object out;
  out.append_new("role", std::move(role));
  out.append_new("content", std::move(text));
  return json::Value(std::move(out));
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
  fields.require_neutral("thinking", R"({"type":"disabled"})");
  fields.require_neutral("tools", "[]");
  fields.require_neutral("tool_choice", R"({"type":"auto"} {"type":"none"})");
  fields.note_without_effect(kWithoutEffect);
  fields.refuse_documented(kMessagesDocument);
  if (max_tokens == MaxTokens::kRequired && !out.parameters.max_new_tokens)
    fields.fail("`max_tokens` is missing", "max_tokens");
  out.ignored = finish_fields(fields, limits);
  COXSWAIN_RETURN_IF_ERROR(fields.status());

  json::Array chat;
  if (system != nullptr) {
    COXSWAIN_ASSIGN_OR_RETURN(std::string text, read_text(*system, "system", limits, out.ignored));
    if (!text.empty()) chat.push_back(message_of("system", std::move(text)));
  }
  COXSWAIN_ASSIGN_OR_RETURN(std::vector<Turn> turns, read_turns(messages, limits, out.ignored));
  for (Turn& turn : turns) chat.push_back(message_of(std::move(turn.role), std::move(turn.text)));
  out.messages = json::Value(std::move(chat));
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
