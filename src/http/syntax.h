#pragma once
// Small pieces of HTTP's grammar (RFC 9110, RFC 9112). Thread rule: pure functions.

#include <optional>
#include <string>
#include <string_view>

namespace coxswain::http {

// One or more token characters: method and header names.
bool is_token(std::string_view text);
// Bytes that may stand in a header value: visible, blank, tab, or above 0x7F.
bool is_field_value(std::string_view text);
// Visible ASCII and blanks only.
bool is_printable(std::string_view text);
bool equal_ignoring_case(std::string_view a, std::string_view b);
// Without blanks and tabs at both ends.
std::string_view trimmed(std::string_view text);
// Takes the part before the next `mark` off `rest`, which is empty behind the last; trimmed.
std::string_view take_part(std::string_view& rest, char mark);
// True if the comma-separated list has the word, ignoring case.
bool list_has(std::string_view list, std::string_view word);
// Nothing if an escape is not '%' and two hexadecimal digits.
std::optional<std::string> percent_decoded(std::string_view text);
// 1 to 128 characters of [A-Za-z0-9._-].
bool is_request_id(std::string_view text);

}  // namespace coxswain::http
