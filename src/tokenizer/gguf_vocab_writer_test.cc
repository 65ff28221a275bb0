// Real tokenizers written as GGUF keys and read back: by the lists alone, and with the whole file.

#include "tokenizer/gguf_vocab_writer.h"

#include <algorithm>
#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "base/testing/temp_folder.h"
#include "json/json.h"
#include "tokenizer/formats.h"

namespace coxswain::tokenizer {
namespace {

using testing::HasSubstr;

constexpr std::string_view kSmallJson =
    R"({"added_tokens":[{"id":5,"content":"<end>","special":true},{"id":6,"content":"<call>","special":false}],)"
    R"("normalizer":null,"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},)"
    R"("post_processor":null,"decoder":{"type":"ByteLevel"},)"
    R"("model":{"type":"BPE","vocab":{"a":0,"b":1,"ab":2,"abb":3,"bb":4},"merges":["a b","ab b","b b"]}})";

class GgufVocabulary : public testing::Test {
 protected:
  Result<gguf::Header> written(const std::filesystem::path& path,
                               std::uint64_t n_rows,
                               const std::vector<TokenId>& ends = {}) {
    gguf::KeyList keys;
    COXSWAIN_RETURN_IF_ERROR(add_gguf_vocabulary(path, n_rows, ends, keys));
    const std::string front = gguf::front_of(keys, {});
    folder_.write("written.gguf", front);
    return gguf::Header::parse(front, front.size());
  }
  std::string refusal(const std::string& from, const std::string& to, std::uint64_t n_rows = 8) {
    std::string text(kSmallJson);
    const std::size_t at = text.find(from);
    EXPECT_NE(at, std::string::npos) << from;
    text.replace(at, from.size(), to);
    folder_.write("tokenizer.json", text);
    return written(folder_.path(), n_rows).status().message();
  }

  const base::TempFolder folder_;
};

TEST_F(GgufVocabulary, KeysSayWhatTheFileSays) {
  folder_.write("tokenizer.json", kSmallJson);
  folder_.write("tokenizer_config.json", R"({"eos_token":"<end>","pad_token":"<end>"})");
  const auto header = written(folder_.path(), 8, {3, 5});
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->text("tokenizer.ggml.model"), "gpt2");
  EXPECT_EQ(header->text("tokenizer.ggml.pre"), "gpt-2");
  EXPECT_THAT(header->texts("tokenizer.ggml.tokens"),
              testing::ElementsAre("a", "b", "ab", "abb", "bb", "<end>", "<call>", "[PAD7]"));
  EXPECT_THAT(header->texts("tokenizer.ggml.merges"), testing::ElementsAre("a b", "ab b", "b b"));
  const gguf::Value* const types = header->find("tokenizer.ggml.token_type");
  ASSERT_NE(types, nullptr);
  EXPECT_EQ(types->number(0), 1);
  EXPECT_EQ(types->number(5), 3);
  EXPECT_EQ(types->number(6), 4);
  EXPECT_EQ(types->number(7), 5);
  EXPECT_EQ(header->number("tokenizer.ggml.eos_token_id"), 5);
  EXPECT_EQ(header->number("tokenizer.ggml.eot_token_id"), 3);
  EXPECT_EQ(header->number("tokenizer.ggml.padding_token_id"), 5);
  EXPECT_EQ(header->number("tokenizer.ggml.add_bos_token"), 0);
  EXPECT_EQ(header->text(kGgufWholeTokenizer), kSmallJson);
}

TEST_F(GgufVocabulary, WhatCannotBeWrittenIsRefusedByName) {
  EXPECT_EQ(refusal("null", "null"), "");
  EXPECT_THAT(refusal("null", R"({"type":"Lowercase"})"),
              HasSubstr("normalizer: {\"type\":\"Lowercase\"}"));
  EXPECT_THAT(refusal(R"("add_prefix_space":false)", R"("add_prefix_space":true)"),
              HasSubstr("pre_tokenizer: "));
  EXPECT_THAT(
      refusal(
          R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})",
          R"({"type":"Sequence","pretokenizers":[{"type":"Split","pattern":{"Regex":"x"},"behavior":"Isolated"},)"
          R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false}]})"),
      HasSubstr("no name for the split x"));
  EXPECT_THAT(refusal("null", "null", 6), HasSubstr("it has 7 tokens, the embedding 6 rows"));
  EXPECT_THAT(refusal(R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":true})", "null"),
              HasSubstr("neither a byte-level pre_tokenizer nor byte_fallback"));
  std::filesystem::remove(folder_.path() + "/tokenizer.json");
  EXPECT_THAT(written(folder_.path(), 8).status().message(), HasSubstr("tokenizer.json is needed"));
}

struct RealCase {
  const char* folder;
  const char* model;  // empty: it is refused
  const char* pre;
  // Of 246 texts those of other tokens by the lists alone: long runs of blanks, blanks beside added tokens, NFC, and
  // characters that are unknown where there are no tokens of bytes.
  std::size_t n_off_max;
};

class RealTokenizers : public GgufVocabulary, public testing::WithParamInterface<RealCase> {};

TEST_P(RealTokenizers, GiveTheSameTokens) {
  const char* const data = std::getenv("COXSWAIN_DATA");  // NOLINT(concurrency-mt-unsafe)
  if (data == nullptr) GTEST_SKIP() << "COXSWAIN_DATA names no folder";
  const std::filesystem::path path = std::filesystem::path(data) / GetParam().folder;
  if (!std::filesystem::exists(path / "tokenizer.json"))
    GTEST_SKIP() << path << " has no tokenizer.json";
  const auto texts =
      json::parse_file(std::string(data) + "/tokenizers/expected/texts.json", 1 << 24);
  ASSERT_TRUE(texts.ok());
  const auto own = Tokenizer::load(path);
  ASSERT_TRUE(own.ok());
  const auto header = written(path, (*own)->vocab_size() + 3);
  if (*GetParam().model == '\0') {
    EXPECT_EQ(header.status().code(), Code::kUnimplemented);
    return;
  }
  ASSERT_TRUE(header.ok()) << header.status().message();
  EXPECT_EQ(header->text("tokenizer.ggml.model"), GetParam().model);
  EXPECT_EQ(header->text("tokenizer.ggml.pre"), GetParam().pre);
  const auto whole = Tokenizer::load(folder_.file("written.gguf"));
  ASSERT_TRUE(whole.ok()) << whole.status().message();
  const auto lists = tokenizer_of_lists(*header);
  ASSERT_TRUE(lists.ok()) << lists.status().message();
  EXPECT_EQ((*whole)->bos_token(), (*own)->bos_token());
  std::size_t n_off = 0;
  for (const json::Value& each : texts->as_array()) {
    const std::string& text = each.find("text")->as_string();
    const auto wanted = (*own)->encode(text, {});
    ASSERT_EQ((*whole)->encode(text, {})->ids, wanted->ids) << text;
    ASSERT_EQ((*whole)->decode(wanted->ids, false), (*own)->decode(wanted->ids, false)) << text;
    if ((*lists)->encode(text, {})->ids != wanted->ids) ++n_off;
  }
  EXPECT_LE(n_off, GetParam().n_off_max);
}

INSTANTIATE_TEST_SUITE_P(
    All,
    RealTokenizers,
    testing::Values(RealCase{"tokenizers/llama-2", "llama", "default", 1},
                    RealCase{"tokenizers/mistral-7b-v0.2", "llama", "default", 0},
                    RealCase{"tokenizers/phi-3-mini", "llama", "default", 1},
                    RealCase{"models/stories260K", "llama", "default", 0},
                    RealCase{"models/TinyStories-656K", "llama", "default", 86},
                    RealCase{"tokenizers/gpt2", "gpt2", "gpt-2", 0},
                    RealCase{"tokenizers/pythia", "gpt2", "gpt-2", 3},
                    RealCase{"tokenizers/smolvlm", "gpt2", "smollm", 0},
                    RealCase{"tokenizers/llama-3", "gpt2", "llama-bpe", 0},
                    RealCase{"tokenizers/qwen2.5", "gpt2", "qwen2", 3},
                    RealCase{"tokenizers/falcon", "", "", 0},
                    RealCase{"tokenizers/bert-base-uncased", "", "", 0},
                    RealCase{"tokenizers/t5-small", "", "", 0}),
    [](const auto& test) {
      std::string name = test.param.folder;
      std::ranges::replace_if(
          name, [](char c) { return std::isalnum(static_cast<unsigned char>(c)) == 0; }, '_');
      return name;
    });

}  // namespace
}  // namespace coxswain::tokenizer
