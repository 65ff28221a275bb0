// vocab.json with merges.txt, vocab.txt, and which file of a folder counts.

#include <string>

#include <gmock/gmock.h>
#include <gtest/gtest.h>

#include "tokenizer/formats.h"
#include "tokenizer/testing/model_folder.h"
#include "tokenizer/tokenizer.h"

namespace coxswain::tokenizer {
namespace {

using testing::HasSubstr;

constexpr std::string_view kVocab =
    R"({"a":0,"b":1,"ab":2,"\u0120":3,"\u0120a":4,"1":5,"2":6,"12":7,"e":8,"\u00cc":9,"\u0123":10})";
constexpr std::string_view kMerges = "#version: 0.2\na b\n\u0120 a\n1 2\n";
constexpr std::string_view kWords = "[PAD]\n[UNK]\n[CLS]\n[SEP]\nab\n##c\ne\n\u4E2D\n";

using VocabFiles = ModelFolder;

TEST_F(VocabFiles, VocabularyAndMerges) {
  write("vocab.json", kVocab);
  write("merges.txt", kMerges);
  EXPECT_EQ(tokens("ab a12"), "ab \u0120a 12 ");
  const auto loaded = load();
  ASSERT_TRUE(loaded.ok());
  EXPECT_EQ((*loaded)->decode(std::vector<TokenId>{2, 4, 7}, false), "ab a12");
  EXPECT_EQ((*loaded)->vocab_size(), 11U);
}

TEST_F(VocabFiles, TheClassNamesSplitAndNormalizer) {
  write("vocab.json", kVocab);
  write("merges.txt", kMerges);
  write("tokenizer_config.json", R"({"tokenizer_class":"Qwen2Tokenizer"})");
  EXPECT_EQ(tokens("a12"), "a 1 2 ") << "digits one by one";
  write("tokenizer_config.json", R"({"tokenizer_class":"GPT2Tokenizer","add_prefix_space":true})");
  EXPECT_EQ(tokens("ab"), "\u0120 ab ") << "a blank in front, and the merges by rank";
}

TEST_F(VocabFiles, BrokenMergesNameTheLine) {
  write("vocab.json", kVocab);
  EXPECT_THAT(tokens("a"), HasSubstr("merges.txt"));
  write("merges.txt", "#version: 0.2\na b\na b c\n");
  EXPECT_THAT(tokens("a"), HasSubstr("merges.txt line 3: not two tokens"));
  write("merges.txt", "a x\n");
  EXPECT_THAT(tokens("a"), HasSubstr("merges.txt line 1: a token that is not in the vocabulary"));
  write("merges.txt", "a b\r\n\r\n1 2");
  EXPECT_EQ(tokens("ab12"), "ab 12 ") << "line ends of either kind";
  write("vocab.json", R"({"a":0,"b":0})");
  EXPECT_THAT(tokens("a"), HasSubstr("belongs to both"));
}

TEST_F(VocabFiles, WordsOfBert) {
  write("vocab.txt", kWords);
  EXPECT_EQ(tokens("ABc \u00E9\u4E2D x"), "[CLS] ab ##c e \u4E2D [UNK] [SEP] ");
  EXPECT_EQ(tokens("ab[SEP]"), "[CLS] ab [SEP] [SEP] ");
  write("tokenizer_config.json", R"({"do_lower_case":false,"strip_accents":false})");
  EXPECT_EQ(tokens("ABc ab \u00E9"), "[CLS] [UNK] ab [UNK] [SEP] ");
  write("tokenizer_config.json", R"({"tokenize_chinese_chars":false})");
  EXPECT_EQ(tokens("e\u4E2D"), "[CLS] [UNK] [SEP] ");
}

TEST_F(VocabFiles, BrokenWordsNameTheLine) {
  write("vocab.txt", "[UNK]\na\n\xFF\n");
  EXPECT_THAT(tokens("a"), HasSubstr("vocab.txt line 3: the token is no UTF-8 text"));
  write("vocab.txt", "[UNK]\na\na\n");
  EXPECT_THAT(tokens("a"), HasSubstr("vocab.txt line 3: the token \"a\" is there twice"));
  write("vocab.txt", "a\n");
  EXPECT_THAT(tokens("a"), HasSubstr("no token [UNK]"));
}

TEST_F(VocabFiles, TheFirstFormThatIsThereCounts) {
  write("z.tiktoken", "YQ== 0\nYg== 1\n");
  EXPECT_EQ(tokens("b"), "b ");
  write("a.tiktoken", "Yg== 0\nYQ== 1\nYmI= 2\n");
  EXPECT_EQ(tokens("bb"), "bb ") << "the first by name";
  write("vocab.txt", kWords);
  EXPECT_EQ(tokens("ab"), "[CLS] ab [SEP] ");
  write("vocab.json", kVocab);
  write("merges.txt", kMerges);
  EXPECT_EQ(tokens("ab"), "ab ");
  write("tokenizer.model", "YWI= 0\nYQ== 1\nYg== 2\n");
  EXPECT_EQ(tokens("aab"), "a ab ") << "a rank file under that name";
  write("tokenizer.json", R"({"model":{"type":"WordLevel","unk_token":"?","vocab":{"?":0}}})");
  EXPECT_EQ(tokens("ab"), "? ");
}

}  // namespace
}  // namespace coxswain::tokenizer
