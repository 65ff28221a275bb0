#pragma once
// The readers of src/api by the name of the object that describes their document, for tests.
//
// Thread rule: pure functions.

#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "api/documents.h"
#include "api/kserve.h"
#include "api/vertex.h"
#include "json/json.h"

namespace coxswain::openapi {

struct Reading {
  Status status;
  std::vector<std::string> ignored = {};  // what goes into x-ignored-fields
};

enum class UnknownFields : std::uint8_t { kIgnored, kRefused };
using Read = Reading (*)(const json::Value& body, UnknownFields unknown);

namespace internal {

inline const auto& ignored_of(const api::GenerateRequest& request) {
  return request.ignored;
}
inline const auto& ignored_of(const api::ChatRequest& request) {
  return request.ignored;
}
inline const auto& ignored_of(const api::CompletionRequest& request) {
  return request.ignored;
}
inline const auto& ignored_of(const api::OllamaRequest& request) {
  return request.chat.ignored;
}
inline const auto& ignored_of(const api::DetokenizeRequest& request) {
  return request.ignored;
}
inline const auto& ignored_of(const api::KserveInferRequest& request) {
  return request.ignored;
}
inline const auto& ignored_of(const api::KserveGenerateRequest& request) {
  return request.ignored;
}
inline const auto& ignored_of(const api::PredictRequest& request) {
  return request.ignored;
}
inline api::IgnoredFields ignored_of(const std::string&) {
  return {};
}

inline api::DocumentLimits limits_for(UnknownFields unknown) {
  api::DocumentLimits out;
  out.strict_fields = unknown == UnknownFields::kRefused;
  return out;
}

template <auto kRead>
Reading read(const json::Value& body, UnknownFields unknown) {
  const auto request = kRead(body, limits_for(unknown));
  if (!request.ok()) return {request.status()};
  return {{}, ignored_of(*request)};
}

inline Reading read_response(const json::Value& body, UnknownFields unknown) {
  const api::DocumentLimits limits = limits_for(unknown);
  auto request = api::read_responses_request(body, limits);
  if (!request.ok()) return {request.status()};
  const Status messages = api::set_response_messages(*request, {}, limits);
  return {messages, request->chat.ignored};
}

}  // namespace internal

inline std::map<std::string_view, Read> readers() {
  using internal::read;
  return {{"GenerateRequest", read<api::read_generate_request>},
          {"ChatRequest", read<api::read_chat_request>},
          {"CompletionRequest", read<api::read_completion_request>},
          {"ResponsesRequest", internal::read_response},
          {"MessagesRequest", read<api::read_messages_request>},
          {"CountTokensRequest", read<api::read_count_tokens_request>},
          {"OllamaChatRequest", read<api::read_ollama_chat_request>},
          {"OllamaGenerateRequest", read<api::read_ollama_generate_request>},
          {"OllamaShowRequest", read<api::read_ollama_show_request>},
          {"KserveInferRequest", read<api::read_kserve_infer>},
          {"KserveGenerateRequest", read<api::read_kserve_generate>},
          {"PredictRequest", read<api::read_predict>},
          {"DetokenizeRequest", read<api::read_detokenize_request>}};
}

}  // namespace coxswain::openapi
