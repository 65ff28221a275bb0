#pragma once
// The character classes that tokenizers ask for, beside UTF-8 itself (base/utf8.h).
//
// Categories are those of the Unicode version of libutf8proc, and of Unicode 16 for characters that it does not know.
// Thread rule: pure functions.

#include <algorithm>
#include <array>
#include <cstddef>
#include <cstdint>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/types.h>

#include "base/utf8.h"

namespace coxswain::tokenizer {

using base::append_lossy;
using base::append_utf8;
using base::broken_utf8_at;
using base::BrokenUtf8;
using base::code_point_at;
using base::code_point_before;
using base::CodePoint;
using base::count_characters;
using base::is_continuation;
using base::kReplacementCharacter;
using base::kReplacementUtf8;
using base::valid_utf8_prefix;

// U+2581, a blank in vocabularies.
inline constexpr std::string_view kMetaspaceUtf8 = "\xE2\x96\x81";

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
// \w of UTS 18: alphabetic, marks, decimal numbers, connectors, joiners.
bool is_word_character(char32_t c);
// The blocks that BERT separates; as in the reference, without U+2B820 to U+2B91F.
bool is_cjk_ideograph(char32_t c);

}  // namespace coxswain::tokenizer
