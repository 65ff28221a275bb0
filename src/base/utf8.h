#pragma once
// UTF-8: the one place that knows how bytes make characters (Unicode 16, section 3.9, tables 3-7 and 3-8).
//
// Errors: none; functions that REQUIRE valid text say so. Thread rule: pure functions.

#include <algorithm>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>

namespace coxswain::base {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";

struct CodePoint {
  char32_t value = 0;
  std::uint32_t n_bytes = 0;
};

inline bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Length of the well-formed character that `text` starts with, 0 if there is none. REQUIRES: not empty.
inline std::size_t well_formed_length(std::string_view text) {
  const auto at = [&](std::size_t i) { return static_cast<unsigned char>(text[i]); };
  const unsigned char first = at(0);
  if (first < 0x80) return 1;
  if (first < 0xC2) return 0;
  if (first < 0xE0) return text.size() >= 2 && is_continuation(text[1]) ? 2 : 0;
  if (first < 0xF0) {
    if (text.size() < 3 || !is_continuation(text[1]) || !is_continuation(text[2])) return 0;
    const bool is_overlong = first == 0xE0 && at(1) < 0xA0;
    const bool is_surrogate = first == 0xED && at(1) > 0x9F;
    return is_overlong || is_surrogate ? 0 : 3;
  }
  if (first > 0xF4 || text.size() < 4 || !is_continuation(text[1]) || !is_continuation(text[2]) ||
      !is_continuation(text[3])) {
    return 0;
  }
  const bool is_overlong = first == 0xF0 && at(1) < 0x90;
  const bool is_too_large = first == 0xF4 && at(1) > 0x8F;
  return is_overlong || is_too_large ? 0 : 4;
}

// REQUIRES: at < text.size(), valid UTF-8 from there.
inline CodePoint code_point_at(std::string_view text, std::size_t at) {
  const auto byte = [&](std::size_t i) {
    return static_cast<char32_t>(static_cast<unsigned char>(text[at + i]));
  };
  const char32_t first = byte(0);
  if (first < 0x80) return {first, 1};
  if (first < 0xE0) return {(first & 0x1F) << 6 | (byte(1) & 0x3F), 2};
  if (first < 0xF0) return {(first & 0x0F) << 12 | (byte(1) & 0x3F) << 6 | (byte(2) & 0x3F), 3};
  return {(first & 0x07) << 18 | (byte(1) & 0x3F) << 12 | (byte(2) & 0x3F) << 6 | (byte(3) & 0x3F),
          4};
}

// The character that ends before `end`. REQUIRES: 0 < end <= text.size(), on a boundary of valid UTF-8.
CodePoint code_point_before(std::string_view text, std::size_t end);

// Number of characters; of broken text, of bytes that start one.
inline std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::ranges::count_if(text, [](char byte) { return !is_continuation(byte); }));
}

// At most `bytes_max` bytes, not ending inside a character.
std::string_view cut_utf8(std::string_view text, std::size_t bytes_max);

// REQUIRES: c <= 0x10FFFF.
void append_utf8(std::string& out, char32_t c);

// Length of the longest valid prefix that ends on a boundary.
std::size_t valid_utf8_prefix(std::string_view text);

inline bool is_utf8(std::string_view text) {
  return valid_utf8_prefix(text) == text.size();
}

// What stands at the start of `bytes`, which is not valid there: the length of the maximal subpart, and whether
// more bytes could complete it. REQUIRES: bytes is not empty.
struct BrokenUtf8 {
  std::size_t n_bytes = 1;
  bool is_incomplete = false;  // the bytes end inside a so far well-formed character
};
BrokenUtf8 broken_utf8_at(std::string_view bytes);

// Appends `bytes` with every maximal broken subpart as U+FFFD.
void append_lossy(std::string& out, std::string_view bytes);

}  // namespace coxswain::base
