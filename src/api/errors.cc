#include "api/errors.h"

#include <algorithm>
#include <array>

#include "api/sse.h"
#include "base/utf8.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

using telemetry::FailureLabel;

constexpr std::array kKinds{
    ErrorRow{ErrorKind::kNone, 500, "internal", FailureLabel::kGeneration},
    ErrorRow{ErrorKind::kInvalidJson, 400, "invalid_json", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kValidation, 422, "validation", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kTemplateError, 422, "template_error", FailureLabel::kTemplate},
    ErrorRow{ErrorKind::kToolError, 422, "tool_error", FailureLabel::kValidation},
    ErrorRow{
        ErrorKind::kUnsupportedMediaType, 415, "unsupported_media_type", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kPayloadTooLarge, 413, "payload_too_large", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kHeadersTooLarge, 431, "headers_too_large", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kUriTooLong, 414, "uri_too_long", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kBadRequest, 400, "bad_request", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kTimeout, 408, "timeout", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kNotFound, 404, "not_found", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kMethodNotAllowed, 405, "method_not_allowed", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kUnauthorized, 401, "unauthorized", FailureLabel::kValidation},
    ErrorRow{ErrorKind::kOverloaded, 429, "overloaded", FailureLabel::kOverloaded, true},
    ErrorRow{ErrorKind::kUnavailable, 503, "unavailable", FailureLabel::kUnavailable, true},
    ErrorRow{ErrorKind::kQueueTimeout, 503, "queue_timeout", FailureLabel::kDeadline, true},
    ErrorRow{ErrorKind::kGeneration, 424, "generation", FailureLabel::kGeneration},
    ErrorRow{
        ErrorKind::kIncompleteGeneration, 500, "incomplete_generation", FailureLabel::kIncomplete},
    ErrorRow{ErrorKind::kDeadline, 504, "deadline", FailureLabel::kDeadline},
    ErrorRow{ErrorKind::kHealthcheck, 503, "healthcheck", FailureLabel::kUnavailable},
    ErrorRow{ErrorKind::kInternal, 500, "internal", FailureLabel::kGeneration},
    ErrorRow{ErrorKind::kContextLength, 400, "context_length_exceeded", FailureLabel::kValidation},
};

static_assert(std::ranges::is_sorted(kKinds, {}, &ErrorRow::kind) &&
              kKinds.size() == static_cast<std::size_t>(ErrorKind::kContextLength) + 1);

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

// {"error":{"message":...,"type":...,"param":...,"code":...},"error_type":...}
std::string openai_body(std::string_view text, const Status& status, std::string_view kind) {
  std::string out = R"({"error":{"message":)";
  json::append_quoted(out, text);
  out += R"(,"type":)";
  json::append_quoted(out, kind);
  out += R"(,"param":)";
  if (status.field().empty()) {
    out += "null";
  } else {
    json::append_quoted(out, base::cut_utf8(status.field(), kEchoBytesMax));
  }
  out += R"(,"code":)";
  json::append_quoted(out, kind);
  out += R"(},"error_type":)";
  json::append_quoted(out, kind);
  out += '}';
  return out;
}

std::string native_body(std::string_view text, std::string_view kind) {
  std::string out = R"({"error":)";
  json::append_quoted(out, text);
  out += R"(,"error_type":)";
  json::append_quoted(out, kind);
  out += '}';
  return out;
}

}  // namespace

ApiStyle style_of(std::string_view path) {
  return path == "/v1" || path.starts_with("/v1/") ? ApiStyle::kOpenAi : ApiStyle::kNative;
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

std::string error_body(ApiStyle style, const Status& status) {
  const std::string_view kind = error_row(client_kind(status)).name;
  const std::string text = client_text(status);
  // Escaping can make a text longer, so a body over the limit is made again from half the text.
  for (std::size_t bytes = kErrorBodyBytesMax;; bytes /= 2) {
    const std::string_view part = base::cut_utf8(text, bytes);
    std::string body =
        style == ApiStyle::kOpenAi ? openai_body(part, status, kind) : native_body(part, kind);
    if (body.size() <= kErrorBodyBytesMax || part.empty()) return body;
  }
}

std::string error_event(ApiStyle style, const Status& status) {
  if (style == ApiStyle::kNative) return sse_event(error_body(style, status));
  const ErrorRow& row = error_row(client_kind(status));
  const std::string text = client_text(status);
  std::string body = R"({"error":{"message":)";
  json::append_quoted(body, base::cut_utf8(text, kErrorBodyBytesMax / 2));
  body += R"(,"type":)";
  json::append_quoted(body, row.name);
  body += R"(,"http_status_code":)";
  json::append_integer(body, row.http_status);
  body += "}}";
  return sse_event(body);
}

std::string echo(std::string_view text) {
  return std::string(base::cut_utf8(text, kEchoBytesMax));
}

}  // namespace coxswain::api
