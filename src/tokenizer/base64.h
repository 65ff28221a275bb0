#pragma once
// Base64 as RFC 4648 section 4 writes it, padding optional at the end. Thread rule: pure function.

#include <optional>
#include <string>
#include <string_view>

namespace coxswain::tokenizer {

// Empty if `text` contains anything else.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace coxswain::tokenizer
