// GET /health, /info, /version and /v1/models.

#include <chrono>

#include "json/json.h"
#include "router/api.h"
#include "router/error_response.h"

namespace coxswain::router {
namespace {

// Whoever looks after the health goes on for longer than this after it was asked for.
constexpr std::chrono::milliseconds kHealthAskedPause{1'000};

bool is_for_anthropic(const http::Request& request) {
  return !request.header("anthropic-version").empty();
}

}  // namespace

http::Response Api::health() const {
  const bool first = !health_asked(kHealthAskedPause);
  health_asked_at_.store(Clock::now().time_since_epoch().count());
  if (first && on_health_asked_) on_health_asked_();
  Status status;
  if (draining_.load()) {
    status = Status(Code::kUnavailable, "draining");
  } else {
    base::MutexLock lock(health_mu_);
    status = health_;
  }
  if (!status.ok()) {
    return error_response(api::ApiStyle::kNative,
                          Status(Code::kUnavailable, ErrorKind::kHealthcheck, status.message()));
  }
  http::Response response;
  response.content_type.clear();
  return response;
}

http::Response Api::front_page() const {
  http::Response response = health();
  if (response.status != 200) return response;
  response.content_type = "text/plain; charset=utf-8";
  response.body =
      "Coxswain serves a language model here.\n\n"
      "POST /v1/chat/completions, /v1/completions    the forms of OpenAI\n"
      "POST /v1/responses                            the newer form of OpenAI\n"
      "POST /generate, /generate_stream              the forms of text-generation-inference\n"
      "POST /v1/messages                             the form of Anthropic\n"
      "POST /api/chat, /api/generate                 the forms of Ollama\n"
      "POST /tokenize, /chat_tokenize, /detokenize   token ids and places, and back\n"
      "GET  /info, /v1/models                        what is served, with its limits\n"
      "GET  /health, /metrics                        for whoever watches it\n";
  return response;
}

http::Response Api::info() const {
  const auto count = [](std::size_t n) { return json::Value::unsigned_integer(n); };
  json::Object out;
  out.append_new("model_id", options_.model_id);
  out.append_new("model_sha", nullptr);
  out.append_new("model_pipeline_tag", nullptr);
  out.append_new("max_concurrent_requests", count(options_.concurrent_requests_max));
  out.append_new("max_best_of", count(options_.limits.best_of_max));
  out.append_new("max_stop_sequences", count(options_.limits.stop_sequences_max));
  out.append_new("max_input_tokens", count(options_.limits.input_tokens_max));
  out.append_new("max_total_tokens", count(options_.limits.total_tokens_max));
  out.append_new("validation_workers", count(options_.validation_workers));
  out.append_new("max_client_batch_size", count(options_.documents.client_batch_max));
  out.append_new("router", "text-generation-router");
  out.append_new("version", options_.version);
  out.append_new("sha", nullptr);
  out.append_new("docker_label", nullptr);
  http::Response response;
  response.body = json::write(json::Value(std::move(out)));
  return response;
}

http::Response Api::version() const {
  http::Response response;
  response.body = R"({"version":)";
  json::append_quoted(response.body, options_.version);
  response.body += '}';
  return response;
}

std::string Api::model_document(const http::Request& request) const {
  std::string out = R"({"id":)";
  json::append_quoted(out, options_.model_id);
  if (is_for_anthropic(request)) {
    out += R"(,"type":"model","display_name":)";
    json::append_quoted(out, options_.model_id);
    return out + R"(,"created_at":"1970-01-01T00:00:00Z"})";
  }
  out += R"(,"object":"model","created":0,"owned_by":)";
  json::append_quoted(out, options_.model_id);
  if (options_.auth.v1 == api::ApiStyle::kOpenAi)
    out += R"(,"max_model_len":)" + std::to_string(options_.limits.total_tokens_max);
  return out + "}";
}

http::Response Api::models(const http::Request& request) const {
  http::Response response;
  const std::string list = "[" + model_document(request) + "]";
  if (is_for_anthropic(request)) {
    std::string id;
    json::append_quoted(id, options_.model_id);
    response.body = R"({"data":)" + list + R"(,"has_more":false,"first_id":)" + id +
                    R"(,"last_id":)" + id + "}";
  } else {
    response.body = R"({"object":"list","data":)" + list + "}";
  }
  return response;
}

http::Response Api::model(const http::Request& request, const std::string& id) const {
  if (id != options_.model_id)
    return error_response(api::style_of(request.path, options_.auth.v1), unknown_model(id));
  http::Response response;
  response.body = model_document(request);
  return response;
}

}  // namespace coxswain::router
