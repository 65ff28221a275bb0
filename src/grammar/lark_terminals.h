#pragma once
// The terminals of Lark's library of common ones, which grammars import by name.
// Thread rule: any thread.

#include <optional>
#include <string_view>

namespace coxswain::grammar {

// A pattern for parse_regex; empty for a name that the library does not have.
std::optional<std::string_view> common_terminal(std::string_view name);

}  // namespace coxswain::grammar
