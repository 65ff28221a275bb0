#include "tokenizer/regex_properties.h"

#include <array>
#include <cstdio>

#include "tokenizer/unicode_reference.h"

namespace coxswain::tokenizer {
namespace {

// General categories, each as name=category; names in lower case, without separators.
constexpr std::string_view kCategories =
    " c=C cc=Cc cf=Cf cn=Cn co=Co cs=Cs l=L ll=Ll lm=Lm lo=Lo lt=Lt lu=Lu m=M mc=Mc me=Me mn=Mn "
    "n=N nd=Nd nl=Nl no=No p=P pc=Pc pd=Pd pe=Pe pf=Pf pi=Pi po=Po ps=Ps s=S sc=Sc sk=Sk sm=Sm "
    "so=So z=Z zl=Zl zp=Zp zs=Zs lc=LC l&=LC letter=L casedletter=LC uppercaseletter=Lu "
    "lowercaseletter=Ll titlecaseletter=Lt modifierletter=Lm otherletter=Lo mark=M "
    "combiningmark=M nonspacingmark=Mn spacingmark=Mc enclosingmark=Me number=N decimalnumber=Nd "
    "letternumber=Nl othernumber=No punctuation=P connectorpunctuation=Pc dashpunctuation=Pd "
    "openpunctuation=Ps closepunctuation=Pe initialpunctuation=Pi finalpunctuation=Pf "
    "otherpunctuation=Po symbol=S mathsymbol=Sm currencysymbol=Sc modifiersymbol=Sk "
    "othersymbol=So separator=Z spaceseparator=Zs lineseparator=Zl paragraphseparator=Zp other=C "
    "control=Cc format=Cf surrogate=Cs privateuse=Co unassigned=Cn ";

// Binary properties: PCRE2 has them under the same names. Other names are scripts.
constexpr std::string_view kBinary =
    " any assigned alphabetic asciihexdigit ahex bidicontrol cased caseignorable dash "
    "defaultignorablecodepoint deprecated diacritic emoji emojicomponent emojimodifier "
    "emojimodifierbase emojipresentation extendedpictographic extender graphemebase "
    "graphemeextend hexdigit idcontinue idstart ideographic joincontrol lowercase math "
    "noncharactercodepoint patternsyntax patternwhitespace quotationmark radical "
    "regionalindicator sentenceterminal softdotted unifiedideograph uppercase whitespace "
    "xidcontinue ";

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

bool is_block(std::string_view name) {
  const std::string key = folded(name);
  return key.starts_with("in") && key != "inherited" && !key.starts_with("inscriptional");
}

std::string property_items(std::string_view name) {
  const std::string key = folded(name);
  if (const std::size_t found = kCategories.find(" " + key + "=");
      found != std::string_view::npos) {
    const std::size_t begin = found + key.size() + 2;
    return category_items(kCategories.substr(begin, kCategories.find(' ', begin) - begin));
  }
  if (key == "punct") return category_items("P");  // without the symbols of [:punct:]
  if (auto items = posix_items(key)) return *std::move(items);
  if (kBinary.find(" " + key + " ") != std::string_view::npos) {
    if (key == "alphabetic") return letters_and("");
    return "\\p{" + key + "}";
  }
  std::string out = "\\p{sc:" + key + "}";
  if (key == "han" || key == "hani") out += "\\x{2B739}\\x{2EBF0}-\\x{2EE5D}\\x{31350}-\\x{323AF}";
  return out;
}

}  // namespace coxswain::tokenizer
