#pragma once
// Groups of characters, a bit for each: what a subtree of the vocabulary is spelled with, and what a place in a grammar
// takes whatever comes next, are compared by a few words instead of byte by byte.
//
// Thread rule: pure functions.

#include <cstddef>
#include <cstdint>

namespace coxswain::grammar {

using TextGroups = std::uint64_t;

// Characters of more than one byte, whole and valid.
inline constexpr unsigned kManyBytesGroup = 62;
// Bytes that are no whole character; no place takes "all of them".
inline constexpr unsigned kBrokenGroup = 63;

// The bit of an ASCII character: a letter in either case, any digit, a line feed, any other control character, or one
// of the rest. REQUIRES: byte < 0x80.
constexpr unsigned ascii_group(std::uint8_t byte) {
  if (byte == '\n') return 60;
  if (byte < 0x20 || byte == 0x7F) return 61;
  if (byte >= '0' && byte <= '9') return 26;
  if (byte >= 'a' && byte <= 'z') return byte - unsigned{'a'};
  if (byte >= 'A' && byte <= 'Z') return byte - unsigned{'A'};
  if (byte < '0') return 27U + (byte - 0x20U);                 // 27 to 42
  if (byte < 'A') return 43U + (byte - (unsigned{'9'} + 1U));  // 43 to 49
  if (byte < 'a') return 50U + (byte - (unsigned{'Z'} + 1U));  // 50 to 55
  return 56U + (byte - (unsigned{'z'} + 1U));                  // 56 to 59
}

// What strings of JSON take as it is: no quotes, backslashes and control characters.
inline constexpr TextGroups kPlainGroups =
    ~(TextGroups{1} << ascii_group('"') | TextGroups{1} << ascii_group('\\') |
      TextGroups{1} << ascii_group('\n') | TextGroups{1} << ascii_group(0) |
      TextGroups{1} << kBrokenGroup);
inline constexpr std::size_t kPlainCharactersMax = 32;

// Where a text stands within a UTF-8 character: the bytes [first, last] may follow, and how many in all.
struct Utf8Place {
  std::uint8_t first = 0;
  std::uint8_t last = 0;
  std::uint8_t n_left = 0;  // 0: between characters

  friend bool operator==(const Utf8Place&, const Utf8Place&) = default;
};

// Behind the first byte of a character of more than one; n_left is 0 for a byte that begins none.
constexpr Utf8Place behind_lead(std::uint8_t byte) {
  if (byte >= 0xC2 && byte <= 0xDF) return {0x80, 0xBF, 1};
  if (byte == 0xE0) return {0xA0, 0xBF, 2};
  if (byte == 0xED) return {0x80, 0x9F, 2};  // no surrogates
  if (byte >= 0xE1 && byte <= 0xEF) return {0x80, 0xBF, 2};
  if (byte == 0xF0) return {0x90, 0xBF, 3};
  if (byte >= 0xF1 && byte <= 0xF3) return {0x80, 0xBF, 3};
  if (byte == 0xF4) return {0x80, 0x8F, 3};
  return {};
}

// One more byte of it. REQUIRES: place.n_left > 0.
constexpr Utf8Place behind_byte(const Utf8Place& place) {
  return {0x80, 0xBF, static_cast<std::uint8_t>(place.n_left - 1)};
}

}  // namespace coxswain::grammar
