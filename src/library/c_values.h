#pragma once
// Values of the C API <-> those of the library.
//
// Thread rule: pure functions.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <vector>

#include <coxswain/coxswain.h>
#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <coxswain/request.h>
#include <coxswain/status.h>

namespace coxswain::library {

// Sizes of the structs when they first appeared; they never change.
inline constexpr std::size_t kModelOptionsBytes = 64;
inline constexpr std::size_t kEngineOptionsBytes = 48;
inline constexpr std::size_t kRequestBytes = 112;
inline constexpr std::size_t kResponseBytes = 96;
// What a coxswain_response points to.
struct OwnedResponse {
  Response response;
  std::vector<std::int32_t> tokens;
  std::vector<float> logprobs;
  std::vector<coxswain_top_token> top_tokens;
  std::vector<std::uint32_t> n_top_tokens;
};

coxswain_model_options default_model_options();
coxswain_engine_options default_engine_options();
coxswain_request default_request();
coxswain_response empty_response();

LocalModelOptions options_of(const coxswain_model_options& given);
// Errors of this and the next: kInvalidArgument naming the field.
Result<ExecutorOptions> options_of(const coxswain_engine_options& given);
// Without a prompt where none was given.
Result<Request> request_of(const coxswain_request& given);
// It owns an OwnedResponse.
coxswain_response response_of(Response given);
// `timeout_ms` < 0: without end.
std::chrono::milliseconds timeout_of(std::int64_t timeout_ms);

}  // namespace coxswain::library
