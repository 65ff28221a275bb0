// Damaged files, hostile sizes, and streams cut in every way.

#include <cstdlib>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "json/json.h"
#include "tokenizer/formats.h"
#include "tokenizer/tokenizer.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

namespace fs = std::filesystem;

// A small tokenizer with every kind of section.
constexpr std::string_view kJson = R"({
  "added_tokens": [{"id": 270, "content": "<s>", "special": true, "normalized": false, "lstrip": true, "rstrip": true},
                   {"id": 271, "content": "word", "special": false, "normalized": true, "single_word": true}],
  "normalizer": {"type": "Sequence", "normalizers": [{"type": "NFKC"}, {"type": "Lowercase"}, {"type": "Prepend", "prepend": "▁"},
     {"type": "Replace", "pattern": {"String": " "}, "content": "▁"}, {"type": "Replace", "pattern": {"Regex": "x{2,}"}, "content": "x"}]},
  "pre_tokenizer": {"type": "Sequence", "pretokenizers": [{"type": "Split", "pattern": {"Regex": "[0-9]+"}, "behavior": "MergedWithNext"}, {"type": "Punctuation"}]},
  "post_processor": {"type": "BertProcessing", "cls": ["<s>", 270], "sep": ["<s>", 270]},
  "decoder": {"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "▁"}, "content": " "}, {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 1}]},
  "model": {"type": "BPE", "unk_token": "?", "fuse_unk": true, "byte_fallback": false,
            "vocab": {"?": 0, "a": 1, "b": 2, "▁": 3, "ab": 4, "▁ab": 5, "<0xE2>": 6, "<0x82>": 7, "<0xAC>": 8, "\u00e9": 9},
            "merges": ["a b", "▁ ab"]}})";

std::string random_bytes(std::mt19937& random, std::size_t n_max) {
  std::string out;
  const std::size_t n = std::uniform_int_distribution<std::size_t>(0, n_max)(random);
  static constexpr std::string_view kSome = "ab 0<s>word\xE2\x82\xAC\xC3\xA9.x";
  for (std::size_t i = 0; i < n; ++i) {
    const auto pick = std::uniform_int_distribution<std::size_t>(0, 5)(random);
    out.push_back(
        pick == 0 ? static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random))
                  : kSome[std::uniform_int_distribution<std::size_t>(0, kSome.size() - 1)(random)]);
  }
  return out;
}

// Whatever was loaded must encode and decode anything.
void exercise(TokenizerParts parts, std::mt19937& random) {
  if (!parts.added.prepare(parts.normalizer.get()).ok()) return;
  const PipelineTokenizer tokenizer(std::move(parts));
  for (int i = 0; i < 3; ++i) {
    const std::string text = random_bytes(random, 64);
    const auto encoding = tokenizer.encode(text, {});
    if (!encoding.ok()) continue;
    ASSERT_EQ(encoding->ids.size(), encoding->offsets.size());
    for (const TextSpan& span : encoding->offsets) {
      ASSERT_LE(span.begin, span.end);
      ASSERT_LE(span.end, text.size());
    }
    const std::string decoded = tokenizer.decode(encoding->ids, true);
    ASSERT_EQ(valid_utf8_prefix(decoded), decoded.size());
  }
}

TEST(RobustnessTest, TruncatedAnywhereIsAnErrorOrWorks) {
  std::mt19937 random(1);
  for (std::size_t n = 0; n <= kJson.size(); ++n) {
    auto parts = read_tokenizer_json(kJson.substr(0, n));
    EXPECT_EQ(parts.ok(), n == kJson.size()) << n;
    if (parts.ok()) exercise(std::move(parts).value(), random);
  }
}

TEST(RobustnessTest, MutatedJsonNeverBreaks) {
  std::mt19937 random(2);
  for (int round = 0; round < 4000; ++round) {
    std::string text(kJson);
    for (int changes = std::uniform_int_distribution<int>(1, 3)(random); changes > 0; --changes) {
      const std::size_t at = std::uniform_int_distribution<std::size_t>(0, text.size() - 1)(random);
      static constexpr std::string_view kLikely = "\"{}[],:0123456789-\\ eab";
      text[at] = kLikely[std::uniform_int_distribution<std::size_t>(0, kLikely.size() - 1)(random)];
    }
    auto parts = read_tokenizer_json(text);
    if (parts.ok()) exercise(std::move(parts).value(), random);
  }
}

TEST(RobustnessTest, DeepNestingIsRefused) {
  const std::string deep(1'000'000, '[');
  EXPECT_FALSE(read_tokenizer_json(deep).ok());
  EXPECT_FALSE(
      read_tokenizer_json("{\"model\": {\"vocab\": " + std::string(1'000'000, '{') + "}}").ok());
  EXPECT_FALSE(read_tokenizer_json("{\"normalizer\": " + deep + "}").ok());
}

std::string with_added_tokens(int n_tokens) {
  std::string text =
      R"({"model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}, "added_tokens": [)";
  for (int i = 0; i < n_tokens; ++i) {
    if (i > 0) text += ",";
    text += "{\"id\": " + std::to_string(i + 1) + ", \"content\": \"<t" + std::to_string(i) +
            ">\", \"special\": true}";
  }
  return text + "]}";
}

TEST(RobustnessTest, ManyAddedTokensLoadAndTooManyAreRefused) {
  constexpr int kTokens = 100'000;
  auto parts = read_tokenizer_json(with_added_tokens(kTokens));
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  ASSERT_TRUE(parts->added.prepare(nullptr).ok());
  const PipelineTokenizer tokenizer(std::move(parts).value());
  const auto encoding = tokenizer.encode("<t99999><t0>", {});
  ASSERT_TRUE(encoding.ok());
  EXPECT_EQ(encoding->ids, (std::vector<TokenId>{kTokens, 1}));
  EXPECT_FALSE(read_tokenizer_json(with_added_tokens(1'000'000)).ok());
}

// A model file as the protobuf library would write it.
std::string sentencepiece_file() {
  const auto field = [](unsigned number, const std::string& bytes) {
    return std::string(1, static_cast<char>(number << 3 | 2)) + static_cast<char>(bytes.size()) +
           bytes;
  };
  const auto piece = [&](const std::string& text, int kind) {
    std::string out = field(1, text) + std::string("\x15\x00\x00\x80\xBF", 5);
    return field(1, out + "\x18" + static_cast<char>(kind));
  };
  return piece("<unk>", 2) + piece("<s>", 3) + piece("</s>", 3) + piece("\xE2\x96\x81", 1) +
         piece("a", 1) + piece("b", 1) +
         piece(
             "\xE2\x96\x81"
             "a",
             1) +
         field(2, "\x18\x02") + field(3, std::string("\x20\x00", 2));
}

TEST(RobustnessTest, SentencePieceFileReadsAndSurvivesDamage) {
  std::mt19937 random(3);
  const std::string good = sentencepiece_file();
  auto parts = read_sentencepiece(good, false);
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  EXPECT_EQ(parts->eos, 2);
  ASSERT_TRUE(parts->added.prepare(parts->normalizer.get()).ok());
  const PipelineTokenizer tokenizer(std::move(parts).value());
  EXPECT_EQ(tokenizer.encode("a b", {})->ids, (std::vector<TokenId>{6, 3, 5}));
  EXPECT_EQ(tokenizer.decode(std::vector<TokenId>{6, 3, 5}, true), "a b");
  for (std::size_t n = 0; n < good.size(); ++n) {
    auto cut = read_sentencepiece(good.substr(0, n), true);
    if (cut.ok()) exercise(std::move(cut).value(), random);
  }
  for (int round = 0; round < 5000; ++round) {
    std::string bytes = good;
    bytes[std::uniform_int_distribution<std::size_t>(0, bytes.size() - 1)(random)] =
        static_cast<char>(std::uniform_int_distribution<int>(0, 255)(random));
    auto changed = read_sentencepiece(bytes, true);
    if (changed.ok()) exercise(std::move(changed).value(), random);
  }
}

// The reference answers of LlamaTokenizer (transformers 5) for the same settings.
TEST(SentencePieceFiles, WhereABlankGoesBeforeTheText) {
  const auto ids = [](std::string_view config, std::string_view text) {
    const auto settings = json::parse(config);
    auto parts = read_sentencepiece(sentencepiece_file(), true, *settings);
    EXPECT_TRUE(parts.ok() && parts->added.prepare(parts->normalizer.get()).ok());
    const PipelineTokenizer tokenizer(std::move(parts).value());
    EncodeOptions plain;
    plain.wants_offsets = false;
    const auto encoding = tokenizer.encode(text, {});
    EXPECT_EQ(encoding->ids, tokenizer.encode(text, plain)->ids);
    return encoding->ids;
  };
  using Ids = std::vector<TokenId>;
  for (const char* config : {"{}", R"({"legacy":true})", R"({"legacy":null})"}) {
    EXPECT_EQ(ids(config, "a</s>a"), (Ids{6, 2, 6})) << config;
    EXPECT_EQ(ids(config, " a"), (Ids{3, 6})) << config;
  }
  const char* start_only = R"({"legacy":false})";
  EXPECT_EQ(ids(start_only, "a</s>a"), (Ids{6, 2, 4}));
  EXPECT_EQ(ids(start_only, "</s>a"), (Ids{2, 4}));
  EXPECT_EQ(ids(start_only, "</s> a"), (Ids{2, 6}));
  EXPECT_EQ(ids(start_only, " a"), (Ids{6})) << "a blank is there already";
  EXPECT_EQ(ids(R"({"add_prefix_space":false})", "a</s> a"), (Ids{4, 2, 6}));
  EXPECT_FALSE(
      read_sentencepiece(sentencepiece_file(), true, *json::parse(R"({"legacy":1})")).ok());
}

TEST(RobustnessTest, MorePiecesThanIdsAreRefusedBeforeTheyFillTheMemory) {
  std::string bytes;
  for (std::int64_t i = 0; i <= kTokenIdMax + 1; ++i) bytes += std::string_view("\x0A\x00", 2);
  const auto parts = read_sentencepiece(bytes, false);
  ASSERT_FALSE(parts.ok());
  EXPECT_NE(parts.status().message().find("is one too many"), std::string::npos)
      << parts.status().message();
}

TEST(RobustnessTest, RankFileErrorsNameTheLine) {
  EXPECT_NE(read_tiktoken("YQ== 0\nYg== x\n", {}).status().message().find("line 2"),
            std::string::npos);
  EXPECT_NE(read_tiktoken("YQ== 0\n%%% 1\n", {}).status().message().find("line 2"),
            std::string::npos);
  EXPECT_FALSE(read_tiktoken("YQ== 0\nYQ== 1\n", {}).ok());
  EXPECT_FALSE(read_tiktoken("", {}).ok());
  auto parts = read_tiktoken("YQ== 0\nYg== 1\nYWI= 2\n", {"\\S+"});
  ASSERT_TRUE(parts.ok()) << parts.status().message();
  ASSERT_TRUE(parts->added.prepare(nullptr).ok());
  EXPECT_EQ(PipelineTokenizer(std::move(parts).value()).encode("aab", {})->ids,
            (std::vector<TokenId>{0, 2}));
}

// Every tokenizer.json of the data: a stream cut anywhere gives the text of decoding at once.
TEST(RobustnessTest, StreamsAgreeWithDecodingAtOnce) {
  const char* data = std::getenv("COXSWAIN_DATA");  // NOLINT(concurrency-mt-unsafe)
  const fs::path folder = fs::path(data == nullptr ? "" : data) / "tokenizers";
  if (data == nullptr || !fs::is_directory(folder))
    GTEST_SKIP() << "COXSWAIN_DATA names no folder with tokenizers";
  std::mt19937 random(4);
  for (const char* name : {"gpt2", "llama-2", "bert-base-uncased", "t5-small"}) {
    const auto loaded = Tokenizer::load(folder / name / "tokenizer.json");
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    for (int round = 0; round < 2000; ++round) {
      std::vector<TokenId> ids;
      for (int n = std::uniform_int_distribution<int>(0, 20)(random); n > 0; --n)
        ids.push_back(
            std::uniform_int_distribution<TokenId>(0, round % 2 == 0 ? 300 : 30'000)(random));
      const auto stream = (*loaded)->incremental({}, true);
      std::string text;
      for (const TokenId id : ids) {
        const std::string piece = stream->push(id);
        ASSERT_EQ(valid_utf8_prefix(piece), piece.size());
        text += piece;
      }
      text += stream->finish();
      ASSERT_EQ(text, (*loaded)->decode(ids, true)) << name;
    }
  }
}

}  // namespace
}  // namespace coxswain::tokenizer
