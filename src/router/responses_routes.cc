// OpenAI's /v1/responses: POST, what was kept, and the cancelling. DELETE /v1/requests/ID.

#include <algorithm>
#include <iterator>
#include <utility>
#include <vector>

#include "api/answer.h"
#include "api/input_items.h"
#include "base/utf8.h"
#include "http/syntax.h"
#include "json/json.h"
#include "router/api.h"
#include "router/api_ticket.h"
#include "router/error_response.h"

namespace coxswain::router {
namespace {

constexpr std::string_view kIdPrefix = "resp_";
constexpr std::string_view kInputItems = "/input_items";
constexpr std::string_view kCancel = "/cancel";

// What a path below /v1/responses/ names: ID, or a part of it.
struct ResponsePath {
  std::string id;
  std::string_view part = {};  // kInputItems, kCancel or none
};

ResponsePath parse_path(const std::string& path) {
  for (const std::string_view part : {kInputItems, kCancel}) {
    if (path.ends_with(part)) return {path.substr(0, path.size() - part.size()), part};
  }
  return {path};
}

http::Response wrong_method(std::string_view part) {
  std::string_view allowed = "DELETE, GET, HEAD";
  if (part == kInputItems) allowed = "GET, HEAD";
  if (part == kCancel) allowed = "POST";
  return method_not_allowed(api::ApiStyle::kOpenAi, allowed);
}

http::Response deletion(const std::string& id, std::string_view members) {
  http::Response out;
  out.body = R"({"id":)";
  json::append_quoted(out.body, id);
  out.body += members;
  return out;
}

http::Response refusal(const Status& status) {
  return error_response(api::ApiStyle::kOpenAi, status);
}

// The members of a query, a=b&c=d; what cannot be decoded stays as it is.
std::vector<std::pair<std::string, std::string>> members_of(std::string_view query) {
  std::vector<std::pair<std::string, std::string>> out;
  while (!query.empty()) {
    const std::size_t end = std::min(query.find('&'), query.size());
    const std::string_view member = query.substr(0, end);
    query.remove_prefix(std::min(end + 1, query.size()));
    if (member.empty()) continue;
    const std::size_t equals = std::min(member.find('='), member.size());
    const std::string_view name = member.substr(0, equals);
    const std::string_view value = member.substr(std::min(equals + 1, member.size()));
    out.emplace_back(http::percent_decoded(name).value_or(std::string(name)),
                     http::percent_decoded(value).value_or(std::string(value)));
  }
  return out;
}

Status not_found(std::string_view what, const std::string& id, std::string field) {
  return {Code::kNotFound,
          ErrorKind::kNotFound,
          "no " + std::string(what) + " `" + api::echo(id) + "`",
          std::move(field)};
}

}  // namespace

std::string Api::owner_of(const http::Request& request) const {
  if (options_.auth.keys == nullptr) return {};
  const HeldKeyPtr key = options_.auth.keys->find(request);
  return key == nullptr ? std::string() : key->spec.name;  // taken away behind the gate
}

Result<json::Array> Api::earlier_items(const api::ResponsesRequest& request,
                                       std::string_view owner) {
  if (!request.previous) return json::Array();
  const auto found = responses_.find(*request.previous, owner);
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
  const std::string owner = ticket.key == nullptr ? "" : ticket.key->spec.name;
  COXSWAIN_ASSIGN_OR_RETURN(json::Array earlier, earlier_items(request, owner));
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
  const api::OpenAiAnswerOptions named = openai_answer(kIdPrefix, chat.model);
  api::ResponsesAnswerOptions answer{.id = named.id,
                                     .created = named.created,
                                     .model = named.model,
                                     .echo = std::move(echo),
                                     .logprobs = chat.logprobs,
                                     .reply = reply ? *std::move(reply) : api::ReplyOptions(),
                                     .keep = {}};
  if (store) {
    std::move(request.items.begin(), request.items.end(), std::back_inserter(earlier));
    const std::size_t n = earlier.size();
    std::string items = json::write(json::Value(std::move(earlier)));
    items.back() = ',';  // the output follows; neither is empty
    answer.keep = [this, id = named.id, items = std::move(items), n, owner](
                      const std::string& document, const std::string& output) {
      responses_.put(id, {document, items + output.substr(1), n, owner});
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

http::Response Api::stored_response(const http::Request& request, const std::string& path) {
  const auto [id, part] = parse_path(path);
  if (part == kInputItems) return input_items(request, id);
  if (part == kCancel) return wrong_method(part);
  const auto found = responses_.find(id, owner_of(request));
  if (found == nullptr) return refusal(not_found("response", id, "response_id"));
  http::Response out;
  out.body = found->document;
  return out;
}

http::Response Api::input_items(const http::Request& request, const std::string& id) {
  const auto found = responses_.find(id, owner_of(request));
  if (found == nullptr) return refusal(not_found("response", id, "response_id"));
  const auto page = api::read_input_items_page(members_of(request.query));
  if (!page.ok()) return refusal(page.status());
  json::ParseLimits limits;
  limits.depth_max = options_.json_depth_max;
  auto items = json::parse(found->items, limits);
  if (!items.ok()) return refusal(items.status());
  json::Array& all = items->as_array();
  all.resize(found->n_input_items);
  auto document = api::input_items_document(all, id, *page);
  if (!document.ok()) return refusal(document.status());
  http::Response out;
  out.body = std::move(document).value();
  return out;
}

http::Response Api::delete_response(const http::Request& request, const std::string& path) {
  const auto [id, part] = parse_path(path);
  if (!part.empty()) return wrong_method(part);
  if (!responses_.erase(id, owner_of(request)))
    return refusal(not_found("response", id, "response_id"));
  return deletion(id, R"(,"object":"response","deleted":true})");
}

// Whoever waits for the answer gets the end that every cancelled request has.
http::Response Api::cancel_response(const http::Request& request, const std::string& path) {
  const auto [id, part] = parse_path(path);
  if (part != kCancel) return wrong_method(part);
  const std::string owner = owner_of(request);
  if (responses_.find(id, owner) != nullptr) {
    return refusal(invalid_argument(
        "response `" + api::echo(id) + "` has ended: only what runs can be cancelled",
        "response_id"));
  }
  if (!id.starts_with(kIdPrefix) || !running_.cancel(id, owner))
    return refusal(not_found("response", id, "response_id"));
  http::Response out;
  out.body = api::cancelled_response(id, options_.unix_time(), options_.model_id);
  return out;
}

http::Response Api::cancel_request(const http::Request& request, const std::string& id) {
  if (!running_.cancel(id, owner_of(request))) {
    return error_response(api::style_of("/v1/requests", options_.auth.v1),
                          not_found("running request", id, "request_id"));
  }
  return deletion(id, R"(,"object":"request","cancelled":true})");
}

}  // namespace coxswain::router
