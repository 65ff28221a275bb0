#pragma once
// Wrapping of lines as Python's textwrap module does it, with white space kept inside of lines.
// Thread rule: a pure function.

#include <cstddef>
#include <vector>

#include "chat/text.h"

namespace coxswain::chat {

struct WrapOptions {
  std::size_t width = 79;  // code points, at least 1
  bool break_long_words = true;
  bool break_on_hyphens = true;
};

// The lines of one paragraph; none for one of white space alone.
std::vector<Text> wrap_text(const Text& paragraph, const WrapOptions& options);

}  // namespace coxswain::chat
