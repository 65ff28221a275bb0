// Patterns mean what they mean to Oniguruma. Expected matches were made with the reference library.

#include "tokenizer/regex.h"

#include <string>

#include <gtest/gtest.h>

namespace coxswain::tokenizer {
namespace {

// The text with every match in angle brackets.
std::string matched(std::string_view pattern, std::string_view text) {
  const auto regex = Regex::compile(pattern);
  if (!regex.ok()) return "!" + regex.status().message();
  const auto found = regex->find_all(text);
  if (!found.ok()) return "!" + found.status().message();
  std::string out;
  std::size_t at = 0;
  for (const TextSpan& span : *found) {
    out.append(text.substr(at, span.begin - at));
    out.append("<").append(text.substr(span.begin, span.end - span.begin)).append(">");
    at = span.end;
  }
  return out.append(text.substr(at));
}

TEST(Regex, EmptyMatchesCountUnlessBehindAnother) {
  EXPECT_EQ(matched("^", "ab\nc"), "<>ab\n<>c");
  EXPECT_EQ(matched("$", "ab"), "ab<>");
  EXPECT_EQ(matched("", "ab"), "<>a<>b<>");
  EXPECT_EQ(matched("a*", "baac"), "<>b<aa>c<>");
  EXPECT_EQ(matched(R"(\b)", "ab +c"), "<>ab<> +<>c<>");
  EXPECT_EQ(matched("^", ""), "") << "an empty text has no match";
}

TEST(Regex, ScriptsAreNotScriptExtensions) {
  EXPECT_EQ(matched(R"(\p{Han}+)", "中、国。"), "<中>、<国>。");
  EXPECT_EQ(matched(R"([\p{Hiragana}]+)", "ひー゛"), "<ひ>ー゛");
  EXPECT_EQ(matched(R"(\p{Latin}+)", "ab\u0363"), "<ab>\u0363");
  EXPECT_EQ(matched(R"(\p{Script_of_nobody})", "a").substr(0, 1), "!");
}

TEST(Regex, NamesOfProperties) {
  EXPECT_EQ(matched(R"(\p{letter}+)", "a1b"), "<a>1<b>");
  EXPECT_EQ(matched(R"(\p{Lowercase_Letter})", "aB"), "<a>B");
  EXPECT_EQ(matched(R"(\p{^L}+)", "a12b"), "a<12>b");
  EXPECT_EQ(matched(R"(\p{Alpha}+)", "a1é"), "<a>1<é>");
  EXPECT_EQ(matched(R"(\p{Punct})", "$.+"), "$<.>+");
  EXPECT_EQ(matched(R"([[:punct:]])", "$a."), "<$>a<.>");
  EXPECT_EQ(matched(R"([[:^alpha:]])", "a1b"), "a<1>b");
  EXPECT_EQ(matched(R"([[:alpha:]]+)", "ad1Ⅷ"), "<ad>1<Ⅷ>");
}

TEST(Regex, BlocksAreRefusedByName) {
  EXPECT_EQ(matched(R"(a\p{In_Cyrillic}+)", "aж"),
            "!bad regular expression at offset 1: \\p{In_Cyrillic} is not supported");
  EXPECT_EQ(matched(R"([a\p{^In Latin-1 Supplement}])", "aé"),
            "!bad regular expression at offset 2: \\p{^In Latin-1 Supplement} is not supported");
  EXPECT_EQ(matched(R"(\p{IsCyrillic})", "ж").substr(0, 1), "!");
  EXPECT_EQ(matched(R"(\p{Inherited})", "a\u0301"), "a<\u0301>") << "a script";
}

TEST(Regex, WhatCannotBeRewrittenIsRefused) {
  EXPECT_EQ(matched(R"(a\y)", "a"), "!bad regular expression at offset 1: \\y is not supported");
  EXPECT_EQ(matched(R"(\\y)", "\\y"), "<\\y>") << "a backslash and a letter";
  EXPECT_EQ(matched("(?~a)", "a"), "!bad regular expression at offset 0: (?~ is not supported");
}

TEST(Regex, EscapesOfRuby) {
  EXPECT_EQ(matched(R"(\h+)", "xAf9 \t"), "x<Af9> \t");
  EXPECT_EQ(matched(R"(\v)", "\n\v"), "\n<\v>");
  EXPECT_EQ(matched(R"(\u0065|\x{e9})", "aeé"), "a<e><é>");
  EXPECT_EQ(matched(R"((?m).+)", "a\nb"), "<a\nb>");
  EXPECT_EQ(matched(".+", "a\nb"), "<a>\n<b>");
  EXPECT_EQ(matched("a{,2}b", "aaab"), "a<aab>");
}

TEST(Regex, WordsAndBlanks) {
  EXPECT_EQ(matched(R"(\w+)", "é_1²\u0301-"), "<é_1²\u0301>-");
  EXPECT_EQ(matched(R"([\w]+)", "a²"), "<a>²") << "a class leaves the raised digits out";
  EXPECT_EQ(matched(R"(\s)", "\u180E\u3000"), "\u180E<\u3000>");
  EXPECT_EQ(matched(R"([^\S\n]+)", "\u180E \n"), "\u180E< >\n");
  EXPECT_EQ(matched(R"([\W]+)", "a--b"), "a<-->b");
  EXPECT_EQ(matched(R"([a-z&&[^aeiou]]+)", "abce"), "a<bc>e");
}

TEST(Regex, CharactersNewerThanTheLibrary) {
  EXPECT_EQ(matched(R"(\p{L})", "\U0002EBF0"), "<\U0002EBF0>");
  EXPECT_EQ(matched(R"(\p{Han})", "\U0002EBF0"), "<\U0002EBF0>");
  EXPECT_EQ(matched(R"([^\s\p{L}\p{N}]+)", "\U0001FAE8"), "<\U0001FAE8>");
  EXPECT_EQ(matched(R"(\P{L})", "\U0002EBF0"), "\U0002EBF0");
}

}  // namespace
}  // namespace coxswain::tokenizer
