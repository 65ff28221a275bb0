#pragma once
// Strings under the restrictions of a shape, as expressions and as automata (names of members).
//
// Errors: kInvalidArgument with the pointer of the pattern that cannot be kept; kResourceExhausted for those that
// together need too many states. Thread rule: as JsonText.

#include <coxswain/status.h>

#include "grammar/character_automaton.h"
#include "grammar/json_text.h"
#include "grammar/schema_merge.h"

namespace coxswain::grammar {

// Longer strings than this are not written, where a bound has to be counted; a longer minimum is refused.
inline constexpr std::uint32_t kLengthMax = 16'384;

// In quotes.
Result<Node> string_text(JsonText& text, SchemaMerger& merger, const Shape& shape);
// The strings that a shape allows, whose values (`enum`) are left to the caller.
Result<CharacterAutomaton> string_language(SchemaMerger& merger, const Shape& shape);

}  // namespace coxswain::grammar
