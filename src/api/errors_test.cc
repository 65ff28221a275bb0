#include "api/errors.h"

#include <algorithm>
#include <iterator>
#include <set>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "json/json.h"

namespace coxswain::api {
namespace {

TEST(Errors, EveryKindInEveryDialect) {
  struct Row {
    ErrorKind kind;
    std::string_view name;
    int tgi;
    int openai;
    std::string_view code;
  };
  // clang-format off
  const Row rows[] = {
      {ErrorKind::kInvalidJson, "invalid_json", 400, 400, "invalid_json"},
      {ErrorKind::kValidation, "validation", 422, 400, "invalid_value"},
      {ErrorKind::kTemplateError, "template_error", 422, 400, "template_error"},
      {ErrorKind::kToolError, "tool_error", 422, 400, "tool_error"},
      {ErrorKind::kUnsupportedMediaType, "unsupported_media_type", 415, 415, "unsupported_media_type"},
      {ErrorKind::kPayloadTooLarge, "payload_too_large", 413, 413, "payload_too_large"},
      {ErrorKind::kHeadersTooLarge, "headers_too_large", 431, 431, "headers_too_large"},
      {ErrorKind::kUriTooLong, "uri_too_long", 414, 414, "uri_too_long"},
      {ErrorKind::kBadRequest, "bad_request", 400, 400, "bad_request"},
      {ErrorKind::kTimeout, "timeout", 408, 408, "request_timeout"},
      {ErrorKind::kNotFound, "not_found", 404, 404, "unknown_url"},
      {ErrorKind::kMethodNotAllowed, "method_not_allowed", 405, 405, "method_not_allowed"},
      {ErrorKind::kUnauthorized, "unauthorized", 401, 401, "invalid_api_key"},
      {ErrorKind::kOverloaded, "overloaded", 429, 429, "rate_limit_exceeded"},
      {ErrorKind::kUnavailable, "unavailable", 503, 503, "service_unavailable"},
      {ErrorKind::kQueueTimeout, "queue_timeout", 503, 503, "queue_timeout"},
      {ErrorKind::kGeneration, "generation", 424, 500, "generation_failed"},
      {ErrorKind::kIncompleteGeneration, "incomplete_generation", 500, 500, "internal_error"},
      {ErrorKind::kDeadline, "deadline", 504, 504, "deadline_exceeded"},
      {ErrorKind::kHealthcheck, "healthcheck", 503, 503, "service_unavailable"},
      {ErrorKind::kInternal, "internal", 500, 500, "internal_error"},
      {ErrorKind::kContextLength, "context_length_exceeded", 400, 400, "context_length_exceeded"},
  };
  // clang-format on
  ASSERT_EQ(std::size(rows), static_cast<std::size_t>(ErrorKind::kContextLength));
  for (const Row& row : rows) {
    SCOPED_TRACE(row.name);
    const Status status(Code::kInternal, row.kind, "x", "f");
    EXPECT_EQ(http_status(ApiStyle::kOpenAi, status), row.openai);
    EXPECT_EQ(http_status(ApiStyle::kNative, status), row.tgi);
    EXPECT_EQ(http_status(ApiStyle::kTgi, status), row.tgi);
    const std::string native = error_body(ApiStyle::kNative, status);
    EXPECT_EQ(error_body(ApiStyle::kTgi, status), native);
    const auto tgi = json::parse(native);
    ASSERT_TRUE(tgi.ok());
    EXPECT_EQ(tgi->find("error")->as_string(), client_text(status));
    EXPECT_EQ(tgi->find("error_type")->as_string(), row.name);
    const auto openai = json::parse(error_body(ApiStyle::kOpenAi, status));
    ASSERT_TRUE(openai.ok());
    const json::Value& error = *openai->find("error");
    const std::string_view type = row.openai == 429  ? "rate_limit_error"
                                  : row.openai < 500 ? "invalid_request_error"
                                                     : "server_error";
    EXPECT_EQ(error.find("message")->as_string(), client_text(status));
    EXPECT_EQ(error.find("type")->as_string(), type);
    EXPECT_EQ(error.find("param")->as_string(), "f");
    EXPECT_EQ(error.find("code")->as_string(), row.code);
    EXPECT_EQ(openai->find("error_type")->as_string(), row.name);
  }
}

TEST(Errors, AnthropicsStatusesAndTypes) {
  struct Row {
    ErrorKind kind;
    int status;
    std::string_view type;
  };
  const Row rows[] = {
      {ErrorKind::kInvalidJson, 400, "invalid_request_error"},
      {ErrorKind::kValidation, 400, "invalid_request_error"},
      {ErrorKind::kContextLength, 400, "invalid_request_error"},
      {ErrorKind::kUnauthorized, 401, "authentication_error"},
      {ErrorKind::kNotFound, 404, "not_found_error"},
      {ErrorKind::kPayloadTooLarge, 413, "request_too_large"},
      {ErrorKind::kUnsupportedMediaType, 415, "invalid_request_error"},
      {ErrorKind::kGeneration, 500, "api_error"},
      {ErrorKind::kInternal, 500, "api_error"},
      {ErrorKind::kDeadline, 504, "timeout_error"},
      {ErrorKind::kOverloaded, 529, "overloaded_error"},
      {ErrorKind::kUnavailable, 529, "overloaded_error"},
      {ErrorKind::kQueueTimeout, 529, "overloaded_error"},
  };
  for (const Row& row : rows) {
    const Status status(Code::kInternal, row.kind, "x");
    EXPECT_EQ(http_status(ApiStyle::kAnthropic, status), row.status);
    EXPECT_EQ(error_body(ApiStyle::kAnthropic, status, "r"),
              R"({"type":"error","error":{"type":")" + std::string(row.type) + R"(","message":")" +
                  client_text(status) + R"("},"request_id":"r"})");
  }
  const Status by_shard(Code::kUnimplemented, ErrorKind::kGeneration, "x");
  EXPECT_EQ(http_status(ApiStyle::kAnthropic, by_shard), 400);
}

TEST(Errors, CodesThatAreNarrowerThanTheirKind) {
  EXPECT_EQ(openai_code({Code::kUnimplemented, ErrorKind::kValidation, "x"}),
            "unsupported_parameter");
  const Status by_shard(Code::kUnimplemented, ErrorKind::kGeneration, "x", "logit_bias");
  EXPECT_EQ(openai_code(by_shard), "unsupported_parameter");
  EXPECT_EQ(http_status(ApiStyle::kOpenAi, by_shard), 400);
  EXPECT_EQ(http_status(ApiStyle::kTgi, by_shard), 424);
  const Status by_list(Code::kInvalidArgument, ErrorKind::kGeneration, "x", "allowed_token_ids");
  EXPECT_EQ(openai_code(by_list), "invalid_value");
  EXPECT_EQ(http_status(ApiStyle::kOpenAi, by_list), 400);
  EXPECT_EQ(http_status(ApiStyle::kAnthropic, by_list), 400);
  EXPECT_EQ(http_status(ApiStyle::kOllama, by_list), 400);
  EXPECT_EQ(http_status(ApiStyle::kTgi, by_list), 424);
  EXPECT_EQ(failure_label(by_list), telemetry::FailureLabel::kGeneration);
  const Status by_plan(Code::kInvalidArgument, ErrorKind::kGeneration, "x", "max_new_tokens");
  EXPECT_EQ(openai_code(by_plan), "generation_failed");
  EXPECT_EQ(http_status(ApiStyle::kOpenAi, by_plan), 500);
  EXPECT_EQ(openai_code({Code::kNotFound, ErrorKind::kNotFound, "x", "model"}), "model_not_found");
  EXPECT_EQ(openai_code({Code::kNotFound, ErrorKind::kNotFound, "x"}), "unknown_url");
}

TEST(Errors, BodiesOfBothFamilies) {
  const Status status = invalid_argument("`top_k` must be strictly positive", "top_k");
  EXPECT_EQ(
      error_body(ApiStyle::kNative, status),
      R"({"error":"Input validation error: `top_k` must be strictly positive","error_type":"validation"})");
  EXPECT_EQ(
      error_body(ApiStyle::kOpenAi, status),
      R"({"error":{"message":"Input validation error: `top_k` must be strictly positive","type":"invalid_request_error","param":"top_k","code":"invalid_value"},"error_type":"validation"})");
  for (const ApiStyle v1 : {ApiStyle::kOpenAi, ApiStyle::kTgi}) {
    EXPECT_EQ(style_of("/v1/models", v1), v1);
    EXPECT_EQ(style_of("/v10", v1), ApiStyle::kNative);
    EXPECT_EQ(style_of("/v1/messages", v1), ApiStyle::kAnthropic);
    EXPECT_EQ(style_of("/v1/messages/count_tokens", v1), ApiStyle::kAnthropic);
    EXPECT_EQ(style_of("/v1/messages2", v1), v1);
  }
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
    for (ApiStyle style :
         {ApiStyle::kNative, ApiStyle::kOpenAi, ApiStyle::kTgi, ApiStyle::kAnthropic}) {
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
            "data: {\"error\":{\"message\":\"too slow\",\"type\":\"server_error\",\"param\":null,"
            "\"code\":\"deadline_exceeded\",\"http_status_code\":504}}\n\n");
  EXPECT_EQ(error_event(ApiStyle::kTgi, status),
            "data: {\"error\":{\"message\":\"too slow\",\"http_status_code\":422}}\n\n");
  EXPECT_EQ(error_event(ApiStyle::kAnthropic, status),
            "event: error\ndata: {\"type\":\"error\",\"error\":{\"type\":\"timeout_error\","
            "\"message\":\"too slow\"},\"request_id\":null}\n\n");
}

TEST(Errors, EchoCutsBetweenCharacters) {
  const std::string text = std::string(63, 'a') + "\xC3\xA9";
  EXPECT_EQ(echo(text), std::string(63, 'a'));
  EXPECT_EQ(echo("short"), "short");
}

TEST(Errors, EveryCodeIsOfTheList) {
  const std::vector<std::string_view> all = openai_codes();
  EXPECT_EQ(std::set<std::string_view>(all.begin(), all.end()).size(), all.size());
  for (const ErrorRow& row : error_rows()) {
    for (const Code code : {Code::kInternal, Code::kUnimplemented, Code::kNotFound}) {
      for (const char* field : {"", "model", "response_id", "request_id"}) {
        const Status status(code, row.kind, "", field);
        EXPECT_NE(std::ranges::find(all, openai_code(status)), all.end()) << openai_code(status);
      }
    }
  }
}

}  // namespace
}  // namespace coxswain::api
