// OpenAI's /v1/responses: POST, and GET and DELETE of what was kept. DELETE /v1/requests/ID.

#include <iterator>
#include <utility>

#include "api/answer.h"
#include "base/utf8.h"
#include "json/json.h"
#include "router/api.h"
#include "router/api_ticket.h"
#include "router/error_response.h"

namespace coxswain::router {
namespace {

http::Response deletion(const std::string& id, std::string_view members) {
  http::Response out;
  out.body = R"({"id":)";
  json::append_quoted(out.body, id);
  out.body += members;
  return out;
}

Status not_found(std::string_view what, const std::string& id, std::string field) {
  return {Code::kNotFound,
          ErrorKind::kNotFound,
          "no " + std::string(what) + " `" + api::echo(id) + "`",
          std::move(field)};
}

}  // namespace

Result<json::Array> Api::earlier_items(const api::ResponsesRequest& request) {
  if (!request.previous) return json::Array();
  const auto found = responses_.find(*request.previous);
  if (found == nullptr) {
    return Status(Code::kNotFound,
                  ErrorKind::kValidation,
                  "no response `" + api::echo(*request.previous) +
                      "` is kept (`store`, --stored-responses-bytes-max)",
                  "previous_response_id");
  }
  json::ParseLimits limits;
  limits.depth_max = options_.json_depth_max;
  COXSWAIN_ASSIGN_OR_RETURN(json::Value items, json::parse(found->items, limits));
  return std::move(items.as_array());
}

Status Api::respond(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::ResponsesRequest request,
                            api::read_responses_request(body, options_.documents));
  api::ChatRequest& chat = request.chat;
  COXSWAIN_RETURN_IF_ERROR(check_model(chat.model));
  if (request.store == true && !responses_.keeps()) {
    return {Code::kUnimplemented,
            ErrorKind::kValidation,
            "`store` can only be false: --stored-responses-bytes-max is 0",
            "store"};
  }
  COXSWAIN_ASSIGN_OR_RETURN(json::Array earlier, earlier_items(request));
  COXSWAIN_RETURN_IF_ERROR(api::set_response_messages(request, earlier, options_.documents));
  COXSWAIN_ASSIGN_OR_RETURN(const ChatPrompt prompt, render(chat));
  COXSWAIN_ASSIGN_OR_RETURN(auto reply, shape_answer(chat, prompt, ticket.style));
  ValidationInput input;
  input.style = ticket.style;
  input.stream = chat.stream;
  input.parameters = &chat.parameters;
  input.text = {prompt.text, false, prompt.untrusted};
  input.prompt_field = "input";
  COXSWAIN_ASSIGN_OR_RETURN(const ValidRequest valid, validator_.validate(input));

  const bool store = request.store.value_or(responses_.keeps());
  request.echo.append_new("store", json::Value(store));
  std::string echo = json::write(json::Value(std::move(request.echo)));
  echo.front() = ',';
  echo.pop_back();
  const api::OpenAiAnswerOptions named = openai_answer("resp_", chat.model);
  api::ResponsesAnswerOptions answer{.id = named.id,
                                     .created = named.created,
                                     .model = named.model,
                                     .echo = std::move(echo),
                                     .logprobs = chat.logprobs,
                                     .reply = reply ? *std::move(reply) : api::ReplyOptions(),
                                     .keep = {}};
  if (store) {
    std::move(request.items.begin(), request.items.end(), std::back_inserter(earlier));
    std::string items = json::write(json::Value(std::move(earlier)));
    items.back() = ',';  // the output follows; neither is empty
    answer.keep = [this, id = named.id, items = std::move(items)](const std::string& document,
                                                                  const std::string& output) {
      responses_.put(id, {document, items + output.substr(1)});
    };
  }
  CallSetup setup;
  setup.answer_id = named.id;
  setup.format = chat.stream ? api::make_responses_stream(std::move(answer))
                             : api::make_responses_answer(std::move(answer));
  setup.headers = common_headers(base::count_characters(prompt.text), chat.ignored);
  add_sequences(setup, input, valid, ticket);
  return start_call(std::move(setup), ticket);
}

http::Response Api::stored_response(const std::string& id) {
  const auto found = responses_.find(id);
  if (found == nullptr)
    return error_response(api::ApiStyle::kOpenAi, not_found("response", id, "response_id"));
  http::Response out;
  out.body = found->document;
  return out;
}

http::Response Api::delete_response(const std::string& id) {
  if (!responses_.erase(id))
    return error_response(api::ApiStyle::kOpenAi, not_found("response", id, "response_id"));
  return deletion(id, R"(,"object":"response","deleted":true})");
}

http::Response Api::cancel_request(const std::string& id) {
  if (!running_.cancel(id)) {
    return error_response(api::style_of("/v1/requests", options_.auth.v1),
                          not_found("running request", id, "request_id"));
  }
  return deletion(id, R"(,"object":"request","cancelled":true})");
}

}  // namespace coxswain::router
