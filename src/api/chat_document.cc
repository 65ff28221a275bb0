// The chat document: messages and how to answer them.

#include <array>
#include <string_view>

#include "api/document_parts.h"
#include "api/documents.h"
#include "api/errors.h"
#include "api/fields.h"

namespace coxswain::api {
namespace {

constexpr std::array kUnsupported{
    UnsupportedField{"tools", "[]"},
    UnsupportedField{"tool_choice", R"("none" "auto")"},
    UnsupportedField{"tool_prompt", ""},
    UnsupportedField{"parallel_tool_calls", "true false"},
    UnsupportedField{"functions", "[]"},
    UnsupportedField{"function_call", R"("none" "auto")"},
    UnsupportedField{"response_format", R"({"type":"text"})"},
    UnsupportedField{"modalities", R"(["text"])"},
    UnsupportedField{"audio", ""},
    UnsupportedField{"prediction", ""},
    UnsupportedField{"reasoning_effort", ""},
    UnsupportedField{"verbosity", ""},
    UnsupportedField{"web_search_options", ""},
    UnsupportedField{"chat_template", ""},
    UnsupportedField{"add_special_tokens", "false"},
    UnsupportedField{"echo", "false"},
};

// Of completions.
constexpr std::array kElsewhere{
    UnsupportedField{"prompt", ""},
    UnsupportedField{"suffix", ""},
};

constexpr std::array kUnsupportedInMessage{
    UnsupportedField{"tool_calls", "[]"},
    UnsupportedField{"function_call", ""},
    UnsupportedField{"audio", ""},
};

std::string at(std::size_t index, std::string_view member) {
  return "messages[" + std::to_string(index) + "]." + std::string(member);
}

Status bad_part(std::size_t message, std::string text) {
  return invalid_argument(std::move(text), at(message, "content"));
}

// The texts of the parts, one after another.
Result<std::string> flatten_parts(const json::Array& parts,
                                  std::size_t message,
                                  const DocumentLimits& limits) {
  if (parts.size() > limits.parts_per_message_max) {
    return bad_part(message,
                    "`" + at(message, "content") + "` must have at most " +
                        std::to_string(limits.parts_per_message_max) +
                        " parts. Given: " + std::to_string(parts.size()));
  }
  std::string out;
  for (const json::Value& part : parts) {
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
    const json::Value* text = part.find("text");
    if (text == nullptr || !text->is_string()) {
      return bad_part(message,
                      "a text part of `" + at(message, "content") + "` needs a `text`. Given: " +
                          std::string(text == nullptr ? "none" : type_name(*text)));
    }
    out += text->as_string();
  }
  return out;
}

Result<json::Value> read_message(const json::Value& value,
                                 std::size_t index,
                                 const DocumentLimits& limits) {
  if (!value.is_object()) {
    return invalid_argument(
        "`messages` must be an array of objects. Given: " + std::string(type_name(value)),
        "messages");
  }
  FieldReader fields(value.as_object());
  const auto role = fields.read_string("role", limits.role_bytes_max);
  if (fields.ok() && !role) fields.fail("`role` is missing", "role");
  fields.refuse_unsupported(kUnsupportedInMessage);
  if (!fields.ok()) {
    return invalid_argument("messages[" + std::to_string(index) + "]: " + fields.status().message(),
                            at(index, fields.status().field()));
  }
  const json::Value* content = fields.find("content");
  if (content == nullptr) {
    return invalid_argument("`" + at(index, "content") + "` is missing", at(index, "content"));
  }
  json::Object out;
  for (const auto& [name, member] : value.as_object()) {
    if (member.is_null() || name == "tool_calls") continue;
    if (name != "content" || member.is_string()) {
      out.append_new(name, member);
    } else if (member.is_array()) {
      COXSWAIN_ASSIGN_OR_RETURN(std::string text, flatten_parts(member.as_array(), index, limits));
      out.append_new(name, std::move(text));
    } else {
      return invalid_argument(
          "`" + at(index, "content") +
              "` must be a string or an array of parts. Given: " + std::string(type_name(member)),
          at(index, "content"));
    }
  }
  return json::Value(std::move(out));
}

Result<json::Value> read_messages(const json::Value* value, const DocumentLimits& limits) {
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
    COXSWAIN_ASSIGN_OR_RETURN(json::Value message, read_message(in[i], i, limits));
    out.push_back(std::move(message));
  }
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

}  // namespace

Result<ChatRequest> read_chat_request(const json::Value& body, const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  ChatRequest out;
  out.model = fields.read_string("model", limits.model_bytes_max);
  const json::Value* messages = fields.find("messages");
  out.parameters = read_openai_parameters(fields, limits);
  const auto completion_tokens = fields.read_u32("max_completion_tokens");
  if (completion_tokens && out.parameters.max_new_tokens) {
    fields.fail("`max_tokens` and `max_completion_tokens` must not both be set",
                "max_completion_tokens");
  }
  if (completion_tokens) {
    out.parameters.max_new_tokens = completion_tokens;
    out.parameters.new_tokens_field = "max_completion_tokens";
  }
  out.parameters.top_n_tokens = fields.read_u32("top_logprobs");
  out.logprobs = fields.read_bool("logprobs").value_or(false);
  out.stream = fields.read_bool("stream").value_or(false);
  out.include_usage = read_include_usage(fields);
  out.documents = read_typed(fields, "documents", json::Value::Type::kArray, "an array");
  out.template_arguments =
      read_typed(fields, "chat_template_kwargs", json::Value::Type::kObject, "an object");
  out.add_generation_prompt = fields.read_bool("add_generation_prompt");
  out.continue_final_message = fields.read_bool("continue_final_message");
  fields.refuse_unsupported(kUnsupported);
  fields.refuse_elsewhere(kElsewhere);
  if (!out.logprobs && out.parameters.top_n_tokens.value_or(0) > 0) {
    fields.fail("`top_logprobs` needs `logprobs` to be true. Given: " +
                    std::to_string(*out.parameters.top_n_tokens),
                "top_logprobs");
  }
  out.ignored = finish_fields(fields, limits);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  COXSWAIN_ASSIGN_OR_RETURN(out.messages, read_messages(messages, limits));
  return out;
}

}  // namespace coxswain::api
