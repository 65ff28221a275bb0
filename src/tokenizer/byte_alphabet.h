#pragma once
// The alphabet of byte-level vocabularies: every byte is written as one printable character
// (GPT-2's bytes_to_unicode). Thread rule: pure functions.

#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain::tokenizer {

char32_t byte_to_character(unsigned char byte);

// "<0x0A>": how vocabularies with byte fallback write a byte.
std::string byte_token_name(unsigned char byte);
// The byte of such a name, its digits in either case; empty for any other token.
std::optional<char> byte_of_token_name(std::string_view token);

// Appends the characters that stand for `bytes`.
void append_byte_characters(std::string& out, std::string_view bytes);

// Appends the bytes that the characters of `token` stand for and returns true; false (nothing
// appended) if one is not of the alphabet. REQUIRES: valid UTF-8.
bool append_bytes_of_characters(std::string& out, std::string_view token);

}  // namespace coxswain::tokenizer
