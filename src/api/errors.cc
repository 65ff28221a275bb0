#include "api/errors.h"

#include <algorithm>
#include <array>

#include "api/sse.h"
#include "base/utf8.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

using telemetry::FailureLabel;

constexpr std::string_view kRequestFault = "invalid_request_error";
constexpr std::string_view kServerFault = "server_error";

// clang-format off
constexpr std::array kKinds{
    ErrorRow{ErrorKind::kNone, 500, "internal",
             500, kServerFault, "internal_error", FailureLabel::kGeneration},
    ErrorRow{ErrorKind::kInvalidJson, 400, "invalid_json",
             400, kRequestFault, "invalid_json", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kValidation, 422, "validation",
             400, kRequestFault, "invalid_value", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kTemplateError, 422, "template_error",
             400, kRequestFault, "template_error", FailureLabel::kTemplate},
    ErrorRow{ErrorKind::kToolError, 422, "tool_error",
             400, kRequestFault, "tool_error", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kUnsupportedMediaType, 415, "unsupported_media_type",
             415, kRequestFault, "unsupported_media_type", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kPayloadTooLarge, 413, "payload_too_large",
             413, kRequestFault, "payload_too_large", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kHeadersTooLarge, 431, "headers_too_large",
             431, kRequestFault, "headers_too_large", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kUriTooLong, 414, "uri_too_long",
             414, kRequestFault, "uri_too_long", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kBadRequest, 400, "bad_request",
             400, kRequestFault, "bad_request", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kTimeout, 408, "timeout",
             408, kRequestFault, "request_timeout", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kNotFound, 404, "not_found",
             404, kRequestFault, "unknown_url", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kMethodNotAllowed, 405, "method_not_allowed",
             405, kRequestFault, "method_not_allowed", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kUnauthorized, 401, "unauthorized",
             401, kRequestFault, "invalid_api_key", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kOverloaded, 429, "overloaded",
             429, "rate_limit_error", "rate_limit_exceeded", FailureLabel::kOverloaded, true},
    ErrorRow{ErrorKind::kUnavailable, 503, "unavailable",
             503, kServerFault, "service_unavailable", FailureLabel::kUnavailable, true},
    ErrorRow{ErrorKind::kQueueTimeout, 503, "queue_timeout",
             503, kServerFault, "queue_timeout", FailureLabel::kDeadline, true},
    ErrorRow{ErrorKind::kGeneration, 424, "generation",
             500, kServerFault, "generation_failed", FailureLabel::kGeneration},
    ErrorRow{ErrorKind::kIncompleteGeneration, 500, "incomplete_generation",
             500, kServerFault, "internal_error", FailureLabel::kIncomplete},
    ErrorRow{ErrorKind::kDeadline, 504, "deadline",
             504, kServerFault, "deadline_exceeded", FailureLabel::kDeadline},
    ErrorRow{ErrorKind::kHealthcheck, 503, "healthcheck",
             503, kServerFault, "service_unavailable", FailureLabel::kUnavailable},
    ErrorRow{ErrorKind::kInternal, 500, "internal",
             500, kServerFault, "internal_error", FailureLabel::kGeneration},
    ErrorRow{ErrorKind::kContextLength, 400, "context_length_exceeded",
             400, kRequestFault, "context_length_exceeded", FailureLabel::kValidation},
};
// clang-format on

static_assert(std::ranges::is_sorted(kKinds, {}, &ErrorRow::kind) &&
              kKinds.size() == static_cast<std::size_t>(ErrorKind::kContextLength) + 1);

// Codes that are narrower than the kind's.
constexpr std::string_view kUnsupportedCode = "unsupported_parameter";
constexpr std::string_view kPreviousCode = "previous_response_not_found";
struct NotFoundCode {
  std::string_view field;
  std::string_view code;
};
constexpr std::array kNotFoundCodes{NotFoundCode{"model", "model_not_found"},
                                    NotFoundCode{"response_id", "response_not_found"},
                                    NotFoundCode{"request_id", "request_not_found"}};

ErrorKind kind_of_code(Code code) {
  switch (code) {
    case Code::kInvalidArgument:
      return ErrorKind::kValidation;
    case Code::kNotFound:
      return ErrorKind::kNotFound;
    case Code::kResourceExhausted:
      return ErrorKind::kOverloaded;
    case Code::kDeadlineExceeded:
      return ErrorKind::kDeadline;
    case Code::kUnavailable:
      return ErrorKind::kUnavailable;
    case Code::kFailedPrecondition:
    case Code::kDataLoss:
    case Code::kCancelled:
      return ErrorKind::kGeneration;
    case Code::kUnimplemented:
      return ErrorKind::kValidation;
    case Code::kOk:
    case Code::kInternal:
      return ErrorKind::kInternal;
  }
  return ErrorKind::kInternal;
}

std::string generation_text(const Status& status) {
  constexpr std::string_view kPrefix = "Request failed during generation: ";
  // Which socket or process was lost is nothing for clients.
  if (status.code() == Code::kUnavailable) return std::string(kPrefix) + "the shard was lost";
  return std::string(kPrefix) + status.message();
}

// What a shard does not support, and a list of allowed tokens that leaves none, its client should leave out: no failure
// of the server, and no use in trying again. What else a runner calls invalid is about plans, which are the server's.
bool is_clients_fault(const Status& status) {
  if (status.code() == Code::kUnimplemented) return true;
  return status.code() == Code::kInvalidArgument && status.field() == "allowed_token_ids";
}

const ErrorRow& openai_row(const Status& status) {
  const ErrorKind kind = client_kind(status);
  if (kind == ErrorKind::kGeneration && is_clients_fault(status))
    return error_row(ErrorKind::kValidation);
  return error_row(kind);
}

// {"error":{"message":...,"type":...,"param":...,"code":...
void append_openai_error(std::string& out, std::string_view text, const Status& status) {
  out += R"({"error":{"message":)";
  json::append_quoted(out, text);
  out += R"(,"type":)";
  json::append_quoted(out, openai_row(status).openai_type);
  out += R"(,"param":)";
  if (status.field().empty()) {
    out += "null";
  } else {
    json::append_quoted(out, base::cut_utf8(status.field(), kEchoBytesMax));
  }
  out += R"(,"code":)";
  json::append_quoted(out, openai_code(status));
}

std::string openai_body(std::string_view text, const Status& status) {
  std::string out;
  append_openai_error(out, text, status);
  out += R"(},"error_type":)";
  json::append_quoted(out, error_row(client_kind(status)).name);
  out += '}';
  return out;
}

int anthropic_status(const Status& status) {
  constexpr int kOverloadedStatus = 529;
  const int openai = openai_row(status).openai_status;
  return openai == 429 || openai == 503 ? kOverloadedStatus : openai;
}

std::string_view anthropic_type(int http_status) {
  switch (http_status) {
    case 401:
      return "authentication_error";
    case 404:
      return "not_found_error";
    case 413:
      return "request_too_large";
    case 504:
      return "timeout_error";
    case 529:
      return "overloaded_error";
    default:
      return http_status < 500 ? kRequestFault : "api_error";
  }
}

std::string anthropic_body(std::string_view text,
                           const Status& status,
                           std::string_view request_id) {
  std::string out = R"({"type":"error","error":{"type":)";
  json::append_quoted(out, anthropic_type(anthropic_status(status)));
  out += R"(,"message":)";
  json::append_quoted(out, text);
  out += R"(},"request_id":)";
  if (request_id.empty()) {
    out += "null";
  } else {
    json::append_quoted(out, request_id);
  }
  out += '}';
  return out;
}

// Of a full house Ollama's clients know 503 alone.
int ollama_status(const Status& status) {
  const int openai = openai_row(status).openai_status;
  return openai == 429 ? 503 : openai;
}

std::string ollama_body(std::string_view text) {
  std::string out = R"({"error":)";
  json::append_quoted(out, text);
  out += '}';
  return out;
}

std::string native_body(std::string_view text, const Status& status) {
  std::string out = R"({"error":)";
  json::append_quoted(out, text);
  out += R"(,"error_type":)";
  json::append_quoted(out, error_row(client_kind(status)).name);
  out += '}';
  return out;
}

std::string body_of(ApiStyle style,
                    std::string_view text,
                    const Status& status,
                    std::string_view request_id) {
  switch (style) {
    case ApiStyle::kOpenAi:
      return openai_body(text, status);
    case ApiStyle::kAnthropic:
      return anthropic_body(text, status, request_id);
    case ApiStyle::kOllama:
      return ollama_body(text);
    case ApiStyle::kNative:
    case ApiStyle::kTgi:
      break;
  }
  return native_body(text, status);
}

}  // namespace

ApiStyle style_of(std::string_view path, ApiStyle v1) {
  const auto is_at_or_below = [&](std::string_view folder) {
    return path.starts_with(folder) && (path.size() == folder.size() || path[folder.size()] == '/');
  };
  if (is_at_or_below(kMessagesPath)) return ApiStyle::kAnthropic;
  if (is_at_or_below(kResponsesPath) || path == "/responses") return ApiStyle::kOpenAi;
  if (path.starts_with(kOllamaFolder)) return ApiStyle::kOllama;
  const bool is_v1 = path == "/v1" || path.starts_with("/v1/") ||
                     std::ranges::find(kNamesOfOpenAi, path) != kNamesOfOpenAi.end();
  return is_v1 ? v1 : ApiStyle::kNative;
}

int http_status(ApiStyle style, const Status& status) {
  switch (style) {
    case ApiStyle::kOpenAi:
      return openai_row(status).openai_status;
    case ApiStyle::kAnthropic:
      return anthropic_status(status);
    case ApiStyle::kOllama:
      return ollama_status(status);
    case ApiStyle::kNative:
    case ApiStyle::kTgi:
      break;
  }
  return error_row(client_kind(status)).tgi_status;
}

std::string_view openai_code(const Status& status) {
  const ErrorRow& row = openai_row(status);
  if (row.kind == ErrorKind::kValidation && status.code() == Code::kUnimplemented)
    return kUnsupportedCode;
  if (row.kind == ErrorKind::kValidation && status.code() == Code::kNotFound) return kPreviousCode;
  if (row.kind != ErrorKind::kNotFound) return row.openai_code;
  const auto narrower = std::ranges::find(kNotFoundCodes, status.field(), &NotFoundCode::field);
  return narrower == kNotFoundCodes.end() ? row.openai_code : narrower->code;
}

std::vector<std::string_view> openai_codes() {
  std::vector<std::string_view> out{kUnsupportedCode, kPreviousCode};
  for (const NotFoundCode& narrower : kNotFoundCodes) out.push_back(narrower.code);
  for (const ErrorRow& row : kKinds) {
    if (std::ranges::find(out, row.openai_code) == out.end()) out.push_back(row.openai_code);
  }
  return out;
}

std::span<const ErrorRow> error_rows() {
  return kKinds;
}

const ErrorRow& error_row(ErrorKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kKinds.size() ? kKinds[index] : kKinds.front();
}

ErrorKind client_kind(const Status& status) {
  return status.kind() == ErrorKind::kNone ? kind_of_code(status.code()) : status.kind();
}

std::string client_text(const Status& status) {
  if (status.is_whole_text()) return status.message();
  switch (client_kind(status)) {
    case ErrorKind::kValidation:
      return "Input validation error: " + status.message();
    case ErrorKind::kInvalidJson:
      return "Failed to parse the request body as JSON: " + status.message();
    case ErrorKind::kTemplateError:
      return "Template error: " + status.message();
    case ErrorKind::kToolError:
      return "Tool error: " + status.message();
    case ErrorKind::kOverloaded:
      return "Model is overloaded";
    case ErrorKind::kGeneration:
      return generation_text(status);
    case ErrorKind::kIncompleteGeneration:
      return "Incomplete generation";
    case ErrorKind::kHealthcheck:
      return "unhealthy";
    case ErrorKind::kInternal:
      return "Internal error";
    case ErrorKind::kNone:
    case ErrorKind::kUnsupportedMediaType:
    case ErrorKind::kPayloadTooLarge:
    case ErrorKind::kHeadersTooLarge:
    case ErrorKind::kUriTooLong:
    case ErrorKind::kBadRequest:
    case ErrorKind::kTimeout:
    case ErrorKind::kNotFound:
    case ErrorKind::kMethodNotAllowed:
    case ErrorKind::kUnauthorized:
    case ErrorKind::kUnavailable:
    case ErrorKind::kQueueTimeout:
    case ErrorKind::kDeadline:
    case ErrorKind::kContextLength:
      break;
  }
  return status.message();
}

FailureLabel failure_label(const Status& status) {
  if (status.code() == Code::kCancelled) return FailureLabel::kDropped;
  return error_row(client_kind(status)).label;
}

std::string error_body(ApiStyle style, const Status& status, std::string_view request_id) {
  const std::string text = client_text(status);
  // Escaping can make a text longer, so a body over the limit is made again from half the text.
  for (std::size_t bytes = kErrorBodyBytesMax;; bytes /= 2) {
    const std::string_view part = base::cut_utf8(text, bytes);
    std::string body = body_of(style, part, status, request_id);
    if (body.size() <= kErrorBodyBytesMax || part.empty()) return body;
  }
}

std::string error_event(ApiStyle style, const Status& status, std::string_view request_id) {
  if (style == ApiStyle::kNative) return sse_event(error_body(style, status));
  if (style == ApiStyle::kAnthropic)
    return sse_event("error", error_body(style, status, request_id));
  if (style == ApiStyle::kOllama) return error_body(style, status) + "\n";
  constexpr int kTgiStreamStatus = 422;
  const std::string text = client_text(status);
  const std::string_view part = base::cut_utf8(text, kErrorBodyBytesMax / 2);
  std::string body;
  if (style == ApiStyle::kOpenAi) {
    append_openai_error(body, part, status);
  } else {
    body = R"({"error":{"message":)";
    json::append_quoted(body, part);
  }
  body += R"(,"http_status_code":)";
  json::append_integer(body,
                       style == ApiStyle::kOpenAi ? http_status(style, status) : kTgiStreamStatus);
  body += "}}";
  return sse_event(body);
}

std::string echo(std::string_view text) {
  return std::string(base::cut_utf8(text, kEchoBytesMax));
}

}  // namespace coxswain::api
