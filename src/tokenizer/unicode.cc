#include "tokenizer/unicode.h"

#include <cstring>
#include <utf8proc.h>

#include "tokenizer/unicode_reference.h"

namespace coxswain::tokenizer {
namespace {

std::uint16_t class_of_category(utf8proc_category_t category) {
  switch (category) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LT:
      return kClassLetter | kClassUpper;
    case UTF8PROC_CATEGORY_LL:
      return kClassLetter | kClassLower;
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return kClassLetter | kClassOtherLetter;
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_MC:
    case UTF8PROC_CATEGORY_ME:
      return kClassMark;
    case UTF8PROC_CATEGORY_ND:
      return kClassNumber | kClassDecimal;
    case UTF8PROC_CATEGORY_NL:
    case UTF8PROC_CATEGORY_NO:
      return kClassNumber;
    case UTF8PROC_CATEGORY_PC:
      return kClassPunctuation | kClassConnector;
    case UTF8PROC_CATEGORY_PD:
    case UTF8PROC_CATEGORY_PS:
    case UTF8PROC_CATEGORY_PE:
    case UTF8PROC_CATEGORY_PI:
    case UTF8PROC_CATEGORY_PF:
    case UTF8PROC_CATEGORY_PO:
      return kClassPunctuation;
    case UTF8PROC_CATEGORY_SM:
    case UTF8PROC_CATEGORY_SC:
    case UTF8PROC_CATEGORY_SK:
    case UTF8PROC_CATEGORY_SO:
      return kClassSymbol;
    case UTF8PROC_CATEGORY_ZS:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return kClassSeparator;
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
      return kClassControl;
  }
  return kClassControl;
}

std::uint16_t class_of_newer(std::string_view category) {
  switch (category[0]) {
    case 'L':
      return static_cast<std::uint16_t>(kClassLetter |
                                        (category[1] == 'u' || category[1] == 't' ? kClassUpper
                                         : category[1] == 'l'                     ? kClassLower
                                                              : kClassOtherLetter));
    case 'M':
      return kClassMark;
    case 'N':
      return static_cast<std::uint16_t>(kClassNumber | (category[1] == 'd' ? kClassDecimal : 0));
    case 'P':
      return kClassPunctuation;
    case 'S':
      return kClassSymbol;
    default:
      return kClassControl;
  }
}

bool has_white_space(char32_t c) {
  return (c >= 0x09 && c <= 0x0D) || c == 0x20 || c == 0x85 || c == 0xA0 || c == 0x1680 ||
         (c >= 0x2000 && c <= 0x200A) || c == 0x2028 || c == 0x2029 || c == 0x202F || c == 0x205F ||
         c == 0x3000;
}

// Letters by Other_Alphabetic alone: circled and squared Latin letters.
bool is_alphabetic_symbol(char32_t c) {
  return (c >= 0x24B6 && c <= 0x24E9) || (c >= 0x1F130 && c <= 0x1F149) ||
         (c >= 0x1F150 && c <= 0x1F169) || (c >= 0x1F170 && c <= 0x1F189);
}

std::uint16_t classify(char32_t c) {
  const auto* property = utf8proc_get_property(static_cast<utf8proc_int32_t>(c));
  if (property->category == UTF8PROC_CATEGORY_CN) {
    const std::string_view newer = newer_category(c);
    return newer.empty() ? static_cast<std::uint16_t>(kClassControl | kClassUnassigned)
                         : class_of_newer(newer);
  }
  const std::uint16_t by_category =
      class_of_category(static_cast<utf8proc_category_t>(property->category));
  return static_cast<std::uint16_t>(by_category | (has_white_space(c) ? kClassSpace : 0));
}

}  // namespace

std::uint16_t char_class_slow(char32_t c) {
  return classify(c);
}

const std::array<std::uint16_t, 128>& ascii_classes() {
  static const std::array<std::uint16_t, 128> table = [] {
    std::array<std::uint16_t, 128> out{};
    for (char32_t c = 0; c < 128; ++c) out[c] = classify(c);
    return out;
  }();
  return table;
}

bool is_word_character(char32_t c) {
  constexpr std::uint16_t kWord = kClassLetter | kClassMark | kClassDecimal | kClassConnector;
  if ((char_class(c) & kWord) != 0 || c == 0x200C || c == 0x200D || is_alphabetic_symbol(c))
    return true;
  return c >= 0x80 && utf8proc_category(static_cast<utf8proc_int32_t>(c)) == UTF8PROC_CATEGORY_NL;
}

bool is_cjk_ideograph(char32_t c) {
  return (c >= 0x4E00 && c <= 0x9FFF) || (c >= 0x3400 && c <= 0x4DBF) ||
         (c >= 0x20000 && c <= 0x2A6DF) || (c >= 0x2A700 && c <= 0x2B73F) ||
         (c >= 0x2B740 && c <= 0x2B81F) || (c >= 0x2B920 && c <= 0x2CEAF) ||
         (c >= 0xF900 && c <= 0xFAFF) || (c >= 0x2F800 && c <= 0x2FA1F);
}

}  // namespace coxswain::tokenizer
