// The documents of POST /api/chat, /api/generate and /api/show, Ollama's, as the chats that they stand for.

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

// What Ollama samples with where a client says nothing.
constexpr float kTemperature = 0.8F;
constexpr float kTopP = 0.9F;
constexpr std::int32_t kTopK = 40;

// How a server holds a model: here the model is there already, with the context that it was started with.
constexpr std::array<std::string_view, 14> kOfLoading{"numa",
                                                      "num_ctx",
                                                      "num_batch",
                                                      "num_gpu",
                                                      "main_gpu",
                                                      "low_vram",
                                                      "f16_kv",
                                                      "logits_all",
                                                      "vocab_only",
                                                      "use_mmap",
                                                      "use_mlock",
                                                      "embedding_only",
                                                      "num_thread",
                                                      "num_keep"};
constexpr std::array<std::string_view, 1> kWithoutEffect{"keep_alive"};
constexpr std::size_t kEffortBytesMax = 64;
constexpr std::size_t kDurationBytesMax = 64;

// -1 and -2: all that fits.
void read_num_predict(FieldReader& options, Parameters& out) {
  const auto asked = options.read_i32("num_predict");
  if (!asked || *asked == -1 || *asked == -2) return;
  if (*asked < 1) {
    options.fail(
        "`num_predict` must be >= 1, or -1 for all that fits. Given: " + std::to_string(*asked),
        "num_predict");
    return;
  }
  out.max_new_tokens = static_cast<std::uint32_t>(*asked);
}

void read_options(FieldReader& fields, const DocumentLimits& limits, ChatRequest& request) {
  static const json::Object none;
  Parameters& out = request.parameters;
  const json::Value* value = fields.find("options");
  if (value != nullptr && !value->is_object()) {
    return fields.fail("`options` must be an object. Given: " + std::string(type_name(*value)),
                       "options");
  }
  FieldReader options(value != nullptr ? value->as_object() : none);
  read_sampling_steps(options, out);
  out.temperature = options.read_float("temperature").value_or(kTemperature);
  out.top_p = options.read_float("top_p").value_or(kTopP);
  out.top_k = options.read_i32("top_k").value_or(kTopK);
  if (out.top_k == 0 || out.top_k == -1) out.top_k.reset();  // off
  out.typical_p = options.read_float("typical_p");
  out.frequency_penalty = options.read_float("frequency_penalty");
  out.presence_penalty = options.read_float("presence_penalty");
  read_repeat_penalty(options, out);
  read_num_predict(options, out);
  out.new_tokens_field = "options.num_predict";
  out.seed = options.read_seed("seed");
  out.stop = options.read_strings("stop", FieldReader::BareString::kAllowed);
  out.do_sample = true;
  options.note_without_effect(kOfLoading);
  options.refuse_documented(kOllamaOptions);
  const IgnoredFields ignored = finish_fields(options, limits);
  if (!options.ok())
    fields.fail(within(options.status(), "`options`", "options." + options.status().field()));
  for (const std::string& name : ignored) request.ignored.push_back("options." + name);
}

// true, false, or how much: as templates read it.
void read_think(FieldReader& fields, ChatRequest& out) {
  const json::Value* value = fields.find("think");
  if (value == nullptr) return;
  json::Object arguments;
  if (value->is_bool()) {
    arguments.append_new("enable_thinking", *value);
  } else if (const auto effort = fields.read_string("think", kEffortBytesMax)) {
    arguments.append_new("enable_thinking", json::Value(true));
    arguments.append_new("reasoning_effort", *effort);
  } else {
    return;
  }
  out.template_arguments = json::Value(std::move(arguments));
}

// A number of seconds, or a text such as "5m".
bool read_keep_alive(FieldReader& fields) {
  const json::Value* value = fields.find("keep_alive");
  if (value == nullptr) return false;
  if (value->is_number()) return value->to_double() == 0.0;
  const auto text = fields.read_string("keep_alive", kDurationBytesMax);
  return text == "0" || text == "0s" || text == "0m" || text == "0h";
}

// What both documents have.
Result<OllamaRequest> read_common(FieldReader& fields, const DocumentLimits& limits) {
  OllamaRequest out;
  ChatRequest& chat = out.chat;
  chat.model = fields.read_string("model", limits.model_bytes_max);
  if (fields.ok() && (!chat.model || chat.model->empty()))
    fields.fail("`model` is missing", "model");
  chat.stream = fields.read_bool("stream").value_or(true);
  read_options(fields, limits, chat);
  read_scheduling(fields, chat.parameters);
  read_ollama_grammar(fields, chat.parameters);
  read_think(fields, chat);
  chat.logprobs = read_logprobs(fields, chat.parameters);
  out.unloads = read_keep_alive(fields);
  fields.require_neutral("truncate", "false");
  fields.note_without_effect(kWithoutEffect);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  return out;
}

Status finish(FieldReader& fields, const DocumentLimits& limits, ChatRequest& chat) {
  fields.refuse_documented(kOllamaDocument);
  for (std::string& name : finish_fields(fields, limits)) chat.ignored.push_back(std::move(name));
  return fields.status();
}

// `thinking` and `tool_name` by the names that templates know.
json::Value renamed(const json::Value& message) {
  if (!message.is_object()) return message;
  json::Object out;
  for (const auto& [name, value] : message.as_object()) {
    if (name == "thinking") {
      out.set("reasoning_content", value);
    } else if (name == "tool_name") {
      out.set("name", value);
    } else {
      out.set(name, value);
    }
  }
  if (out.find("content") == nullptr) out.append_new("content", json::Value());
  return json::Value(std::move(out));
}

}  // namespace

Result<OllamaRequest> read_ollama_chat_request(const json::Value& body,
                                               const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  COXSWAIN_ASSIGN_OR_RETURN(OllamaRequest out, read_common(fields, limits));
  const json::Value* messages = fields.find("messages");
  out.chat.tools = read_openai_tools(fields, limits);
  COXSWAIN_RETURN_IF_ERROR(finish(fields, limits, out.chat));
  if (messages == nullptr) return out;
  if (!messages->is_array()) {
    return invalid_argument(
        "`messages` must be an array. Given: " + std::string(type_name(*messages)), "messages");
  }
  if (messages->as_array().empty()) return out;
  json::Array chat;
  chat.reserve(messages->as_array().size());
  for (const json::Value& message : messages->as_array()) chat.push_back(renamed(message));
  const json::Value list(std::move(chat));
  COXSWAIN_ASSIGN_OR_RETURN(out.chat.messages, read_chat_messages(&list, limits, out.chat.ignored));
  return out;
}

Result<OllamaRequest> read_ollama_generate_request(const json::Value& body,
                                                   const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  COXSWAIN_ASSIGN_OR_RETURN(OllamaRequest out, read_common(fields, limits));
  const auto text_of = [&](std::string_view name) {
    return fields.read_string(name, std::string::npos).value_or(std::string());
  };
  out.prompt = text_of("prompt");
  std::string system = text_of("system");
  out.raw = fields.read_bool("raw").value_or(false);
  for (const std::string_view name : {"template", "suffix"}) fields.require_neutral(name, R"("")");
  fields.require_neutral("context", "[]");
  COXSWAIN_RETURN_IF_ERROR(finish(fields, limits, out.chat));
  if (out.raw && !system.empty())
    return unsupported("`system` is not supported where `raw` is true", "system");
  if (out.prompt.empty()) return out;
  json::Array chat;
  if (!system.empty()) chat.push_back(message_of("system", std::move(system)));
  chat.push_back(message_of("user", out.prompt));
  out.chat.messages = json::Value(std::move(chat));
  return out;
}

Result<std::string> read_ollama_show_request(const json::Value& body,
                                             const DocumentLimits& limits) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Object* object, require_object(body));
  FieldReader fields(*object);
  auto name = fields.read_string("model", limits.model_bytes_max);
  const auto older = fields.read_string("name", limits.model_bytes_max);
  COXSWAIN_RETURN_IF_ERROR(fields.status());
  if (!name) name = older;
  if (!name || name->empty()) return invalid_argument("`model` is missing", "model");
  return *std::move(name);
}

}  // namespace coxswain::api
