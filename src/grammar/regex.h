#pragma once
// Regular expressions as expressions: what ECMA-262 and the engines of Python and Rust spell alike. Anchors at the
// beginning and the end, classes, groups, alternatives, greedy and lazy repetition (the same language), and
// \d \D \w \W \s \S \t \n \r \f \v \0 \xHH \uHHHH \u{H...} \cX \p{...} of the general categories. Word boundaries,
// references and look-around are refused by name: no left-to-right automaton of this size has them.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>
#include <functional>
#include <string_view>

#include <coxswain/status.h>

#include "grammar/expression.h"

namespace coxswain::grammar {

struct RegexOptions {
  // How one character of a set is spelled in the text; empty: as UTF-8. JSON strings spell some with escapes.
  std::function<Node(Expressions&, const CharacterSet&)> spell = {};
  // A match may lie anywhere in the text, as JSON Schema's `pattern` says; else it is the whole text.
  bool searches = false;
  // Of the whole text, in characters. A bound needs parts whose lengths can be counted; kInvalidArgument else.
  std::uint32_t length_min = 0;
  std::uint32_t length_max = kUnbounded;
};

// Errors: kInvalidArgument naming the place (an offset in bytes) and what is wrong there; kResourceExhausted for
// repetitions and nesting beyond the limits.
Result<Node> parse_regex(Expressions& expressions,
                         std::string_view pattern,
                         const RegexOptions& options = {});

}  // namespace coxswain::grammar
