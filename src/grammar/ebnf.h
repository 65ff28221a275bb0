#pragma once
// Grammars that are written as rules, as expressions, in two languages:
//
// - GBNF, as llama.cpp documents it: `name ::= ...` with the start rule `root`, "literals" and [classes] with escapes
//   such as \n, \xHH, \uHHHH and \UHHHHHHHH, `.`, groups, `|`, * + ? {n} {n,} {n,m} {,m} and # comments. A line ends a
//   rule except within groups, behind `::=` and beside `|`.
// - Lark's, as llguidance and vLLM take it: the start rule `start`, rules in lower case and TERMINALS in upper case,
//   "strings" (flag i: ASCII's letters in either case), "a".."z", /regular expressions/ (regex.h; flag i likewise,
//   where no class is negated), ( ), [ ] for what may be left out, `|`, * + ? ~n ~n..m, // comments, `%import
//   common.NAME` of the usual names, and `%ignore`: what is ignored may stand before each terminal of a rule and at
//   the end of the text. Prefixes ? and !, `-> aliases` and priorities shape trees, not texts, and change nothing.
//   Templates, %declare, %override and whatever else there is are refused by name.
//
// The language is that of the grammar itself, without a lexer: Lark's lexer takes the longest token and prefers a
// string to a pattern, so that it refuses some texts that are allowed here, such as a keyword where a name may stand.
// Terminals are regular: they may refer to other terminals, not to rules and not in a circle.
//
// Direct left recursion (`a: a "x" | "y"`) is read as the repetition that it means; any other is for compile_program
// to refuse. Rules may be used before they are defined.
//
// Thread rule: pure functions. Errors: kInvalidArgument with the line and the column, in characters from 1, and what is
// wrong there; kResourceExhausted beyond the limits below and those of regex.h.

#include <cstddef>
#include <cstdint>
#include <string_view>

#include <coxswain/status.h>

#include "grammar/expression.h"

namespace coxswain::grammar {

inline constexpr std::size_t kGrammarRulesMax = 10'000;
inline constexpr std::size_t kGrammarDepthMax = 200;         // of groups within each other
inline constexpr std::uint32_t kGrammarRepeatMax = 100'000;  // of {n,m} and ~n..m
inline constexpr std::size_t kGrammarSizeMax = 4'000'000;    // Expressions::size()

// GBNF if a line begins with a name and `::=`, else Lark's language.
Result<Node> parse_rules(Expressions& expressions, std::string_view text);

Result<Node> parse_gbnf(Expressions& expressions, std::string_view text);
Result<Node> parse_lark(Expressions& expressions, std::string_view text);

}  // namespace coxswain::grammar
