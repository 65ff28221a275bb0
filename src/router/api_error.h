#pragma once
// How a Status becomes an HTTP answer: the one table from error kinds to HTTP statuses, and the
// error bodies of the two API families. Texts follow docs/api.md; a body is JSON, valid UTF-8 and
// at most kErrorBodyBytesMax long.
//
// Native routes: {"error": text, "error_type": kind}. Routes below /v1: {"error": {"message",
// "type", "param", "code"}, "error_type": kind}.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

#include <coxswain/status.h>

#include "http/server.h"
#include "telemetry/metrics.h"

namespace coxswain::router {

inline constexpr std::size_t kErrorBodyBytesMax = 1024;
// How much of a client's own text an error message may repeat.
inline constexpr std::size_t kEchoBytesMax = 64;

enum class ApiStyle : std::uint8_t { kNative, kOpenAi };

// kOpenAi for /v1 and everything below it.
ApiStyle style_of(std::string_view path);

int http_status(ErrorKind kind);
std::string_view kind_name(ErrorKind kind);  // "validation", "overloaded", ...
// The kind that a client is told: that of the status, or the one its code stands for.
ErrorKind client_kind(const Status& status);
// The text that a client is told, e.g. "Input validation error: `temperature` must be strictly
// positive".
std::string client_text(const Status& status);
// Under which label tgi_request_failure counts it.
telemetry::FailureLabel failure_label(const Status& status);

std::string error_body(ApiStyle style, const Status& status);
// With Retry-After where waiting can help, and WWW-Authenticate for a missing key.
http::Response error_response(ApiStyle style, const Status& status);
// The event of an error inside a stream, framing included. Streams below /v1 still end with [DONE].
std::string error_event(ApiStyle style, const Status& status);

// At most kEchoBytesMax bytes of `text`, cut between characters.
std::string echo(std::string_view text);
// The first `bytes_max` bytes of `text` at most, cut between characters.
std::string_view cut_utf8(std::string_view text, std::size_t bytes_max);
// Number of Unicode characters in UTF-8 text.
std::size_t count_characters(std::string_view text);

}  // namespace coxswain::router
