// POST /v1/chat/completions and /v1/completions.

#include <algorithm>
#include <array>
#include <charconv>

#include "api/answer.h"
#include "base/utf8.h"
#include "router/api.h"
#include "router/api_ticket.h"

namespace coxswain::router {
namespace {

std::string hex(std::uint64_t value) {
  std::array<char, 16> digits{};
  const auto written = std::to_chars(digits.data(), digits.data() + digits.size(), value, 16);
  const auto n = static_cast<std::size_t>(written.ptr - digits.data());
  return std::string(digits.size() - n, '0') + std::string(digits.data(), n);
}

// Whether the list of log-probabilities has those of the prompt's tokens, too.
bool lists_prompt(const api::CompletionRequest& request) {
  return request.echo && request.logprobs;
}

// What each token adds to the text. Special ones add nothing.
std::vector<std::string> text_pieces(const tokenizer::Tokenizer& tokenizer,
                                     const std::vector<TokenId>& ids) {
  std::vector<std::string> out;
  out.reserve(ids.size());
  const auto decoder = tokenizer.incremental({}, true);
  for (TokenId id : ids) out.push_back(decoder->push(id));
  if (!out.empty()) out.back() += decoder->finish();
  return out;
}

// Puts the prompt of `from` into every answer to it.
void repeat_prompt(std::span<api::SequenceAnswer> answers, const api::SequenceAnswer& from) {
  for (api::SequenceAnswer& answer : answers) {
    answer.prompt_only = from.prompt_only;
    answer.prompt_text = from.prompt_text;
    answer.prompt_pieces = from.prompt_pieces;
  }
}

}  // namespace

api::OpenAiAnswerOptions Api::openai_answer(std::string_view prefix,
                                            const std::optional<std::string>& model) const {
  api::OpenAiAnswerOptions out;
  out.style = options_.auth.v1;
  out.id = prefix;
  out.id += hex(options_.random());
  out.id += hex(options_.random());
  out.created = options_.unix_time();
  out.model = model && !model->empty() && *model != "tgi" ? *model : options_.model_id;
  out.system_fingerprint = options_.version + "-native";
  return out;
}

Result<Api::ChatPrompt> Api::render(const api::ChatRequest& request) const {
  if (!chat_) {
    return Status(Code::kInvalidArgument, ErrorKind::kTemplateError, "template not found");
  }
  const auto now =
      std::chrono::system_clock::time_point(std::chrono::seconds(options_.unix_time()));
  COXSWAIN_ASSIGN_OR_RETURN(
      chat::Rendered rendered,
      speech::render({.messages = request.messages,
                      .tools = request.tools,
                      .documents = request.documents,
                      .template_arguments = request.template_arguments,
                      .add_generation_prompt = request.add_generation_prompt,
                      .continue_final_message = request.continue_final_message,
                      .now = now},
                     chat_.manner.reads_tools,
                     *tokenizer_,
                     chat_.render));
  ChatPrompt out;
  out.text = std::move(rendered.text);
  if (!options_.parse_special_in_content) out.untrusted = std::move(rendered.untrusted);
  return out;
}

Result<std::optional<api::ReplyOptions>> Api::shape_answer(api::ChatRequest& request,
                                                           const ChatPrompt& prompt,
                                                           api::ApiStyle style) const {
  COXSWAIN_ASSIGN_OR_RETURN(speech::Form form,
                            chat_form(request,
                                      {.model = chat_,
                                       .tokenizer = *tokenizer_,
                                       .style = style,
                                       .allows_grammars = options_.limits.allows_grammars,
                                       .prompt = prompt.text}));
  request.parameters.grammar = std::move(form.grammar);
  request.parameters.thoughts = std::move(form.thoughts);
  if (form.reply && request.tools) form.reply->id_seed = options_.random();
  return std::move(form.reply);
}

Status Api::chat(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  return chat(ticket, body);
}

Status Api::chat(Ticket& ticket, const json::Value& body) {
  COXSWAIN_ASSIGN_OR_RETURN(api::ChatRequest request,
                            api::read_chat_request(body, options_.documents));
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

  api::OpenAiAnswerOptions answer = openai_answer("chatcmpl-", request.model);
  answer.logprobs = request.logprobs;
  answer.n_top_logprobs = request.parameters.top_n_tokens.value_or(0);
  answer.include_usage = request.include_usage;
  answer.text = request.parameters.text;
  answer.extras = request.parameters.extras;
  if (reply) reply->parser.shows_special = answer.text.shows_special;
  answer.reply = std::move(reply);
  CallSetup setup;
  setup.answer_id = answer.id;
  setup.timing = TimingHeaders::kChoices;
  setup.per_prompt = valid.n_sequences();
  setup.format = request.stream ? api::make_chat_stream(std::move(answer))
                                : api::make_chat_answer(std::move(answer));
  setup.headers = common_headers(base::count_characters(prompt.text), request.ignored);
  add_sequences(setup, input, valid, ticket);
  return start_call(std::move(setup), ticket);
}

Status Api::complete(Ticket& ticket) {
  COXSWAIN_ASSIGN_OR_RETURN(const json::Value body, read_body(ticket));
  return complete(ticket, body);
}

Status Api::complete(Ticket& ticket, const json::Value& body) {
  COXSWAIN_ASSIGN_OR_RETURN(api::CompletionRequest request,
                            api::read_completion_request(body, options_.documents));
  COXSWAIN_RETURN_IF_ERROR(check_model(request.model));
  // The engine always chooses a token; a client that asked for none does not get to see it.
  const bool prompt_only = request.echo && request.parameters.max_new_tokens == 0U;
  if (prompt_only) request.parameters.max_new_tokens = 1;
  CallSetup setup;
  setup.timing = TimingHeaders::kSumOfSequences;
  std::size_t n_characters = 0;
  for (const api::Prompt& prompt : request.prompts) {
    ValidationInput input;
    input.style = ticket.style;
    input.stream = request.stream;
    input.parameters = &request.parameters;
    input.prompt_field = "prompt";
    input.prompt_logprobs = lists_prompt(request);
    const auto* text = std::get_if<std::string>(&prompt);
    if (text != nullptr) {
      input.text.text = *text;
      n_characters += base::count_characters(*text);
    } else {
      input.ids = &std::get<std::vector<TokenId>>(prompt);
    }
    COXSWAIN_ASSIGN_OR_RETURN(const ValidRequest valid, validator_.validate(input));
    setup.per_prompt = valid.n_sequences();
    add_sequences(setup, input, valid, ticket);
    if (!request.echo) continue;
    api::SequenceAnswer repeated;
    repeated.prompt_only = prompt_only;
    const bool whole_text = text != nullptr && !request.parameters.truncates();
    repeated.prompt_text = whole_text ? *text : tokenizer_->decode(valid.prompt(), true);
    if (lists_prompt(request)) repeated.prompt_pieces = text_pieces(*tokenizer_, valid.prompt());
    repeat_prompt(std::span(setup.sequences).last(setup.per_prompt), repeated);
  }
  const bool tgi = ticket.style == api::ApiStyle::kTgi;  // it never echoes the name here
  api::OpenAiAnswerOptions answer = openai_answer("cmpl-", tgi ? std::nullopt : request.model);
  answer.include_usage = request.include_usage;
  answer.text = request.parameters.text;
  answer.extras = request.parameters.extras;
  answer.logprobs = request.logprobs;
  answer.n_top_logprobs = request.parameters.top_n_tokens.value_or(0);
  answer.echo = request.echo;
  answer.n_best = request.parameters.n.value_or(1);
  setup.answer_id = answer.id;
  setup.format = request.stream ? api::make_completion_stream(std::move(answer), setup.per_prompt)
                                : api::make_completion_answer(std::move(answer), setup.per_prompt);
  setup.headers = common_headers(n_characters, request.ignored);
  return start_call(std::move(setup), ticket);
}

}  // namespace coxswain::router
