#include "api/errors.h"

#include <gtest/gtest.h>

#include "json/json.h"

namespace coxswain::api {
namespace {

TEST(Errors, EveryKindHasItsStatusAndName) {
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
    EXPECT_EQ(error_row(row.kind).http_status, row.status) << row.name;
    EXPECT_EQ(error_row(row.kind).name, row.name);
  }
}

TEST(Errors, BodiesOfBothFamilies) {
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

TEST(Errors, TextsThatHideWhatTheClientNeedNotKnow) {
  EXPECT_EQ(client_text(Status(Code::kResourceExhausted, "queue of 4 is full")),
            "Model is overloaded");
  EXPECT_EQ(client_text(internal_error("slot 7 is null")), "Internal error");
  EXPECT_EQ(client_text(Status(Code::kUnavailable, ErrorKind::kGeneration, "no /run/x")),
            "Request failed during generation: the shard was lost");
  EXPECT_EQ(client_text(Status(Code::kInternal, ErrorKind::kGeneration, "logits are NaN")),
            "Request failed during generation: logits are NaN");
}

TEST(Errors, AWholeTextHasNothingInFrontOfIt) {
  const Status status = invalid_argument("Suffix is not supported.", "suffix");
  EXPECT_EQ(client_text(status), "Input validation error: Suffix is not supported.");
  EXPECT_EQ(client_text(status.as_whole_text()), "Suffix is not supported.");
  EXPECT_EQ(error_body(ApiStyle::kNative, status.as_whole_text()),
            R"({"error":"Suffix is not supported.","error_type":"validation"})");
}

TEST(Errors, BodiesStayBelowTheLimitAndValid) {
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

TEST(Errors, StreamEvents) {
  const Status status(Code::kDeadlineExceeded, ErrorKind::kDeadline, "too slow");
  EXPECT_EQ(error_event(ApiStyle::kNative, status),
            "data: {\"error\":\"too slow\",\"error_type\":\"deadline\"}\n\n");
  EXPECT_EQ(error_event(ApiStyle::kOpenAi, status),
            "data: {\"error\":{\"message\":\"too slow\",\"type\":\"deadline\","
            "\"http_status_code\":504}}\n\n");
}

TEST(Errors, EchoCutsBetweenCharacters) {
  const std::string text = std::string(63, 'a') + "\xC3\xA9";
  EXPECT_EQ(echo(text), std::string(63, 'a'));
  EXPECT_EQ(echo("short"), "short");
}

}  // namespace
}  // namespace coxswain::api
