// The chat document: messages and how to answer them.

#include <array>
#include <string_view>

#include "api/document_parts.h"
#include "api/documents.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/tools_document.h"

namespace coxswain::api {
namespace {

// What other APIs document for a message or a part of it, with the values that change nothing. All other members of a
// message reach the template.
constexpr std::array kUnsupportedInMessage{
    DocumentedField{"audio"},
    DocumentedField{"cache_control"},
    DocumentedField{"function_call"},
    DocumentedField{.name = "images", .neutral = "[]"},
};
constexpr std::array kUnsupportedInPart{
    DocumentedField{.name = "annotations", .neutral = "[]"},
    DocumentedField{"audio_url"},
    DocumentedField{"cache_control"},
    DocumentedField{.name = "citations", .neutral = "[]"},
    DocumentedField{"file"},
    DocumentedField{"image_url"},
    DocumentedField{"input_audio"},
    DocumentedField{"prompt_cache_breakpoint"},
    DocumentedField{"video_url"},
};

// They would replace what the document says and what was checked.
constexpr std::array<std::string_view, 9> kNotForTemplates{"messages",
                                                           "tools",
                                                           "documents",
                                                           "add_generation_prompt",
                                                           "continue_final_message",
                                                           "bos_token",
                                                           "eos_token",
                                                           "chat_template",
                                                           "tokenize"};

constexpr std::size_t kEffortBytesMax = 64;

std::string at(std::size_t index, std::string_view member) {
  return "messages[" + std::to_string(index) + "]." + std::string(member);
}

Status bad_part(std::size_t message, std::string text) {
  return invalid_argument(std::move(text), at(message, "content"));
}

// The text of one part. Names that nobody knows go to `ignored`.
Result<std::string> read_part(const json::Value& part,
                              std::size_t message,
                              const DocumentLimits& limits,
                              IgnoredFields& ignored) {
  const json::Value* type = part.find("type");
  if (type == nullptr || !type->is_string()) {
    return bad_part(
        message,
        "`" + at(message, "content") +
            "` must be a string or an array of objects with a `type`. Given: an array with " +
            std::string(part.is_object() ? "an object without it" : type_name(part)));
  }
  if (type->as_string() != "text") {
    return bad_part(message,
                    "`" + at(message, "content") + "` must have parts of type `text`: `" +
                        echo(type->as_string()) + "` modality is not supported");
  }
  FieldReader fields(part.as_object());
  fields.find("type");
  const json::Value* text = fields.find("text");
  if (text == nullptr || !text->is_string()) {
    return bad_part(message,
                    "a text part of `" + at(message, "content") + "` needs a `text`. Given: " +
                        std::string(text == nullptr ? "none" : type_name(*text)));
  }
  for (const DocumentedField& field : kUnsupportedInPart) {
    fields.require_neutral(field.name, field.neutral);
  }
  const IgnoredFields unknown = finish_fields(fields, limits);
  if (!fields.ok()) {
    return within(fields.status(),
                  "a part of `" + at(message, "content") + "`",
                  at(message, "content." + fields.status().field()));
  }
  for (const std::string& name : unknown) ignored.push_back("content." + name);
  return text->as_string();
}

// The texts of the parts, one after another.
Result<std::string> flatten_parts(const json::Array& parts,
                                  std::size_t message,
                                  const DocumentLimits& limits,
                                  IgnoredFields& ignored) {
  if (parts.size() > limits.parts_per_message_max) {
    return bad_part(message,
                    "`" + at(message, "content") + "` must have at most " +
                        std::to_string(limits.parts_per_message_max) +
                        " parts. Given: " + std::to_string(parts.size()));
  }
  std::string out;
  for (const json::Value& part : parts) {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string text, read_part(part, message, limits, ignored));
    out += text;
  }
  return out;
}

// Calls of functions, as earlier answers had them.
Status check_tool_calls(const json::Value& calls, std::size_t message) {
  const auto refuse = [&](std::string_view must) {
    std::string text = "`" + at(message, "tool_calls");
    text.append("` must be an array of objects with a `function`, ").append(must);
    return invalid_argument(std::move(text), at(message, "tool_calls"));
  };
  if (!calls.is_array())
    return refuse("which is an object. Given: " + std::string(type_name(calls)));
  for (const json::Value& call : calls.as_array()) {
    const json::Value* type = call.find("type");
    if (type != nullptr && !type->is_null() &&
        !(type->is_string() && type->as_string() == "function")) {
      return refuse("their `type`. Given: another type");
    }
    const json::Value* function = call.find("function");
    if (function == nullptr || !function->is_object()) {
      return refuse("which is an object. Given: an array with " +
                    std::string(call.is_object() ? "an object without it" : type_name(call)));
    }
    const json::Value* name = function->find("name");
    if (name == nullptr || !name->is_string()) return refuse("whose `name` is a string");
    const json::Value* arguments = function->find("arguments");
    if (arguments == nullptr || (!arguments->is_string() && !arguments->is_object())) {
      return refuse("whose `arguments` are a string or an object");
    }
  }
  return {};
}

Status check_message_fields(const json::Object& message,
                            std::size_t index,
                            const DocumentLimits& limits) {
  FieldReader fields(message);
  const auto role = fields.read_string("role", limits.role_bytes_max);
  if (fields.ok() && !role) fields.fail("`role` is missing", "role");
  for (const DocumentedField& field : kUnsupportedInMessage) {
    fields.require_neutral(field.name, field.neutral);
  }
  if (fields.ok()) return {};
  return within(fields.status(),
                "messages[" + std::to_string(index) + "]",
                at(index, fields.status().field()));
}

// null is the content of an answer that only calls functions: templates test for it. Elsewhere it is an empty text.
Result<json::Value> read_content(const json::Value& value,
                                 std::size_t message,
                                 bool has_calls,
                                 const DocumentLimits& limits,
                                 IgnoredFields& ignored) {
  if (value.is_string()) return value;
  if (value.is_null()) return has_calls ? json::Value() : json::Value(std::string());
  if (!value.is_array()) {
    return bad_part(
        message,
        "`" + at(message, "content") +
            "` must be a string or an array of parts. Given: " + std::string(type_name(value)));
  }
  COXSWAIN_ASSIGN_OR_RETURN(std::string text,
                            flatten_parts(value.as_array(), message, limits, ignored));
  return json::Value(std::move(text));
}

Result<json::Value> read_message(const json::Value& value,
                                 std::size_t index,
                                 const DocumentLimits& limits,
                                 IgnoredFields& ignored) {
  if (!value.is_object()) {
    return invalid_argument(
        "`messages` must be an array of objects. Given: " + std::string(type_name(value)),
        "messages");
  }
  COXSWAIN_RETURN_IF_ERROR(check_message_fields(value.as_object(), index, limits));
  const json::Value* calls = value.find("tool_calls");
  if (calls != nullptr && !calls->is_null()) {
    COXSWAIN_RETURN_IF_ERROR(check_tool_calls(*calls, index));
  }
  const bool has_calls = calls != nullptr && calls->is_array() && !calls->as_array().empty();
  const json::Value* content = value.find("content");
  if (content == nullptr && !has_calls) {
    return invalid_argument("`" + at(index, "content") + "` is missing", at(index, "content"));
  }
  json::Object out;
  for (const auto& [name, member] : value.as_object()) {
    if (name == "content") {
      COXSWAIN_ASSIGN_OR_RETURN(json::Value read,
                                read_content(member, index, has_calls, limits, ignored));
      out.append_new(name, std::move(read));
    } else if (!member.is_null() && (name != "tool_calls" || has_calls)) {
      out.append_new(name, member);
    }
  }
  if (content == nullptr) out.append_new("content", json::Value());
  return json::Value(std::move(out));
}

json::Value read_typed(FieldReader& fields,
                       std::string_view name,
                       json::Value::Type type,
                       std::string_view expected) {
  const json::Value* value = fields.find(name);
  if (value == nullptr) return {};
  if (value->type() == type) return *value;
  fields.fail("`" + std::string(name) + "` must be " + std::string(expected) +
                  ". Given: " + std::string(type_name(*value)),
              name);
  return {};
}

// The older names of tools.
void refuse_functions(FieldReader& fields) {
  const json::Value* functions = fields.find("functions");
  const json::Value* choice = fields.find("function_call");
  fields.require_neutral("function_call", R"("none" "auto")");
  const bool none = choice != nullptr && choice->is_string() && choice->as_string() == "none";
  if (functions == nullptr || none) return;
  if (functions->is_array() && functions->as_array().empty()) return;
  fields.fail(
      unsupported("`functions` is not supported, except as [] or with `function_call` "
                  "\"none\": `tools` has what it had. Given: " +
                      std::string(type_name(*functions)),
                  "functions"));
}

json::Value read_template_arguments(FieldReader& fields) {
  json::Value out =
      read_typed(fields, "chat_template_kwargs", json::Value::Type::kObject, "an object");
  if (!out.is_object()) return out;
  for (const std::string_view name : kNotForTemplates) {
    const std::string path = "chat_template_kwargs." + std::string(name);
    if (out.find(name) != nullptr) {
      fields.fail("`" + path + "` is not allowed: the server sets it", path);
    }
  }
  return out;
}

// How much to think, as templates read it; what chat_template_kwargs says goes before.
void read_thinking(FieldReader& fields, json::Value& arguments) {
  const auto effort = fields.read_string("reasoning_effort", kEffortBytesMax);
  auto thinks = fields.read_bool("enable_thinking");
  if (!thinks && effort == "none") thinks = false;
  if (!effort && !thinks) return;
  json::Object out = arguments.is_object() ? arguments.as_object() : json::Object();
  if (effort && out.find("reasoning_effort") == nullptr)
    out.append_new("reasoning_effort", *effort);
  if (thinks && out.find("enable_thinking") == nullptr)
    out.append_new("enable_thinking", json::Value(*thinks));
  arguments = json::Value(std::move(out));
}

// By the names of several servers; -1: any number.
std::optional<AskedThoughts> read_thinking_budget(FieldReader& fields) {
  std::optional<AskedThoughts> out;
  for (const std::string_view name :
       {"thinking_token_budget", "thinking_budget", "thinking_budget_tokens"}) {
    const auto tokens = fields.read_i32(name);
    if (!tokens || *tokens == -1) continue;
    if (*tokens < -1) {
      fields.fail("`" + std::string(name) +
                      "` must be >= 0, or -1 for no bound. Given: " + std::to_string(*tokens),
                  name);
    }
    out.emplace(AskedThoughts{static_cast<std::uint32_t>(*tokens), std::string(name)});
  }
  return out;
}

}  // namespace

Result<json::Value> read_chat_messages(const json::Value* value,
                                       const DocumentLimits& limits,
                                       IgnoredFields& ignored) {
  if (value == nullptr) return invalid_argument("`messages` is missing", "messages");
  if (!value->is_array()) {
    return invalid_argument("`messages` must be an array. Given: " + std::string(type_name(*value)),
                            "messages");
  }
  const json::Array& in = value->as_array();
  if (in.empty()) return invalid_argument("`messages` cannot be empty", "messages");
  if (in.size() > limits.messages_max) {
    return invalid_argument("`messages` must have at most " + std::to_string(limits.messages_max) +
                                " entries. Given: " + std::to_string(in.size()),
                            "messages");
  }
  json::Array out;
  out.reserve(in.size());
  for (std::size_t i = 0; i < in.size(); ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(json::Value message, read_message(in[i], i, limits, ignored));
    out.push_back(std::move(message));
  }
  return json::Value(std::move(out));
}

Result<ChatRequest> read_chat_request(const json::Value& body, const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  ChatRequest out;
  out.model = fields.read_string("model", limits.model_bytes_max);
  const json::Value* messages = fields.find("messages");
  out.parameters = read_openai_parameters(fields, limits);
  constexpr std::string_view kNewTokens = "max_completion_tokens";
  if (const auto asked = fields.read_u32(kNewTokens))
    set_new_tokens(fields, kNewTokens, *asked, out.parameters);
  out.logprobs = read_logprobs(fields, out.parameters);
  out.stream = fields.read_bool("stream").value_or(false);
  out.include_usage = read_include_usage(fields);
  out.documents = read_typed(fields, "documents", json::Value::Type::kArray, "an array");
  out.template_arguments = read_template_arguments(fields);
  out.add_generation_prompt = fields.read_bool("add_generation_prompt");
  out.continue_final_message = fields.read_bool("continue_final_message");
  read_thinking(fields, out.template_arguments);
  out.thoughts = read_thinking_budget(fields);
  out.tools = read_openai_tools(fields, limits);
  refuse_functions(fields);
  fields.require_neutral("add_special_tokens", "false");
  fields.refuse_documented(kChatDocument);
  out.ignored = finish_fields(fields, limits);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  COXSWAIN_ASSIGN_OR_RETURN(out.messages, read_chat_messages(messages, limits, out.ignored));
  return out;
}

}  // namespace coxswain::api
