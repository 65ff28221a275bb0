#include "grammar/ebnf.h"

#include <algorithm>
#include <cstdlib>
#include <fstream>
#include <functional>
#include <regex>
#include <string>
#include <string_view>
#include <vector>

#include <gtest/gtest.h>

#include "grammar/compiler.h"
#include "grammar/testing/texts.h"
#include "json/json.h"

namespace coxswain::grammar {
namespace {

using testing::Acceptor;
using testing::all_texts;

Result<Program> compiled(const std::string& text) {
  return compile({.kind = Source::Kind::kRules, .text = text});
}

std::string refusal(const std::string& text) {
  const auto program = compiled(text);
  return program.ok() ? "taken" : program.status().message();
}

bool accepts(const std::string& grammar, std::string_view text) {
  const auto program = compiled(grammar);
  EXPECT_TRUE(program.ok()) << grammar << ": " << program.status().message();
  return program.ok() && Acceptor(program.value()).accepts(text);
}

// Every text of the alphabet up to a length is in the language if and only if `belongs` says so.
void check(const std::string& grammar,
           std::string_view alphabet,
           std::size_t length,
           const std::function<bool(const std::string&)>& belongs) {
  const auto program = compiled(grammar);
  ASSERT_TRUE(program.ok()) << grammar << ": " << program.status().message();
  const Acceptor acceptor(program.value());
  std::size_t n_in = 0;
  for (const std::string& text : all_texts(alphabet, length)) {
    ASSERT_EQ(acceptor.accepts(text), belongs(text)) << grammar << " on '" << text << "'";
    n_in += belongs(text) ? 1 : 0;
  }
  EXPECT_GT(n_in, 0U) << grammar;
}

struct Row {
  const char* grammar;
  const char* pattern;  // the same language
};

void check_rows(const std::vector<Row>& rows) {
  for (const Row& row : rows) {
    const std::regex pattern(row.pattern);
    check(row.grammar, "abc\n", 5, [&](const std::string& text) {
      return std::regex_match(text, pattern);
    });
  }
}

bool is_balanced(const std::string& text) {
  int depth = 0;
  for (const char c : text) {
    depth += c == '(' ? 1 : -1;
    if (depth < 0) return false;
  }
  return depth == 0;
}

// Sums of 1 with signs between: (1|1+1|(1)+1...).
class SumReader {
 public:
  explicit SumReader(std::string_view text) : text_(text) {}
  bool is_sum() { return sum() && at_ == text_.size(); }

 private:
  bool take(char c) {
    if (at_ == text_.size() || text_[at_] != c) return false;
    ++at_;
    return true;
  }
  bool term() {
    if (take('1')) return true;
    return take('(') && sum() && take(')');
  }
  bool sum() {
    if (!term()) return false;
    while (take('+')) {
      if (!term()) return false;
    }
    return true;
  }
  std::string_view text_;
  std::size_t at_ = 0;
};

TEST(Gbnf, ConstructsMeanWhatTheirPatternsMean) {
  check_rows({
      {"root ::= \"ab\" \"c\"", "abc"},
      {"root ::= \"a\" | \"b\" | \"cc\"", "a|b|cc"},
      {"root ::= \"a\"*", "a*"},
      {"root ::= \"a\"+ \"b\"?", "a+b?"},
      {"root ::= \"ab\" *", "(ab)*"},
      {"root ::= (\"a\" | \"b\" \"c\")* \"a\"", "(a|bc)*a"},
      {"root ::= [ab]{2}", "[ab]{2}"},
      {"root ::= \"a\"{2,}", "a{2,}"},
      {"root ::= \"a\"{1,3} \"b\"{,2}", "a{1,3}b{0,2}"},
      {"root ::= \"a\"{ 1 , 2 }", "a{1,2}"},
      {"root ::= \"a\"{0}", ""},
      {"root ::= [a-b]+ [^a]", "[ab]+[^a]"},
      {"root ::= [^\\n]*", "[^\\n]*"},
      {"root ::= . .", "[abc\\n]{2}"},
      {"root ::= \"\\x61\" [\\x62-\\u0063]* \"\\U00000062\"", "a[bc]*b"},
      {"root ::= \"a\\n\"+", "(a\\n)+"},
      {"root ::= x y\nx ::= \"a\" | \"b\"\ny ::= x x", "[ab]{3}"},
      {"root ::= \"a\" |", "a|"},
      {"root ::= | \"a\"\nx ::= \"b\"", "a|"},
      {"root ::= \"a\" |\nx ::= \"b\"", "a|"},
      {"root ::= \"a\" |\n  \"b\"", "a|b"},
      {"root ::= \"a\"\n | \"b\"\n\n | \"c\"", "a|b|c"},
      {"root ::= (\n\"a\"\n\n|\n\"b\"\n\"c\"\n)\n", "a|bc"},
      {"root ::= (\"a\"\n*)", "a*"},
      {"# first\nroot ::= # then\n  x # last\n\n# more\nx ::= \"b\" # end", "b"},
      {"root ::=\r\n  \"a\" |\r\n \"b\"\r\n", "a|b"},
      {"root ::= a-b a_2\na-b ::= \"a\"\na_2 ::= \"b\"", "ab"},
      {"root ::= \"\" | (\"a\"*)*", "a*"},
      {"root ::= (\"a\" | )+ \"b\"", "a*b"},
      {"root ::= \"a\"?*", "a*"},
      {"root ::= \"a\" root | \"b\"", "a*b"},
      {"root ::= ([ab] root)?", "[ab]*"},
      {"root ::= root \"a\" | \"b\"", "ba*"},
      {"root ::=\n  \"a\" (\n    \"b\" |\n    \"c\" # then\n  )* \"a\"\n", "a[bc]*a"},
  });
}

TEST(Gbnf, EscapesAndClassesSpellCharacters) {
  EXPECT_TRUE(accepts("root ::= \"\\\"\\\\\\[\\]\\t\\r\"", "\"\\[]\t\r"));
  EXPECT_TRUE(accepts("root ::= \"::=\" [#\"]", "::=#"));
  EXPECT_TRUE(accepts("root ::= \"#\"", "#"));
  EXPECT_TRUE(accepts("root ::= [a\\]\\-^-]+", "a]-^"));
  EXPECT_FALSE(accepts("root ::= [a\\]\\-]+", "b"));
  EXPECT_TRUE(accepts("root ::= [\\\\]", "\\"));
  EXPECT_TRUE(accepts("root ::= [\xC3\xA4-\xC3\xBC]+", "\xC3\xB6"));
  EXPECT_FALSE(accepts("root ::= [\xC3\xA4-\xC3\xBC]+", "\xC3\xA3"));
  EXPECT_TRUE(accepts("root ::= [\\U0001F600-\\U0001F64F]", "\xF0\x9F\x98\x80"));
  EXPECT_TRUE(accepts("root ::= \"\\uD83D\\uDE00\"", "\xF0\x9F\x98\x80"));
  EXPECT_TRUE(accepts("root ::= .", "\xF0\x9F\x98\x80"));
  EXPECT_TRUE(accepts("root ::= [^a]", "\xE2\x82\xAC"));
  EXPECT_FALSE(accepts("root ::= .", "\xE2\x82"));
}

TEST(Gbnf, RulesMayNest) {
  check("root ::= (\"(\" root \")\")*", "()", 10, is_balanced);
  check("root ::= sum\nsum ::= term (\"+\" term)*\nterm ::= \"1\" | \"(\" sum \")\"",
        "1+()",
        7,
        [](const std::string& text) { return SumReader(text).is_sum(); });
  check("root ::= \"a\" root \"b\" | \"c\"", "abc", 7, [](const std::string& text) {
    const std::size_t n = text.size() / 2;
    return text == std::string(n, 'a') + "c" + std::string(n, 'b');
  });
}

TEST(Gbnf, RefusalsNameTheLineAndTheColumn) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"root ::= a b\na ::= \"x\"", "line 1, column 12: 'b' is not defined"},
      {"root ::= \"a\"\nx ::= \"b\"\nroot ::= \"c\"", "line 3, column 1: 'root' is defined twice"},
      {"a ::= \"b\"",
       "line 1, column 10: the grammar does not define the rule 'root', with which it starts"},
      {"root ::= \"a", "line 1, column 10: a string without its closing '\"'"},
      {"root ::= \"a\nb\"", "line 1, column 10: a string without its closing '\"'"},
      {"root ::= \"\xC3\xA4\" \"\\q\"", "line 1, column 15: the escape '\\q' is not known"},
      {"root ::= \"\\x6\"", "line 1, column 14: the escape needs 2 hexadecimal digits"},
      {"root ::= \"\\uD83D\"", "line 1, column 11: there is no character with this number"},
      {"root ::= [\\U00110000]", "line 1, column 11: there is no character with this number"},
      {"root ::= [a", "line 1, column 10: a class without its ']'"},
      {"root ::= [b-", "line 1, column 10: a class without its ']'"},
      {"root ::= []", "line 1, column 10: a class may not be empty"},
      {"root ::= [b-a]", "line 1, column 11: a range whose end comes before its beginning"},
      {"root ::= (\"a\"\n", "line 1, column 10: a group without its ')'"},
      {"root ::= \"a\" )", "line 1, column 14: the end of the rule 'root' belongs here, not ')'"},
      {"root ::= *", "line 1, column 10: '*' begins no part of a rule"},
      {"root ::= 'a'", "line 1, column 10: ''' begins no part of a rule"},
      {"root ::= <think>", "line 1, column 10: tokens, written <...>, are not supported"},
      {"root ::= \"a\"{2", "line 1, column 15: a repetition without its '}'"},
      {"root ::= \"a\"{x}", "line 1, column 14: a number belongs here, not 'x'"},
      {"root ::= \"a\"{3,2}", "line 1, column 13: a repetition of at least 3 and at most 2"},
      {"root ::= \"a\"{100001}", "line 1, column 13: a repetition of more than 100000"},
      {"root ::= \"a\"\n= \"b\"", "line 2, column 1: the name of a rule belongs here, not '='"},
      {"root ::= \"a\"\nx : \"b\"", "line 2, column 3: '::=' belongs here, not ':'"},
      {"root ::= \"a\" # \xFF", "line 1, column 16: the bytes here are not UTF-8"},
      {"root ::= \"a\" root", "the grammar allows no text at all"},
      {"root ::= x \"a\" | \"b\"\nx ::= root \"c\"",
       "a rule of the grammar calls itself before it reads anything"},
  };
  for (const auto& [grammar, message] : rows) EXPECT_EQ(refusal(grammar), message) << grammar;
}

TEST(Lark, ConstructsMeanWhatTheirPatternsMean) {
  check_rows({
      {"start: \"ab\" \"c\"", "abc"},
      {"start: \"a\" | \"b\" | \"cc\"", "a|b|cc"},
      {"start: \"a\"* \"b\"+ \"c\"?", "a*b+c?"},
      {"start: [\"a\" \"b\"] \"c\"", "(ab)?c"},
      {"start: [\"a\" | \"b\"] \"c\"", "[ab]?c"},
      {"start: (\"a\" | \"b\" \"c\")* \"a\"", "(a|bc)*a"},
      {"start: \"a\" ~ 2", "aa"},
      {"start: \"a\"~1..3 \"b\"", "a{1,3}b"},
      {"start: (\"a\"|\"b\") ~ 0 .. 2", "[ab]{0,2}"},
      {"start: \"a\"{1,2} \"b\"{2}", "a{1,2}b{2}"},
      {"start: x y\nx: \"a\" | \"b\"\ny: x x", "[ab]{3}"},
      {"start: A B\nA: \"a\"+\nB: A \"b\" | \"c\"", "a+(a+b|c)"},
      {"start: /[ab]+c?/ \"c\"", "[ab]+c?c"},
      {"start: \"a\"..\"b\" (\"b\" .. \"c\")*", "[ab][bc]*"},
      {"start: \"a\"\n  | \"b\"\n\n  | \"c\"", "a|b|c"},
      {"start: \"a\" |\n  \"b\"", "a|b"},
      {"start: \"a\" |\nx: \"b\"", "a|"},
      {"start: \"a\" |\n?x: \"b\"", "a|"},
      {"start: \"a\" |\nX.2: \"b\"", "a|"},
      {"start:\n  \"a\"", "a"},
      {"start:\nx: \"a\"", ""},
      {"start: | \"a\"", "a|"},
      {"start: (\n\"a\"\n|\n\"b\"\n)", "a|b"},
      {"// first\nstart: x // then\n\n# more\nx: \"b\" // end", "b"},
      {"?start: x\n!x.2: \"a\" -> first\n | \"b\" \"c\" -> second_one\n", "a|bc"},
      {"_A: \"a\"\nstart: _A _b\n_b: \"b\"", "ab"},
      {"start: A\nA.-1: \"a\"", "a"},
      {"start: \"a\" start | \"b\"", "a*b"},
      {"start: (\"a\"?)* \"b\"", "a*b"},
      {"start: x* \"b\"\nx: \"a\"?", "a*b"},
      {"start: A*\nA: \"a\" (\"b\" | \"c\")~2", "(a[bc]{2})*"},
  });
}

TEST(Lark, StringsAndPatternsMayTakeEitherCase) {
  check("start: \"ab\"i", "aAbB", 3, [](const std::string& text) {
    return text.size() == 2 && (text[0] | 32) == 'a' && (text[1] | 32) == 'b';
  });
  check("start: /a[b-c]*/i", "aAbBcC", 4, [](const std::string& text) {
    return !text.empty() && (text[0] | 32) == 'a' &&
           std::all_of(text.begin() + 1, text.end(), [](char c) { return (c | 32) != 'a'; });
  });
  EXPECT_TRUE(accepts("start: \"1-\xC3\xA4\"i", "1-\xC3\xA4"));
  EXPECT_FALSE(accepts("start: \"\xC3\xA4\"i", "\xC3\x84"));  // of ASCII alone
  EXPECT_TRUE(accepts("start: /\\// \"\\\"\\\\/\"", "/\"\\/"));
  EXPECT_TRUE(accepts("start: /a\\\\/", "a\\"));
}

TEST(Lark, WhatIsIgnoredMayStandAroundTerminals) {
  const std::regex spaced(" *ab *(c *)*");
  check("start: \"ab\" C*\nC: \"c\"\n%ignore \" \"", "abc ", 6, [&](const std::string& text) {
    return std::regex_match(text, spaced);
  });
  const std::regex inside(" *a *(b *)?");  // none within a terminal
  check("%import common.WS_INLINE\n%ignore WS_INLINE\nstart: AB | A\nAB: A \"b\"\nA: \"a\"",
        "ab ",
        6,
        [](const std::string& text) { return std::regex_match(text, std::regex(" *ab? *")); });
  check("start: \"a\" [\"b\"]\n%ignore /x+/\n%ignore \" \" | \"y\"",
        "abxy ",
        5,
        [&](std::string text) {
          std::replace(text.begin(), text.end(), 'x', ' ');
          std::replace(text.begin(), text.end(), 'y', ' ');
          return std::regex_match(text, inside);
        });
  check("start: x*\nx: \"a\"\n%ignore / */", "a ", 6, [](const std::string&) { return true; });
}

TEST(Lark, CommonTerminalsAreImported) {
  struct Terminal {
    const char* name;
    const char* pattern;
  };
  const std::vector<Terminal> rows = {
      {"INT", "[01]+"},
      {"SIGNED_INT", "-?[01]+"},
      {"FLOAT", "([01]+\\.[01]*|\\.[01]+)(e-?[01]+)?|[01]+e-?[01]+"},
      {"NUMBER", "([01]+\\.?[01]*|\\.[01]+)(e-?[01]+)?"},
      {"SIGNED_NUMBER", "-?([01]+\\.?[01]*|\\.[01]+)(e-?[01]+)?"},
      {"SIGNED_FLOAT", "-?(([01]+\\.[01]*|\\.[01]+)(e-?[01]+)?|[01]+e-?[01]+)"},
      {"DIGIT", "[01]"},
      {"HEXDIGIT", "[01e]"},
      {"WORD", "e+"},
      {"LETTER", "e"},
      {"LCASE_LETTER", "e"},
      {"CNAME", "e[e01]*"},
      {"WS", "[ \\n]+"},
      {"WS_INLINE", " +"},
      {"NEWLINE", "\\n+"},
      {"ESCAPED_STRING", "\"([^\"\\\\\\n]|\\\\[^\\n])*\""},
  };
  for (const auto& [name, pattern] : rows) {
    const std::regex expected(pattern);
    check(std::string("%import common.") + name + "\nstart: " + name,
          "01e.-\" \n\\",
          4,
          [&](const std::string& text) { return std::regex_match(text, expected); });
  }
  EXPECT_TRUE(accepts("%import common.UCASE_LETTER -> UP\nstart: UP+", "AZ"));
  EXPECT_TRUE(accepts("%import common (INT, WS)\nstart: INT WS INT", "1 2"));
  EXPECT_TRUE(accepts("start: C+\n%import common.C_COMMENT -> C", "/* a **//**/"));
  EXPECT_FALSE(accepts("start: C\n%import common.C_COMMENT -> C", "/* a */ */"));
}

TEST(Lark, LeftRecursionIsRepetition) {
  const auto is_sum = [](const std::string& text) { return SumReader(text).is_sum(); };
  check("?start: sum\n?sum: sum \"+\" term -> add\n  | term\nterm: \"1\" | \"(\" sum \")\"",
        "1+()",
        7,
        is_sum);
  check("start: start start | \"a\" | \"b\" \"c\"", "abc", 6, [](const std::string& text) {
    return std::regex_match(text, std::regex("(a|bc)+"));
  });
  check(
      "start: (start \"a\" | \"b\") | start | start \"c\"", "abc", 6, [](const std::string& text) {
        return std::regex_match(text, std::regex("b[ac]*"));
      });
  check("start: start \",\" A | A\nA: \"a\"\n%ignore \" \"", "a, ", 7, [](const std::string& text) {
    return std::regex_match(text, std::regex(" *a *(, *a *)*"));
  });
  EXPECT_EQ(refusal("start: x \"a\"\nx: start \"b\" | \"c\""),
            "a rule of the grammar calls itself before it reads anything");
}

TEST(Lark, RefusalsNameTheLineAndTheColumn) {
  const std::vector<std::pair<std::string, std::string>> rows = {
      {"start: a b\na: \"x\"", "line 1, column 10: 'b' is not defined"},
      {"start: A\n\nstart: \"b\"\nA: \"a\"", "line 3, column 1: 'start' is defined twice"},
      {"a: \"b\"",
       "line 1, column 7: the grammar does not define the rule 'start', with which it starts"},
      {"", "line 1, column 1: the grammar does not define the rule 'start', with which it starts"},
      {"%declare A\nstart: A", "line 1, column 1: '%declare' is not supported"},
      {"start: \"a\"\n%override start: \"b\"", "line 2, column 1: '%override' is not supported"},
      {"start: %json {}", "line 1, column 8: '%json' is not supported"},
      {"start: <|end|>", "line 1, column 8: special tokens, written <...>, are not supported"},
      {"start: x{a}\nx{b}: b", "line 1, column 9: templates are not supported"},
      {"x{b}: b\nstart: \"a\"", "line 1, column 2: templates are not supported"},
      {"start[lazy]: \"a\"", "line 1, column 6: attributes of rules are not supported"},
      {"start: A\nA: \"a\" A | \"b\"", "line 2, column 8: the terminal 'A' refers to itself"},
      {"start: A\nA: B | \"c\"\nB: \"b\" A", "line 3, column 8: the terminal 'A' refers to itself"},
      {"start: A\nA: x\nx: \"a\"",
       "line 2, column 4: a terminal may not refer to 'x', which is a rule"},
      {"start: \"a\"\n%ignore start",
       "line 2, column 9: a terminal may not refer to 'start', which is a rule"},
      {"start: Ab\nAb: \"a\"",
       "line 1, column 8: 'Ab' is no name: those of rules are in lower case, those of terminals in "
       "upper case"},
      {"start: \"a\" \"\\d\"", "line 1, column 13: the escape '\\d' is not known"},
      {"start: /a", "line 1, column 8: a regular expression without its closing '/'"},
      {"start: /a\\\n/", "line 1, column 8: a regular expression without its closing '/'"},
      {"start: /a(/",
       "line 1, column 8: the regular expression: at byte 2 of the pattern: a group without its "
       "')'"},
      {"start: /a/s", "line 1, column 11: the flag 's' of regular expressions is not supported"},
      {"start: /[^a]/i",
       "line 1, column 8: the flag 'i' is not supported beside negated classes and properties"},
      {"start: \"ab\"..\"c\"", "line 1, column 8: a range needs one character at both ends"},
      {"start: \"c\"..\"a\"", "line 1, column 8: a range whose end comes before its beginning"},
      {"start: \"c\"..A", "line 1, column 13: a string belongs behind '..', not 'A'"},
      {"start: [\"a\"", "line 1, column 8: '[' without its ']'"},
      {"start: (\"a\"]", "line 1, column 8: a group without its ')'"},
      {"start: \"a\"]", "line 1, column 11: the end of the line belongs here, not ']'"},
      {"start: \"a\" ~ x", "line 1, column 14: a number belongs here, not 'x'"},
      {"start: \"a\" ~ 3..2", "line 1, column 12: a repetition of at least 3 and at most 2"},
      {"start: \"a\" ~ 100001", "line 1, column 12: a repetition of more than 100000"},
      {"start \"a\"", "line 1, column 7: ':' belongs here, not '\"'"},
      {"start: \"a\" -> \"b\"", "line 1, column 15: a name belongs behind '->', not '\"'"},
      {"start: \"a\"\n\"b\"",
       "line 2, column 1: a rule, a TERMINAL or a %directive belongs here, not '\"'"},
      {"%import python.NAME\nstart: NAME", "line 1, column 9: only 'common' can be imported from"},
      {"%import common.STRING\nstart: STRING",
       "line 1, column 16: 'common' has no terminal 'STRING' here"},
      {"start: INT\n%import common.INT -> x",
       "line 2, column 23: the name of a terminal belongs here"},
  };
  for (const auto& [grammar, message] : rows) EXPECT_EQ(refusal(grammar), message) << grammar;
}

TEST(Rules, TheSpellingIsToldByItsRules) {
  EXPECT_TRUE(accepts("# start: \"a\"\n\n  root\t::= \"b\"", "b"));
  EXPECT_TRUE(accepts("// root ::= \"a\"\nstart: \"::=\" \"b\"", "::=b"));
  EXPECT_TRUE(accepts("start: /x ::= y/", "x ::= y"));
  EXPECT_EQ(
      refusal("root: \"a\""),
      "line 1, column 10: the grammar does not define the rule 'start', with which it starts");
}

TEST(Rules, LimitsAreKept) {
  std::string many = "root ::= r1\n";
  for (int i = 1; i < 10'000; ++i) many += "r" + std::to_string(i) + " ::= \"a\"\n";
  EXPECT_TRUE(compiled(many).ok()) << refusal(many);
  EXPECT_EQ(refusal(many + "more ::= \"a\""),
            "line 10001, column 1: the grammar has more than 10000 rules");
  const auto nested = [](std::size_t n) {
    return "start: " + std::string(n, '(') + "\"a\"" + std::string(n, ')');
  };
  EXPECT_TRUE(compiled(nested(kGrammarDepthMax)).ok());
  EXPECT_EQ(refusal(nested(kGrammarDepthMax + 1)),
            "line 1, column 209: groups nest more than 200 deep");
  std::string properties = "start:";
  for (int i = 0; i < 20'000; ++i) properties += " /\\p{L}/";
  const auto large = compiled(properties);
  EXPECT_EQ(large.status().code(), Code::kResourceExhausted);
  EXPECT_NE(large.status().message().find("more than 4000000 parts"), std::string::npos)
      << large.status().message();
  EXPECT_EQ(compiled("start: \"a\"~300 ~300").status().code(), Code::kOk);
  EXPECT_EQ(compiled("start: (\"a\"~100000 \"b\")~100000 \"c\"~100000").status().code(),
            Code::kResourceExhausted);
}

TEST(Rules, TerminalsThatDoubleStaySmall) {
  std::string grammar = "start: T0\n";
  for (int i = 0; i < 60; ++i) {
    const std::string next = "T" + std::to_string(i + 1);
    grammar.append("T").append(std::to_string(i)).append(": ");
    grammar.append(next).append(" ").append(next).append("\n");
  }
  const auto program = compiled(grammar + "T60: \"a\"?");
  ASSERT_TRUE(program.ok()) << program.status().message();
  EXPECT_LT(program->n_states(), 1'000U);
}

// A grammar of a size that clients send.
TEST(Rules, JsonInBothSpellings) {
  const std::string gbnf =
      "root   ::= object\n"
      "value  ::= object | array | string | number | (\"true\" | \"false\" | \"null\") ws\n"
      "object ::= \"{\" ws ( string \":\" ws value (\",\" ws string \":\" ws value)* )? \"}\" ws\n"
      "array  ::= \"[\" ws ( value (\",\" ws value)* )? \"]\" ws\n"
      "string ::= \"\\\"\" ( [^\"\\\\\\x7F\\x00-\\x1F] | \"\\\\\" ([\"\\\\bfnrt] | \"u\" "
      "[0-9a-fA-F]{4}) )* \"\\\"\" ws\n"
      "number ::= (\"-\"? ([0-9] | [1-9] [0-9]{0,15})) (\".\" [0-9]+)? ([eE] [-+]? [0-9] "
      "[1-9]{0,15})? ws\n"
      "ws ::= | \" \" | \"\\n\" [ \\t]{0,20}\n";
  const std::string lark = R"(
    ?start: object
    ?value: object
          | array
          | string
          | SIGNED_NUMBER      -> number
          | "true" | "false" | "null"
    array  : "[" [value ("," value)*] "]"
    object : "{" [pair ("," pair)*] "}"
    pair   : string ":" value
    string : ESCAPED_STRING
    %import common.ESCAPED_STRING
    %import common.SIGNED_NUMBER
    %import common.WS
    %ignore WS
  )";
  for (const std::string& grammar : {gbnf, lark}) {
    const auto program = compiled(grammar);
    ASSERT_TRUE(program.ok()) << program.status().message();
    const Acceptor acceptor(program.value());
    for (const std::string text : {R"({})",
                                   R"({"a": [1, -2.5e3, true, {"b": null}], "c": "\"\u00e4"})",
                                   "{\"a\": [\n[], [[\"x\"]]]}"}) {
      EXPECT_TRUE(acceptor.accepts(text)) << text;
      for (std::size_t n = 0; n <= text.size(); ++n)
        EXPECT_TRUE(acceptor.begins(text.substr(0, n))) << text.substr(0, n);
    }
    for (const std::string text :
         {"", "{", "[]", R"({"a":})", R"({"a":1,})", R"({a:1})", R"({"a":"\x"} x)"})
      EXPECT_FALSE(acceptor.accepts(text)) << text;
  }
}

// Patterns with texts that other engines have judged; here as the one terminal of a grammar.
TEST(Lark, PatternsOfTheGoldens) {
  const char* data = std::getenv("COXSWAIN_DATA");  // NOLINT(concurrency-mt-unsafe)
  const std::string path = std::string(data == nullptr ? "" : data) + "/goldens/grammar/cases.json";
  if (data == nullptr || !std::ifstream(path).good())
    GTEST_SKIP() << "COXSWAIN_DATA has no goldens/grammar/cases.json";
  const auto goldens = json::parse_file(path, 64U << 20);
  ASSERT_TRUE(goldens.ok()) << goldens.status().message();
  std::size_t n_texts = 0;
  for (const json::Value& one : goldens->find("cases")->as_array()) {
    if (one.find("kind")->as_string() != "regex") continue;
    const std::string& pattern = one.find("regex")->as_string();
    for (const json::Value& string : one.find("strings")->as_array()) {
      const std::string& text = string.find("text")->as_string();
      EXPECT_EQ(accepts("start: /" + pattern + "/", text), string.find("valid")->as_bool())
          << pattern << " on '" << text << "'";
      ++n_texts;
    }
  }
  EXPECT_GT(n_texts, 10U);
}

}  // namespace
}  // namespace coxswain::grammar
