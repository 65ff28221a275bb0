// The C API (include/coxswain/coxswain.h) over LocalModel and Executor.

#include <algorithm>
#include <chrono>
#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <exception>
#include <memory>
#include <new>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/coxswain.h>
#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <coxswain/request.h>
#include <coxswain/status.h>
#include <coxswain/types.h>

#include "library/c_struct.h"

struct coxswain_model {
  coxswain::LocalModel model;
};
struct coxswain_prompt {
  coxswain::Prompt prompt;
};
struct coxswain_engine {
  coxswain::Executor executor;
};

namespace coxswain::library {
namespace {

static_assert(COXSWAIN_OK == static_cast<int>(Code::kOk));
static_assert(COXSWAIN_CANCELLED == static_cast<int>(Code::kCancelled));
static_assert(COXSWAIN_INVALID_ARGUMENT == static_cast<int>(Code::kInvalidArgument));
static_assert(COXSWAIN_NOT_FOUND == static_cast<int>(Code::kNotFound));
static_assert(COXSWAIN_FAILED_PRECONDITION == static_cast<int>(Code::kFailedPrecondition));
static_assert(COXSWAIN_RESOURCE_EXHAUSTED == static_cast<int>(Code::kResourceExhausted));
static_assert(COXSWAIN_DEADLINE_EXCEEDED == static_cast<int>(Code::kDeadlineExceeded));
static_assert(COXSWAIN_UNAVAILABLE == static_cast<int>(Code::kUnavailable));
static_assert(COXSWAIN_UNIMPLEMENTED == static_cast<int>(Code::kUnimplemented));
static_assert(COXSWAIN_DATA_LOSS == static_cast<int>(Code::kDataLoss));
static_assert(COXSWAIN_INTERNAL == static_cast<int>(Code::kInternal));

// Sizes of the structs when they first appeared; they never change.
constexpr std::size_t kModelOptionsBytes = 64;
constexpr std::size_t kEngineOptionsBytes = 48;
constexpr std::size_t kRequestBytes = 112;
constexpr std::size_t kResponseBytes = 96;
// A field that is appended later must not lie where an older caller has padding.
static_assert(offsetof(coxswain_model_options, batch_size_max) + 4 == kModelOptionsBytes);
static_assert(offsetof(coxswain_engine_options, prefix_caching) + 4 == kEngineOptionsBytes);
static_assert(offsetof(coxswain_request, cache_salt) + sizeof(char*) == kRequestBytes);
static_assert(offsetof(coxswain_response, owned) + sizeof(void*) == kResponseBytes);

coxswain_code report(const Status& status, char** error) noexcept {
  if (!status.ok() && error != nullptr) *error = ::strdup(status.message().c_str());
  return static_cast<coxswain_code>(status.code());
}

// Runs `body`, which returns a Status; what it throws becomes one.
template <typename Body>
coxswain_code guarded(char** error, Body body) noexcept {
  try {
    return report(body(), error);
  } catch (const std::bad_alloc&) {
    if (error != nullptr) *error = ::strdup("out of memory");
    return COXSWAIN_RESOURCE_EXHAUSTED;
  } catch (const std::exception& thrown) {
    if (error != nullptr) *error = ::strdup(thrown.what());
    return COXSWAIN_INTERNAL;
  }
}

Status must_be_set(const char* name) {
  return invalid_argument("`" + std::string(name) + "` must not be NULL", name);
}

std::string text_or_empty(const char* text) {
  return text == nullptr ? std::string() : std::string(text);
}

// A C boolean. Errors: kInvalidArgument.
Status read_bool(std::int32_t given, const char* name, bool& out) {
  if (given != 0 && given != 1) {
    return invalid_argument(
        "`" + std::string(name) + "` must be 0 or 1. Given: " + std::to_string(given), name);
  }
  out = given == 1;
  return {};
}

// What lies too far ahead for the clock is never.
std::chrono::milliseconds milliseconds_of(std::uint64_t given) {
  constexpr auto kMax = std::chrono::milliseconds::max();
  return given < static_cast<std::uint64_t>(kMax.count()) ? std::chrono::milliseconds(given) : kMax;
}

std::optional<TimePoint> deadline_in(std::uint64_t timeout_ms) {
  if (timeout_ms == 0) return std::nullopt;
  const TimePoint now = Clock::now();
  const auto room = std::chrono::floor<std::chrono::milliseconds>(TimePoint::max() - now);
  return now + std::min(milliseconds_of(timeout_ms), room);
}

coxswain_model_options default_model_options() {
  const LocalModelOptions from;
  coxswain_model_options out{};
  out.struct_size = sizeof out;
  out.kv_bytes = from.kv_bytes;
  out.memory_budget_bytes = from.memory_budget_bytes;
  out.n_threads = static_cast<std::uint32_t>(from.n_threads);
  out.total_tokens_max = from.total_tokens_max;
  out.prefill_tokens_max = from.prefill_tokens_max;
  out.batch_size_max = from.batch_size_max;
  return out;
}

LocalModelOptions options_of(const coxswain_model_options& given) {
  LocalModelOptions out;
  out.dtype = text_or_empty(given.dtype);
  out.quantize = text_or_empty(given.quantize);
  out.kv_dtype = text_or_empty(given.kv_dtype);
  out.kv_bytes = given.kv_bytes;
  out.memory_budget_bytes = given.memory_budget_bytes;
  out.n_threads = given.n_threads;
  out.total_tokens_max = given.total_tokens_max;
  out.prefill_tokens_max = given.prefill_tokens_max;
  out.batch_size_max = given.batch_size_max;
  return out;
}

coxswain_engine_options default_engine_options() {
  const ExecutorOptions from;
  coxswain_engine_options out{};
  out.struct_size = sizeof out;
  out.batch_size_max = from.batch_size_max;
  out.prefill_tokens_max = from.prefill_tokens_max;
  out.batch_total_tokens_max = from.batch_total_tokens_max;
  out.queue_requests_max = from.queue_requests_max;
  out.requests_max = from.requests_max;
  out.unread_tokens_max = from.unread_tokens_max;
  out.stall_timeout_ms = static_cast<std::uint64_t>(from.stall_timeout.count());
  out.stop_sequences_max = from.stop_sequences_max;
  out.prefix_caching = from.prefix_caching ? 1 : 0;
  return out;
}

Result<ExecutorOptions> options_of(const coxswain_engine_options& given) {
  ExecutorOptions out;
  out.batch_size_max = given.batch_size_max;
  out.prefill_tokens_max = given.prefill_tokens_max;
  out.batch_total_tokens_max = given.batch_total_tokens_max;
  out.queue_requests_max = given.queue_requests_max;
  out.requests_max = given.requests_max;
  out.unread_tokens_max = given.unread_tokens_max;
  out.stall_timeout = milliseconds_of(given.stall_timeout_ms);
  out.stop_sequences_max = given.stop_sequences_max;
  COXSWAIN_RETURN_IF_ERROR(read_bool(given.prefix_caching, "prefix_caching", out.prefix_caching));
  return out;
}

coxswain_request default_request() {
  const Request from;
  coxswain_request out{};
  out.struct_size = sizeof out;
  out.max_new_tokens = from.stopping.max_new_tokens;
  out.do_sample = from.sampling.do_sample ? 1 : 0;
  out.temperature = from.sampling.temperature;
  out.top_k = from.sampling.top_k;
  out.top_p = from.sampling.top_p;
  out.typical_p = from.sampling.typical_p;
  out.min_p = from.sampling.min_p;
  out.repetition_penalty = from.sampling.repetition_penalty;
  out.frequency_penalty = from.sampling.frequency_penalty;
  out.presence_penalty = from.sampling.presence_penalty;
  out.seed = from.sampling.seed;
  out.ignore_eos = from.stopping.ignore_eos ? 1 : 0;
  out.priority = from.priority;
  return out;
}

Result<Request> request_of(const coxswain_request& given) {
  if (given.prompt == nullptr) return must_be_set("prompt");
  if (given.n_stop > 0 && given.stop == nullptr) return must_be_set("stop");
  Request out;
  out.prompt = given.prompt->prompt;
  SamplingParams& sampling = out.sampling;
  COXSWAIN_RETURN_IF_ERROR(read_bool(given.do_sample, "do_sample", sampling.do_sample));
  sampling.temperature = given.temperature;
  sampling.top_k = given.top_k;
  sampling.top_p = given.top_p;
  sampling.typical_p = given.typical_p;
  sampling.min_p = given.min_p;
  sampling.repetition_penalty = given.repetition_penalty;
  sampling.frequency_penalty = given.frequency_penalty;
  sampling.presence_penalty = given.presence_penalty;
  sampling.seed = given.seed;
  out.stopping.max_new_tokens = given.max_new_tokens;
  for (std::size_t i = 0; i < given.n_stop; ++i) {
    if (given.stop[i] == nullptr) return must_be_set("stop");
    out.stopping.stop_sequences.emplace_back(given.stop[i]);
  }
  COXSWAIN_RETURN_IF_ERROR(read_bool(given.ignore_eos, "ignore_eos", out.stopping.ignore_eos));
  out.priority = given.priority;
  out.queue_deadline = deadline_in(given.queue_timeout_ms);
  out.deadline = deadline_in(given.timeout_ms);
  out.cache_salt = text_or_empty(given.cache_salt);
  return out;
}

// What a coxswain_response points to.
struct OwnedResponse {
  Response response;
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
};

std::int32_t finish_of(const std::optional<FinishReason>& finish) {
  if (!finish) return COXSWAIN_FINISH_NONE;
  switch (*finish) {
    case FinishReason::kLength:
      return COXSWAIN_FINISH_LENGTH;
    case FinishReason::kEosToken:
      return COXSWAIN_FINISH_END_TOKEN;
    case FinishReason::kStopSequence:
      return COXSWAIN_FINISH_STOP;
  }
  return COXSWAIN_FINISH_NONE;
}

coxswain_response empty_response() {
  coxswain_response out{};
  out.struct_size = sizeof out;
  out.text = "";
  out.error = "";
  return out;
}

coxswain_response response_of(Response given) {
  auto owned = std::make_unique<OwnedResponse>();
  owned->response = std::move(given);
  const Response& from = owned->response;
  for (const OutputToken& token : from.tokens) {
    owned->tokens.push_back(token.id);
    owned->logprobs.push_back(token.logprob);
  }
  coxswain_response out = empty_response();
  out.id = static_cast<std::uint64_t>(from.id);
  out.text = from.text.c_str();
  out.text_bytes = from.text.size();
  out.tokens = owned->tokens.data();
  out.logprobs = owned->logprobs.data();
  out.n_tokens = owned->tokens.size();
  out.is_final = from.final ? 1 : 0;
  out.code = static_cast<coxswain_code>(from.status.code());
  out.error = from.status.message().c_str();
  out.finish = finish_of(from.finish);
  out.n_prompt_tokens = from.usage.n_prompt_tokens;
  out.n_cached_prompt_tokens = from.usage.n_cached_prompt_tokens;
  out.n_generated_tokens = from.usage.n_generated_tokens;
  out.owned = owned.release();
  return out;
}

// Gives the handle of `made` to the caller.
template <typename Handle, typename Value>
Status hand_out(Result<Value> made, Handle** out) {
  if (!made.ok()) return made.status();
  *out = new Handle{std::move(made).value()};
  return {};
}

Status enqueue(coxswain_engine* engine, const coxswain_request* request, std::uint64_t* id) {
  if (engine == nullptr) return must_be_set("engine");
  if (request == nullptr) return must_be_set("request");
  if (id == nullptr) return must_be_set("id");
  coxswain_request fields = default_request();
  COXSWAIN_RETURN_IF_ERROR(read_struct(request, kRequestBytes, "coxswain_request", fields));
  COXSWAIN_ASSIGN_OR_RETURN(Request whole, request_of(fields));
  COXSWAIN_ASSIGN_OR_RETURN(const RequestId accepted, engine->executor.enqueue(std::move(whole)));
  *id = static_cast<std::uint64_t>(accepted);
  return {};
}

Status await(coxswain_engine* engine,
             std::uint64_t id,
             std::int64_t timeout_ms,
             coxswain_response* response) {
  if (engine == nullptr) return must_be_set("engine");
  if (response == nullptr) return must_be_set("response");
  coxswain_response known = empty_response();
  COXSWAIN_RETURN_IF_ERROR(read_struct(response, kResponseBytes, "coxswain_response", known));
  coxswain_response_clear(response);
  const RequestId asked{id};
  write_struct(response_of(timeout_ms < 0 ? engine->executor.await(asked)
                                          : engine->executor.await(
                                                asked, std::chrono::milliseconds(timeout_ms))),
               known.struct_size,
               response);
  return {};
}

}  // namespace
}  // namespace coxswain::library

using namespace coxswain::
    library;  // NOLINT(google-build-using-namespace): of a file that has nothing else

extern "C" {

const char* coxswain_version(void) {
  return COXSWAIN_VERSION;
}

void coxswain_text_free(char* text) {
  std::free(text);
}

void coxswain_model_options_init(coxswain_model_options* options, size_t struct_size) {
  write_struct(default_model_options(), struct_size, options);
}

void coxswain_engine_options_init(coxswain_engine_options* options, size_t struct_size) {
  write_struct(default_engine_options(), struct_size, options);
}

void coxswain_request_init(coxswain_request* request, size_t struct_size) {
  write_struct(default_request(), struct_size, request);
}

void coxswain_response_init(coxswain_response* response, size_t struct_size) {
  write_struct(empty_response(), struct_size, response);
}

coxswain_code coxswain_open(const char* path,
                            const coxswain_model_options* options,
                            coxswain_model** model,
                            char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (path == nullptr) return must_be_set("path");
    if (model == nullptr) return must_be_set("model");
    coxswain_model_options fields = default_model_options();
    COXSWAIN_RETURN_IF_ERROR(
        read_struct(options, kModelOptionsBytes, "coxswain_model_options", fields));
    return hand_out(coxswain::open_model(path, options_of(fields)), model);
  });
}

void coxswain_model_close(coxswain_model* model) {
  delete model;
}

coxswain_code coxswain_tokenize(const coxswain_model* model,
                                const char* text,
                                size_t text_bytes,
                                coxswain_prompt** prompt,
                                char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (model == nullptr) return must_be_set("model");
    if (text == nullptr && text_bytes > 0) return must_be_set("text");
    if (prompt == nullptr) return must_be_set("prompt");
    return hand_out(model->model.tokenize({text, text_bytes}), prompt);
  });
}

coxswain_code coxswain_chat(const coxswain_model* model,
                            const char* const* roles,
                            const char* const* contents,
                            size_t n_messages,
                            coxswain_prompt** prompt,
                            char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (model == nullptr) return must_be_set("model");
    if (prompt == nullptr) return must_be_set("prompt");
    std::vector<coxswain::ChatMessage> messages;
    for (size_t i = 0; i < n_messages; ++i) {
      if (roles == nullptr || roles[i] == nullptr) return must_be_set("roles");
      if (contents == nullptr || contents[i] == nullptr) return must_be_set("contents");
      messages.push_back({roles[i], contents[i]});
    }
    return hand_out(model->model.chat(messages), prompt);
  });
}

coxswain_code coxswain_prompt_of_ids(const int32_t* ids,
                                     size_t n_ids,
                                     coxswain_prompt** prompt,
                                     char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (ids == nullptr && n_ids > 0) return must_be_set("ids");
    if (prompt == nullptr) return must_be_set("prompt");
    coxswain::Prompt made;
    made.ids.assign(ids, ids + n_ids);
    return hand_out(coxswain::Result(std::move(made)), prompt);
  });
}

const int32_t* coxswain_prompt_ids(const coxswain_prompt* prompt, size_t* n_ids) {
  if (n_ids != nullptr) *n_ids = prompt == nullptr ? 0 : prompt->prompt.ids.size();
  return prompt == nullptr ? nullptr : prompt->prompt.ids.data();
}

void coxswain_prompt_free(coxswain_prompt* prompt) {
  delete prompt;
}

coxswain_code coxswain_start(const coxswain_model* model,
                             const coxswain_engine_options* options,
                             coxswain_engine** engine,
                             char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (model == nullptr) return must_be_set("model");
    if (engine == nullptr) return must_be_set("engine");
    coxswain_engine_options fields = default_engine_options();
    COXSWAIN_RETURN_IF_ERROR(
        read_struct(options, kEngineOptionsBytes, "coxswain_engine_options", fields));
    COXSWAIN_ASSIGN_OR_RETURN(coxswain::ExecutorOptions wanted, options_of(fields));
    // An Executor cannot be moved: made in its place.
    std::unique_ptr<coxswain_engine> made(
        new coxswain_engine{coxswain::Executor(model->model, std::move(wanted))});
    COXSWAIN_RETURN_IF_ERROR(made->executor.status());
    *engine = made.release();
    return {};
  });
}

void coxswain_close(coxswain_engine* engine) {
  delete engine;
}

coxswain_code coxswain_enqueue(coxswain_engine* engine,
                               const coxswain_request* request,
                               uint64_t* id,
                               char** error) {
  return guarded(error, [&] { return enqueue(engine, request, id); });
}

coxswain_code coxswain_await(coxswain_engine* engine,
                             uint64_t id,
                             int64_t timeout_ms,
                             coxswain_response* response,
                             char** error) {
  return guarded(error, [&] { return await(engine, id, timeout_ms, response); });
}

void coxswain_response_clear(coxswain_response* response) {
  if (response == nullptr || response->struct_size < kResponseBytes) return;
  delete static_cast<OwnedResponse*>(response->owned);
  write_struct(empty_response(), response->struct_size, response);
}

void coxswain_cancel(coxswain_engine* engine, uint64_t id) {
  if (engine != nullptr) engine->executor.cancel(coxswain::RequestId{id});
}

}  // extern "C"
