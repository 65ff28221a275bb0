#include "grammar/regex.h"

#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "base/utf8.h"
#include "grammar/testing/texts.h"

namespace coxswain::grammar {
namespace {

Result<Program> compiled(std::string_view pattern, const RegexOptions& options = {}) {
  Expressions expressions;
  const auto root = parse_regex(expressions, pattern, options);
  if (!root.ok()) return root.status();
  return compile_program(expressions, root.value());
}

bool accepts(std::string_view pattern, std::string_view text, const RegexOptions& options = {}) {
  const auto program = compiled(pattern, options);
  EXPECT_TRUE(program.ok()) << pattern << ": " << program.status().message();
  return program.ok() && testing::Acceptor(program.value()).accepts(text);
}

std::string refusal(std::string_view pattern, const RegexOptions& options = {}) {
  const auto program = compiled(pattern, options);
  return program.ok() ? "taken" : program.status().message();
}

TEST(Regex, MatchesWhatTheLibrarysEngineMatches) {
  const std::vector<std::string> patterns = {
      "a",           "ab|ba",        "a*b",           "(a|b)*",
      "(ab)+",       "a?b?c?",       "[ab]{2}",       "[^a]{1,2}",
      "a{0}b",       "(a*)*b",       "((a|b)(b|c))*", "a{2,}",
      "a+?b??",      "(?:a|bc)*?",   "^ab$",          "^(a|b)$",
      "(^a|b$)",     "a|",           "(a|ab)(c|bc)",  "[a-b]c*",
      "(a{1,2}){2}", "(aa|aaa)*",    "[b-]*",         "a(b(c)?)?",
      "(|a)(|b)",    "\\x61\\u0062", "[\\w-]b",       "\\d*a",
      "a{,2}|b"};
  for (const std::string& pattern : patterns) {
    const auto program = compiled(pattern);
    ASSERT_TRUE(program.ok()) << pattern << ": " << program.status().message();
    const testing::Acceptor acceptor(program.value());
    // std::regex knows no {,2}.
    const std::regex whole(pattern == "a{,2}|b" ? "a{0,2}|b" : pattern);
    for (const std::string& text : testing::all_texts("abc-", 5)) {
      ASSERT_EQ(acceptor.accepts(text), std::regex_match(text, whole))
          << pattern << " on '" << text << "'";
    }
  }
}

TEST(Regex, SearchesAnywhereUnlessAnchored) {
  for (const std::string pattern : {"a", "^a", "a$", "^a$", "a|^b", "(^a|b)c", "^$", "ab*$|c"}) {
    const auto program = compiled(pattern, {.searches = true});
    ASSERT_TRUE(program.ok()) << pattern;
    const testing::Acceptor acceptor(program.value());
    const std::regex expected(pattern);
    for (const std::string& text : testing::all_texts("abc", 5)) {
      ASSERT_EQ(acceptor.accepts(text), std::regex_search(text, expected))
          << pattern << " on '" << text << "'";
    }
  }
}

TEST(Regex, ABoundOnTheLengthCutsWhatIsAllowed) {
  struct Case {
    std::string pattern;
    bool searches;
    std::uint32_t min;
    std::uint32_t max;
  };
  const std::vector<Case> cases = {{"a*", false, 1, 3},
                                   {"(ab)*", false, 3, 4},
                                   {"ab*c", false, 3, 4},
                                   {"a|bb|ccc", false, 2, 2},
                                   {"a+|b{1,2}", false, 2, 4},
                                   {"ab", true, 3, 4},
                                   {"^a", true, 2, 3},
                                   {"a$", true, 0, 2},
                                   {"b", true, 4, kUnbounded},
                                   {"^[ab]+$", true, 2, 3},
                                   {"abc", false, 0, 2},
                                   {"(a|bb)*", false, 0, kUnbounded}};
  for (const Case& c : cases) {
    const auto program =
        compiled(c.pattern, {.searches = c.searches, .length_min = c.min, .length_max = c.max});
    const std::regex expected(c.pattern);
    for (const std::string& text : testing::all_texts("abc", 6)) {
      const bool matches =
          c.searches ? std::regex_search(text, expected) : std::regex_match(text, expected);
      const bool fits = text.size() >= c.min && text.size() <= c.max;
      const bool accepted = program.ok() && testing::Acceptor(program.value()).accepts(text);
      ASSERT_EQ(accepted, matches && fits) << c.pattern << " on '" << text << "'";
    }
  }
  EXPECT_NE(refusal("(a|bb)*c", {.length_max = 3}).find("length"), std::string::npos);
}

TEST(Regex, CharactersAreUtf8) {
  EXPECT_TRUE(accepts(".", "é"));
  EXPECT_TRUE(accepts(".{2}", "日𝄞"));
  EXPECT_FALSE(accepts(".", "\n"));
  EXPECT_FALSE(accepts(".", "\xC3"));
  EXPECT_FALSE(accepts(".", "\xED\xA0\x80"));  // half a surrogate
  EXPECT_FALSE(accepts(".", "\xC0\x80"));      // a long spelling
  EXPECT_TRUE(accepts("[à-ü]+", "éèà"));
  EXPECT_FALSE(accepts("[à-ü]+", "e"));
  EXPECT_TRUE(accepts("[^a]", "𝄞"));
  EXPECT_TRUE(accepts("\\p{Lu}\\p{Ll}*", "Ärger"));
  EXPECT_FALSE(accepts("\\p{Lu}", "ä"));
  EXPECT_TRUE(accepts("\\P{L}", "1"));
  EXPECT_TRUE(accepts("\\s\\S", "\u00A0x"));
  EXPECT_TRUE(accepts("\\u{1D11E}\\uD834\\uDD1E", "𝄞𝄞"));
  EXPECT_FALSE(accepts("\\d", "٣"));
}

// Every set of code points, against the same set by its complement.
TEST(Regex, SetsOfCharactersAreExact) {
  const CharacterSet set = {{0x60, 0x90}, {0x7F0, 0x810}, {0xD700, 0xE010}, {0xFFF0, 0x10010}};
  Expressions expressions;
  const auto program = compile_program(expressions, expressions.characters(set));
  ASSERT_TRUE(program.ok());
  const testing::Acceptor acceptor(program.value());
  for (const char32_t c :
       {0x5FU,   0x60U,   0x7FU,   0x80U,    0x90U,    0x91U,    0x7EFU,   0x7F0U,  0x7FFU,
        0x800U,  0x810U,  0x811U,  0xD6FFU,  0xD700U,  0xD7FFU,  0xE000U,  0xE010U, 0xE011U,
        0xFFEFU, 0xFFF0U, 0xFFFFU, 0x10000U, 0x10010U, 0x10011U, 0x10FFFFU}) {
    std::string text;
    base::append_utf8(text, c);
    EXPECT_EQ(acceptor.accepts(text), set.contains(c)) << static_cast<std::uint32_t>(c);
    EXPECT_NE(set.contains(c), set.complement().contains(c)) << static_cast<std::uint32_t>(c);
  }
}

TEST(Regex, WhatNoAutomatonDoesIsRefusedByName) {
  EXPECT_EQ(refusal("a(?=b)"), "at byte 4 of the pattern: look-around is not supported");
  EXPECT_EQ(refusal("(a)\\1"), "at byte 4 of the pattern: references to groups are not supported");
  EXPECT_EQ(refusal("\\ba"), "at byte 1 of the pattern: word boundaries are not supported");
  EXPECT_EQ(refusal("a++"), "at byte 2 of the pattern: possessive repetition is not supported");
  EXPECT_EQ(refusal("(a"), "at byte 2 of the pattern: a group without its ')'");
  EXPECT_EQ(refusal("a)"), "at byte 1 of the pattern: a ')' that closes nothing");
  EXPECT_EQ(refusal("[a"), "at byte 2 of the pattern: a class without its ']'");
  EXPECT_EQ(refusal("*a"), "at byte 0 of the pattern: '*' repeats nothing");
  EXPECT_EQ(refusal("[b-a]"),
            "at byte 4 of the pattern: a range whose end comes before its beginning");
  EXPECT_EQ(refusal("a{3,2}"),
            "at byte 1 of the pattern: a repetition of at least 3 and at most 2");
  EXPECT_EQ(refusal("\\p{Nope}"), "at byte 3 of the pattern: the property 'Nope' is not known");
  EXPECT_EQ(refusal("a^b"), "an anchor of the pattern has something before '^' or behind '$'");
  EXPECT_EQ(refusal("\xFF"), "the pattern is not UTF-8");
}

TEST(Regex, HostilePatternsEndAtALimit) {
  EXPECT_NE(refusal("a{100001}").find("more than 100000"), std::string::npos);
  EXPECT_EQ(refusal("((a{1000}){1000}){1000}"), "taken");  // calls, not copies
  EXPECT_NE(refusal("(abcdefghij){3}{3}").find("needs a group"), std::string::npos);
  EXPECT_NE(refusal(std::string(300, '(') + std::string(300, ')')).find("nest"), std::string::npos);
  std::string nested = "a";
  for (int i = 0; i < 20; ++i) nested.insert(0, "(").append("){4}");
  EXPECT_NE(refusal(nested).find("more than 200000 states"), std::string::npos);
  EXPECT_TRUE(accepts("(a*)*(a*)*(a*)*", std::string(1000, 'a')));
}

TEST(Regex, ClassesHaveANumberOfRangesAtMost) {
  std::string properties;
  for (int i = 0; i < 50'000; ++i) properties += "\\p{L}";
  for (const std::string& pattern : {properties, "[" + properties + "]"}) {
    EXPECT_NE(refusal(pattern).find("more than 1000000 ranges"), std::string::npos)
        << refusal(pattern);
  }
}

}  // namespace
}  // namespace coxswain::grammar
