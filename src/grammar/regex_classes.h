#pragma once
// The named sets of characters of regular expressions.
// Thread rule: any thread.

#include <optional>
#include <string_view>

#include "grammar/characters.h"

namespace coxswain::grammar {

// \d \D \w \W \s \S as ECMA-262 has them: digits and word characters are ASCII's, blanks Unicode's. Else empty.
std::optional<CharacterSet> escaped_class(char32_t letter);

// '.': all but the ends of lines.
CharacterSet line_characters();

// A general category by its short or long name ("L", "Lu", "Letter", "Uppercase_Letter"), with or without "gc=" or
// "General_Category=", "ASCII" or "Any"; of the Unicode version of libutf8proc.
std::optional<CharacterSet> property_characters(std::string_view name);

}  // namespace coxswain::grammar
