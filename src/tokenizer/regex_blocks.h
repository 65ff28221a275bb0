#pragma once
// Blocks of Unicode by name, for patterns that ask for them (\p{In_Cyrillic}). Thread rule: pure
// functions.

#include <optional>
#include <string_view>

namespace coxswain::tokenizer {

struct BlockRange {
  char32_t first = 0;
  char32_t last = 0;  // belongs to it
};

// `name` in lower case without blanks, '-' and '_', as "latinextendeda".
std::optional<BlockRange> block_named(std::string_view name);

}  // namespace coxswain::tokenizer
