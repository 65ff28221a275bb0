#include "router/api_error.h"

#include <algorithm>
#include <array>

#include "json/json.h"
#include "router/sse.h"

namespace coxswain::router {
namespace {

using telemetry::FailureLabel;

struct KindRow {
  ErrorKind kind;
  int status;
  std::string_view name;
  FailureLabel label;
  bool retry_after = false;
};

// The whole relation, in the order of the enumeration.
constexpr std::array kKinds{
    KindRow{ErrorKind::kNone, 500, "internal", FailureLabel::kGeneration},
    KindRow{ErrorKind::kInvalidJson, 400, "invalid_json", FailureLabel::kValidation},
    KindRow{ErrorKind::kValidation, 422, "validation", FailureLabel::kValidation},
    KindRow{ErrorKind::kTemplateError, 422, "template_error", FailureLabel::kTemplate},
    KindRow{ErrorKind::kToolError, 422, "tool_error", FailureLabel::kValidation},
    KindRow{
        ErrorKind::kUnsupportedMediaType, 415, "unsupported_media_type", FailureLabel::kValidation},
    KindRow{ErrorKind::kPayloadTooLarge, 413, "payload_too_large", FailureLabel::kValidation},
    KindRow{ErrorKind::kHeadersTooLarge, 431, "headers_too_large", FailureLabel::kValidation},
    KindRow{ErrorKind::kUriTooLong, 414, "uri_too_long", FailureLabel::kValidation},
    KindRow{ErrorKind::kBadRequest, 400, "bad_request", FailureLabel::kValidation},
    KindRow{ErrorKind::kTimeout, 408, "timeout", FailureLabel::kValidation},
    KindRow{ErrorKind::kNotFound, 404, "not_found", FailureLabel::kValidation},
    KindRow{ErrorKind::kMethodNotAllowed, 405, "method_not_allowed", FailureLabel::kValidation},
    KindRow{ErrorKind::kUnauthorized, 401, "unauthorized", FailureLabel::kValidation},
    KindRow{ErrorKind::kOverloaded, 429, "overloaded", FailureLabel::kOverloaded, true},
    KindRow{ErrorKind::kUnavailable, 503, "unavailable", FailureLabel::kUnavailable, true},
    KindRow{ErrorKind::kQueueTimeout, 503, "queue_timeout", FailureLabel::kDeadline, true},
    KindRow{ErrorKind::kGeneration, 424, "generation", FailureLabel::kGeneration},
    KindRow{
        ErrorKind::kIncompleteGeneration, 500, "incomplete_generation", FailureLabel::kIncomplete},
    KindRow{ErrorKind::kDeadline, 504, "deadline", FailureLabel::kDeadline},
    KindRow{ErrorKind::kHealthcheck, 503, "healthcheck", FailureLabel::kUnavailable},
    KindRow{ErrorKind::kInternal, 500, "internal", FailureLabel::kGeneration},
};

static_assert(std::ranges::is_sorted(kKinds, {}, &KindRow::kind) &&
              kKinds.size() == static_cast<std::size_t>(ErrorKind::kInternal) + 1);

const KindRow& row_of(ErrorKind kind) {
  const auto index = static_cast<std::size_t>(kind);
  return index < kKinds.size() ? kKinds[index] : kKinds.front();
}

// Validation texts that go out without the usual prefix, as clients know them.
constexpr std::array<std::string_view, 2> kUnprefixed{"Suffix is not supported",
                                                      "Number of prompts exceeds"};

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

std::string validation_text(const std::string& message) {
  for (std::string_view text : kUnprefixed) {
    if (message.starts_with(text)) return message;
  }
  return "Input validation error: " + message;
}

std::string generation_text(const Status& status) {
  constexpr std::string_view kPrefix = "Request failed during generation: ";
  // Which socket or process was lost is nothing for clients.
  if (status.code() == Code::kUnavailable) return std::string(kPrefix) + "the shard was lost";
  if (status.message().starts_with(kPrefix)) return status.message();
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
    json::append_quoted(out, cut_utf8(status.field(), kEchoBytesMax));
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

int http_status(ErrorKind kind) {
  return row_of(kind).status;
}

std::string_view kind_name(ErrorKind kind) {
  return row_of(kind).name;
}

ErrorKind client_kind(const Status& status) {
  return status.kind() == ErrorKind::kNone ? kind_of_code(status.code()) : status.kind();
}

std::string client_text(const Status& status) {
  switch (client_kind(status)) {
    case ErrorKind::kValidation:
      return validation_text(status.message());
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
      break;
  }
  return status.message();
}

FailureLabel failure_label(const Status& status) {
  if (status.code() == Code::kCancelled) return FailureLabel::kDropped;
  return row_of(client_kind(status)).label;
}

std::string error_body(ApiStyle style, const Status& status) {
  const std::string_view kind = kind_name(client_kind(status));
  const std::string text = client_text(status);
  // Escaping can make a text longer, so a body over the limit is made again from half the text.
  for (std::size_t bytes = kErrorBodyBytesMax;; bytes /= 2) {
    const std::string_view part = cut_utf8(text, bytes);
    std::string body =
        style == ApiStyle::kOpenAi ? openai_body(part, status, kind) : native_body(part, kind);
    if (body.size() <= kErrorBodyBytesMax || part.empty()) return body;
  }
}

http::Response error_response(ApiStyle style, const Status& status) {
  const KindRow& row = row_of(client_kind(status));
  http::Response out;
  out.status = row.status;
  out.body = error_body(style, status);
  if (row.retry_after) out.headers.emplace_back("retry-after", "1");
  if (row.status == 401) out.headers.emplace_back("www-authenticate", "Bearer");
  return out;
}

std::string error_event(ApiStyle style, const Status& status) {
  if (style == ApiStyle::kNative) return sse_event(error_body(style, status));
  const KindRow& row = row_of(client_kind(status));
  const std::string text = client_text(status);
  std::string body = R"({"error":{"message":)";
  json::append_quoted(body, cut_utf8(text, kErrorBodyBytesMax / 2));
  body += R"(,"type":)";
  json::append_quoted(body, row.name);
  body += R"(,"http_status_code":)";
  json::append_integer(body, row.status);
  body += "}}";
  return sse_event(body);
}

std::string_view cut_utf8(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  while (end > 0 && (static_cast<unsigned char>(text[end]) & 0xC0U) == 0x80U) --end;
  return text.substr(0, end);
}

std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(std::count_if(text.begin(), text.end(), [](char c) {
    return (static_cast<unsigned char>(c) & 0xC0U) != 0x80U;
  }));
}

std::string echo(std::string_view text) {
  return std::string(cut_utf8(text, kEchoBytesMax));
}

}  // namespace coxswain::router
