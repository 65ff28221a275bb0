// POST /invocations and /vertex: documents of the other routes, as Amazon SageMaker and Google Vertex AI send them.

#include <string>
#include <utility>
#include <variant>

#include "api/vertex.h"
#include "base/utf8.h"
#include "json/json.h"
#include "router/api.h"
#include "router/api_ticket.h"

namespace coxswain::router {
namespace {

bool has(const json::Value& body, std::string_view member) {
  if (!body.is_object()) return false;
  const json::Value* found = body.as_object().find(member);
  return found != nullptr && !found->is_null();
}

}  // namespace

void Api::add_platform_routes(http::Server& server) {
  add_generation_route(server, "/invocations", &Api::invoke);
  add_generation_route(server, "/vertex", &Api::predict);
  if (!options_.predict_route.empty())
    add_generation_route(server, options_.predict_route.c_str(), &Api::predict);
  if (const std::string& path = options_.auth.health_route; !path.empty())
    server.add_route("GET", path, [this](auto, auto responder) { responder->send(health()); });
}

Status Api::invoke(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  if (has(body, "inputs")) return generate_compat(ticket, body);
  if (has(body, "messages") || has(body, "prompt")) {
    ticket.style = options_.auth.v1;
    return has(body, "messages") ? chat(ticket, body) : complete(ticket, body);
  }
  return invalid_argument("one of `inputs`, `messages` and `prompt` must be given", "inputs");
}

Status Api::add_instance(Ticket& ticket, api::PredictInstance& instance, CallSetup& setup) {
  ValidationInput input;
  input.style = ticket.style;
  input.prompt_field = "instances";
  ChatPrompt prompt;
  if (auto* chat = std::get_if<api::ChatRequest>(&instance)) {
    COXSWAIN_RETURN_IF_ERROR(check_model(chat->model));
    COXSWAIN_ASSIGN_OR_RETURN(prompt, render(*chat));
    input.style = options_.auth.v1;
    COXSWAIN_RETURN_IF_ERROR(shape_answer(*chat, prompt, input.style).status());
    input.parameters = &chat->parameters;
    input.text = {prompt.text, false, prompt.untrusted};
  } else {
    const auto& request = std::get<api::GenerateRequest>(instance);
    input.parameters = &request.parameters;
    input.text.text = request.inputs;
  }
  COXSWAIN_ASSIGN_OR_RETURN(const ValidRequest valid, validator_.validate(input));
  if (valid.n_sequences() != 1)
    return invalid_argument("`best_of` and `n` can only be 1 on this route", "best_of");
  add_sequences(setup, input, valid, ticket);
  return {};
}

Status Api::predict(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::PredictRequest request,
                            api::read_predict(body, options_.documents));
  CallSetup setup;
  setup.timing = TimingHeaders::kSumOfSequences;
  setup.per_prompt = 1;
  std::size_t n_characters = 0;
  for (std::size_t i = 0; i < request.instances.size(); ++i) {
    const Status added = add_instance(ticket, request.instances[i], setup);
    if (!added.ok()) return added.with_context("instances[" + std::to_string(i) + "]");
    if (const auto* native = std::get_if<api::GenerateRequest>(&request.instances[i]))
      n_characters += base::count_characters(native->inputs);
  }
  setup.format = api::make_predictions();
  setup.headers = common_headers(n_characters, request.ignored);
  return start_call(std::move(setup), ticket);
}

}  // namespace coxswain::router
