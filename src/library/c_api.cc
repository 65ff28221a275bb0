// The C API (include/coxswain/coxswain.h) over LocalModel and Executor.

#include <cstddef>
#include <cstdint>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <utility>
#include <vector>

#include <coxswain/coxswain.h>
#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <coxswain/request.h>
#include <coxswain/status.h>

#include "library/c_handles.h"
#include "library/c_struct.h"
#include "library/c_values.h"
#include "library/stats_json.h"

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

Status enqueue(coxswain_engine* engine, const coxswain_request* request, std::uint64_t* id) {
  if (engine == nullptr) return must_be_set("engine");
  if (request == nullptr) return must_be_set("request");
  if (id == nullptr) return must_be_set("id");
  coxswain_request fields = default_request();
  COXSWAIN_RETURN_IF_ERROR(read_struct(request, kRequestBytes, "coxswain_request", fields));
  if (fields.prompt == nullptr) return must_be_set("prompt");
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
  write_struct(response_of(engine->executor.await(RequestId{id}, timeout_of(timeout_ms))),
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
    const coxswain::SessionsOptions sessions{.sessions_max = fields.sessions_max,
                                             .tokens_max = fields.session_tokens_max};
    auto made = std::make_unique<coxswain_engine>(model->model, std::move(wanted), sessions);
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

coxswain_code coxswain_iteration_stats(coxswain_engine* engine, char** json, char** error) {
  return guarded(error, [&]() -> coxswain::Status {
    if (engine == nullptr) return must_be_set("engine");
    if (json == nullptr) return must_be_set("json");
    *json = ::strdup(json_of(engine->executor.iteration_stats()).c_str());
    return {};
  });
}

}  // extern "C"
