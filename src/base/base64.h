#pragma once
// Base64 as RFC 4648 section 4 writes it. Thread rule: pure functions.

#include <optional>
#include <string>
#include <string_view>

namespace coxswain::base {

// With padding.
std::string encode_base64(std::string_view bytes);

// Padding is optional. Empty if `text` contains anything else.
std::optional<std::string> decode_base64(std::string_view text);

}  // namespace coxswain::base
