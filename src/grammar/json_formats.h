#pragma once
// The formats of JSON Schema that strings are held to, as patterns of the whole text.
//
// Each pattern allows a part of what its RFC allows, never more. Other formats are annotations.
//
// Thread rule: pure functions.

#include <optional>
#include <string>
#include <string_view>

namespace coxswain::grammar {

// Empty for a format that is not known, which any string meets. `with_lengths`: a part whose characters can be counted.
std::optional<std::string> format_pattern(std::string_view format, bool with_lengths = false);

}  // namespace coxswain::grammar
