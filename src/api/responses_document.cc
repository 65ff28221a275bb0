// The document of POST /v1/responses, OpenAI's, as the chat that it stands for.

#include <algorithm>
#include <array>
#include <string_view>
#include <utility>

#include "api/document_parts.h"
#include "api/documents.h"
#include "api/errors.h"
#include "api/fields.h"
#include "api/grammar_document.h"
#include "api/tools_document.h"
#include "api/turns.h"

namespace coxswain::api {
namespace {

// They only label a request.
constexpr std::array<std::string_view, 3> kLabels{"user", "safety_identifier", "prompt_cache_key"};
constexpr std::string_view kIncludeLogprobs = "message.output_text.logprobs";
// Of thoughts that a client is to keep without reading them: here they are text, which it has.
constexpr std::string_view kIncludeEncrypted = "reasoning.encrypted_content";
constexpr std::size_t kTypeBytesMax = 64;
constexpr std::size_t kIdBytesMax = 256;

struct Reading {
  const DocumentLimits& limits;
  IgnoredFields& ignored;
  std::vector<Turn> turns = {};
};

Status finish_item(FieldReader& fields, const std::string& path, Reading& reading) {
  for (const std::string_view name : {"id", "type", "status", "phase"}) fields.find(name);
  const IgnoredFields unknown = finish_fields(fields, reading.limits);
  if (!fields.ok())
    return within(fields.status(), quoted(path), path + "." + fields.status().field());
  for (const std::string& name : unknown) reading.ignored.push_back("input." + name);
  return {};
}

Status unsupported_type(const std::string& path, std::string_view must, std::string_view type) {
  std::string text = quoted(path);
  text.append(" must be of type ").append(must).append(": `").append(echo(type));
  text.append("` is not supported");
  return unsupported(std::move(text), path);
}

Result<std::string> text_member(FieldReader& fields,
                                const std::string& path,
                                std::string_view name) {
  const json::Value* text = fields.find(name);
  if (text != nullptr && text->is_string()) return text->as_string();
  std::string message = quoted(path);
  message.append(" must have a `").append(name).append("` that is a string");
  return invalid_argument(std::move(message), path);
}

std::string type_of(const json::Value& object) {
  const json::Value* type = object.find("type");
  return type != nullptr && type->is_string() ? type->as_string() : std::string();
}

Result<std::string> read_part(const json::Value& part, const std::string& path, Reading& reading) {
  if (!part.is_object()) return bad_type(path, "an object with a `type`", part);
  const std::string type = type_of(part);
  const bool refusal = type == "refusal";
  if (!refusal && type != "input_text" && type != "output_text" && type != "reasoning_text" &&
      type != "summary_text" && type != "text") {
    return unsupported_type(path, "`input_text` or `output_text`", type.empty() ? "none" : type);
  }
  FieldReader fields(part.as_object());
  COXSWAIN_ASSIGN_OR_RETURN(std::string text,
                            text_member(fields, path, refusal ? "refusal" : "text"));
  for (const std::string_view name : {"annotations", "logprobs"}) fields.find(name);
  COXSWAIN_RETURN_IF_ERROR(finish_item(fields, path, reading));
  return text;
}

// A string, or the texts of parts, one after another.
Result<std::string> read_text(const json::Value* value, const std::string& path, Reading& reading) {
  if (value == nullptr) return invalid_argument(quoted(path) + " is missing", path);
  if (value->is_string()) return value->as_string();
  if (!value->is_array()) return bad_type(path, "a string or an array of parts", *value);
  const json::Array& parts = value->as_array();
  if (parts.size() > reading.limits.parts_per_message_max) {
    return invalid_argument(quoted(path) + " must have at most " +
                                std::to_string(reading.limits.parts_per_message_max) +
                                " parts. Given: " + std::to_string(parts.size()),
                            path);
  }
  std::string out;
  for (std::size_t i = 0; i < parts.size(); ++i) {
    COXSWAIN_ASSIGN_OR_RETURN(const std::string text,
                              read_part(parts[i], path + "." + std::to_string(i), reading));
    out += text;
  }
  return out;
}

// The assistant's turn that goes on: thoughts, text and calls of one answer are items of their own.
Turn* open_answer(Reading& reading) {
  if (reading.turns.empty() || reading.turns.back().role != "assistant") return nullptr;
  return &reading.turns.back();
}

Status read_message(FieldReader& fields, const std::string& path, Reading& reading) {
  std::string role =
      fields.read_string("role", reading.limits.role_bytes_max).value_or(std::string());
  const json::Value* content = fields.find("content");
  COXSWAIN_RETURN_IF_ERROR(finish_item(fields, path, reading));
  if (role != "user" && role != "assistant" && role != "system" && role != "developer") {
    return invalid_argument(quoted(path + ".role") +
                                " must be user, assistant, system or developer. Given: " +
                                (role.empty() ? "none" : echo(role)),
                            path + ".role");
  }
  if (role == "developer") role = "system";  // which is what templates call it
  COXSWAIN_ASSIGN_OR_RETURN(std::string text, read_text(content, path + ".content", reading));
  const Turn* answer = open_answer(reading);
  const bool goes_on =
      role == "assistant" && answer != nullptr && answer->text.empty() && answer->calls.empty();
  if (!goes_on) open_turn(role, reading.turns);
  reading.turns.back().text += text;
  return {};
}

Status read_thoughts(FieldReader& fields, const std::string& path, Reading& reading) {
  const json::Value* content = fields.find("content");
  const json::Value* summary = fields.find("summary");
  fields.find("encrypted_content");
  COXSWAIN_RETURN_IF_ERROR(finish_item(fields, path, reading));
  const bool has_content =
      content != nullptr && !(content->is_array() && content->as_array().empty());
  const std::string_view name = has_content ? "content" : "summary";
  const json::Value* text = has_content ? content : summary;
  if (text == nullptr) return {};  // nothing that a model here could read
  COXSWAIN_ASSIGN_OR_RETURN(const std::string thoughts,
                            read_text(text, path + "." + std::string(name), reading));
  const Turn* answer = open_answer(reading);
  if (answer == nullptr || !answer->text.empty() || !answer->calls.empty())
    reading.turns.push_back({.role = "assistant"});
  reading.turns.back().thoughts += thoughts;
  return {};
}

Status read_call(FieldReader& fields, const std::string& path, Reading& reading) {
  COXSWAIN_ASSIGN_OR_RETURN(std::string id, text_member(fields, path, "call_id"));
  COXSWAIN_ASSIGN_OR_RETURN(std::string name, text_member(fields, path, "name"));
  COXSWAIN_ASSIGN_OR_RETURN(std::string arguments, text_member(fields, path, "arguments"));
  COXSWAIN_RETURN_IF_ERROR(finish_item(fields, path, reading));
  json::Object function;
  function.append_new("name", std::move(name));
  function.append_new("arguments", std::move(arguments));
  json::Object call;
  call.append_new("id", std::move(id));
  call.append_new("type", std::string("function"));
  call.append_new("function", std::move(function));
  if (open_answer(reading) == nullptr) reading.turns.push_back({.role = "assistant"});
  reading.turns.back().calls.emplace_back(std::move(call));
  return {};
}

Status read_result(FieldReader& fields, const std::string& path, Reading& reading) {
  COXSWAIN_ASSIGN_OR_RETURN(std::string id, text_member(fields, path, "call_id"));
  const json::Value* output = fields.find("output");
  COXSWAIN_RETURN_IF_ERROR(finish_item(fields, path, reading));
  Turn turn{.role = "tool", .call_id = std::move(id)};
  COXSWAIN_ASSIGN_OR_RETURN(turn.text, read_text(output, path + ".output", reading));
  reading.turns.push_back(std::move(turn));
  return {};
}

Status read_item(const json::Value& item, const std::string& path, Reading& reading) {
  if (!item.is_object()) return bad_type(path, "an object", item);
  FieldReader fields(item.as_object());
  const json::Value* named = item.find("type");
  if (named != nullptr && !named->is_null() && !named->is_string())
    return bad_type(path + ".type", "a string", *named);
  std::string type = type_of(item);
  if (type.empty() && item.find("role") != nullptr) type = "message";
  if (type == "message") return read_message(fields, path, reading);
  if (type == "reasoning") return read_thoughts(fields, path, reading);
  if (type == "function_call") return read_call(fields, path, reading);
  if (type == "function_call_output") return read_result(fields, path, reading);
  return unsupported_type(path,
                          "`message`, `function_call`, `function_call_output` or `reasoning`",
                          type.empty() ? "none" : type);
}

json::Array read_input(FieldReader& fields) {
  const json::Value* input = fields.find("input");
  if (input == nullptr) {
    fields.fail("`input` is missing", "input");
  } else if (input->is_string()) {
    return {message_of("user", input->as_string())};
  } else if (!input->is_array()) {
    fields.fail(bad_type("input", "a string or an array of items", *input));
  } else {
    return input->as_array();
  }
  return {};
}

// How much to think, as templates read it.
void read_reasoning(FieldReader& fields, ResponsesRequest& out) {
  const json::Value* value = fields.find("reasoning");
  json::Object none;
  for (const char* name : {"effort", "summary"}) none.append_new(name, json::Value());
  out.echo.append_new("reasoning", value != nullptr ? *value : json::Value(std::move(none)));
  if (value == nullptr) return;
  if (!value->is_object()) return fields.fail(bad_type("reasoning", "an object", *value));
  FieldReader members(value->as_object());
  const auto effort = members.read_string("effort", kTypeBytesMax);
  for (const std::string_view name : {"summary", "generate_summary"}) {
    // What a model thought is told as it is.
    if (members.read_string(name, kTypeBytesMax))
      out.chat.ignored.push_back("reasoning." + std::string(name));
  }
  for (const auto& member : value->as_object()) {
    if (!members.has_read(member.first)) members.require_neutral(member.first, "");
  }
  if (!members.ok()) {
    return fields.fail(
        within(members.status(), "`reasoning`", "reasoning." + members.status().field()));
  }
  if (!effort) return;
  json::Object arguments;
  arguments.append_new("reasoning_effort", *effort);
  if (effort == "none") arguments.append_new("enable_thinking", json::Value(false));
  out.chat.template_arguments = json::Value(std::move(arguments));
}

// `include` says whether there are log-probabilities, `top_logprobs` how many.
void read_include(FieldReader& fields, ResponsesRequest& out) {
  for (const std::string& name :
       fields.read_strings("include", FieldReader::BareString::kRefused)) {
    if (name == kIncludeLogprobs) {
      out.chat.logprobs = true;
    } else if (name == kIncludeEncrypted) {
      out.chat.ignored.push_back("include." + name);
    } else {
      fields.fail(
          unsupported("`include` must have names of these: " + std::string(kIncludeLogprobs) +
                          ", " + std::string(kIncludeEncrypted) + ". Given: " + echo(name),
                      "include"));
    }
  }
  Parameters& parameters = out.chat.parameters;
  parameters.top_n_tokens = fields.read_u32("top_logprobs");
  out.echo.append_new("top_logprobs",
                      json::Value::unsigned_integer(parameters.top_n_tokens.value_or(0)));
  if (parameters.top_n_tokens.value_or(0) > 0) out.chat.logprobs = true;
}

Parameters read_parameters(FieldReader& fields) {
  Parameters out;
  out.do_sample = true;
  out.temperature = fields.read_float("temperature");
  out.top_p = fields.read_float("top_p");
  out.top_k = fields.read_i32("top_k");
  if (out.top_k == 0 || out.top_k == -1) out.top_k.reset();  // off
  out.typical_p = fields.read_float("typical_p");
  out.frequency_penalty = fields.read_float("frequency_penalty");
  out.presence_penalty = fields.read_float("presence_penalty");
  out.repetition_penalty = fields.read_float("repetition_penalty");
  out.seed = fields.read_seed("seed");
  out.stop = fields.read_strings("stop", FieldReader::BareString::kAllowed);
  out.max_new_tokens = fields.read_u32("max_output_tokens");
  out.new_tokens_field = "max_output_tokens";
  read_sampling_steps(fields, out);
  read_scheduling(fields, out);
  read_responses_grammar(fields, out);
  return out;
}

// What the answer repeats of a field, or what stands for one that was left out.
void repeat(FieldReader& fields,
            json::Object& echo,
            const char* name,
            const json::Value& otherwise) {
  const json::Value* value = fields.find(name);
  echo.append_new(name, value != nullptr ? *value : otherwise);
}

void read_metadata(FieldReader& fields, json::Object& echo) {
  const json::Value* value = fields.find("metadata");
  if (value != nullptr && !value->is_object())
    fields.fail(bad_type("metadata", "an object", *value));
  repeat(fields, echo, "metadata", json::Object());
}

json::Value text_as_such() {
  json::Object format;
  format.append_new("type", "text");
  json::Object out;
  out.append_new("format", std::move(format));
  return json::Value(std::move(out));
}

}  // namespace

Result<ResponsesRequest> read_responses_request(const json::Value& body,
                                                const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  ResponsesRequest out;
  ChatRequest& chat = out.chat;
  chat.model = fields.read_string("model", limits.model_bytes_max);
  out.items = read_input(fields);
  if (const auto instructions = fields.read_string("instructions", std::string::npos))
    out.instructions = *instructions;
  out.previous = fields.read_string("previous_response_id", kIdBytesMax);
  out.store = fields.read_bool("store");
  chat.stream = fields.read_bool("stream").value_or(false);
  chat.add_generation_prompt = true;
  chat.parameters = read_parameters(fields);
  chat.tools = read_responses_tools(fields, limits);
  read_include_usage(fields);  // there is always one
  for (const char* name : {"instructions", "max_output_tokens", "previous_response_id"})
    repeat(fields, out.echo, name, json::Value());
  for (const char* name : {"temperature", "top_p"})
    repeat(fields, out.echo, name, json::Value::real(1.0));
  repeat(fields, out.echo, "parallel_tool_calls", json::Value(true));
  repeat(fields, out.echo, "text", text_as_such());
  repeat(fields, out.echo, "tool_choice", "auto");
  repeat(fields, out.echo, "tools", json::Array());
  read_metadata(fields, out.echo);
  read_reasoning(fields, out);
  read_include(fields, out);
  fields.require_neutral("truncation", R"("disabled")");
  out.echo.append_new("truncation", "disabled");
  for (const std::string_view label : kLabels) fields.read_string(label, limits.user_bytes_max);
  fields.note_without_effect(kLabels);
  fields.refuse_documented(kResponsesDocument);
  for (std::string& name : finish_fields(fields, limits)) chat.ignored.push_back(std::move(name));
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  return out;
}

Status set_response_messages(ResponsesRequest& request,
                             const json::Array& earlier,
                             const DocumentLimits& limits) {
  const std::size_t n = earlier.size() + request.items.size();
  if (n > limits.messages_max) {
    return invalid_argument("`input` must have at most " + std::to_string(limits.messages_max) +
                                " items, those before it included. Given: " + std::to_string(n),
                            "input");
  }
  Reading reading{limits, request.chat.ignored};
  if (!request.instructions.empty())
    reading.turns.push_back({.role = "system", .text = request.instructions});
  for (const json::Value& item : earlier)
    COXSWAIN_RETURN_IF_ERROR(read_item(item, "previous_response_id", reading));
  for (std::size_t i = 0; i < request.items.size(); ++i)
    COXSWAIN_RETURN_IF_ERROR(read_item(request.items[i], "input." + std::to_string(i), reading));
  if (reading.turns.empty()) return invalid_argument("`input` cannot be empty", "input");
  request.chat.messages = chat_of(std::move(reading.turns), {});
  return {};
}

}  // namespace coxswain::api
