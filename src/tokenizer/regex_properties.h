#pragma once
// Named sets of characters as Oniguruma knows them, written as items of a PCRE2 class.
// Thread rule: pure functions.

#include <optional>
#include <string>
#include <string_view>

namespace coxswain::tokenizer {

// Whether a property is a Unicode block ("In_Cyrillic"), which neither PCRE2 nor this module knows.
bool is_block(std::string_view name);

// What stands in a class for the property `name` ("L", "Lowercase_Letter", "alpha", "Han", ...);
// case, blanks, '-' and '_' do not count. A name that is not known is passed on to PCRE2.
std::string property_items(std::string_view name);

// The same for the names of POSIX brackets; empty for an unknown name.
std::optional<std::string> posix_items(std::string_view name);

}  // namespace coxswain::tokenizer
