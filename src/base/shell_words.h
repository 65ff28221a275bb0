#pragma once
// Words as a shell writes and reads them: quotes, backslashes, comments; nothing is expanded.
//
// Thread rule: pure functions.

#include <cstddef>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::base {

// `word` as a shell reads it back, in quotes where it needs them.
std::string shell_quoted(std::string_view word);

// Words of a command over one or more lines. A quote that is not closed lasts to the end.
std::vector<std::string> shell_words(std::string_view text);

}  // namespace coxswain::base
