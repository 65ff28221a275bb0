#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "api/documents.h"

namespace coxswain::api {
namespace {

json::Value parse(const std::string& text) {
  auto value = json::parse(text);
  EXPECT_TRUE(value.ok()) << text;
  return value.ok() ? value.value() : json::Value();
}

const DocumentLimits kLimits;

OllamaRequest chat(const std::string& members) {
  auto out = read_ollama_chat_request(parse(R"({"model":"m",)" + members + "}"), kLimits);
  EXPECT_TRUE(out.ok()) << out.status().message();
  return out.ok() ? *std::move(out) : OllamaRequest();
}

OllamaRequest with_options(const std::string& members) {
  return chat(R"("options":{)" + members + "}");
}

TEST(OllamaDocument, WhatIsLeftOutIsOllamas) {
  const OllamaRequest got = chat(R"("messages":[{"role":"user","content":"Hi"}])");
  EXPECT_TRUE(got.chat.stream);
  EXPECT_TRUE(got.chat.parameters.do_sample);
  EXPECT_EQ(got.chat.parameters.temperature, 0.8F);
  EXPECT_EQ(got.chat.parameters.top_p, 0.9F);
  EXPECT_EQ(got.chat.parameters.top_k, 40);
  EXPECT_FALSE(got.chat.parameters.max_new_tokens || got.chat.parameters.repetition_penalty);
  EXPECT_TRUE(got.chat.ignored.empty());
}

TEST(OllamaDocument, NullMeansAbsentInEveryField) {
  const OllamaRequest got = chat(
      R"("messages":[{"role":"user","content":"Hi","images":null,"tool_calls":null}],"stream":null,"format":null,
      "options":null,"keep_alive":null,"tools":null,"think":null,"logprobs":null,"top_logprobs":null,"truncate":null)");
  EXPECT_TRUE(got.chat.stream);
  EXPECT_FALSE(got.chat.parameters.grammar || got.chat.tools);
  EXPECT_TRUE(got.chat.ignored.empty());
  EXPECT_TRUE(with_options(R"("seed":null,"stop":null,"num_predict":null,"mirostat":null)")
                  .chat.ignored.empty());
}

TEST(OllamaDocument, TheWindowOfAPenalty) {
  EXPECT_EQ(with_options(R"("repeat_penalty":1.5)").chat.parameters.repetition_penalty, 1.5F);
  EXPECT_EQ(
      with_options(R"("repeat_penalty":1.5,"repeat_last_n":-1)").chat.parameters.repetition_penalty,
      1.5F);
  EXPECT_FALSE(
      with_options(R"("repeat_penalty":1.5,"repeat_last_n":0)").chat.parameters.repetition_penalty);
  EXPECT_EQ(
      with_options(R"("repeat_penalty":1,"repeat_last_n":64)").chat.parameters.repetition_penalty,
      1.0F);
}

TEST(OllamaDocument, KeepAliveOfZeroUnloads) {
  for (const char* zero : {"0", "0.0", "\"0\"", "\"0s\""})
    EXPECT_TRUE(chat(std::string(R"("keep_alive":)") + zero).unloads) << zero;
  for (const char* other : {"-1", "300", "\"5m\"", "\"-1\"", "\"10s\""})
    EXPECT_FALSE(chat(std::string(R"("keep_alive":)") + other).unloads) << other;
}

TEST(OllamaDocument, MessagesGetTheNamesOfTemplates) {
  const OllamaRequest got = chat(
      R"("messages":[{"role":"assistant","thinking":"Hm","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}]},
      {"role":"tool","tool_name":"f","content":"2"}])");
  EXPECT_EQ(
      json::write(got.chat.messages),
      R"([{"role":"assistant","reasoning_content":"Hm","tool_calls":[{"function":{"name":"f","arguments":{"x":1}}}],)"
      R"("content":null},{"role":"tool","name":"f","content":"2"}])");
}

TEST(OllamaDocument, APromptIsTheLastMessage) {
  const auto got = read_ollama_generate_request(
      parse(R"({"model":"m","prompt":"Hi","system":"Be brief.","stream":false})"), kLimits);
  ASSERT_TRUE(got.ok()) << got.status().message();
  EXPECT_EQ(json::write(got->chat.messages),
            R"([{"role":"system","content":"Be brief."},{"role":"user","content":"Hi"}])");
  EXPECT_EQ(got->prompt, "Hi");
  EXPECT_FALSE(got->chat.stream || got->raw);
}

TEST(OllamaDocument, ErrorsNameThePlace) {
  const auto field_of = [](const std::string& members) {
    return read_ollama_chat_request(parse(R"({"model":"m",)" + members + "}"), kLimits)
        .status()
        .field();
  };
  EXPECT_EQ(field_of(R"("options":{"mirostat":1})"), "options.mirostat");
  EXPECT_EQ(field_of(R"("options":{"top_k":"x"})"), "options.top_k");
  EXPECT_EQ(field_of(R"("options":{"dry_base":"x"})"), "options.dry_base");
  EXPECT_EQ(field_of(R"("think":[])"), "think");
  EXPECT_EQ(field_of(R"("format":1)"), "format");
  EXPECT_EQ(field_of(R"("messages":1)"), "messages");
  EXPECT_EQ(field_of(R"("messages":[1])"), "messages");
  EXPECT_EQ(field_of(R"("tools":[{"type":"bash"}])"), "tools.0.type");
}

}  // namespace
}  // namespace coxswain::api
