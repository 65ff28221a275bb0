#include "router/api_error.h"

#include <gtest/gtest.h>

#include "json/json.h"

namespace coxswain::router {
namespace {

TEST(ApiError, EveryKindHasItsStatusAndName) {
  struct Row {
    ErrorKind kind;
    int status;
    std::string_view name;
  };
  const Row rows[] = {
      {ErrorKind::kInvalidJson, 400, "invalid_json"},
      {ErrorKind::kValidation, 422, "validation"},
      {ErrorKind::kTemplateError, 422, "template_error"},
      {ErrorKind::kToolError, 422, "tool_error"},
      {ErrorKind::kUnsupportedMediaType, 415, "unsupported_media_type"},
      {ErrorKind::kPayloadTooLarge, 413, "payload_too_large"},
      {ErrorKind::kHeadersTooLarge, 431, "headers_too_large"},
      {ErrorKind::kUriTooLong, 414, "uri_too_long"},
      {ErrorKind::kBadRequest, 400, "bad_request"},
      {ErrorKind::kTimeout, 408, "timeout"},
      {ErrorKind::kNotFound, 404, "not_found"},
      {ErrorKind::kMethodNotAllowed, 405, "method_not_allowed"},
      {ErrorKind::kUnauthorized, 401, "unauthorized"},
      {ErrorKind::kOverloaded, 429, "overloaded"},
      {ErrorKind::kUnavailable, 503, "unavailable"},
      {ErrorKind::kQueueTimeout, 503, "queue_timeout"},
      {ErrorKind::kGeneration, 424, "generation"},
      {ErrorKind::kIncompleteGeneration, 500, "incomplete_generation"},
      {ErrorKind::kDeadline, 504, "deadline"},
      {ErrorKind::kHealthcheck, 503, "healthcheck"},
      {ErrorKind::kInternal, 500, "internal"},
  };
  for (const Row& row : rows) {
    EXPECT_EQ(http_status(row.kind), row.status) << row.name;
    EXPECT_EQ(kind_name(row.kind), row.name);
  }
}

TEST(ApiError, BodiesOfBothFamilies) {
  const Status status = invalid_argument("`top_k` must be strictly positive", "top_k");
  EXPECT_EQ(
      error_body(ApiStyle::kNative, status),
      R"({"error":"Input validation error: `top_k` must be strictly positive","error_type":"validation"})");
  EXPECT_EQ(
      error_body(ApiStyle::kOpenAi, status),
      R"({"error":{"message":"Input validation error: `top_k` must be strictly positive","type":"validation","param":"top_k","code":"validation"},"error_type":"validation"})");
  EXPECT_EQ(style_of("/v1/models"), ApiStyle::kOpenAi);
  EXPECT_EQ(style_of("/v10"), ApiStyle::kNative);
}

TEST(ApiError, TextsThatHideWhatTheClientNeedNotKnow) {
  EXPECT_EQ(client_text(Status(Code::kResourceExhausted, "queue of 4 is full")),
            "Model is overloaded");
  EXPECT_EQ(client_text(internal_error("slot 7 is null")), "Internal error");
  EXPECT_EQ(client_text(Status(Code::kUnavailable, ErrorKind::kGeneration, "no /run/x")),
            "Request failed during generation: the shard was lost");
  EXPECT_EQ(client_text(Status(Code::kInternal, ErrorKind::kGeneration, "logits are NaN")),
            "Request failed during generation: logits are NaN");
  EXPECT_EQ(client_text(invalid_argument("Suffix is not supported and more.")),
            "Suffix is not supported and more.");
}

TEST(ApiError, WaitingHelpsOnlyWhereSaid) {
  auto retry = [](ErrorKind kind) {
    const http::Response response =
        error_response(ApiStyle::kNative, Status(Code::kInternal, kind, "x"));
    for (const auto& [name, value] : response.headers) {
      if (name == "retry-after") return value;
    }
    return std::string();
  };
  EXPECT_EQ(retry(ErrorKind::kOverloaded), "1");
  EXPECT_EQ(retry(ErrorKind::kUnavailable), "1");
  EXPECT_EQ(retry(ErrorKind::kQueueTimeout), "1");
  EXPECT_EQ(retry(ErrorKind::kValidation), "");
}

TEST(ApiError, BodiesStayBelowTheLimitAndValid) {
  for (const char* piece : {"a", "\x01", "\xC3\xA9", "\""}) {
    std::string text;
    while (text.size() < 5000) text += piece;
    for (ApiStyle style : {ApiStyle::kNative, ApiStyle::kOpenAi}) {
      const std::string body = error_body(style, invalid_argument(text, text));
      EXPECT_LE(body.size(), kErrorBodyBytesMax);
      EXPECT_TRUE(json::parse(body).ok());
    }
  }
}

TEST(ApiError, StreamEvents) {
  const Status status(Code::kDeadlineExceeded, ErrorKind::kDeadline, "too slow");
  EXPECT_EQ(error_event(ApiStyle::kNative, status),
            "data: {\"error\":\"too slow\",\"error_type\":\"deadline\"}\n\n");
  EXPECT_EQ(error_event(ApiStyle::kOpenAi, status),
            "data: {\"error\":{\"message\":\"too slow\",\"type\":\"deadline\","
            "\"http_status_code\":504}}\n\n");
}

TEST(ApiError, EchoCutsBetweenCharacters) {
  const std::string text = std::string(63, 'a') + "\xC3\xA9";
  EXPECT_EQ(echo(text), std::string(63, 'a'));
  EXPECT_EQ(echo("short"), "short");
}

}  // namespace
}  // namespace coxswain::router
