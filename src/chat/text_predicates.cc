#include "chat/text_predicates.h"

#include <algorithm>
#include <array>
#include <cstdlib>
#include <utf8proc.h>

namespace coxswain::chat {
namespace {

utf8proc_category_t category_of(char32_t c) {
  return utf8proc_category(static_cast<utf8proc_int32_t>(c));
}

bool has_case(char32_t c) {
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL ||
         category == UTF8PROC_CATEGORY_LT;
}

struct Range {
  char32_t first;
  char32_t last;
};

// Characters with Numeric_Type=Digit that are no decimals.
constexpr std::array kDigits{Range{0xB2, 0xB3},
                             Range{0xB9, 0xB9},
                             Range{0x1369, 0x1371},
                             Range{0x19DA, 0x19DA},
                             Range{0x2070, 0x2070},
                             Range{0x2074, 0x2079},
                             Range{0x2080, 0x2089},
                             Range{0x2460, 0x2468},
                             Range{0x2474, 0x247C},
                             Range{0x2488, 0x2490},
                             Range{0x24EA, 0x24EA},
                             Range{0x24F5, 0x24FD},
                             Range{0x24FF, 0x24FF},
                             Range{0x2776, 0x277E},
                             Range{0x2780, 0x2788},
                             Range{0x278A, 0x2792},
                             Range{0x1F100, 0x1F10A}};

// Ideographs that are numbers and in common use.
constexpr std::u32string_view kNumberIdeographs =
    U"一二三四五六七八九十百千万億兆〇零壹貳貮参參肆伍陸陆柒捌玖拾佰仟萬亿两兩廿卅卌弌弍弎壱弐";

}  // namespace

bool is_letter(char32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_LU:
    case UTF8PROC_CATEGORY_LL:
    case UTF8PROC_CATEGORY_LT:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_LO:
      return true;
    default:
      return false;
  }
}

bool is_decimal(char32_t c) {
  return category_of(c) == UTF8PROC_CATEGORY_ND;
}

bool is_digit(char32_t c) {
  return is_decimal(c) || std::ranges::any_of(kDigits, [&](const Range& range) {
           return c >= range.first && c <= range.last;
         });
}

bool is_numeric(char32_t c) {
  const auto category = category_of(c);
  return category == UTF8PROC_CATEGORY_ND || category == UTF8PROC_CATEGORY_NL ||
         category == UTF8PROC_CATEGORY_NO || kNumberIdeographs.find(c) != std::u32string_view::npos;
}

bool is_letter_or_number(char32_t c) {
  return is_letter(c) || is_numeric(c);
}

bool is_printable_character(char32_t c) {
  switch (category_of(c)) {
    case UTF8PROC_CATEGORY_CC:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_CS:
    case UTF8PROC_CATEGORY_CO:
    case UTF8PROC_CATEGORY_CN:
    case UTF8PROC_CATEGORY_ZL:
    case UTF8PROC_CATEGORY_ZP:
      return false;
    case UTF8PROC_CATEGORY_ZS:
      return c == ' ';
    default:
      return true;
  }
}

bool is_word_character(char32_t c) {
  return c == '_' || is_letter_or_number(c);
}

bool is_title_text(std::string_view text) {
  bool inside = false;
  bool cased = false;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text, at, &length);
    const auto category = category_of(c);
    const bool is_upper = category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LT;
    if (is_upper && inside) return false;
    if (category == UTF8PROC_CATEGORY_LL && !inside) return false;
    inside = has_case(c);
    cased = cased || inside;
    at += length;
  }
  return cased;
}

bool is_identifier_text(std::string_view text) {
  bool first = true;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text, at, &length);
    const auto category = category_of(c);
    const bool starts = c == '_' || is_letter(c) || category == UTF8PROC_CATEGORY_NL;
    const bool goes_on = starts || category == UTF8PROC_CATEGORY_ND ||
                         category == UTF8PROC_CATEGORY_MN || category == UTF8PROC_CATEGORY_MC ||
                         category == UTF8PROC_CATEGORY_PC;
    if (!(first ? starts : goes_on)) return false;
    first = false;
    at += length;
  }
  return !first;
}

Text swap_case(const Text& text) {
  Text out;
  out.safe = text.safe;
  for (std::size_t at = 0; at < text.bytes.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text.bytes, at, &length);
    const Text character = text.slice(at, at + length);
    const auto category = category_of(c);
    out.append(category == UTF8PROC_CATEGORY_LU   ? to_lower(character)
               : category == UTF8PROC_CATEGORY_LT ? character
                                                  : to_upper(character));
    at += length;
  }
  return out;
}

Text fold_case(const Text& text) {
  return map_code_points(text, [](char32_t c, std::size_t, std::string& out) {
    utf8proc_int32_t folded[4];
    int last = 0;
    const auto n = utf8proc_decompose_char(
        static_cast<utf8proc_int32_t>(c), folded, 4, UTF8PROC_CASEFOLD, &last);
    if (n <= 0 || n > 4) return append_code_point(out, c);
    for (utf8proc_ssize_t i = 0; i < n; ++i)
      append_code_point(out, static_cast<char32_t>(folded[i]));
  });
}

Text expand_tabs(const Text& text, std::size_t tab_size) {
  std::size_t column = 0;
  return map_code_points(text, [&](char32_t c, std::size_t, std::string& out) {
    if (c == '\t') {
      const std::size_t n = tab_size == 0 ? 0 : tab_size - column % tab_size;
      out.append(n, ' ');
      column += n;
      return;
    }
    append_code_point(out, c);
    column = c == '\n' || c == '\r' ? 0 : column + 1;
  });
}

}  // namespace coxswain::chat
