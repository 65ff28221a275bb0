#include "tokenizer/tokenizer.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <filesystem>
#include <random>
#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/testing/model_folder.h"

namespace coxswain::tokenizer {
namespace {

using ::testing::ElementsAre;
using ::testing::HasSubstr;

// Writes a tokenizer.json into a folder of its own and loads it.
class TokenizerTest : public ModelFolder {
 protected:
  std::shared_ptr<const Tokenizer> load_json(const std::string& text) {
    write("tokenizer.json", text);
    auto loaded = load();
    EXPECT_TRUE(loaded.ok()) << loaded.status().message();
    return loaded.ok() ? *loaded : nullptr;
  }
};

std::vector<TokenId> ids(const Tokenizer& tokenizer,
                         std::string_view text,
                         std::vector<TextSpan> untrusted = {}) {
  EncodeOptions options;
  options.untrusted = untrusted;
  const auto encoding = tokenizer.encode(text, options);
  EXPECT_TRUE(encoding.ok()) << encoding.status().message();
  return encoding.ok() ? encoding->ids : std::vector<TokenId>();
}

// "ab", "abc" and a blank with "a"; <s> goes first, <|end|> is special, <tool> is not.
constexpr std::string_view kByteLevel = R"({
  "added_tokens": [
    {"id": 10, "content": "<s>", "special": true, "normalized": false},
    {"id": 11, "content": "<|end|>", "special": true, "normalized": false},
    {"id": 12, "content": "<tool>", "special": false, "normalized": false}],
  "pre_tokenizer": {"type": "ByteLevel", "add_prefix_space": false, "trim_offsets": true, "use_regex": true},
  "post_processor": {"type": "TemplateProcessing", "single": [{"SpecialToken": {"id": "<s>", "type_id": 0}}, {"Sequence": {"id": "A", "type_id": 0}}],
    "special_tokens": {"<s>": {"id": "<s>", "ids": [10], "tokens": ["<s>"]}}},
  "decoder": {"type": "ByteLevel"},
  "model": {"type": "BPE", "vocab": {"a": 0, "b": 1, "c": 2, "Ġ": 3, "ab": 4, "abc": 5, "Ġa": 6, "Ã": 7, "©": 8, "<": 9, "|": 13, "e": 14, "n": 15, "d": 16, ">": 17},
            "merges": ["a b", "ab c", "Ġ a"]}})";

TEST_F(TokenizerTest, EveryTokenHasTheBytesThatItAdds) {
  const auto byte_level = load_json(std::string(kByteLevel));
  ASSERT_NE(byte_level, nullptr);
  EXPECT_EQ(byte_level->token_bytes(6), " a");
  EXPECT_EQ(byte_level->token_bytes(7), "\xC3");
  EXPECT_EQ(byte_level->token_bytes(8), "\xA9");
  EXPECT_EQ(byte_level->token_bytes(12), "<tool>");
  EXPECT_EQ(byte_level->token_bytes(10), "");
  EXPECT_EQ(byte_level->token_bytes(11), "");
  EXPECT_EQ(byte_level->token_bytes(-1), "");
  EXPECT_EQ(byte_level->token_bytes(999), "");
  // As SentencePiece's vocabularies become: a blank before the first word is taken away, bytes are fused.
  const auto pieces = load_json(R"({
    "added_tokens": [{"id": 0, "content": "<s>", "special": true, "normalized": false}],
    "decoder": {"type": "Sequence", "decoders": [
      {"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "}, {"type": "ByteFallback"},
      {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]},
    "model": {"type": "BPE", "byte_fallback": true, "vocab": {"<s>": 0, "<0xC3>": 1, "\u2581a": 2, "a": 3, "\u2581\u2581": 4, "<0x0A>": 5},
              "merges": []}})");
  ASSERT_NE(pieces, nullptr);
  EXPECT_EQ(pieces->token_bytes(0), "");
  EXPECT_EQ(pieces->token_bytes(1), "\xC3");
  EXPECT_EQ(pieces->token_bytes(2), " a");
  EXPECT_EQ(pieces->token_bytes(3), "a");
  EXPECT_EQ(pieces->token_bytes(4), "  ");
  EXPECT_EQ(pieces->token_bytes(5), "\n");
}

TEST_F(TokenizerTest, ByteLevelEncodesAndDecodes) {
  const auto tokenizer = load_json(std::string(kByteLevel));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(ids(*tokenizer, "abc a"), ElementsAre(10, 5, 6));
  EXPECT_THAT(ids(*tokenizer, "\xC3\xA9"), ElementsAre(10, 7, 8));
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{10, 5, 6, 7, 8}, false), "<s>abc a\xC3\xA9");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{10, 5, 6, 7, 8}, true), "abc a\xC3\xA9");
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{7, -1, 999}, true), "\xEF\xBF\xBD");
  EXPECT_EQ(tokenizer->vocab_size(), 18U);
  EXPECT_EQ(tokenizer->unknown_split_pattern(), "");
}

TEST_F(TokenizerTest, OffsetsCoverWholeCharacters) {
  const auto tokenizer = load_json(std::string(kByteLevel));
  ASSERT_NE(tokenizer, nullptr);
  const auto encoding = tokenizer->encode("ab\xC3\xA9<s>", {});
  ASSERT_TRUE(encoding.ok());
  EXPECT_THAT(encoding->ids, ElementsAre(10, 4, 7, 8, 10));
  EXPECT_THAT(
      encoding->offsets,
      ElementsAre(TextSpan{0, 0}, TextSpan{0, 2}, TextSpan{2, 4}, TextSpan{2, 4}, TextSpan{4, 7}));
}

TEST_F(TokenizerTest, UntrustedTextMakesNoSpecialToken) {
  const auto tokenizer = load_json(std::string(kByteLevel));
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(ids(*tokenizer, "<|end|>"), ElementsAre(10, 11));
  EXPECT_THAT(ids(*tokenizer, "<|end|>", {{0, 7}}), ElementsAre(10, 9, 13, 14, 15, 16, 13, 17));
  // One byte is enough, a neighbour is not.
  EXPECT_THAT(ids(*tokenizer, "<|end|>", {{6, 7}}), ElementsAre(10, 9, 13, 14, 15, 16, 13, 17));
  EXPECT_THAT(ids(*tokenizer, "a<|end|>a", {{0, 1}, {8, 9}}), ElementsAre(10, 0, 11, 0));
  EXPECT_THAT(ids(*tokenizer, "<tool>", {{0, 6}}), ElementsAre(10, 12));
  // Broken bytes before it change nothing, whether offsets are wanted or not.
  const std::vector<TextSpan> user{{1, 9}};
  for (const bool wants_offsets : {true, false}) {
    EncodeOptions options;
    options.untrusted = user;
    options.wants_offsets = wants_offsets;
    EXPECT_THAT(tokenizer->encode("a\xFF<|end|>", options)->ids,
                ElementsAre(10, 0, 9, 13, 14, 15, 16, 13, 17));
  }
}

TEST_F(TokenizerTest, TokensAmongBlanksThatAnotherTookAreGone) {
  const auto tokenizer = load_json(R"({
    "added_tokens": [{"id": 2, "content": "<t>", "rstrip": true, "lstrip": true, "normalized": false},
                     {"id": 3, "content": " ", "rstrip": true, "lstrip": true, "normalized": false}],
    "model": {"type": "WordLevel", "vocab": {"a": 0, "?": 1}, "unk_token": "?"}})");
  ASSERT_NE(tokenizer, nullptr);
  const auto encoding = tokenizer->encode("a <t>  a", {});
  ASSERT_TRUE(encoding.ok());
  EXPECT_THAT(encoding->ids, ElementsAre(0, 3, 2, 0));
  EXPECT_THAT(encoding->offsets,
              ElementsAre(TextSpan{0, 1}, TextSpan{1, 2}, TextSpan{2, 7}, TextSpan{7, 8}));
  EXPECT_THAT(ids(*tokenizer, std::string(500'000, ' ')), ElementsAre(3));
}

TEST_F(TokenizerTest, EncodingStopsEarly) {
  const auto tokenizer = load_json(std::string(kByteLevel));
  ASSERT_NE(tokenizer, nullptr);
  const auto is_truncated = [&](bool add_special, std::size_t tokens_max) {
    EncodeOptions limited;
    limited.add_special_tokens = add_special;
    limited.tokens_max = tokens_max;
    return tokenizer->encode("a a a a", limited)->truncated;
  };
  EXPECT_FALSE(is_truncated(true, 5));
  EXPECT_TRUE(is_truncated(true, 4));
  EXPECT_FALSE(is_truncated(false, 4));
  EXPECT_TRUE(is_truncated(false, 3));
  EXPECT_TRUE(is_truncated(true, 0));
  EncodeOptions options;
  options.tokens_max = 2;
  const auto encoding = tokenizer->encode("a a a a a a", options);
  ASSERT_TRUE(encoding.ok());
  EXPECT_TRUE(encoding->truncated);
  EXPECT_LE(encoding->ids.size(), 4U);
}

TEST_F(TokenizerTest, StreamHoldsBackHalfCharacters) {
  const auto tokenizer = load_json(std::string(kByteLevel));
  ASSERT_NE(tokenizer, nullptr);
  const auto stream = tokenizer->incremental({}, true);
  EXPECT_EQ(stream->push(0), "a");
  EXPECT_EQ(stream->push(7), "");
  EXPECT_EQ(stream->push(10), "");
  EXPECT_EQ(stream->push(8), "\xC3\xA9");
  EXPECT_EQ(stream->push(7), "");
  EXPECT_EQ(stream->push(1),
            "\xEF\xBF\xBD"
            "b");
  EXPECT_EQ(stream->push(7), "");
  EXPECT_EQ(stream->finish(), "\xEF\xBF\xBD");
}

TEST_F(TokenizerTest, BrokenUtf8IsReplaced) {
  const auto tokenizer = load_json(std::string(kByteLevel));
  ASSERT_NE(tokenizer, nullptr);
  const auto encoding = tokenizer->encode("a\xC3", {});
  ASSERT_TRUE(encoding.ok());
  EXPECT_THAT(encoding->ids, ElementsAre(10, 0));  // U+FFFD has no token in this vocabulary
}

TEST_F(TokenizerTest, ErrorsNameFileAndEntry) {
  const std::string text(kByteLevel);
  const auto error_of = [&](const std::string& from, const std::string& to) {
    std::string changed = text;
    changed.replace(changed.find(from), from.size(), to);
    write("tokenizer.json", changed);
    const auto loaded = load();
    EXPECT_FALSE(loaded.ok()) << to;
    EXPECT_THAT(loaded.status().message(), HasSubstr("tokenizer.json"));
    return loaded.status().message();
  };
  EXPECT_THAT(error_of("\"ab c\"", "\"ab x\""), HasSubstr("merges[1]"));
  EXPECT_THAT(error_of("\"ab c\"", "\"ab\""), HasSubstr("merges[1]"));
  EXPECT_THAT(error_of("\"b\": 1", "\"b\": 0"), HasSubstr("id 0"));
  EXPECT_THAT(error_of("\"b\": 1", "\"b\": -1"), HasSubstr("vocab[\"b\"]"));
  EXPECT_THAT(error_of("\"b\": 1", "\"b\": 99999999999"), HasSubstr("vocab[\"b\"]"));
  EXPECT_THAT(error_of("\"id\": 11", "\"id\": 2"), HasSubstr("added_tokens[1]"));
  EXPECT_THAT(error_of("\"type\": \"BPE\"", "\"type\": \"Magic\""), HasSubstr("Magic"));
}

// A word-level tokenizer that shows how text is cut: every piece is unknown, its offsets tell where it was.
std::string pieces_of(const Tokenizer& tokenizer, std::string_view text) {
  const auto encoding = tokenizer.encode(text, {});
  EXPECT_TRUE(encoding.ok()) << encoding.status().message();
  std::string out;
  if (!encoding.ok()) return out;
  for (const TextSpan& span : encoding->offsets)
    out += "[" + std::string(text.substr(span.begin, span.end - span.begin)) + "]";
  return out;
}

TEST_F(TokenizerTest, PreTokenizersCutAsDocumented) {
  const auto cut = [&](const std::string& pre_tokenizer, std::string_view text) {
    const auto tokenizer =
        load_json(R"({"pre_tokenizer": )" + pre_tokenizer +
                  R"(, "model": {"type": "WordLevel", "vocab": {"?": 0}, "unk_token": "?"}})");
    return tokenizer == nullptr ? std::string() : pieces_of(*tokenizer, text);
  };
  const auto split = [&](const std::string& behavior) {
    return cut(R"({"type": "Split", "pattern": {"String": "-"}, "invert": false, "behavior": ")" +
                   behavior + "\"}",
               "the-final--countdown");
  };
  EXPECT_EQ(split("Removed"), "[the][final][countdown]");
  EXPECT_EQ(split("Isolated"), "[the][-][final][-][-][countdown]");
  EXPECT_EQ(split("MergedWithPrevious"), "[the-][final-][-][countdown]");
  EXPECT_EQ(split("MergedWithNext"), "[the][-final][-][-countdown]");
  EXPECT_EQ(split("Contiguous"), "[the][-][final][--][countdown]");
  EXPECT_EQ(cut(R"({"type": "Whitespace"})", "Hey, you! a_1"), "[Hey][,][you][!][a_1]");
  EXPECT_EQ(cut(R"({"type": "WhitespaceSplit"})", "Hey, you!"), "[Hey,][you!]");
  EXPECT_EQ(cut(R"({"type": "BertPreTokenizer"})", "Hey, you!"), "[Hey][,][you][!]");
  EXPECT_EQ(cut(R"({"type": "Digits", "individual_digits": true})", "a12"), "[a][1][2]");
  EXPECT_EQ(cut(R"({"type": "Digits", "individual_digits": false})", "a12"), "[a][12]");
  EXPECT_EQ(cut(R"({"type": "Metaspace", "replacement": "\u2581"})", "a b"), "[a][ b]");
}

TEST_F(TokenizerTest, StepsThatAreNotRunAreRefusedByNameAndPlace) {
  const auto error_of = [&](const std::string& section) {
    write("tokenizer.json",
          "{" + section + R"(, "model": {"type": "WordLevel", "vocab": {"a": 0}}})");
    return std::string(load().status().message());
  };
  for (const char* type : {"CharDelimiterSplit", "FixedLength", "UnicodeScripts", "Magic"}) {
    const std::string step = R"({"type": ")" + std::string(type) + "\"}";
    EXPECT_THAT(error_of(R"("pre_tokenizer": {"type": "Sequence", "pretokenizers": )"
                         R"([{"type": "Whitespace"}, )" +
                         step + "]}"),
                HasSubstr("tokenizer.json: pre_tokenizer.pretokenizers[1]: the pre-tokenizer \"" +
                          std::string(type) + "\" is not supported"));
  }
  EXPECT_THAT(error_of(R"("normalizer": {"type": "Nmt"})"),
              HasSubstr("normalizer: the normalizer \"Nmt\" is not supported"));
  for (const char* type : {"BPEDecoder", "CTC"})
    EXPECT_THAT(error_of(R"("decoder": {"type": ")" + std::string(type) + "\"}"),
                HasSubstr("decoder: the decoder \"" + std::string(type) + "\" is not supported"));
}

TEST_F(TokenizerTest, NormalizersChangeTextAndKeepPlaces) {
  const auto normalized = [&](const std::string& normalizer, std::string_view text) {
    const auto tokenizer = load_json(
        R"({"normalizer": )" + normalizer +
        R"(, "decoder": {"type": "Fuse"}, "model": {"type": "BPE", "byte_fallback": false, "merges": [], "vocab":
        {"a": 0, "b": 1, "\u00e9": 2, "e": 3, "\u0301": 4, " ": 5, "i": 6, "\u0307": 7, "f": 8, "\u2581": 9, "\u4f60": 10, "x": 11}}})");
    return tokenizer == nullptr ? std::string()
                                : tokenizer->decode(tokenizer->encode(text, {})->ids, false);
  };
  EXPECT_EQ(normalized(R"({"type": "NFC"})", "ae\u0301b"), "a\u00e9b");
  EXPECT_EQ(normalized(R"({"type": "NFD"})", "a\u00e9b"), "ae\u0301b");
  EXPECT_EQ(normalized(R"({"type": "NFKC"})", "\uFB01\uFF41"), "fia");
  EXPECT_EQ(normalized(R"({"type": "NFKD"})", "\u00e9\uFF41"), "e\u0301a");
  EXPECT_EQ(normalized(R"({"type": "Lowercase"})", "AB\u0130"), "abi\u0307");
  EXPECT_EQ(normalized(R"({"type": "Strip", "strip_left": true, "strip_right": false})", "  a "),
            "a ");
  EXPECT_EQ(
      normalized(
          R"({"type": "Sequence", "normalizers": [{"type": "NFD"}, {"type": "StripAccents"}]})",
          "\u00e9"),
      "e");
  EXPECT_EQ(normalized(R"({"type": "BertNormalizer"})", "\u00C9\t\u4f60"), "e  \u4f60 ");
  EXPECT_EQ(
      normalized(R"({"type": "Replace", "pattern": {"Regex": "a+"}, "content": "b"})", "aaxa"),
      "bxb");
}

TEST_F(TokenizerTest, OnlyHexadecimalDigitsNameAByte) {
  const auto tokenizer = load_json(R"({
    "decoder": {"type": "Sequence", "decoders": [{"type": "ByteFallback"}, {"type": "Fuse"}]},
    "model": {"type": "BPE", "byte_fallback": true, "merges": [], "vocab": {"<0x41>": 0, "<0xzz>": 1, "<0x4>>": 2}}})");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{0, 1, 2}, false), "A<0xzz><0x4>>");
}

TEST_F(TokenizerTest, BytesOfATokenAreThoseItAddsInTheMiddleOfAText) {
  const auto bytes = load_json(std::string(kByteLevel));
  ASSERT_NE(bytes, nullptr);
  EXPECT_EQ(bytes->token_bytes(6), " a");
  EXPECT_EQ(bytes->token_bytes(7), "\xC3");  // half a character
  EXPECT_EQ(bytes->token_bytes(8), "\xA9");
  EXPECT_EQ(bytes->token_bytes(12), "<tool>");
  for (const TokenId none : {10, 11, -1, 18, 1'000'000}) EXPECT_EQ(bytes->token_bytes(none), "");
  const auto of = [&](const std::string& decoder, const std::string& token) {
    const auto tokenizer =
        load_json(R"({"decoder": )" + decoder + R"(, "model": {"type": "WordLevel", "vocab": {")" +
                  token + R"(": 0}}})");
    return tokenizer == nullptr ? std::string("!") : tokenizer->token_bytes(0);
  };
  const std::string fallback =
      R"({"type": "Sequence", "decoders": [{"type": "Replace", "pattern": {"String": "\u2581"}, "content": " "},
          {"type": "ByteFallback"}, {"type": "Fuse"}, {"type": "Strip", "content": " ", "start": 1, "stop": 0}]})";
  EXPECT_EQ(of(fallback, "\u2581a"), " a");  // only the whole text loses its first blank
  EXPECT_EQ(of(fallback, "<0xE2>"), "\xE2");
  EXPECT_EQ(of(R"({"type": "Strip", "content": "x", "start": 2, "stop": 1})", "xxxabxx"), "xabx");
  EXPECT_EQ(of(R"({"type": "Metaspace", "replacement": "\u2581"})", "\u2581a\u2581"), " a ");
  EXPECT_EQ(of(R"({"type": "WordPiece"})", "ab"), " ab");
  EXPECT_EQ(of(R"({"type": "WordPiece"})", "##ab"), "ab");
  EXPECT_EQ(of(R"({"type": "WordPiece"})", "?"), "?");  // cleaned up
  EXPECT_EQ(of("null", "ab"), " ab");
}

std::string without_leading_blanks(std::string_view text) {
  return std::string(text.substr(std::min(text.find_first_not_of(' '), text.size())));
}

// Words, numbers, blanks and characters of every length, those among them that are spelled byte by byte.
std::string random_text(std::mt19937& random) {
  static constexpr std::array<std::string_view, 16> kParts{"word",
                                                           "{\"key\": ",
                                                           "12345",
                                                           "\n",
                                                           "caf\u00e9",
                                                           "\u4f60\u597d",
                                                           "\U0001F9A6",
                                                           "\U00012345",
                                                           "  x",
                                                           "don't",
                                                           "[true,",
                                                           "\u03b1\u03b2",
                                                           "\t-",
                                                           "</s>x",
                                                           "A_b",
                                                           "\u05d0\u0300"};
  std::string text = "a";
  for (auto n = random() % 12; n > 0; --n) {
    if (random() % 2 == 0) text += ' ';
    text += kParts[random() % kParts.size()];
  }
  return text + "z";
}

// Real tokenizers of every format: what tokens add is what the text of all is made of.
TEST(TokenBytes, OfATextsTokensAreTheText) {
  const char* data = std::getenv("COXSWAIN_DATA");  // NOLINT(concurrency-mt-unsafe)
  const std::filesystem::path folder =
      std::filesystem::path(data == nullptr ? "" : data) / "tokenizers";
  if (data == nullptr || !std::filesystem::is_directory(folder))
    GTEST_SKIP() << "COXSWAIN_DATA names no folder with tokenizers";
  struct Case {
    const char* path;
    bool keeps_text;  // false: it normalizes the text or does not know all of it
  };
  std::mt19937 random(8);
  for (const Case& each : {Case{"gpt2/tokenizer.json", true},
                           {"llama-3/tokenizer.json", true},
                           {"qwen2.5", true},
                           {"deepseek-v3/tokenizer.json", true},
                           {"llama-2/tokenizer.json", true},
                           {"llama-2/tokenizer.model", true},
                           {"mistral-common/mistral_instruct_tokenizer_240323.model.v3", true},
                           {"tiktoken/cl100k_base.tiktoken", true},
                           {"gguf-vocab/ggml-vocab-gpt-2.gguf", true},
                           {"gguf-vocab/ggml-vocab-llama-spm.gguf", true},
                           {"gguf-vocab/ggml-vocab-bert-bge.gguf", false},
                           {"bert-base-uncased/tokenizer.json", false},
                           {"t5-small/tokenizer.json", false},
                           {"sentencepiece-unigram/test_model.model", false}}) {
    SCOPED_TRACE(each.path);
    const auto loaded = Tokenizer::load(folder / each.path);
    ASSERT_TRUE(loaded.ok()) << loaded.status().message();
    const Tokenizer& tokenizer = **loaded;
    for (int round = 0; round < 200; ++round) {
      const std::string text = random_text(random);
      // What users send makes no special tokens.
      const std::vector<TextSpan> all{{0, text.size()}};
      const auto encoding = tokenizer.encode(text, {.add_special_tokens = false, .untrusted = all});
      ASSERT_TRUE(encoding.ok()) << encoding.status().message();
      std::string joined;
      std::vector<TokenId> plain;
      for (const TokenId id : encoding->ids) {
        joined += tokenizer.token_bytes(id);
        if (!tokenizer.is_special(id)) plain.push_back(id);
      }
      ASSERT_EQ(without_leading_blanks(joined),
                without_leading_blanks(tokenizer.decode(plain, true)));
      if (each.keeps_text) {
        ASSERT_TRUE(joined == text || joined == " " + text) << joined << "\n" << text;
      }
    }
    std::size_t n_special = 0;
    for (TokenId id = 0; id < static_cast<TokenId>(tokenizer.vocab_size()); ++id) {
      if (!tokenizer.is_special(id)) continue;
      ++n_special;
      EXPECT_EQ(tokenizer.token_bytes(id), "") << id;
    }
    EXPECT_GT(n_special + (each.path == std::string_view("tiktoken/cl100k_base.tiktoken") ? 1 : 0),
              0U);
  }
}

TEST_F(TokenizerTest, UnknownCharacterWithoutUnknownTokenIsAnError) {
  const auto tokenizer =
      load_json(R"({"model": {"type": "Unigram", "vocab": [["a", -1.0], ["b", -2.0]]}})");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(ids(*tokenizer, "ab"), ElementsAre(0, 1));
  EXPECT_FALSE(tokenizer->encode("axb", {}).ok());
}

TEST_F(TokenizerTest, VocabularyReachesToWhatThePostProcessorAdds) {
  const auto tokenizer = load_json(R"({
    "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 7], "sep": ["[SEP]", 9]},
    "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})");
  ASSERT_NE(tokenizer, nullptr);
  EXPECT_THAT(ids(*tokenizer, "a"), ElementsAre(7, 0, 9));
  EXPECT_EQ(tokenizer->vocab_size(), 10U);
  EXPECT_EQ(tokenizer->decode(std::vector<TokenId>{7, 9}, false), "");
  write("tokenizer.json", R"({
    "post_processor": {"type": "BertProcessing", "cls": ["[CLS]", 2000000000], "sep": ["[SEP]", 9]},
    "model": {"type": "WordLevel", "vocab": {"a": 0}, "unk_token": "a"}})");
  EXPECT_THAT(load().status().message(), HasSubstr("not a token id"));
}

TEST_F(TokenizerTest, PiecesThatAreNoUtf8AreRefused) {
  const auto model = [](std::string_view text) {
    const std::string unknown("\x0A\x09\x0A\x05<unk>\x18\x02", 11);
    return unknown + "\x0A\x04\x0A\x02" + std::string(text);
  };
  write("tokenizer.model", model("ab"));
  EXPECT_TRUE(load().ok());
  write("tokenizer.model", model("a\xC3"));
  const auto loaded = load();
  ASSERT_FALSE(loaded.ok());
  EXPECT_THAT(loaded.status().message(), HasSubstr("piece 1 is no UTF-8 text"));
}

TEST_F(TokenizerTest, MissingFolderIsNotFound) {
  const auto loaded = Tokenizer::load(folder_.file("nothing"));
  ASSERT_FALSE(loaded.ok());
  EXPECT_EQ(loaded.status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace coxswain::tokenizer
