// Ollama's routes: POST /api/chat, /api/generate, /api/show, GET /api/tags, /api/ps and /api/version.

#include "api/answer.h"
#include "base/utf8.h"
#include "json/json.h"
#include "router/api.h"
#include "router/api_ticket.h"

namespace coxswain::router {
namespace {

constexpr std::string_view kUnknownTime = "1970-01-01T00:00:00Z";
constexpr std::string_view kNever = "9999-12-31T23:59:59Z";
constexpr std::string_view kDefaultTag = ":latest";

// The router knows the name of a model alone; clients want all members, and at least twelve digits.
constexpr std::string_view kNoDigest =
    "0000000000000000000000000000000000000000000000000000000000000000";

json::Value details() {
  json::Object out;
  for (const char* name : {"parent_model", "format", "family"}) out.append_new(name, "");
  out.append_new("families", json::Array());
  for (const char* name : {"parameter_size", "quantization_level"}) out.append_new(name, "");
  return json::Value(std::move(out));
}

http::Response answer_of(json::Object document) {
  http::Response out;
  out.body = json::write(json::Value(std::move(document)));
  return out;
}

bool thinks(const ChatModel& model) {
  return model.manner.formats.reasoning != reply::ReasoningFormat::kNone;
}

bool wants_thoughts(const api::ChatRequest& request) {
  const json::Value* thinks = request.template_arguments.find("enable_thinking");
  return thinks != nullptr && thinks->is_bool() && thinks->as_bool();
}

}  // namespace

Status Api::check_ollama_model(std::string_view name) const {
  if (name.ends_with(kDefaultTag)) name.remove_suffix(kDefaultTag.size());
  return check_model(std::string(name));
}

Status Api::ollama_chat(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::OllamaRequest request,
                            api::read_ollama_chat_request(body, options_.documents));
  return start_ollama(ticket, std::move(request), true);
}

Status Api::ollama_generate(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::OllamaRequest request,
                            api::read_ollama_generate_request(body, options_.documents));
  if (!chat_) request.raw = true;  // as of a model that Ollama knows no template for
  return start_ollama(ticket, std::move(request), false);
}

Status Api::start_ollama(Ticket& ticket, api::OllamaRequest request, bool is_chat) {
  api::ChatRequest& chat = request.chat;
  COXSWAIN_RETURN_IF_ERROR(check_ollama_model(*chat.model));
  if (wants_thoughts(chat) && !thinks(chat_)) {
    return {Code::kUnimplemented,
            ErrorKind::kValidation,
            "`think` is not supported: the model has no block of thoughts that is known "
            "(--reasoning-parser)",
            "think"};
  }
  api::OllamaAnswerOptions answer{.chat = is_chat,
                                  .model = *chat.model,
                                  .created = options_.unix_time(),
                                  .received = ticket.request->received,
                                  .logprobs = chat.logprobs,
                                  .reply = {}};
  if (chat.messages.is_null()) {
    COXSWAIN_RETURN_IF_ERROR(validator_.check_parameters(ticket.style, chat.parameters));
    http::Response response;
    response.body = api::ollama_empty_answer(answer, request.unloads ? "unload" : "load");
    if (ticket.tally) ticket.tally->succeed();
    ticket.responder->send(std::move(response));
    return {};
  }
  ChatPrompt prompt;
  if (request.raw) {
    prompt.text = request.prompt;
  } else {
    COXSWAIN_ASSIGN_OR_RETURN(prompt, render(chat));
    COXSWAIN_ASSIGN_OR_RETURN(auto reply, shape_answer(chat, prompt, ticket.style));
    if (reply) answer.reply = *std::move(reply);
  }
  ValidationInput input;
  input.style = ticket.style;
  input.stream = chat.stream;
  input.parameters = &chat.parameters;
  input.text = {prompt.text, request.raw, prompt.untrusted};
  input.prompt_field = is_chat ? "messages" : "prompt";
  COXSWAIN_ASSIGN_OR_RETURN(const ValidRequest valid, validator_.validate(input));
  CallSetup setup;
  setup.format = chat.stream ? api::make_ollama_stream(std::move(answer))
                             : api::make_ollama_answer(std::move(answer));
  setup.headers = common_headers(base::count_characters(prompt.text), chat.ignored);
  add_sequences(setup, input, valid, ticket);
  return start_call(std::move(setup), ticket);
}

Status Api::ollama_show(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(const std::string name,
                            api::read_ollama_show_request(body, options_.documents));
  COXSWAIN_RETURN_IF_ERROR(check_ollama_model(name));
  json::Array capabilities{"completion"};
  if (chat_) capabilities.emplace_back("tools");
  if (thinks(chat_)) capabilities.emplace_back("thinking");
  json::Object info;
  info.append_new("general.architecture", "coxswain");
  info.append_new("coxswain.context_length",
                  json::Value::unsigned_integer(options_.limits.total_tokens_max));
  json::Object out;
  for (const char* member : {"modelfile", "parameters", "template"}) out.append_new(member, "");
  out.append_new("details", details());
  out.append_new("model_info", std::move(info));
  out.append_new("capabilities", std::move(capabilities));
  out.append_new("modified_at", kUnknownTime);
  ticket.responder->send(answer_of(std::move(out)));
  return {};
}

json::Object Api::ollama_model() const {
  json::Object out;
  for (const char* name : {"name", "model"}) out.append_new(name, options_.model_id);
  out.append_new("size", json::Value::unsigned_integer(0));
  out.append_new("digest", kNoDigest);
  out.append_new("details", details());
  return out;
}

http::Response Api::ollama_tags() const {
  json::Object model = ollama_model();
  model.append_new("modified_at", kUnknownTime);
  json::Object out;
  out.append_new("models", json::Array{json::Value(std::move(model))});
  return answer_of(std::move(out));
}

http::Response Api::ollama_running() const {
  json::Object model = ollama_model();
  model.append_new("expires_at", kNever);
  model.append_new("size_vram", json::Value::unsigned_integer(0));
  model.append_new("context_length",
                   json::Value::unsigned_integer(options_.limits.total_tokens_max));
  json::Object out;
  out.append_new("models", json::Array{json::Value(std::move(model))});
  return answer_of(std::move(out));
}

}  // namespace coxswain::router
