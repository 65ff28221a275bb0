#pragma once
// What the names of GGUF files say. Thread rule: pure functions.

#include <string_view>

namespace coxswain::gguf {

// A model, or a part of one that is split. Files of other parts than its text, as converters name them, are none.
bool is_model_name(std::string_view name);

// A part but the first of a split model: NAME-0000i-of-0000n.gguf with i > 1.
bool is_later_part(std::string_view name);

// Whether `word` stands in `name` between characters that are neither letters nor digits nor '_', upper or lower case.
bool has_word(std::string_view name, std::string_view word);

}  // namespace coxswain::gguf
