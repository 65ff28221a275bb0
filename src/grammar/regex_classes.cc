#include "grammar/regex_classes.h"

#include <array>
#include <span>
#include <utf8proc.h>
#include <utility>

namespace coxswain::grammar {
namespace {

struct Category {
  std::string_view name;  // one letter: all that begin with it
  std::string_view long_name;
};

constexpr std::array<Category, 37> kCategories = {{
    {"L", "Letter"},
    {"Lu", "Uppercase_Letter"},
    {"Ll", "Lowercase_Letter"},
    {"Lt", "Titlecase_Letter"},
    {"Lm", "Modifier_Letter"},
    {"Lo", "Other_Letter"},
    {"M", "Mark"},
    {"Mn", "Nonspacing_Mark"},
    {"Mc", "Spacing_Mark"},
    {"Me", "Enclosing_Mark"},
    {"N", "Number"},
    {"Nd", "Decimal_Number"},
    {"Nl", "Letter_Number"},
    {"No", "Other_Number"},
    {"P", "Punctuation"},
    {"Pc", "Connector_Punctuation"},
    {"Pd", "Dash_Punctuation"},
    {"Ps", "Open_Punctuation"},
    {"Pe", "Close_Punctuation"},
    {"Pi", "Initial_Punctuation"},
    {"Pf", "Final_Punctuation"},
    {"Po", "Other_Punctuation"},
    {"S", "Symbol"},
    {"Sm", "Math_Symbol"},
    {"Sc", "Currency_Symbol"},
    {"Sk", "Modifier_Symbol"},
    {"So", "Other_Symbol"},
    {"Z", "Separator"},
    {"Zs", "Space_Separator"},
    {"Zl", "Line_Separator"},
    {"Zp", "Paragraph_Separator"},
    {"C", "Other"},
    {"Cc", "Control"},
    {"Cf", "Format"},
    {"Co", "Private_Use"},
    {"Cn", "Unassigned"},
    {"Nd", "digit"},
}};

const CharacterSet& spaces() {
  static const CharacterSet set = {{'\t', '\r'},
                                   {' ', ' '},
                                   {0xA0, 0xA0},
                                   {0x1680, 0x1680},
                                   {0x2000, 0x200A},
                                   {0x2028, 0x2029},
                                   {0x202F, 0x202F},
                                   {0x205F, 0x205F},
                                   {0x3000, 0x3000},
                                   {0xFEFF, 0xFEFF}};
  return set;
}

// The sets of kCategories, in their order. Made once: a pattern may name one of them ten thousand times.
std::span<const CharacterSet> category_characters() {
  static const std::array<CharacterSet, kCategories.size()> sets = [] {
    std::array<CharacterSet, kCategories.size()> out;
    const auto category_of = [](char32_t c) {
      return std::string_view(utf8proc_category_string(static_cast<utf8proc_int32_t>(c)));
    };
    char32_t begin = 0;
    for (char32_t c = 1; c <= kCodePointMax + 1; ++c) {
      const std::string_view category = category_of(begin);
      if (c <= kCodePointMax && category_of(c) == category) continue;
      for (std::size_t i = 0; i < kCategories.size(); ++i) {
        if (category.starts_with(kCategories[i].name)) out[i].add(begin, c - 1);
      }
      begin = c;
    }
    return out;
  }();
  return sets;
}

}  // namespace

std::optional<CharacterSet> escaped_class(char32_t letter) {
  static const CharacterSet digits = {{'0', '9'}};
  static const CharacterSet words = {{'0', '9'}, {'A', 'Z'}, {'_', '_'}, {'a', 'z'}};
  switch (letter) {
    case 'd':
      return digits;
    case 'D':
      return digits.complement();
    case 'w':
      return words;
    case 'W':
      return words.complement();
    case 's':
      return spaces();
    case 'S':
      return spaces().complement();
    default:
      return std::nullopt;
  }
}

CharacterSet line_characters() {
  return CharacterSet{{'\n', '\n'}, {'\r', '\r'}, {0x2028, 0x2029}}.complement();
}

std::optional<CharacterSet> property_characters(std::string_view name) {
  for (const std::string_view prefix : {"gc=", "General_Category="}) {
    if (name.starts_with(prefix)) name.remove_prefix(prefix.size());
  }
  if (name == "Any") return CharacterSet::all();
  if (name == "ASCII") return CharacterSet{{0, 0x7F}};
  for (std::size_t i = 0; i < kCategories.size(); ++i) {
    if (name != kCategories[i].name && name != kCategories[i].long_name) continue;
    return category_characters()[i];
  }
  return std::nullopt;
}

}  // namespace coxswain::grammar
