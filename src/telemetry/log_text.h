#pragma once
// Text of outside origin made safe for one log line: valid UTF-8, no control characters, bounded.
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>
#include <string_view>

namespace coxswain::telemetry {

enum class Escapes : std::uint8_t {
  kControl,  // control characters only: \n, \u001b
  kString,   // those, and quote and backslash: the inside of a JSON string
};
enum class Quotes : std::uint8_t { kAlways, kIfNeeded };

// Each byte that is no UTF-8 becomes U+FFFD.
void append_escaped(std::string& out, std::string_view text, Escapes escapes);

// As a JSON string. kIfNeeded leaves the quotes out where the text is one plain word.
void append_quoted(std::string& out, std::string_view text, Quotes quotes);

}  // namespace coxswain::telemetry
