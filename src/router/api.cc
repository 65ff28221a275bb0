#include "router/api.h"

#include <algorithm>
#include <array>
#include <exception>
#include <utility>

#include "api/wording.h"
#include "http/syntax.h"
#include "router/api_ticket.h"
#include "router/document_routes.h"
#include "router/error_response.h"
#include "router/metrics_page.h"

namespace coxswain::router {
namespace {

constexpr std::size_t kMembersMax = 10'000;   // per object of a request document
constexpr std::size_t kElementsMax = 10'000;  // per array, but for those with a limit of their own
constexpr std::array<std::string_view, 4> kArraysWithOwnLimit{
    "messages", "tools", "prompt", "tokens"};
constexpr std::size_t kIgnoredHeaderBytesMax = 512;

Status check_content_type(const http::Request& request) {
  if (is_json_content_type(request.header("content-type"))) return {};
  return {Code::kInvalidArgument,
          ErrorKind::kUnsupportedMediaType,
          "Expected request with `Content-Type: application/json`"};
}

std::string_view name_of(const HeldKeyPtr& key) {
  return key == nullptr ? std::string_view() : key->spec.name;
}

// As OpenAI writes durations: 20ms, 7s, 1m30s.
std::string reset_text(std::chrono::nanoseconds time) {
  const auto ms = std::chrono::ceil<std::chrono::milliseconds>(time).count();
  if (ms < 1000) return std::to_string(ms) + "ms";
  const auto seconds = (ms + 999) / 1000;
  const std::string minutes = seconds < 60 ? "" : std::to_string(seconds / 60) + "m";
  return minutes + std::to_string(seconds % 60) + "s";
}

}  // namespace

bool is_json_content_type(std::string_view content_type) {
  std::string_view rest = content_type;
  const std::string_view type = http::take_part(rest, ';');
  const std::size_t slash = type.find('/');
  if (slash == std::string_view::npos) return false;
  const std::string_view subtype = type.substr(slash + 1);
  const bool is_json = http::equal_ignoring_case(subtype, "json") ||
                       (subtype.size() > 5 &&
                        http::equal_ignoring_case(subtype.substr(subtype.size() - 5), "+json"));
  if (!http::equal_ignoring_case(type.substr(0, slash), "application") || !is_json) return false;
  while (!rest.empty()) {
    std::string_view parameter = http::take_part(rest, ';');
    const std::string_view name = http::take_part(parameter, '=');
    if (!http::equal_ignoring_case(name, "charset")) continue;
    std::string_view value = http::trimmed(parameter);
    if (value.size() >= 2 && value.front() == '"' && value.back() == '"') {
      value = value.substr(1, value.size() - 2);
    }
    if (!http::equal_ignoring_case(value, "utf-8") && !http::equal_ignoring_case(value, "utf8"))
      return false;
  }
  return true;
}

std::string ignored_fields_header(const api::IgnoredFields& names) {
  std::string out;
  for (const std::string& name : names) {
    std::string part = out.empty() ? "" : ",";
    for (char c : name.substr(0, api::kEchoBytesMax)) {
      const bool plain = (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                         (c >= '0' && c <= '9') || c == '.' || c == '_' || c == '-';
      part += plain ? c : '_';
    }
    if (out.size() + part.size() > kIgnoredHeaderBytesMax) break;
    out += part;
  }
  return out;
}

// Jobs of generations are bounded by their permits, those of the tokenise routes by theirs, so the
// queue never refuses.
Api::Api(ApiOptions options, ApiParts parts)
    : options_(std::move(options)),
      door_(parts.door),
      tokenizer_(std::move(parts.tokenizer)),
      chat_(std::move(parts.chat)),
      metrics_(parts.metrics),
      log_(parts.log),
      spans_(parts.spans),
      on_health_asked_(std::move(parts.on_health_asked)),
      validator_(options_.limits, tokenizer_, options_.random),
      generation_permits_(options_.concurrent_requests_max),
      pace_(generation_permits_, metrics_),
      tokenize_permits_(options_.tokenize_jobs_max),
      responses_(options_.stored_responses_bytes_max),
      delivery_(options_.keep_alive_interval),
      workers_(options_.validation_workers,
               options_.concurrent_requests_max + options_.tokenize_jobs_max) {}

Api::~Api() {
  stop();
}

void Api::stop() {
  workers_.stop();
  delivery_.stop();
}

bool Api::health_asked(std::chrono::milliseconds window) const {
  const Clock::rep asked = health_asked_at_.load();
  return asked != 0 && Clock::now() - TimePoint(Clock::duration(asked)) <= window;
}

std::vector<OpenRequest> Api::open_requests() const {
  std::vector<OpenRequest> out;
  for (const auto& call : running_.all()) out.push_back(call->describe());
  std::ranges::sort(out, {}, &OpenRequest::received);
  return out;
}

Status Api::overloaded() {
  return {Code::kResourceExhausted, ErrorKind::kOverloaded, "Model is overloaded"};
}

void Api::set_health(Status status) {
  base::MutexLock lock(health_mu_);
  health_ = std::move(status);
}

void Api::add_generation_route(http::Server& server, const char* path, Work work) {
  server.add_route("POST", path, [this, work](auto request, auto responder) {
    accept(request, responder, generation_permits_, true, work);
  });
}

void Api::add_tokenize_route(http::Server& server, const char* path, Work work) {
  server.add_route("POST", path, [this, work](auto request, auto responder) {
    accept(request, responder, tokenize_permits_, false, work);
  });
}

void Api::add_item_route(http::Server& server,
                         const char* method,
                         std::string_view folder,
                         http::Response (Api::*answer)(const http::Request& request,
                                                       const std::string& id)) {
  server.add_route(
      method, std::string(folder) + "*", [this, folder, answer](auto request, auto responder) {
        responder->send((this->*answer)(*request, request->path.substr(folder.size())));
      });
}

void Api::add_routes(http::Server& server) {
  add_metrics_route(server);
  add_document_routes(server,
                      {.version = options_.version,
                       .v1 = options_.auth.v1,
                       .has_keys = options_.auth.keys != nullptr,
                       .protect_all = options_.auth.protect_all});
  add_generation_route(server, "/", &Api::generate_compat);
  add_generation_route(server, "/generate", &Api::generate);
  add_generation_route(server, "/generate_stream", &Api::generate_stream);
  for (const char* path : {"/v1/chat/completions", "/chat/completions"})
    add_generation_route(server, path, &Api::chat);
  for (const char* path : {"/v1/completions", "/completions"})
    add_generation_route(server, path, &Api::complete);
  add_generation_route(server, "/v1/messages", &Api::messages);
  add_tokenize_route(server, "/v1/messages/count_tokens", &Api::count_message_tokens);
  for (const char* path : {"/v1/responses", "/responses"})
    add_generation_route(server, path, &Api::respond);
  add_item_route(server, "GET", "/v1/responses/", &Api::stored_response);
  add_item_route(server, "DELETE", "/v1/responses/", &Api::delete_response);
  add_item_route(server, "POST", "/v1/responses/", &Api::cancel_response);
  add_item_route(server, "DELETE", "/v1/requests/", &Api::cancel_request);
  add_kserve_routes(server);
  add_generation_route(server, "/api/chat", &Api::ollama_chat);
  add_generation_route(server, "/api/generate", &Api::ollama_generate);
  add_tokenize_route(server, "/api/show", &Api::ollama_show);
  server.add_route(
      "GET", "/api/tags", [this](auto, auto responder) { responder->send(ollama_tags()); });
  server.add_route(
      "GET", "/api/ps", [this](auto, auto responder) { responder->send(ollama_running()); });
  add_tokenize_route(server, "/tokenize", &Api::tokenize);
  add_tokenize_route(server, "/chat_tokenize", &Api::chat_tokenize);
  add_tokenize_route(server, "/detokenize", &Api::detokenize);
  server.add_route("GET", "/", [this](auto, auto responder) { responder->send(front_page()); });
  for (const char* path : {"/health", "/health/ready", "/ping"}) {
    server.add_route("GET", path, [this](auto, auto responder) { responder->send(health()); });
  }
  server.add_route("GET", "/info", [this](auto, auto responder) { responder->send(info()); });
  server.add_route(
      "GET", "/health/live", [](auto, auto responder) { responder->send({.content_type = ""}); });
  for (const char* path : {"/version", "/api/version"})
    server.add_route("GET", path, [this](auto, auto responder) { responder->send(version()); });
  for (const char* path : {"/v1/models", "/models"}) {
    const auto folder_bytes = std::string_view(path).size() + 1;
    server.add_route(
        "GET", path, [this](auto request, auto responder) { responder->send(models(*request)); });
    server.add_route(
        "GET", std::string(path) + "/*", [this, folder_bytes](auto request, auto responder) {
          responder->send(model(*request, request->path.substr(folder_bytes)));
        });
  }
  add_platform_routes(server);
}

void Api::add_metrics_route(http::Server& server) {
  if (auto gate = make_gate(options_.auth)) server.set_gate(std::move(gate));
  server.add_route("GET", "/metrics", [this](auto request, auto responder) {
    std::string text;
    if (metrics_ != nullptr) text = metrics_->render(metrics_format(*request));
    responder->send(metrics_page(*request, std::move(text)));
  });
}

void Api::accept(const std::shared_ptr<const http::Request>& request,
                 const std::shared_ptr<http::Responder>& responder,
                 PermitPool& pool,
                 bool counted,
                 Work work) {
  auto ticket = std::make_shared<Ticket>();
  ticket->request = request;
  ticket->responder = responder;
  ticket->style = api::style_of(request->path, options_.auth.v1);
  if (counted) {
    ticket->tally.emplace(metrics_);
    ticket->trace = RequestTrace(spans_, *request);
  }
  Status refusal;
  if (ticket->style != api::ApiStyle::kOllama) refusal = check_content_type(*request);
  if (refusal.ok() && draining_.load()) {
    refusal = {Code::kUnavailable, ErrorKind::kUnavailable, "the server is shutting down"};
  }
  if (refusal.ok()) {
    if (auto permits = pool.try_acquire(1)) {
      ticket->permits = std::move(*permits);
    } else {
      refusal = overloaded();
    }
  }
  if (refusal.ok()) refusal = check_key(*ticket);
  if (refusal.ok() && !workers_.post([this, ticket, work] { run(ticket, work); })) {
    refusal = overloaded();
  }
  if (!refusal.ok()) refuse(*ticket, refusal);
}

Status Api::check_key(Ticket& ticket) const {
  if (options_.auth.keys == nullptr) return {};
  ticket.key = options_.auth.keys->find(*ticket.request);
  if (ticket.key == nullptr) return unauthorized();  // taken away behind the gate
  const std::shared_ptr<KeyMeter>& meter = ticket.key->meter;
  std::chrono::nanoseconds retry_in{};
  Status refusal = meter->enter(ticket.key->spec, Clock::now(), retry_in);
  if (!refusal.ok()) {
    ticket.retry_after = std::chrono::ceil<std::chrono::seconds>(retry_in);
    return refusal;
  }
  ticket.permits.accompany(
      std::shared_ptr<const void>(meter.get(), [meter](const void*) { meter->leave(); }));
  return {};
}

void Api::refuse(Ticket& ticket, const Status& status) {
  ticket.permits = Permits();
  if (ticket.tally) ticket.tally->fail(api::failure_label(status));
  const http::Request& request = *ticket.request;
  const RequestRecord facts{
      .request_id = request.request_id, .path = request.path, .key = name_of(ticket.key)};
  log_refusal(log_, facts, status);
  ticket.trace.fail(facts, status, api::http_status(ticket.style, status));
  // Other routes wait for workers alone.
  std::chrono::seconds retry_after = ticket.retry_after.value_or(kRetryAfterMin);
  if (ticket.tally && !ticket.retry_after) retry_after = pace_.refuse(status, Clock::now());
  http::Response response = error_response(ticket.style, status, request.request_id, retry_after);
  if (ticket.tally) {
    for (http::Header& header : rate_limit_headers(ticket)) {
      response.headers.push_back(std::move(header));
    }
  }
  ticket.responder->send(std::move(response));
}

std::vector<http::Header> Api::rate_limit_headers(const Ticket& ticket) const {
  if (ticket.style != api::ApiStyle::kOpenAi) return {};
  KeyRoom room{generation_permits_.size(), generation_permits_.free(), std::nullopt};
  if (ticket.key) room = ticket.key->meter->room(ticket.key->spec, Clock::now()).value_or(room);
  std::vector<http::Header> out{{"x-ratelimit-limit-requests", std::to_string(room.limit)},
                                {"x-ratelimit-remaining-requests", std::to_string(room.remaining)}};
  if (room.full_in) out.emplace_back("x-ratelimit-reset-requests", reset_text(*room.full_in));
  return out;
}

void Api::run(const TicketPtr& ticket, Work work) {
  Status status(Code::kCancelled, "the client is gone");
  if (!ticket->responder->closed()) {
    try {
      status = (this->*work)(*ticket);
    } catch (const std::bad_alloc&) {
      status = overloaded();
    } catch (const std::exception& e) {
      log_.error("a request failed",
                 {{"request_id", ticket->request->request_id}, {"error", e.what()}});
      status = internal_error("exception");
    }
  }
  if (!status.ok()) refuse(*ticket, status);
}

Result<json::Value> Api::read_body(const Ticket& ticket) const {
  json::ParseLimits limits;
  limits.depth_max = options_.json_depth_max;
  limits.members_max = kMembersMax;
  limits.elements_max = kElementsMax;
  limits.arrays_without_limit = kArraysWithOwnLimit;
  return json::parse(ticket.request->body, limits);
}

Status Api::check_model(const std::optional<std::string>& model) const {
  if (!options_.strict_model || !model || *model == options_.model_id || *model == "tgi") {
    return {};
  }
  return unknown_model(*model);
}

Status Api::unknown_model(std::string_view name) {
  return {Code::kNotFound, ErrorKind::kNotFound, "no model `" + api::echo(name) + "`", "model"};
}

std::vector<http::Header> Api::common_headers(std::size_t n_characters,
                                              const api::IgnoredFields& ignored) const {
  std::vector<http::Header> out;
  out.emplace_back("x-compute-type", options_.compute_type);
  out.emplace_back("x-compute-characters", std::to_string(n_characters));
  if (!ignored.empty()) out.emplace_back("x-ignored-fields", ignored_fields_header(ignored));
  return out;
}

void Api::add_sequences(CallSetup& setup,
                        const ValidationInput& input,
                        const ValidRequest& valid,
                        const Ticket& ticket) {
  const api::Wording wording(input.style, input.prompt_field, *input.parameters);
  setup.prompt_field = wording.name("inputs");
  setup.max_new_tokens_field = wording.name("max_new_tokens");
  const TimePoint received = ticket.request->received;
  auto request = valid.engine_request(RequestId{next_id_.fetch_add(1)});
  if (options_.queue_timeout.count() > 0)
    request.queue_deadline = received + options_.queue_timeout;
  const api::Parameters& asked = *input.parameters;
  if (options_.request_timeout.count() > 0) request.deadline = received + options_.request_timeout;
  if (asked.timeout_ms) {
    const TimePoint own = received + std::chrono::milliseconds(*asked.timeout_ms);
    request.deadline = std::min(request.deadline.value_or(own), own);
  }
  request.priority = asked.priority;
  request.cache_salt = ticket.key ? salt_of(ticket.key->spec, asked.cache_salt) : asked.cache_salt;
  if (!asked.cache_prompt) {
    // Nobody else has this salt, so that no prefix is found; nothing is published under it.
    request.cache_prompt = false;
    request.cache_salt = "alone:" + std::to_string(options_.random());
  }
  setup.requests.push_back(std::move(request));
  for (std::size_t i = 0; i < valid.n_sequences(); ++i) {
    api::SequenceAnswer answer;
    answer.n_prompt = valid.input_length();
    if (valid.sampling().do_sample) answer.seed = valid.seed(i);
    if (asked.extras.token_ids) answer.prompt_ids = valid.prompt();
    answer.stops = valid.stopping().stop_sequences;
    answer.id_stops = valid.stopping().stop_token_sequences;
    setup.sequences.push_back(std::move(answer));
    if (metrics_ != nullptr) {
      metrics_->request_input_length.observe(static_cast<double>(valid.input_length()));
      metrics_->request_max_new_tokens.observe(
          static_cast<double>(valid.stopping().max_new_tokens));
    }
  }
}

// An engine without work learns that its runner is gone from the next request; the supervisor knows earlier.
Status Api::check_served() const {
  base::MutexLock lock(health_mu_);
  if (health_.code() != Code::kUnavailable) return {};
  return {Code::kUnavailable, ErrorKind::kUnavailable, "no shard serves right now"};
}

Status Api::start_call(CallSetup setup, Ticket& ticket) {
  COXSWAIN_RETURN_IF_ERROR(check_served());
  const std::size_t n = setup.sequences.size();
  if (n > generation_permits_.size()) {
    // Waiting would not help.
    const std::string_view many = n > setup.per_prompt ? "prompt" : "n";
    return invalid_argument("the request asks for " + std::to_string(n) +
                                " sequences, and --max-concurrent-requests is " +
                                std::to_string(generation_permits_.size()),
                            std::string(ticket.style == api::ApiStyle::kNative ? "best_of" : many));
  }
  if (n > 1 && !ticket.permits.grow(n - 1)) return overloaded();
  setup.responder = ticket.responder;
  setup.style = ticket.style;
  for (http::Header& header : rate_limit_headers(ticket)) {
    setup.headers.push_back(std::move(header));
  }
  setup.received = ticket.request->received;
  setup.unsent_bytes_max = options_.unsent_bytes_max;
  setup.permits = std::move(ticket.permits);
  setup.pace = &pace_;
  setup.trace = ticket.trace;
  setup.request_id = ticket.request->request_id;
  setup.path = ticket.request->path;
  setup.key_name = name_of(ticket.key);
  const std::array<std::string, 2> ids{setup.request_id, setup.answer_id};
  const auto call = std::make_shared<Call>(
      std::move(setup), std::move(*ticket.tally), door_, delivery_, metrics_, log_);
  for (const std::string& id : ids) running_.add(id, call);
  call->start();
  return {};
}

}  // namespace coxswain::router
