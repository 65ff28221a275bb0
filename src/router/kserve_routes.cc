// The Open Inference Protocol below /v2, as KServe speaks it.

#include <optional>
#include <string_view>
#include <utility>

#include "api/kserve.h"
#include "base/utf8.h"
#include "router/api.h"
#include "router/api_ticket.h"
#include "router/error_response.h"

namespace coxswain::router {
namespace {

constexpr std::string_view kFolder = "/v2/models/";
constexpr std::string_view kVersions = "/versions/";

// What a path below kFolder names: NAME[/versions/V][/VERB]. Names may have slashes.
struct ModelPath {
  std::string_view model;
  std::string_view version = api::kKserveVersion;
  std::string_view verb = {};
};

ModelPath parse_path(std::string_view path) {
  ModelPath out{.model = path.substr(kFolder.size())};
  for (const std::string_view verb : {"/infer", "/generate", "/generate_stream", "/ready"}) {
    if (!out.model.ends_with(verb)) continue;
    out.verb = verb.substr(1);
    out.model.remove_suffix(verb.size());
    break;
  }
  const std::size_t versions = out.model.rfind(kVersions);
  if (versions == std::string_view::npos) return out;
  const std::string_view version = out.model.substr(versions + kVersions.size());
  if (version.empty() || version.find('/') != std::string_view::npos) return out;
  out.version = version;
  out.model = out.model.substr(0, versions);
  return out;
}

http::Response document(std::string body) {
  http::Response out;
  out.body = std::move(body);
  return out;
}

http::Response wrong_method(std::string_view allowed) {
  return method_not_allowed(api::ApiStyle::kNative,
                            allowed,
                            "; below a model are infer, generate, generate_stream, ready");
}

}  // namespace

void Api::add_kserve_routes(http::Server& server) {
  server.add_route("GET", "/v2", [this](auto, auto responder) {
    responder->send(document(api::kserve_server_document(options_.version)));
  });
  server.add_route("GET", "/v2/health/live", [](auto, auto responder) {
    responder->send(document(R"({"live":true})"));
  });
  server.add_route(
      "GET", "/v2/health/ready", [this](auto, auto responder) { responder->send(kserve_ready()); });
  const std::string all = std::string(kFolder) + "*";
  server.add_route("GET", all, [this](auto request, auto responder) {
    responder->send(kserve_model(*request));
  });
  server.add_route("POST", all, [this](auto request, auto responder) {
    const std::string_view verb = parse_path(request->path).verb;
    Work work = nullptr;
    if (verb == "infer") work = &Api::kserve_infer;
    if (verb == "generate") work = &Api::kserve_generate;
    if (verb == "generate_stream") work = &Api::kserve_generate_stream;
    if (work == nullptr) return responder->send(wrong_method("GET, HEAD"));
    accept(request, responder, generation_permits_, true, work);
  });
}

http::Response Api::kserve_ready() const {
  http::Response out = health();
  const bool ready = out.status == 200;
  out.content_type = "application/json";
  out.body = ready ? R"({"live":true,"ready":true})" : R"({"live":true,"ready":false})";
  return out;
}

http::Response Api::kserve_model(const http::Request& request) const {
  const ModelPath path = parse_path(request.path);
  if (!path.verb.empty() && path.verb != "ready") return wrong_method("POST");
  if (const Status known = check_kserve_model(request.path); !known.ok())
    return error_response(api::ApiStyle::kNative, known);
  if (path.verb.empty()) return document(api::kserve_model_document(path.model));
  http::Response out = kserve_ready();
  std::string body = R"({"name":)";
  json::append_quoted(body, path.model);
  out.body = body + "," + out.body.substr(1);
  return out;
}

Status Api::check_kserve_model(std::string_view path) const {
  const ModelPath asked = parse_path(path);
  if (asked.version != api::kKserveVersion && options_.strict_model) {
    return {Code::kNotFound,
            ErrorKind::kNotFound,
            "the model has no version `" + api::echo(asked.version) + "`: there is only `" +
                std::string(api::kKserveVersion) + "`",
            "version"};
  }
  return check_model(std::string(asked.model));
}

namespace {

api::KserveAnswerOptions answer_of(const http::Request& request,
                                   const std::optional<std::string>& id) {
  const ModelPath path = parse_path(request.path);
  return {.id = id.value_or(request.request_id),
          .model = std::string(path.model),
          .version = std::string(path.version)};
}

}  // namespace

Status Api::kserve_infer(Ticket& ticket) {
  COXSWAIN_RETURN_IF_ERROR(check_kserve_model(ticket.request->path));
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::KserveInferRequest request,
                            api::read_kserve_infer(body, options_.documents));
  CallSetup setup;
  setup.timing = TimingHeaders::kSumOfSequences;
  std::size_t n_characters = 0;
  for (const std::string& text : request.texts) {
    ValidationInput input;
    input.style = ticket.style;
    input.parameters = &request.parameters;
    input.prompt_field = "inputs";
    input.text.text = text;
    COXSWAIN_ASSIGN_OR_RETURN(const ValidRequest valid, validator_.validate(input));
    setup.per_prompt = valid.n_sequences();
    add_sequences(setup, input, valid, ticket);
    n_characters += base::count_characters(text);
  }
  api::KserveAnswerOptions answer = answer_of(*ticket.request, request.id);
  answer.outputs = std::move(request.outputs);
  answer.per_text = setup.per_prompt;
  setup.format = api::make_kserve_infer_answer(std::move(answer));
  setup.headers = common_headers(n_characters, request.ignored);
  return start_call(std::move(setup), ticket);
}

Status Api::kserve_generate(Ticket& ticket) {
  return start_kserve_generation(ticket, false);
}

Status Api::kserve_generate_stream(Ticket& ticket) {
  return start_kserve_generation(ticket, true);
}

Status Api::start_kserve_generation(Ticket& ticket, bool stream) {
  COXSWAIN_RETURN_IF_ERROR(check_kserve_model(ticket.request->path));
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::KserveGenerateRequest request,
                            api::read_kserve_generate(body, options_.documents));
  ValidationInput input;
  input.style = ticket.style;
  input.stream = stream;
  input.parameters = &request.parameters;
  input.prompt_field = "text_input";
  input.text.text = request.text;
  COXSWAIN_ASSIGN_OR_RETURN(const ValidRequest valid, validator_.validate(input));
  api::KserveAnswerOptions answer = answer_of(*ticket.request, request.id);
  answer.details = request.parameters.details;
  CallSetup setup;
  setup.format = stream ? api::make_kserve_generate_stream(std::move(answer))
                        : api::make_kserve_generate_answer(std::move(answer));
  setup.headers = common_headers(base::count_characters(request.text), request.ignored);
  add_sequences(setup, input, valid, ticket);
  return start_call(std::move(setup), ticket);
}

}  // namespace coxswain::router
