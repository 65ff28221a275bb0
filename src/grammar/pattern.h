#pragma once
// Expressions as regular expressions: for engines that take no other form.
//
// The pattern is of the whole text, in what the engines of Python and Rust read alike: literals, classes, groups,
// alternatives and greedy repetitions; what is no printable ASCII and no letter is spelled as itself or as \xHH.
//
// Thread rule: pure functions.

#include <cstddef>
#include <optional>
#include <string>
#include <string_view>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "grammar/expression.h"

namespace coxswain::grammar {

inline constexpr std::size_t kPatternBytesMax = 64U << 10;

// Errors: kUnimplemented for what is not said as one: rules that call themselves (also where their language is
// regular: a pattern of a string beside its length), special tokens, a text that cannot be; kResourceExhausted.
Result<std::string> pattern_of(const Expressions& expressions, Node node);

// A pattern in the place of a compiled grammar, for runners that compile it themselves; any other refuses the bytes.
CompiledGrammar carry_pattern(std::string_view pattern);
// Empty if that is none.
std::optional<std::string_view> carried_pattern(const CompiledGrammar& grammar);

}  // namespace coxswain::grammar
