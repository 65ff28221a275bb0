// POST /, /generate, /generate_stream, /tokenize and their like.

#include "api/answer.h"
#include "base/utf8.h"
#include "json/json.h"
#include "router/api.h"
#include "router/api_ticket.h"

namespace coxswain::router {
namespace {

// Answers of the tokenise routes are up to sixty times as large as what was sent, and a client may
// be in no hurry to read them: a permit stands for so many bytes of them until they have left.
constexpr std::size_t kAnswerBytesPerPermit = std::size_t{2} << 20;
constexpr std::size_t kTokenBytes = 56;  // of JSON for one token, its text aside

void append_tokens(std::string& out, std::string_view text, const tokenizer::Encoding& encoding) {
  out += '[';
  for (std::size_t i = 0; i < encoding.ids.size(); ++i) {
    TextSpan span = encoding.offsets[i];
    if (span.begin >= span.end || span.end > text.size()) span = {};
    if (i > 0) out += ',';
    out += R"({"id":)";
    json::append_integer(out, encoding.ids[i]);
    out += R"(,"text":)";
    json::append_quoted(out, text.substr(span.begin, span.end - span.begin));
    out += R"(,"start":)";
    json::append_unsigned(out, span.begin);
    out += R"(,"stop":)";
    json::append_unsigned(out, span.end);
    out += '}';
  }
  out += ']';
}

// On a route that always streams, or never, a `stream` that says otherwise changes nothing.
Status note_stream(api::GenerateRequest& request, bool streams, const api::DocumentLimits& limits) {
  if (request.stream.value_or(streams) == streams) return {};
  request.ignored.emplace_back("stream");
  if (!limits.strict_fields) return {};
  const std::string only = streams ? "true" : "false";
  return invalid_argument("`stream` can only be " + only + " on this route", "stream");
}

}  // namespace

Status Api::generate(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::GenerateRequest request,
                            api::read_generate_request(body, options_.documents));
  COXSWAIN_RETURN_IF_ERROR(note_stream(request, false, options_.documents));
  return start_native(ticket, request, false, false);
}

Status Api::generate_stream(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::GenerateRequest request,
                            api::read_generate_request(body, options_.documents));
  COXSWAIN_RETURN_IF_ERROR(note_stream(request, true, options_.documents));
  return start_native(ticket, request, true, false);
}

Status Api::generate_compat(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  return generate_compat(ticket, body);
}

Status Api::generate_compat(Ticket& ticket, const json::Value& body) {
  COXSWAIN_ASSIGN_OR_RETURN(api::GenerateRequest request,
                            api::read_generate_request(body, options_.documents));
  if (!request.parameters.return_full_text) {
    request.parameters.return_full_text = options_.return_full_text;
  }
  const bool stream = request.stream.value_or(false);
  return start_native(ticket, request, stream, !stream);
}

Status Api::start_native(Ticket& ticket,
                         const api::GenerateRequest& request,
                         bool stream,
                         bool as_array) {
  ValidationInput input;
  input.style = api::ApiStyle::kNative;
  input.stream = stream;
  input.parameters = &request.parameters;
  input.text.text = request.inputs;
  COXSWAIN_ASSIGN_OR_RETURN(const ValidRequest valid, validator_.validate(input));

  api::NativeAnswerOptions answer;
  answer.details = request.parameters.details || request.parameters.decoder_input_details;
  answer.top_tokens = valid.sampling().n_top_tokens > 0;
  answer.return_full_text = request.parameters.return_full_text.value_or(false);
  answer.as_array = as_array;
  CallSetup setup;
  setup.format = stream ? api::make_native_stream(answer) : api::make_native_answer(answer);
  setup.headers = common_headers(base::count_characters(request.inputs), request.ignored);
  add_sequences(setup, input, valid, ticket);
  if (answer.return_full_text) {
    for (api::SequenceAnswer& sequence : setup.sequences) sequence.prompt_text = request.inputs;
  }
  return start_call(std::move(setup), ticket);
}

Status Api::reserve_tokens(Ticket& ticket, std::size_t n_tokens, std::string_view text) {
  const std::size_t n_bytes = n_tokens * kTokenBytes + text.size();
  if (ticket.permits.grow_to(1 + n_bytes / kAnswerBytesPerPermit)) return {};
  return overloaded();
}

void Api::send_tokens(Ticket& ticket, std::string body) {
  http::Response response;
  response.body = std::move(body);
  response.held = std::make_shared<const Permits>(std::move(ticket.permits));
  ticket.responder->send(std::move(response));
}

Status Api::tokenize(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(const api::GenerateRequest request,
                            api::read_generate_request(body, options_.documents));
  COXSWAIN_RETURN_IF_ERROR(validator_.check_parameters(ticket.style, request.parameters));
  if (request.inputs.empty()) return invalid_argument("`inputs` cannot be empty", "inputs");
  COXSWAIN_ASSIGN_OR_RETURN(const tokenizer::Encoding encoding,
                            tokenizer_->encode(request.inputs, {}));
  COXSWAIN_RETURN_IF_ERROR(reserve_tokens(ticket, encoding.ids.size(), request.inputs));
  std::string out;
  append_tokens(out, request.inputs, encoding);
  send_tokens(ticket, std::move(out));
  return {};
}

Status Api::chat_tokenize(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(api::ChatRequest request,
                            api::read_chat_request(body, options_.documents));
  COXSWAIN_RETURN_IF_ERROR(check_model(request.model));
  COXSWAIN_RETURN_IF_ERROR(validator_.check_parameters(options_.auth.v1, request.parameters));
  COXSWAIN_ASSIGN_OR_RETURN(const ChatPrompt prompt, render(request));
  COXSWAIN_RETURN_IF_ERROR(shape_answer(request, prompt, options_.auth.v1).status());
  tokenizer::EncodeOptions options;
  options.add_special_tokens = false;
  options.untrusted = prompt.untrusted;
  COXSWAIN_ASSIGN_OR_RETURN(const tokenizer::Encoding encoding,
                            tokenizer_->encode(prompt.text, options));
  COXSWAIN_RETURN_IF_ERROR(reserve_tokens(ticket, encoding.ids.size(), prompt.text));
  std::string out = R"({"tokenize_response":)";
  append_tokens(out, prompt.text, encoding);
  out += R"(,"templated_text":)";
  json::append_quoted(out, prompt.text);
  out += '}';
  send_tokens(ticket, std::move(out));
  return {};
}

Status Api::detokenize(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  COXSWAIN_ASSIGN_OR_RETURN(const api::DetokenizeRequest request,
                            api::read_detokenize_request(body, options_.documents));
  COXSWAIN_RETURN_IF_ERROR(check_model(request.model));
  COXSWAIN_RETURN_IF_ERROR(validator_.check_ids(request.tokens, "tokens"));
  const std::string text = tokenizer_->decode(request.tokens, request.skip_special_tokens);
  COXSWAIN_RETURN_IF_ERROR(reserve_tokens(ticket, 0, text));
  std::string quoted;
  json::append_quoted(quoted, text);
  send_tokens(ticket, R"({"prompt":)" + quoted + R"(,"content":)" + quoted + "}");
  return {};
}

}  // namespace coxswain::router
