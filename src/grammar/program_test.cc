#include "grammar/program.h"

#include <iterator>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/testing/texts.h"

namespace coxswain::grammar {
namespace {

// Pairs of brackets within each other: no automaton without calls has them.
Node brackets(Expressions& expressions) {
  const RuleId pairs = expressions.add_rule();
  const Node one = expressions.sequence(
      {expressions.bytes("("), expressions.rule(pairs), expressions.bytes(")")});
  expressions.define(pairs, expressions.repeat(one, 0));
  return expressions.rule(pairs);
}

bool balances(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : -1;
    if (depth < 0) return false;
  }
  return depth == 0;
}

TEST(Program, RulesCallEachOther) {
  Expressions expressions;
  const auto program = compile_program(expressions, brackets(expressions));
  ASSERT_TRUE(program.ok());
  const testing::Acceptor acceptor(program.value());
  for (const std::string& text : testing::all_texts("()", 12))
    ASSERT_EQ(acceptor.accepts(text), balances(text)) << text;
  EXPECT_TRUE(acceptor.accepts(std::string(5000, '(') + std::string(5000, ')')));
}

TEST(Program, RepetitionsAreExact) {
  for (const std::uint32_t min : {0U, 1U, 3U, 7U}) {
    for (const std::uint32_t max : {3U, 4U, 7U, 9U, kUnbounded}) {
      if (min > max) continue;
      Expressions expressions;
      const Node part = expressions.choice({expressions.bytes("a"), expressions.bytes("bb")});
      const auto program = compile_program(expressions, expressions.repeat(part, min, max));
      ASSERT_TRUE(program.ok());
      const testing::Acceptor acceptor(program.value());
      for (std::size_t n = 0; n < 12; ++n)
        ASSERT_EQ(acceptor.accepts(std::string(n, 'a')), n >= min && n <= max) << n;
      ASSERT_EQ(acceptor.accepts("bbabb"), min <= 3);
      ASSERT_FALSE(
          acceptor.begins("ab"
                          "a"));
    }
  }
}

TEST(Program, RepetitionsOfTheSameShareStates) {
  struct Bounds {
    std::uint32_t min = 0;
    std::uint32_t max = 0;
  };
  constexpr Bounds kBounds[] = {{0, 6}, {5, 9}, {7, kUnbounded}, {6, 6}, {2, 12}, {0, 100}};
  Expressions expressions;
  const Node part = expressions.choice({expressions.bytes("a"), expressions.bytes("bb")});
  std::vector<Node> ways;
  for (std::size_t i = 0; i < std::size(kBounds); ++i) {
    const Node count = expressions.repeat(part, kBounds[i].min, kBounds[i].max);
    ways.push_back(expressions.sequence({count, expressions.bytes(std::to_string(i)), count}));
  }
  const auto program = compile_program(expressions, expressions.choice(ways));
  ASSERT_TRUE(program.ok());
  EXPECT_LT(program->n_states(), 200U);
  const testing::Acceptor acceptor(program.value());
  for (std::size_t i = 0; i < std::size(kBounds); ++i) {
    const auto fits = [&](std::size_t n) { return n >= kBounds[i].min && n <= kBounds[i].max; };
    for (std::size_t n = 0; n < 14; ++n) {
      for (std::size_t m = 0; m < 14; ++m) {
        const std::string text = std::string(n, 'a') + std::to_string(i) + std::string(m, 'a');
        ASSERT_EQ(acceptor.accepts(text), fits(n) && fits(m)) << text;
      }
    }
  }
}

TEST(Program, BytesReadBackAreTheSameProgram) {
  Expressions expressions;
  const auto program = compile_program(
      expressions,
      expressions.sequence({brackets(expressions), expressions.characters(CharacterSet::all())}));
  ASSERT_TRUE(program.ok());
  const std::string bytes = program->to_bytes();
  const auto again = Program::from_bytes(bytes);
  ASSERT_TRUE(again.ok()) << again.status().message();
  EXPECT_EQ(again->to_bytes(), bytes);
  EXPECT_TRUE(testing::Acceptor(again.value()).accepts("(())é"));
}

TEST(Program, BrokenBytesAreRefused) {
  Expressions expressions;
  const auto program = compile_program(expressions, brackets(expressions));
  ASSERT_TRUE(program.ok());
  const std::string bytes = program->to_bytes();
  for (std::size_t n = 0; n < bytes.size(); ++n)
    EXPECT_FALSE(Program::from_bytes(bytes.substr(0, n)).ok()) << n;
  EXPECT_FALSE(Program::from_bytes(bytes + '\0').ok());
  EXPECT_FALSE(Program::from_bytes("CXG1\xFF\xFF\xFF\xFF\x0F").ok());
  // Whatever is read is walked without harm.
  for (std::size_t at = 4; at < bytes.size(); ++at) {
    for (int bit = 0; bit < 8; ++bit) {
      std::string changed = bytes;
      changed[at] = static_cast<char>(changed[at] ^ (1 << bit));
      const auto read = Program::from_bytes(changed);
      if (read.ok()) static_cast<void>(testing::Acceptor(read.value()).accepts("(()())"));
    }
  }
}

TEST(Program, WhatCannotBeWalkedIsRefused) {
  Expressions expressions;
  const RuleId rule = expressions.add_rule();
  expressions.define(
      rule,
      expressions.choice({expressions.sequence({expressions.rule(rule), expressions.bytes("a")}),
                          expressions.bytes("b")}));
  EXPECT_EQ(compile_program(expressions, expressions.rule(rule)).status().message(),
            "a rule of the grammar calls itself before it reads anything");

  Expressions hidden;
  const RuleId second = hidden.add_rule();
  hidden.define(
      second,
      hidden.choice({hidden.sequence({hidden.optional(hidden.bytes("x")), hidden.rule(second)}),
                     hidden.bytes("b")}));
  EXPECT_FALSE(compile_program(hidden, hidden.rule(second)).ok());

  Expressions endless;
  const RuleId third = endless.add_rule();
  endless.define(third, endless.sequence({endless.bytes("a"), endless.rule(third)}));
  EXPECT_EQ(compile_program(endless, endless.rule(third)).status().message(),
            "the grammar allows no text at all");
  EXPECT_FALSE(compile_program(endless, endless.nothing()).ok());
}

TEST(Program, NoTextIsLedWhereItCannotEnd) {
  Expressions expressions;
  const RuleId endless = expressions.add_rule();
  expressions.define(endless,
                     expressions.sequence({expressions.bytes("x"), expressions.rule(endless)}));
  const auto program = compile_program(
      expressions,
      expressions.choice(
          {expressions.bytes("ab"),
           expressions.sequence({expressions.bytes("ac"), expressions.rule(endless)})}));
  ASSERT_TRUE(program.ok());
  const testing::Acceptor acceptor(program.value());
  EXPECT_TRUE(acceptor.accepts("ab"));
  EXPECT_FALSE(acceptor.begins("ac"));
}

// A list that ends in itself: what returns at once leaves nothing to return to, so the path does not grow.
TEST(Program, CallsAtTheEndOfARuleKeepNothing) {
  Expressions expressions;
  const RuleId list = expressions.add_rule();
  expressions.define(
      list,
      expressions.choice({expressions.empty(),
                          expressions.sequence({expressions.bytes("a"), expressions.rule(list)})}));
  const auto program = compile_program(expressions, expressions.rule(list));
  ASSERT_TRUE(program.ok());
  EXPECT_TRUE(testing::Acceptor(program.value()).accepts(std::string(2'000'000, 'a')));
}

}  // namespace
}  // namespace coxswain::grammar
