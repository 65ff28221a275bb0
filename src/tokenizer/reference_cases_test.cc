// Normalizers and pre-tokenizers on texts where implementations usually differ. What is expected
// was made with the reference library.

#include <initializer_list>
#include <string>

#include <gtest/gtest.h>

#include "json/json.h"
#include "tokenizer/normalizer.h"
#include "tokenizer/pretokenizer.h"
#include "tokenizer/testing/model_folder.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::tokenizer {
namespace {

std::string normalized(std::string_view section, std::string_view text) {
  const auto document = json::parse(section);
  EXPECT_TRUE(document.ok());
  const auto normalizer = parse_normalizer(*document, "normalizer");
  if (!normalizer.ok()) return "!" + normalizer.status().message();
  AlignedText aligned(text, 0);
  const Status applied = (*normalizer)->apply(aligned);
  return applied.ok() ? std::string(aligned.text()) : "!" + applied.message();
}

// The pieces, each before a bar.
std::string pieces(std::string_view section, std::string_view text) {
  const auto document = json::parse(section);
  EXPECT_TRUE(document.ok());
  auto plan = parse_pre_tokenizer(*document, "pre_tokenizer");
  if (!plan.ok()) return "!" + plan.status().message();
  PreText pre;
  pre.text = AlignedText(text, 0);
  pre.pieces.push_back({0, static_cast<std::uint32_t>(text.size())});
  if (plan->steps) {
    EXPECT_TRUE(plan->steps->apply(pre).ok());
  }
  std::string out;
  for (const PieceRange& piece : pre.pieces)
    out.append(pre.text.text().substr(piece.begin, piece.end - piece.begin)).append("|");
  return out;
}

std::string split(std::string_view pattern, std::string_view behavior, std::string_view text) {
  return pieces(R"({"type":"Split","pattern":{"Regex":")" + std::string(pattern) +
                    R"("},"behavior":")" + std::string(behavior) + R"(","invert":false})",
                text);
}

TEST(ReferenceNormalizers, MarksThatComeFromDecompositionAreOrdered) {
  // A half-width sound mark becomes a combining one that goes before the breve.
  EXPECT_EQ(normalized(R"({"type":"NFKD"})", "\u0439\uFF9F"), "\u0438\u309A\u0306");
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "\u0439\uFF9F"), "\u0439\u309A");
}

TEST(ReferenceNormalizers, OldTablesOfTheReference) {
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "\u1939\u0D3B\u0316\u0300"), "\u1939\u0D3B\u0316\u0300")
      << "a mark of Unicode 10 is not moved";
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "a\u0300\u0316"), "a\u0316\u0300");
  EXPECT_EQ(normalized(R"({"type":"Lowercase"})", "\uA7D2"), "\uA7D3");
  EXPECT_EQ(normalized(R"({"type":"StripAccents"})", "a\u1CF2"), "a");
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "\u32FF\u337E"), "\u32FF\u660E\u6CBB");
  EXPECT_EQ(normalized(R"({"type":"StripAccents"})", "a\u0301\u07FD"), "a\u07FD");
  EXPECT_EQ(normalized(R"({"type":"Lowercase"})", "\u1C89\u0130"), "\u1C8Ai\u0307");
  const std::string bert =
      R"({"type":"BertNormalizer","clean_text":true,"handle_chinese_chars":true,)"
      R"("strip_accents":false,"lowercase":false})";
  EXPECT_EQ(normalized(bert, "a\u0378b\uE000c\u200B"), "a\u0378bc") << "unassigned characters stay";
  EXPECT_EQ(normalized(bert, "\U0002B820\U0002B920"), "\U0002B820 \U0002B920 ");
}

TEST(ReferenceNormalizers, ReplaceActsOnEmptyMatches) {
  const auto replace = [](std::string_view pattern, std::string_view text) {
    return normalized(
        R"({"type":"Replace","pattern":)" + std::string(pattern) + R"(,"content":"x"})", text);
  };
  EXPECT_EQ(replace(R"({"Regex":"^"})", "ab"), "xab");
  EXPECT_EQ(replace(R"({"Regex":"$"})", "ab"), "abx");
  EXPECT_EQ(replace(R"({"String":""})", "ab"), "xaxbx");
  EXPECT_EQ(replace(R"__({"Regex":"(?=B)"})__", "aBB"), "axBxB");
}

TEST(ReferencePreTokenizers, EmptyMatchesCut) {
  EXPECT_EQ(split("\\\\b", "Isolated", "ab +c"), "ab| +|c|");
  EXPECT_EQ(split("(?=\\\\p{Lu})", "Removed", "aBcD"), "a|Bc|D|");
  EXPECT_EQ(split("(?=B)", "MergedWithPrevious", "aBB"), "a|B|B|");
}

TEST(ReferencePreTokenizers, PunctuationOfAnOlderUnicode) {
  EXPECT_EQ(pieces(R"({"type":"Punctuation","behavior":"Isolated"})", "a\u0C77b!c\u2E44d"),
            "a\u0C77b|!|c\u2E44d|");
}

TEST(ReferencePreTokenizers, AMarkAloneDoesNotMoveOrigins) {
  // The text begins once only, though NFD looks at the quote and the vowel sign together.
  const auto document = json::parse(R"({"type":"NFD"})");
  const auto normalizer = parse_normalizer(*document, "normalizer");
  ASSERT_TRUE(normalizer.ok());
  AlignedText text("\"\u1161\u00E9", 0);
  ASSERT_TRUE((*normalizer)->apply(text).ok());
  EXPECT_EQ(text.origin_of_byte(1).begin, 1U);
}

class ReferenceModels : public ModelFolder {
 protected:
  std::string tokens(const std::string& document, std::string_view text) {
    write("tokenizer.json", document);
    return ModelFolder::tokens(text);
  }
};

TEST_F(ReferenceModels, ByteLevelInFrontOfWholeWords) {
  EXPECT_EQ(
      tokens(R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},
                       "model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0,"Ã©t":1,"Ġa":2}}})",
             "\u00E9t a b"),
      "Ã©t Ġa ? ");
}

TEST_F(ReferenceModels, MarkedWordsAreRefused) {
  // As CLIP's tokenizer: the byte alphabet and a suffix at the end of each word.
  for (const char* mark : {"continuing_subword_prefix", "end_of_word_suffix"}) {
    const std::string error =
        tokens(R"({"model":{"type":"BPE",")" + std::string(mark) +
                   R"(":"</w>","merges":["a b</w>"],"vocab":{"a":3,"b</w>":4,"ab</w>":5,"b":6}}})",
               "ab");
    EXPECT_NE(
        error.find("tokenizer.json: model: member \"" + std::string(mark) + "\" must be empty"),
        std::string::npos)
        << error;
  }
}

TEST_F(ReferenceModels, ByteLevelInFrontOfByteFallback) {
  EXPECT_EQ(
      tokens(R"({"pre_tokenizer":{"type":"ByteLevel","add_prefix_space":false,"use_regex":true},
                       "model":{"type":"BPE","byte_fallback":true,"merges":["Ã ©"],
                         "vocab":{"Ã":0,"©":1,"Ã©":2,"a":3,"<0xC4>":4,"<0xA0>":5}}})",
             "a\u00E9 "),
      "a Ã© <0xC4> <0xA0> ");
}

TEST_F(ReferenceModels, ByteLevelTwiceAndInFrontOfOtherSteps) {
  const auto model = [](std::string_view steps) {
    return R"({"pre_tokenizer":{"type":"Sequence","pretokenizers":[)" + std::string(steps) +
           R"(]},"model":{"type":"BPE","merges":["a Ã"],"vocab":)"
           R"({"Ã":0,"ĥ":1,"Â":2,"©":3,"a":4,"Ä":5,"ł":6,"b":7,"Ġ":8,"▁":9,"1":10,"aÃ":11}}})";
  };
  const std::string bytes = R"({"type":"ByteLevel","add_prefix_space":false,"use_regex":false})";
  const std::string spaced = R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":false})";
  const std::string words = R"({"type":"ByteLevel","add_prefix_space":true,"use_regex":true})";
  const std::string digits = R"({"type":"Digits","individual_digits":true})";
  const std::string blanks = R"({"type":"Metaspace","replacement":"▁","prepend_scheme":"always"})";
  EXPECT_EQ(tokens(model(bytes + "," + bytes), "\u00E9"), "Ã ĥ Â © ");
  EXPECT_EQ(tokens(model(bytes + "," + bytes), "a b"), "a Ä ł b ");
  EXPECT_EQ(tokens(model(bytes + "," + spaced), "\u00E9"), "Ġ Ã ĥ Â © ");
  EXPECT_EQ(tokens(model(spaced + "," + digits + "," + words), "1a"), "Ġ Ä ł Ġ 1 Ġ a ");
  EXPECT_EQ(tokens(model(bytes + "," + digits), "a1\u00E9a\u00E9"), "a 1 Ã © aÃ © ");
  EXPECT_EQ(tokens(model(bytes + "," + blanks), "a \u00E9b"), "▁ a Ġ Ã © b ");
}

class ReferencePostProcessors : public ReferenceModels {
 protected:
  // The ids of "a b" with special tokens, a bar, and without; "!" and the error.
  std::string ids(std::string_view processor) {
    write("tokenizer.json",
          R"({"pre_tokenizer":{"type":"WhitespaceSplit"},"post_processor":)" +
              std::string(processor) +
              R"(,"model":{"type":"WordLevel","unk_token":"?","vocab":{"a":0,"b":1,"?":4}}})");
    const auto loaded = load();
    if (!loaded.ok()) return "!" + loaded.status().message();
    std::string out;
    for (const bool with_special : {true, false}) {
      EncodeOptions options;
      options.add_special_tokens = with_special;
      const auto encoding = (*loaded)->encode("a b", options);
      EXPECT_EQ(encoding->ids.size(), encoding->offsets.size());
      for (const TokenId id : encoding->ids) out += std::to_string(id);
      if (!encoding->ids.empty()) {
        options.tokens_max = encoding->ids.size() - 1;
        EXPECT_TRUE((*loaded)->encode("a b", options)->truncated);
      }
      if (with_special) out += "|";
    }
    return out;
  }
};

constexpr std::string_view kA = R"({"Sequence":{"id":"A","type_id":0}})";
constexpr std::string_view kB = R"({"Sequence":{"id":"B","type_id":1}})";
constexpr std::string_view kStart = R"({"SpecialToken":{"id":"<s>","type_id":0}})";
constexpr std::string_view kEnd = R"({"SpecialToken":{"id":"</s>","type_id":0}})";

using Pieces = std::initializer_list<std::string_view>;

std::string template_of(Pieces single, Pieces pair = {kA, kB}) {
  const auto list = [](Pieces pieces) {
    std::string out = "[";
    for (const std::string_view piece : pieces) {
      if (out.size() > 1) out += ",";
      out += piece;
    }
    return out + "]";
  };
  return R"({"type":"TemplateProcessing","single":)" + list(single) + R"(,"pair":)" + list(pair) +
         R"(,"special_tokens":{"<s>":{"id":"<s>","ids":[2],"tokens":["<s>"]},)"
         R"("</s>":{"id":"</s>","ids":[3],"tokens":["</s>"]}}})";
}

std::string sequence_of(const std::string& first, const std::string& second) {
  return R"({"type":"Sequence","processors":[)" + first + "," + second + "]}";
}

TEST_F(ReferencePostProcessors, TemplatesWriteTheTextAsOftenAsTheySay) {
  EXPECT_EQ(ids(template_of({kStart, kA, kEnd})), "2013|01");
  EXPECT_EQ(ids(template_of({kStart, kEnd})), "23|") << "the text is left out";
  EXPECT_EQ(ids(template_of({})), "|");
  EXPECT_EQ(ids(template_of({kStart, kA, kEnd, kA})), "201301|0101");
  EXPECT_NE(ids(template_of({kStart, kB})).find("post_processor: member \"single\" must be"),
            std::string::npos);
  std::string often = std::string(kA);
  for (int i = 0; i < 16; ++i) often.append(",").append(kA);
  EXPECT_NE(ids(template_of({often})).find("writes the text 17 times"), std::string::npos);
}

TEST_F(ReferencePostProcessors, EveryPieceOfATemplateIsAPartForTheNext) {
  const std::string start = template_of({kStart, kA});
  const std::string bert = R"({"type":"BertProcessing","sep":["</s>",3],"cls":["<s>",2]})";
  const std::string roberta =
      R"({"type":"RobertaProcessing","sep":["</s>",3],"cls":["<s>",2],"trim_offsets":true})";
  EXPECT_EQ(ids(sequence_of(start, template_of({kA, kEnd}, {kA, kB, kEnd}))), "2013|01");
  EXPECT_EQ(ids(sequence_of(template_of({kA}), start)), "201|01");
  EXPECT_EQ(ids(sequence_of(start, template_of({kA}, {kB, kA, kB}))), "01201|01");
  EXPECT_EQ(ids(sequence_of(start, bert)), "223013|01");
  EXPECT_EQ(ids(sequence_of(start, roberta)), "2233013|01");
  EXPECT_EQ(ids(sequence_of(bert, template_of({kA, kEnd}))), "20133|01");
  EXPECT_EQ(ids(sequence_of(roberta, bert)), "220133|01");
  const std::string error = ids(sequence_of(template_of({kStart, kA, kEnd}), template_of({kA})));
  EXPECT_NE(error.find("tokenizer.json: post_processor.processors[1]: the processors before it "
                       "make 3 parts"),
            std::string::npos)
      << error;
}

TEST_F(ReferenceModels, OneCharacterMeansOne) {
  const auto with = [&](std::string_view section) {
    return tokens("{" + std::string(section) +
                      R"(,"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0}}})",
                  "a");
  };
  EXPECT_NE(with(R"("pre_tokenizer":{"type":"Metaspace","replacement":"__"})")
                .find("pre_tokenizer: member \"replacement\" must be one character"),
            std::string::npos);
  EXPECT_NE(with(R"("decoder":{"type":"Strip","content":"ab","start":1,"stop":0})")
                .find("decoder: member \"content\""),
            std::string::npos);
}

TEST_F(ReferenceModels, PatternsThatCannotBeRunNameTheirPlace) {
  const std::string model = R"(,"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0}}})";
  EXPECT_NE(
      tokens(R"({"normalizer":{"type":"Sequence","normalizers":[{"type":"Replace","pattern":)"
             R"({"Regex":"a\\y"},"content":""}]})" +
                 model,
             "a")
          .find("tokenizer.json: normalizer.normalizers[0]: bad regular expression at offset 1: "
                "\\y is not supported"),
      std::string::npos);
  EXPECT_NE(tokens(R"__({"pre_tokenizer":{"type":"Split","pattern":{"Regex":"(?~ab)"},)__"
                   R"("behavior":"Isolated"})" +
                       model,
                   "a")
                .find("pre_tokenizer: bad regular expression at offset 0: (?~ is not supported"),
            std::string::npos);
}

TEST(ReferenceNormalizers, MarksWithoutEndAreOrderedInTime) {
  constexpr std::size_t kMarks = 200'000;
  std::string above;
  std::string below;
  for (std::size_t i = 0; i < kMarks; ++i) {
    above += "\u0301";
    below += "\u0316";
  }
  const std::string expected = "e" + below + above;
  EXPECT_EQ(normalized(R"({"type":"NFD"})", "e" + above + below), expected);
  EXPECT_EQ(normalized(R"({"type":"NFC"})", "e" + above + below),
            "\u00E9" + below + above.substr(2));
}

TEST(ReferenceNormalizers, ReplacementsOfReplacementsAreBounded) {
  const std::string grow = R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"})";
  std::string nested = R"({"type":"Sequence","normalizers":[)" + grow + "," + grow + "]}";
  for (int depth = 0; depth < 10; ++depth) {
    std::string outer = R"({"type":"Sequence","normalizers":[)";
    outer.append(nested).append(",").append(grow).append("]}");
    nested = std::move(outer);
  }
  EXPECT_EQ(normalized(nested, "a"),
            "!the tokenizer's normalizer makes a text more than 32 times as long");
  const std::string long_text(100'000, 'b');
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"String":"b"},"content":")" +
                           std::string(1000, 'x') + "\"}",
                       long_text)
                .substr(0, 1),
            "!");
  EXPECT_EQ(normalized(R"({"type":"Replace","pattern":{"Regex":""},"content":")" +
                           std::string(1000, 'x') + "\"}",
                       long_text)
                .substr(0, 1),
            "!");
  EXPECT_EQ(normalized(R"({"type":"NFKC"})", "\uFDFA").size(), 33U) << "what Unicode asks for";
}

TEST_F(ReferenceModels, DecodersThatBlowTokensUpAreRefused) {
  const std::string grow = R"({"type":"Replace","pattern":{"String":"a"},"content":"aaaaaaaaaa"})";
  const auto with = [&](int n) {
    std::string list = grow;
    for (int i = 1; i < n; ++i) list.append(",").append(grow);
    return R"({"decoder":{"type":"Sequence","decoders":[)" + list +
           R"(]},"model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0}}})";
  };
  EXPECT_EQ(tokens(with(3), "a"), "a ");
  EXPECT_NE(tokens(with(4), "a").find("more than 4096 times as long"), std::string::npos);
}

TEST_F(ReferenceModels, DecodersBehindAFusedString) {
  write(
      "tokenizer.json",
      R"({"decoder":{"type":"Sequence","decoders":[{"type":"Fuse"},{"type":"WordPiece","prefix":"##","cleanup":true}]},
             "model":{"type":"WordLevel","unk_token":"a","vocab":{"a":0,"##b":1," .":2}}})");
  const auto loaded = load();
  ASSERT_TRUE(loaded.ok()) << loaded.status().message();
  const std::vector<TokenId> ids{0, 1, 2};
  EXPECT_EQ((*loaded)->decode(ids, false), "a##b.") << "one string is one token";
  const auto stream = (*loaded)->incremental({}, false);
  std::string text;
  for (const TokenId id : ids) text += stream->push(id);
  EXPECT_EQ(text + stream->finish(), "a##b.");
}

TEST_F(ReferenceModels, ABlankGoesBeforeTheStartOfTheInputOnly) {
  const auto model = [](std::string_view normalizer, std::string_view before) {
    return R"({"added_tokens":[{"id":9,"content":"<s>","special":true,"normalized":false}],)"
           R"("normalizer":)" +
           std::string(normalizer) + R"(,"pre_tokenizer":{"type":"Sequence","pretokenizers":[)" +
           std::string(before) +
           R"({"type":"Metaspace","replacement":"\u2581","prepend_scheme":"first","split":false}]},)"
           R"("model":{"type":"BPE","merges":["\u2581 a"],"vocab":{"a":0,"\u2581":1,"\u2581a":2}}})";
  };
  const std::string strip = R"({"type":"Strip","strip_left":true,"strip_right":false})";
  EXPECT_EQ(tokens(model("null", ""), "a a<s>a"), "\u2581a \u2581a <s> a ");
  EXPECT_EQ(tokens(model(strip, ""), "  a"), "a ") << "it began later";
  EXPECT_EQ(tokens(model(strip, ""), "a a"), "\u2581a \u2581a ");
  EXPECT_EQ(tokens(model(strip, R"({"type":"WhitespaceSplit"},)"), "a a"), "\u2581a a ");
}

// The reference reads a number's digits as an integer and divides: that rounds twice.
TEST_F(ReferenceModels, ScoresHaveTheBitsThatTheReferenceReads) {
  const std::string model =
      R"({"model":{"type":"Unigram","unk_id":0,"vocab":[["<unk>",0],["a",-4.615986664980845],)"
      R"(["aaaaaaaaaaaaaa",-9.654527465521243],["b",-1e-400],["c",-12345678901234567890123e-22]]}})";
  EXPECT_EQ(tokens(model, std::string(15, 'a')), "a aaaaaaaaaaaaaa ");
  EXPECT_EQ(tokens(model, "bcb"), "b c b ");
}

}  // namespace
}  // namespace coxswain::tokenizer
