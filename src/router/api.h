#pragma once
// Api: the routes of the router and what stands behind them.
//
// A handler runs on an I/O thread: it looks at headers, takes a permit and hands the rest to the
// worker pool. A worker reads the document, renders the template, validates and starts a Call; the
// delivery thread answers. Refusals along the way have their real status, on streaming routes too,
// because a stream starts with its first token.
//
// Routes, documents, headers and errors: docs/api.md.
//
// Thread rule: create, add_routes() and stop() on one thread; begin_draining(), fail_open_calls(), set_health(),
// open_requests() and cancel() on any. Order at the end: Server::stop(), stop(), then the engine, then the Api may go.

#include <atomic>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "api/documents.h"
#include "api/vertex.h"
#include "base/mutex.h"
#include "batch/engine.h"
#include "http/server.h"
#include "router/auth.h"
#include "router/call.h"
#include "router/chat_form.h"
#include "router/delivery.h"
#include "router/pace.h"
#include "router/permits.h"
#include "router/response_store.h"
#include "router/running_calls.h"
#include "router/validate.h"
#include "router/worker_pool.h"
#include "telemetry/log.h"
#include "telemetry/metrics.h"
#include "telemetry/trace.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::router {

struct ApiOptions {
  std::string model_id;
  std::string version;
  // The header x-compute-type, as clients of the native routes know it.
  std::string compute_type = "gpu+optimized";
  std::size_t concurrent_requests_max = 128;
  std::size_t validation_workers = 2;
  std::size_t tokenize_jobs_max = 66;  // of routes that turn texts and tokens, running and waiting
  std::size_t json_depth_max = 128;
  std::size_t stored_responses_bytes_max = 64 << 20;  // of /v1/responses; 0 = none are kept
  std::size_t unsent_bytes_max = 256 << 10;           // a stream above it is not planned further
  std::chrono::milliseconds queue_timeout{0};         // 0 = off
  std::chrono::milliseconds request_timeout{0};       // 0 = off
  std::chrono::milliseconds keep_alive_interval{15'000};
  std::string predict_route = {};  // another name of POST /vertex, as Vertex AI chooses it
  bool strict_model = false;
  bool parse_special_in_content = false;  // text of users may turn into special tokens
  bool return_full_text = true;           // default of POST /
  AuthOptions auth;
  ValidationLimits limits;
  api::DocumentLimits documents;
  // Where wall time, ids and seeds come from.
  std::function<std::int64_t()> unix_time;
  std::function<std::uint64_t()> random;
};

struct ApiParts {
  batch::RequestDoor& door;
  std::shared_ptr<const tokenizer::Tokenizer> tokenizer;
  ChatModel chat;
  telemetry::Metrics* metrics = nullptr;
  telemetry::Logger& log;
  telemetry::SpanSink* spans = nullptr;  // none: requests are not traced
  // Somebody asks for the health after a while in which nobody did: from here on set_health() is wanted.
  std::function<void()> on_health_asked = {};
};

class Api {
 public:
  Api(ApiOptions options, ApiParts parts);
  ~Api();

  // Routes and gate.
  void add_routes(http::Server& server);
  // The gate and GET /metrics alone, for a server on a port of its own.
  void add_metrics_route(http::Server& server);

  // New generations get 503 and /health says so.
  void begin_draining() { draining_.store(true); }
  // Ends every running request with `status`.
  void fail_open_calls(Status status) { delivery_.fail_all(std::move(status)); }
  // Events that wait to be made part of an answer.
  std::size_t n_undelivered() const { return delivery_.n_queued(); }
  // Requests that wait or run, the one that came first in front; some may have ended just now.
  std::vector<OpenRequest> open_requests() const;
  // As DELETE /v1/requests/ID does, whosever it is. False: nothing runs under it.
  bool cancel(const std::string& id) { return running_.cancel(id, std::nullopt); }
  // What /health answers while the router is not draining.
  void set_health(Status status);
  // Whether /health was asked for within `window`.
  bool health_asked(std::chrono::milliseconds window) const;

  // Ends the workers and the delivery once everything queued is done.
  void stop();

 private:
  // One request on its way from the I/O thread through the worker.
  struct Ticket;
  using TicketPtr = std::shared_ptr<Ticket>;
  using Work = Status (Api::*)(Ticket&);
  struct ChatPrompt {
    std::string text;
    std::vector<TextSpan> untrusted;
  };

  void add_generation_route(http::Server& server, const char* path, Work work);
  void add_kserve_routes(http::Server& server);
  void add_platform_routes(http::Server& server);
  void add_tokenize_route(http::Server& server, const char* path, Work work);
  // Of what is below `folder`, a literal, by its id.
  void add_item_route(http::Server& server,
                      const char* method,
                      std::string_view folder,
                      http::Response (Api::*answer)(const http::Request& request,
                                                    const std::string& id));
  void accept(const std::shared_ptr<const http::Request>& request,
              const std::shared_ptr<http::Responder>& responder,
              PermitPool& pool,
              bool counted,
              Work work);
  void run(const TicketPtr& ticket, Work work);
  void refuse(Ticket& ticket, const Status& status);

  // Each either starts a call, answers at once, or returns why not.
  Status generate(Ticket& ticket);         // POST /generate
  Status generate_stream(Ticket& ticket);  // POST /generate_stream
  Status generate_compat(Ticket& ticket);  // POST /
  Status chat(Ticket& ticket);
  Status complete(Ticket& ticket);
  Status messages(Ticket& ticket);                // POST /v1/messages
  Status count_message_tokens(Ticket& ticket);    // POST /v1/messages/count_tokens
  Status respond(Ticket& ticket);                 // POST /v1/responses
  Status ollama_chat(Ticket& ticket);             // POST /api/chat
  Status ollama_generate(Ticket& ticket);         // POST /api/generate
  Status ollama_show(Ticket& ticket);             // POST /api/show
  Status kserve_infer(Ticket& ticket);            // POST /v2/models/NAME/infer and its like
  Status kserve_generate(Ticket& ticket);         // .../generate
  Status kserve_generate_stream(Ticket& ticket);  // .../generate_stream
  Status invoke(Ticket& ticket);                  // POST /invocations
  Status predict(Ticket& ticket);                 // POST /vertex
  Status tokenize(Ticket& ticket);
  Status chat_tokenize(Ticket& ticket);
  Status detokenize(Ticket& ticket);

  // The same for a body that was read.
  Status generate_compat(Ticket& ticket, const json::Value& body);
  Status chat(Ticket& ticket, const json::Value& body);
  Status complete(Ticket& ticket, const json::Value& body);
  Status add_instance(Ticket& ticket, api::PredictInstance& instance, CallSetup& setup);

  Result<json::Value> read_body(const Ticket& ticket) const;
  static Status overloaded();
  // Room for the JSON of so many tokens of `text`.
  static Status reserve_tokens(Ticket& ticket, std::size_t n_tokens, std::string_view text);
  // Sends an answer that keeps the ticket's permits until it has left.
  static void send_tokens(Ticket& ticket, std::string body);
  Status start_native(Ticket& ticket,
                      const api::GenerateRequest& request,
                      bool stream,
                      bool as_array);
  // The items of the response that the request goes on from, one of the same key.
  Result<json::Array> earlier_items(const api::ResponsesRequest& request, std::string_view owner);
  Status start_ollama(Ticket& ticket, api::OllamaRequest request, bool is_chat);
  Status start_kserve_generation(Ticket& ticket, bool stream);
  Result<ChatPrompt> render(const api::ChatRequest& request) const;
  // How the answer is read; what its text has to look like goes into the request.
  Result<std::optional<api::ReplyOptions>> shape_answer(api::ChatRequest& request,
                                                        const ChatPrompt& prompt,
                                                        api::ApiStyle style) const;
  Status check_model(const std::optional<std::string>& model) const;
  Status check_ollama_model(std::string_view name) const;  // with a tag or without
  Status check_kserve_model(std::string_view path) const;
  static Status unknown_model(std::string_view name);
  void add_sequences(CallSetup& setup,
                     const ValidationInput& input,
                     const ValidRequest& valid,
                     const Ticket& ticket);
  Status check_served() const;
  Status start_call(CallSetup setup, Ticket& ticket);
  // Whose request it is, and whether the key's limits let it in.
  Status check_key(Ticket& ticket) const;
  // In OpenAI's dialect, of generation routes: how many requests may be in the house or come with this key, and how
  // many more may come now.
  std::vector<http::Header> rate_limit_headers(const Ticket& ticket) const;
  std::vector<http::Header> common_headers(std::size_t n_characters,
                                           const api::IgnoredFields& ignored) const;
  api::OpenAiAnswerOptions openai_answer(std::string_view prefix,
                                         const std::optional<std::string>& model) const;

  http::Response health() const;
  http::Response front_page() const;
  http::Response info() const;
  http::Response version() const;
  http::Response models(const http::Request& request) const;
  http::Response model(const http::Request& request, const std::string& id) const;
  // Whose the request is, by the name of its key: what it may read and end.
  std::string owner_of(const http::Request& request) const;
  http::Response stored_response(const http::Request& request, const std::string& path);
  http::Response input_items(const http::Request& request, const std::string& id);
  http::Response delete_response(const http::Request& request, const std::string& path);
  http::Response cancel_response(const http::Request& request, const std::string& path);
  http::Response cancel_request(const http::Request& request, const std::string& id);
  http::Response kserve_ready() const;
  http::Response kserve_model(const http::Request& request) const;
  http::Response ollama_tags() const;
  http::Response ollama_running() const;  // GET /api/ps
  json::Object ollama_model() const;
  std::string model_document(const http::Request& request) const;

  const ApiOptions options_;
  batch::RequestDoor& door_;
  const std::shared_ptr<const tokenizer::Tokenizer> tokenizer_;
  const ChatModel chat_;
  telemetry::Metrics* const metrics_;
  telemetry::Logger& log_;
  telemetry::SpanSink* spans_;
  const std::function<void()> on_health_asked_;
  const Validator validator_;
  PermitPool generation_permits_;
  Pace pace_;
  PermitPool tokenize_permits_;
  std::atomic<bool> draining_{false};
  std::atomic<std::uint64_t> next_id_{1};
  mutable base::Mutex health_mu_;
  Status health_ GUARDED_BY(health_mu_);
  mutable std::atomic<Clock::rep> health_asked_at_{0};
  ResponseStore responses_;
  RunningCalls running_;
  Delivery delivery_;
  WorkerPool workers_;
};

// Value of the header x-ignored-fields: names separated by commas, anything but [A-Za-z0-9._-] as
// '_', at most 512 bytes.
std::string ignored_fields_header(const api::IgnoredFields& names);
// Whether bodies of this type are read: application/json and application/*+json, charset utf-8 only.
bool is_json_content_type(std::string_view content_type);

}  // namespace coxswain::router
