#pragma once
// How a Status becomes what a client is told: the one table of error kinds, the texts, and the error bodies of each
// style. Texts follow docs/api.md; a body is JSON, valid UTF-8 and at most kErrorBodyBytesMax long.
//
// kNative and kTgi: {"error": text, "error_type": kind}, with TGI's statuses.
// kOpenAi: {"error": {"message", "type", "param", "code"}, "error_type": kind}, with OpenAI's statuses.
// kAnthropic: {"type": "error", "error": {"type", "message"}, "request_id"}, with Anthropic's statuses.
// kOllama: {"error": text}, with Ollama's statuses.
//
// Thread rule: pure functions.

#include <array>
#include <cstddef>
#include <cstdint>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>

#include "telemetry/failure_label.h"

namespace coxswain::api {

inline constexpr std::size_t kErrorBodyBytesMax = 1024;
// How much of a client's own text an error message may repeat.
inline constexpr std::size_t kEchoBytesMax = 64;

// How a route answers. Those below /v1 have one of two dialects (--v1-dialect): OpenAI's, or TGI's of the same routes.
// /v1/messages has Anthropic's, routes below /api Ollama's.
enum class ApiStyle : std::uint8_t { kNative, kOpenAi, kTgi, kAnthropic, kOllama };

// OpenAI's routes under the names that they have below /v1: clients whose base URL lacks it.
inline constexpr std::array<std::string_view, 3> kNamesOfOpenAi{
    "/chat/completions", "/completions", "/models"};
inline constexpr std::string_view kMessagesPath = "/v1/messages";
inline constexpr std::string_view kResponsesPath = "/v1/responses";
inline constexpr std::string_view kOllamaFolder = "/api/";
// kAnthropic for kMessagesPath and what is below it, kOllama for what is below kOllamaFolder, kOpenAi for what TGI has
// not: kResponsesPath and what is below it, `v1` for the rest of /v1 and kNamesOfOpenAi.
ApiStyle style_of(std::string_view path, ApiStyle v1);

// What an error kind means to clients and to the metrics. The only place that says so.
struct ErrorRow {
  ErrorKind kind = ErrorKind::kNone;
  int tgi_status = 500;        // HTTP
  std::string_view name = {};  // "validation", "overloaded", ...
  int openai_status = 500;
  std::string_view openai_type = {};
  std::string_view openai_code = {};  // of the closed list in docs/api.md
  telemetry::FailureLabel label = telemetry::FailureLabel::kGeneration;  // of tgi_request_failure
  bool retry_after = false;                                              // waiting can help
};
const ErrorRow& error_row(ErrorKind kind);
std::span<const ErrorRow> error_rows();

int http_status(ApiStyle style, const Status& status);
// `error.code` in OpenAI's dialect: that of the row, or a narrower one that the status allows.
std::string_view openai_code(const Status& status);
// All that openai_code() may return, each once.
std::vector<std::string_view> openai_codes();

// The kind that a client is told: that of the status, or the one its code stands for.
ErrorKind client_kind(const Status& status);
// The text that a client is told: "Input validation error: `temperature` must be strictly positive".
std::string client_text(const Status& status);
// Under which label tgi_request_failure counts it.
telemetry::FailureLabel failure_label(const Status& status);

// `request_id` stands in bodies of kAnthropic only; null if it is empty.
std::string error_body(ApiStyle style, const Status& status, std::string_view request_id = {});
// The event of an error inside a stream, framing included. Streams of kOpenAi and kTgi still end with [DONE].
// kTgi: {"error": {"message", "http_status_code": 422}}, whatever the cause, as TGI does.
std::string error_event(ApiStyle style, const Status& status, std::string_view request_id = {});

// At most kEchoBytesMax bytes of `text`, cut between characters.
std::string echo(std::string_view text);

}  // namespace coxswain::api
