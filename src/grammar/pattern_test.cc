// Patterns that are written of grammars allow the texts that the grammars allow.

#include "grammar/pattern.h"

#include <regex>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/compiler.h"
#include "grammar/program.h"
#include "grammar/testing/texts.h"
#include "grammar/token_trie.h"

namespace coxswain::grammar {
namespace {

using Kind = Source::Kind;

std::string pattern(const Source& source) {
  const auto compiled = compile_source(source, Form::kPattern);
  EXPECT_TRUE(compiled.ok()) << compiled.status().message();
  return compiled.ok() ? std::string(carried_pattern(*compiled).value_or("none")) : std::string();
}

Status refusal(const Source& source) {
  return compile_source(source, Form::kPattern).status();
}

// Both ways, and by the library's engine: `alphabet` to length 5.
void expect_same_texts(const Source& source, std::string_view alphabet) {
  const auto original = compile(source);
  ASSERT_TRUE(original.ok()) << original.status().message();
  const std::string text = pattern(source);
  const auto again = compile({.kind = Kind::kRegex, .text = text});
  ASSERT_TRUE(again.ok()) << text << ": " << again.status().message();
  const testing::Acceptor first(original.value());
  const testing::Acceptor second(again.value());
  const std::regex whole(text);
  std::size_t n_taken = 0;
  for (const std::string& candidate : testing::all_texts(alphabet, 5)) {
    const bool taken = first.accepts(candidate);
    n_taken += taken ? 1 : 0;
    ASSERT_EQ(second.accepts(candidate), taken) << text << " on '" << candidate << "'";
    ASSERT_EQ(std::regex_match(candidate, whole), taken) << text << " on '" << candidate << "'";
  }
  EXPECT_GT(n_taken, 0U) << text;
}

TEST(Pattern, AllowsTheTextsOfTheGrammar) {
  for (const char* regex : {"a",
                            "ab|ba",
                            "(a|b)*c?",
                            "[^a]{1,2}",
                            "(ab){2,}",
                            "a{0}b",
                            "(a*)*b",
                            "(|a)(|b)",
                            "((ab)?c){2}",
                            "[a-c-]+",
                            "a{3}|-{1,2}"})
    expect_same_texts({.kind = Kind::kRegex, .text = regex}, "abc-");
  expect_same_texts({.kind = Kind::kChoice, .choices = {"a.b", "(b)", "a|"}}, "ab.()|");
  expect_same_texts({.kind = Kind::kRules, .text = "root ::= x \"-\" x\nx ::= [ab] | \"c\" [a]?"},
                    "abc-");
  expect_same_texts({.kind = Kind::kJsonSchema,
                     .text = R"({"enum": ["a", 1, null, true]})",
                     .schema = kTgiSchema},
                    "a1\"nul");
  expect_same_texts({.kind = Kind::kJsonSchema,
                     .text = R"({"type": "array", "items": {"type": "integer"}, "maxItems": 2})",
                     .schema = kTgiSchema},
                    "[]1, -");
}

TEST(Pattern, IsNoProgram) {
  const CompiledGrammar carried = carry_pattern("a*");
  EXPECT_EQ(carried_pattern(carried), "a*");
  EXPECT_FALSE(Program::from_bytes(*carried.bytes).ok());
  EXPECT_FALSE(carried_pattern(compile_source({.kind = Kind::kRegex, .text = "a*"}).value()));
  EXPECT_FALSE(carried_pattern({}));
}

TEST(Pattern, IsWhatEnginesReadAlike) {
  EXPECT_EQ(pattern({.kind = Kind::kRegex, .text = "\\d{3}-[a-f]+"}), R"([0-9]{3}\x2D[a-f]+)");
  EXPECT_EQ(pattern({.kind = Kind::kChoice, .choices = {"yes.", "no\n"}}), R"(yes\x2E|no\x0A)");
  EXPECT_EQ(pattern({.kind = Kind::kRegex, .text = "[^\"\\\\]ü?"}), "[^\"\\x5C]ü?");
}

TEST(Pattern, SchemasOfObjects) {
  const Source source{
      .kind = Kind::kJsonSchema,
      .text =
          R"({"type": "object", "properties": {"a": {"type": "integer"}, "b": {"type": "string", "maxLength": 3}},
                  "required": ["a"]})",
      .schema = kTgiSchema};
  const auto again = compile({.kind = Kind::kRegex, .text = pattern(source)});
  ASSERT_TRUE(again.ok()) << again.status().message();
  const testing::Acceptor acceptor(again.value());
  EXPECT_TRUE(acceptor.accepts(R"({"a": 12})"));
  EXPECT_TRUE(acceptor.accepts(R"({ "a":-1, "b": "xyz" })"));
  EXPECT_TRUE(acceptor.accepts("{\"a\": 1, \"b\": \"\xF0\x9F\x98\x80\"}"));
  EXPECT_FALSE(acceptor.accepts(R"({"b": "x"})"));
  EXPECT_FALSE(acceptor.accepts(R"({"a": 1, "b": "xyzw"})"));
  EXPECT_FALSE(acceptor.accepts(R"({"a": 1}})"));
}

TEST(Pattern, WhatNoRegularExpressionSaysIsRefused) {
  const auto says = [](const Source& source, std::string_view words) {
    const Status status = refusal(source);
    EXPECT_EQ(status.code(), Code::kUnimplemented) << status.message();
    EXPECT_NE(status.message().find(words), std::string::npos) << status.message();
  };
  says({.kind = Kind::kJsonObject}, "recursive");
  says({.kind = Kind::kRules, .text = "root ::= \"(\" root? \")\""}, "recursive");
  const std::string special = std::string(1, kSpecialToken) + "<|call|>";
  says({.kind = Kind::kTags, .tags = {{.begin = special, .schema = R"({"type": "null"})"}}},
       "special tokens");
}

// Rules that each say another one twice: 2^40 parts, empty ones or not.
TEST(Pattern, IsBounded) {
  for (const char* last : {"\"a\"", "\"\""}) {
    std::string rules = "root ::= r0\n";
    for (int i = 0; i < 40; ++i) {
      const std::string next = "r" + std::to_string(i + 1);
      rules.append("r" + std::to_string(i)).append(" ::= ").append(next).append(" ").append(next);
      rules += '\n';
    }
    rules.append("r40 ::= ").append(last).append(" | \"b\"\n");
    EXPECT_EQ(refusal({.kind = Kind::kRules, .text = rules}).code(), Code::kResourceExhausted);
  }
}

}  // namespace
}  // namespace coxswain::grammar
