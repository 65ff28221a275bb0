#include "tokenizer/regex_properties.h"

#include <algorithm>
#include <array>
#include <cstdio>

#include "tokenizer/regex_blocks.h"
#include "tokenizer/unicode_reference.h"

namespace coxswain::tokenizer {
namespace {

struct Alias {
  std::string_view name;  // lower case, without separators
  std::string_view category;
};

constexpr std::array kCategories{
    Alias{"letter", "L"},
    Alias{"casedletter", "LC"},
    Alias{"lc", "LC"},
    Alias{"l&", "LC"},
    Alias{"uppercaseletter", "Lu"},
    Alias{"lowercaseletter", "Ll"},
    Alias{"titlecaseletter", "Lt"},
    Alias{"modifierletter", "Lm"},
    Alias{"otherletter", "Lo"},
    Alias{"mark", "M"},
    Alias{"combiningmark", "M"},
    Alias{"nonspacingmark", "Mn"},
    Alias{"spacingmark", "Mc"},
    Alias{"enclosingmark", "Me"},
    Alias{"number", "N"},
    Alias{"decimalnumber", "Nd"},
    Alias{"letternumber", "Nl"},
    Alias{"othernumber", "No"},
    Alias{"punctuation", "P"},
    Alias{"connectorpunctuation", "Pc"},
    Alias{"dashpunctuation", "Pd"},
    Alias{"openpunctuation", "Ps"},
    Alias{"closepunctuation", "Pe"},
    Alias{"initialpunctuation", "Pi"},
    Alias{"finalpunctuation", "Pf"},
    Alias{"otherpunctuation", "Po"},
    Alias{"symbol", "S"},
    Alias{"mathsymbol", "Sm"},
    Alias{"currencysymbol", "Sc"},
    Alias{"modifiersymbol", "Sk"},
    Alias{"othersymbol", "So"},
    Alias{"separator", "Z"},
    Alias{"spaceseparator", "Zs"},
    Alias{"lineseparator", "Zl"},
    Alias{"paragraphseparator", "Zp"},
    Alias{"other", "C"},
    Alias{"control", "Cc"},
    Alias{"format", "Cf"},
    Alias{"surrogate", "Cs"},
    Alias{"privateuse", "Co"},
    Alias{"unassigned", "Cn"},
};

constexpr std::array<std::string_view, 38> kShortCategories{
    "C",  "Cc", "Cf", "Cn", "Co", "Cs", "L",  "Ll", "Lm", "Lo", "Lt", "Lu", "M",
    "Mc", "Me", "Mn", "N",  "Nd", "Nl", "No", "P",  "Pc", "Pd", "Pe", "Pf", "Pi",
    "Po", "Ps", "S",  "Sc", "Sk", "Sm", "So", "Z",  "Zl", "Zp", "Zs", "LC"};

// Binary properties: PCRE2 has them under the same names. Other names are scripts.
constexpr std::array<std::string_view, 40> kBinary{"any",
                                                   "assigned",
                                                   "alphabetic",
                                                   "asciihexdigit",
                                                   "ahex",
                                                   "bidicontrol",
                                                   "cased",
                                                   "caseignorable",
                                                   "dash",
                                                   "defaultignorablecodepoint",
                                                   "deprecated",
                                                   "diacritic",
                                                   "emoji",
                                                   "emojicomponent",
                                                   "emojimodifier",
                                                   "emojimodifierbase",
                                                   "emojipresentation",
                                                   "extendedpictographic",
                                                   "extender",
                                                   "graphemebase",
                                                   "graphemeextend",
                                                   "hexdigit",
                                                   "idcontinue",
                                                   "idstart",
                                                   "ideographic",
                                                   "joincontrol",
                                                   "lowercase",
                                                   "math",
                                                   "noncharactercodepoint",
                                                   "patternsyntax",
                                                   "patternwhitespace",
                                                   "quotationmark",
                                                   "radical",
                                                   "regionalindicator",
                                                   "sentenceterminal",
                                                   "softdotted",
                                                   "unifiedideograph",
                                                   "uppercase",
                                                   "whitespace",
                                                   "xidcontinue"};

constexpr std::string_view kSpaceItems = "\\p{Z}\\x09-\\x0d\\x{85}";

std::string folded(std::string_view name) {
  std::string out;
  for (const char c : name) {
    if (c == ' ' || c == '_' || c == '-') continue;
    out.push_back(c >= 'A' && c <= 'Z' ? static_cast<char>(c - 'A' + 'a') : c);
  }
  return out;
}

std::string range_item(char32_t first, char32_t last) {
  std::array<char, 40> text{};
  std::snprintf(text.data(),
                text.size(),
                "\\x{%X}-\\x{%X}",
                static_cast<unsigned>(first),
                static_cast<unsigned>(last));
  return text.data();
}

// The newer characters whose category `accepts`.
template <typename Accepts>
std::string newer_items(Accepts accepts) {
  std::string out;
  for (const NewerCharacters& row : newer_characters()) {
    if (accepts(row.category)) out += range_item(row.first, row.last);
  }
  return out;
}

std::string category_items(std::string_view category) {
  if (category == "LC") {
    return "\\p{Lu}\\p{Ll}\\p{Lt}" +
           newer_items([](std::string_view c) { return c == "Lu" || c == "Ll" || c == "Lt"; });
  }
  return "\\p{" + std::string(category) + "}" +
         newer_items([&](std::string_view c) { return c.starts_with(category); });
}

std::string letters_and(std::string_view more) {
  std::string out = "\\p{Alphabetic}";
  return out.append(more).append(
      newer_items([&](std::string_view c) { return c[0] == 'L' || (c == "Nd" && !more.empty()); }));
}

std::string graphic_items() {
  return "\\p{L}\\p{M}\\p{N}\\p{P}\\p{S}\\p{Cf}\\p{Co}" +
         newer_items([](std::string_view) { return true; });
}

std::string word_items() {
  return "\\p{Alphabetic}\\p{M}\\p{Nd}\\p{Pc}" + newer_items([](std::string_view c) {
           return c[0] == 'L' || c[0] == 'M' || c == "Nd" || c == "Pc";
         });
}

}  // namespace

std::optional<std::string> posix_items(std::string_view name) {
  if (name == "alpha") return letters_and("");
  if (name == "alnum") return letters_and("\\p{Nd}");
  if (name == "word") return word_items();
  if (name == "space") return std::string(kSpaceItems);
  if (name == "digit") return category_items("Nd");
  if (name == "upper")
    return "\\p{Uppercase}" + newer_items([](std::string_view c) { return c == "Lu"; });
  if (name == "lower")
    return "\\p{Lowercase}" + newer_items([](std::string_view c) { return c == "Ll"; });
  if (name == "punct") return category_items("P") + category_items("S");
  if (name == "cntrl") return "\\p{Cc}";
  if (name == "graph") return graphic_items();
  if (name == "print") return graphic_items() + "\\p{Zs}";
  if (name == "blank") return "\\p{Zs}\\x09";
  if (name == "xdigit") return "0-9A-Fa-f";
  if (name == "ascii") return "\\x00-\\x7f";
  return std::nullopt;
}

std::string property_items(std::string_view name) {
  const std::string key = folded(name);
  for (const std::string_view category : kShortCategories) {
    if (folded(category) == key) return category_items(category);
  }
  for (const Alias& alias : kCategories) {
    if (alias.name == key) return category_items(alias.category);
  }
  if (key == "punct") return category_items("P");  // without the symbols of [:punct:]
  if (auto items = posix_items(key)) return *std::move(items);
  if (std::ranges::find(kBinary, key) != kBinary.end()) {
    if (key == "alphabetic") return letters_and("");
    return "\\p{" + key + "}";
  }
  if (key.starts_with("in")) {
    if (const auto block = block_named(std::string_view(key).substr(2)))
      return range_item(block->first, block->last);
  }
  std::string out = "\\p{sc:" + key + "}";
  if (key == "han" || key == "hani") out += "\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}";
  return out;
}

}  // namespace coxswain::tokenizer
