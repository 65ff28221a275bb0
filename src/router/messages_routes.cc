// POST /v1/messages and /v1/messages/count_tokens: Anthropic's API, version 2023-06-01.

#include "api/answer.h"
#include "base/utf8.h"
#include "json/json.h"
#include "router/api.h"
#include "router/api_ticket.h"

namespace coxswain::router {

Status Api::messages(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::ChatRequest request,
                            api::read_messages_request(body, options_.documents));
  COXSWAIN_RETURN_IF_ERROR(check_model(request.model));
  COXSWAIN_ASSIGN_OR_RETURN(const ChatPrompt prompt, render(request));
  COXSWAIN_ASSIGN_OR_RETURN(auto reply, shape_answer(request, prompt, ticket.style));
  ValidationInput input;
  input.style = ticket.style;
  input.stream = request.stream;
  input.parameters = &request.parameters;
  input.text = {prompt.text, false, prompt.untrusted};
  input.prompt_field = "messages";
  COXSWAIN_ASSIGN_OR_RETURN(const ValidRequest valid, validator_.validate(input));

  api::OpenAiAnswerOptions named = openai_answer("msg_", request.model);
  CallSetup setup;
  setup.answer_id = named.id;
  api::MessagesAnswerOptions answer{
      std::move(named.id), std::move(named.model), reply ? *std::move(reply) : api::ReplyOptions()};
  setup.format = request.stream ? api::make_messages_stream(std::move(answer))
                                : api::make_messages_answer(std::move(answer));
  setup.headers = common_headers(base::count_characters(prompt.text), request.ignored);
  setup.headers.emplace_back("request-id", ticket.request->request_id);
  add_sequences(setup, input, valid, ticket);
  return start_call(std::move(setup), ticket);
}

Status Api::count_message_tokens(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::ChatRequest request,
                            api::read_count_tokens_request(body, options_.documents));
  COXSWAIN_RETURN_IF_ERROR(check_model(request.model));
  COXSWAIN_RETURN_IF_ERROR(validator_.check_parameters(ticket.style, request.parameters));
  COXSWAIN_ASSIGN_OR_RETURN(const ChatPrompt prompt, render(request));
  COXSWAIN_RETURN_IF_ERROR(shape_answer(request, prompt, ticket.style).status());
  tokenizer::EncodeOptions options;
  options.add_special_tokens = false;
  options.untrusted = prompt.untrusted;
  COXSWAIN_ASSIGN_OR_RETURN(const tokenizer::Encoding encoding,
                            tokenizer_->encode(prompt.text, options));
  http::Response response;
  response.headers.emplace_back("request-id", ticket.request->request_id);
  response.body = R"({"input_tokens":)" + std::to_string(encoding.ids.size()) + "}";
  ticket.responder->send(std::move(response));
  return {};
}

}  // namespace coxswain::router
