#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/documents.h"
#include "api/errors.h"
#include "json/json.h"

namespace coxswain::api {
namespace {

const DocumentLimits kLimits;

json::Value parse(std::string_view text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return std::move(value).value();
}

// The document with `more` members behind one message and max_tokens.
Result<ChatRequest> read_with(std::string_view more, const DocumentLimits& limits = kLimits) {
  return read_messages_request(
      parse(R"({"max_tokens":5,"messages":[{"role":"user","content":"x"}],)" + std::string(more) +
            "}"),
      limits);
}

Result<ChatRequest> read_chat(std::string_view messages, const DocumentLimits& limits = kLimits) {
  return read_messages_request(
      parse(R"({"max_tokens":5,"messages":)" + std::string(messages) + "}"), limits);
}

TEST(MessagesDocument, BecomesAChat) {
  const auto request = read_messages_request(parse(R"({
      "model":"claude","max_tokens":7,"stop_sequences":["a","b"],"temperature":0.5,"top_p":0.9,"top_k":3,
      "stream":true,"priority":2,"cache_salt":"s",
      "system":[{"type":"text","text":"Be ","cache_control":{"type":"ephemeral"}},{"type":"text","text":"brief."}],
      "messages":[{"role":"user","content":"1"},{"role":"user","content":[{"type":"text","text":"2"}]},
                  {"role":"assistant","content":"3"}]})"),
                                             kLimits);
  ASSERT_TRUE(request.ok()) << request.status().message();
  EXPECT_EQ(json::write(request->messages),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"1\n\n2"},)"
            R"({"role":"assistant","content":"3"}])");
  EXPECT_EQ(request->model, "claude");
  EXPECT_TRUE(request->stream);
  const Parameters& p = request->parameters;
  EXPECT_TRUE(p.do_sample);
  EXPECT_EQ(p.max_new_tokens, 7U);
  EXPECT_THAT(p.stop, ::testing::ElementsAre("a", "b"));
  EXPECT_EQ(p.temperature, 0.5F);
  EXPECT_EQ(p.top_p, 0.9F);
  EXPECT_EQ(p.top_k, 3);
  EXPECT_EQ(p.priority, 2);
  EXPECT_EQ(p.cache_salt, "s");
  EXPECT_THAT(request->ignored, ::testing::IsEmpty());
}

TEST(MessagesDocument, ValuesThatChangeNothing) {
  for (const std::string_view more : {R"("thinking":{"type":"disabled"})",
                                      R"("service_tier":"standard_only")",
                                      R"("tools":[],"tool_choice":{"type":"auto"})",
                                      R"("top_k":0)",
                                      R"("system":"")",
                                      R"("system":null)",
                                      R"("speed":"standard")",
                                      R"("mcp_servers":[])"}) {
    const auto request = read_with(more);
    ASSERT_TRUE(request.ok()) << more << request.status().message();
    EXPECT_EQ(json::write(request->messages), R"([{"role":"user","content":"x"}])");
    EXPECT_EQ(request->parameters.top_k, std::nullopt);
    EXPECT_THAT(request->ignored, ::testing::IsEmpty()) << more;
  }
  const auto labelled = read_with(
      R"("metadata":{"user_id":"u"},"cache_control":{"type":"ephemeral"},"nobody_knows":1)");
  ASSERT_TRUE(labelled.ok());
  EXPECT_THAT(labelled->ignored,
              ::testing::ElementsAre("nobody_knows", "metadata", "cache_control"));
}

TEST(MessagesDocument, RefusesByName) {
  struct Row {
    std::string_view more;
    std::string_view field;
    Code code = Code::kInvalidArgument;
  };
  const Row rows[] = {
      {R"("tools":{})", "tools"},
      {R"("tools":[{"name":"f"}])", "tools.0.input_schema"},
      {R"("tools":[{"input_schema":{}}])", "tools.0.name"},
      {R"("tools":[{"type":"bash_20250124","name":"bash"}])", "tools.0.type", Code::kUnimplemented},
      {R"("tool_choice":{"type":"any"})", "tool_choice"},
      {R"("tool_choice":{"type":"all"})", "tool_choice.type"},
      {R"("tool_choice":{"type":"tool"})", "tool_choice"},
      {R"("thinking":{"type":"on"})", "thinking.type"},
      {R"("thinking":true)", "thinking"},
      {R"("service_tier":"flex")", "service_tier", Code::kUnimplemented},
      {R"("output_config":[])", "output_config"},
      {R"("output_config":{"format":{"type":"json_object"}})", "output_config.format.type"},
      {R"("output_config":{"format":{"schema":{}}})", "output_config.format.type"},
      {R"("output_config":{"format":{"type":"json_schema"}})", "output_config.format.schema"},
      {R"("output_config":{"effort":1})", "output_config.effort"},
      {R"("output_config":{"tokens":1})", "output_config.tokens", Code::kUnimplemented},
      {R"("seed":1)", "seed", Code::kUnimplemented},
      {R"("max_completion_tokens":1)", "max_completion_tokens", Code::kUnimplemented},
      {R"("stop_sequences":"a")", "stop_sequences"},
      {R"("temperature":"0")", "temperature"},
      {R"("metadata":[])", "metadata"},
      {R"("metadata":{"user_id":1})", "metadata.user_id"},
      {R"("system":1)", "system"},
      {R"("system":[{"type":"image"}])", "system.0", Code::kUnimplemented},
  };
  for (const Row& row : rows) {
    const Status status = read_with(row.more).status();
    EXPECT_EQ(status.field(), row.field) << row.more;
    EXPECT_EQ(status.code(), row.code) << row.more;
    EXPECT_EQ(status.kind(), ErrorKind::kValidation) << row.more;
  }
}

TEST(MessagesDocument, RefusesMessagesByTheirPlace) {
  struct Row {
    std::string_view messages;
    std::string_view field;
    std::string_view text;
  };
  const Row rows[] = {
      {"1", "messages", "`messages` must be an array. Given: an integer"},
      {"[]", "messages", "`messages` cannot be empty"},
      {"[1]", "messages.0", "`messages.0` must be an object. Given: an integer"},
      {R"([{"role":"system","content":"x"}])",
       "messages.0.role",
       "`messages.0.role` must be \"user\" or \"assistant\". Given: system"},
      {R"([{"content":"x"}])",
       "messages.0.role",
       "`messages.0.role` must be \"user\" or \"assistant\". Given: none"},
      {R"([{"role":"user"}])", "messages.0.content", "`messages.0.content` is missing"},
      {R"([{"role":"user","content":"x"},{"role":"assistant","content":7}])",
       "messages.1.content",
       "`messages.1.content` must be a string or an array of blocks. Given: an integer"},
      {R"([{"role":"user","content":[{"type":"text","text":"x"},{"type":"image"}]}])",
       "messages.0.content.1",
       "`messages.0.content.1` must be of type `text` or `tool_result`: `image` blocks are not "
       "supported"},
      {R"([{"role":"user","content":["x"]}])",
       "messages.0.content.0",
       "`messages.0.content.0` must be an object with a `type`. Given: a string"},
      {R"([{"role":"user","content":[{"type":"text"}]}])",
       "messages.0.content.0",
       "`messages.0.content.0` must have a `text` that is a string"},
      {R"([{"role":"user","content":[{"type":"text","text":"x","citations":[{}]}]}])",
       "messages.0.content.0.citations",
       "`messages.0.content.0`: `citations` is not supported yet, except as []. Given: an array"},
  };
  for (const Row& row : rows) {
    const Status status = read_chat(row.messages).status();
    EXPECT_EQ(status.field(), row.field);
    EXPECT_EQ(status.message(), row.text);
  }
}

TEST(MessagesDocument, SizesAreLimited) {
  DocumentLimits limits;
  limits.messages_max = 1;
  limits.parts_per_message_max = 1;
  EXPECT_EQ(read_chat(R"([{"role":"user","content":"x"},{"role":"user","content":"x"}])", limits)
                .status()
                .message(),
            "`messages` must have at most 1 entries. Given: 2");
  EXPECT_EQ(read_with(R"("system":[{"type":"text","text":""},{"type":"text","text":""}])", limits)
                .status()
                .message(),
            "`system` must have at most 1 blocks. Given: 2");
}

TEST(MessagesDocument, UnknownMembersAreListedOrRefused) {
  const std::string_view messages =
      R"([{"role":"user","x":1,"content":[{"type":"text","text":"t","y":1}]}])";
  const auto request = read_chat(messages);
  ASSERT_TRUE(request.ok());
  EXPECT_THAT(request->ignored, ::testing::ElementsAre("messages.x", "content.y"));
  DocumentLimits strict;
  strict.strict_fields = true;
  EXPECT_EQ(read_chat(messages, strict).status().field(), "messages.0.x");
}

TEST(MessagesDocument, OnlyGenerationsNeedMaxTokens) {
  const json::Value body = parse(R"({"messages":[{"role":"user","content":"x"}]})");
  EXPECT_EQ(read_messages_request(body, kLimits).status().message(), "`max_tokens` is missing");
  EXPECT_TRUE(read_count_tokens_request(body, kLimits).ok());
}

}  // namespace
}  // namespace coxswain::api
