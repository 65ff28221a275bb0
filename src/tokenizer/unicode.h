#pragma once
// UTF-8 and the character classes that tokenizers ask for.
//
// Categories are those of the Unicode version of libutf8proc, and of Unicode 16 for characters that
// it does not know. Functions that take a position of a
// text REQUIRE valid UTF-8; sanitize_utf8() makes any bytes valid first. Thread rule: pure
// functions.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

namespace coxswain::tokenizer {

inline constexpr char32_t kReplacementCharacter = 0xFFFD;
inline constexpr std::string_view kReplacementUtf8 = "\xEF\xBF\xBD";
inline constexpr std::string_view kMetaspaceUtf8 =
    "\xE2\x96\x81";  // U+2581, a blank in vocabularies

// Bits of char_class().
enum CharClass : std::uint16_t {
  kClassLetter = 1,         // L
  kClassUpper = 2,          // Lu, Lt
  kClassLower = 4,          // Ll
  kClassOtherLetter = 8,    // Lm, Lo
  kClassMark = 16,          // M
  kClassNumber = 32,        // N
  kClassDecimal = 64,       // Nd
  kClassPunctuation = 128,  // P
  kClassSymbol = 256,       // S
  kClassSpace = 512,        // White_Space
  kClassControl = 1024,     // C: Cc, Cf, Cs, Co, Cn
  kClassConnector = 2048,   // Pc
  kClassSeparator = 4096,   // Z
  kClassUnassigned = 8192,  // Cn
};

std::uint16_t char_class_slow(char32_t c);
const std::array<std::uint16_t, 128>& ascii_classes();

inline std::uint16_t char_class(char32_t c) {
  static const std::array<std::uint16_t, 128>& ascii = ascii_classes();
  return c < 128 ? ascii[c] : char_class_slow(c);
}

inline bool is_space(char32_t c) {
  return (char_class(c) & kClassSpace) != 0;
}
bool is_word_character(
    char32_t c);  // \w of UTS 18: alphabetic, marks, decimal numbers, connectors, joiners
// The blocks that BERT separates; as in the reference, without U+2B820 to U+2B91F.
bool is_cjk_ideograph(char32_t c);

struct CodePoint {
  char32_t value = 0;
  std::uint32_t n_bytes = 0;
};

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

// The character that ends before `end`. REQUIRES: 0 < end <= text.size(), on a boundary.
CodePoint code_point_before(std::string_view text, std::size_t end);

inline bool is_continuation(char byte) {
  return (static_cast<unsigned char>(byte) & 0xC0) == 0x80;
}

// Number of characters. REQUIRES: valid UTF-8.
inline std::size_t count_characters(std::string_view text) {
  return static_cast<std::size_t>(
      std::count_if(text.begin(), text.end(), [](char byte) { return !is_continuation(byte); }));
}

void append_utf8(std::string& out, char32_t c);

// Length of the longest valid prefix that ends on a boundary.
std::size_t valid_utf8_prefix(std::string_view text);

// What stands at the start of `bytes`, which is not valid there: the length of the maximal subpart
// (Unicode 3.9, table 3-8), and whether more bytes could complete it.
struct BrokenUtf8 {
  std::size_t n_bytes = 1;
  bool is_incomplete = false;  // the bytes end inside a so far well-formed character
};
BrokenUtf8 broken_utf8_at(std::string_view bytes);

// Appends `bytes` with every maximal broken subpart as U+FFFD.
void append_lossy(std::string& out, std::string_view bytes);

}  // namespace coxswain::tokenizer
