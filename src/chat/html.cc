#include "chat/html.h"

#include <algorithm>
#include <array>
#include <cstdint>

namespace coxswain::chat {
namespace {

// The entities of ISO 8859-1 from U+00A0 on, in order; these may stand without a semicolon.
constexpr std::array<std::string_view, 96> kLatin{
    "nbsp",   "iexcl",  "cent",   "pound",  "curren", "yen",    "brvbar", "sect",   "uml",
    "copy",   "ordf",   "laquo",  "not",    "shy",    "reg",    "macr",   "deg",    "plusmn",
    "sup2",   "sup3",   "acute",  "micro",  "para",   "middot", "cedil",  "sup1",   "ordm",
    "raquo",  "frac14", "frac12", "frac34", "iquest", "Agrave", "Aacute", "Acirc",  "Atilde",
    "Auml",   "Aring",  "AElig",  "Ccedil", "Egrave", "Eacute", "Ecirc",  "Euml",   "Igrave",
    "Iacute", "Icirc",  "Iuml",   "ETH",    "Ntilde", "Ograve", "Oacute", "Ocirc",  "Otilde",
    "Ouml",   "times",  "Oslash", "Ugrave", "Uacute", "Ucirc",  "Uuml",   "Yacute", "THORN",
    "szlig",  "agrave", "aacute", "acirc",  "atilde", "auml",   "aring",  "aelig",  "ccedil",
    "egrave", "eacute", "ecirc",  "euml",   "igrave", "iacute", "icirc",  "iuml",   "eth",
    "ntilde", "ograve", "oacute", "ocirc",  "otilde", "ouml",   "divide", "oslash", "ugrave",
    "uacute", "ucirc",  "uuml",   "yacute", "thorn",  "yuml"};

struct Entity {
  std::string_view name;
  char32_t character;
};

constexpr std::array kBare{Entity{"amp", '&'},
                           Entity{"lt", '<'},
                           Entity{"gt", '>'},
                           Entity{"quot", '"'},
                           Entity{"AMP", '&'},
                           Entity{"LT", '<'},
                           Entity{"GT", '>'},
                           Entity{"QUOT", '"'},
                           Entity{"COPY", 0xA9},
                           Entity{"REG", 0xAE}};
constexpr std::array kWithSemicolon{
    Entity{"apos", '\''},     Entity{"ndash", 0x2013},  Entity{"mdash", 0x2014},
    Entity{"lsquo", 0x2018},  Entity{"rsquo", 0x2019},  Entity{"sbquo", 0x201A},
    Entity{"ldquo", 0x201C},  Entity{"rdquo", 0x201D},  Entity{"bdquo", 0x201E},
    Entity{"bull", 0x2022},   Entity{"hellip", 0x2026}, Entity{"euro", 0x20AC},
    Entity{"trade", 0x2122},  Entity{"larr", 0x2190},   Entity{"rarr", 0x2192},
    Entity{"ensp", 0x2002},   Entity{"emsp", 0x2003},   Entity{"thinsp", 0x2009},
    Entity{"lsaquo", 0x2039}, Entity{"rsaquo", 0x203A}, Entity{"minus", 0x2212}};

// What the numbers 0x80 to 0x9F stand for (windows-1252); 0 where that leaves a gap.
constexpr std::array<char32_t, 32> kWindows1252{
    0x20AC, 0,      0x201A, 0x0192, 0x201E, 0x2026, 0x2020, 0x2021, 0x02C6, 0x2030, 0x0160,
    0x2039, 0x0152, 0,      0x017D, 0,      0,      0x2018, 0x2019, 0x201C, 0x201D, 0x2022,
    0x2013, 0x2014, 0x02DC, 0x2122, 0x0161, 0x203A, 0x0153, 0,      0x017E, 0x0178};

std::optional<char32_t> named_entity(std::string_view name, bool has_semicolon) {
  if (const auto latin = std::ranges::find(kLatin, name); latin != kLatin.end())
    return static_cast<char32_t>(0xA0 + (latin - kLatin.begin()));
  if (const auto bare = std::ranges::find(kBare, name, &Entity::name); bare != kBare.end())
    return bare->character;
  const auto other = std::ranges::find(kWithSemicolon, name, &Entity::name);
  if (!has_semicolon || other == kWithSemicolon.end()) return std::nullopt;
  return other->character;
}

// The character that `number` names; none for controls and what is no character.
void append_numbered(std::string& out, std::uint64_t number) {
  const auto c = static_cast<char32_t>(std::min<std::uint64_t>(number, 0x110000));
  const bool is_surrogate = c >= 0xD800 && c <= 0xDFFF;
  if (c == 0 || c >= 0x110000 || is_surrogate) return append_code_point(out, 0xFFFD);
  const bool is_control = (c < 0x20 && (c < '\t' || c > '\r' || c == '\v')) || c == 0x7F;
  const bool is_noncharacter = (c >= 0xFDD0 && c <= 0xFDEF) || (c & 0xFFFE) == 0xFFFE;
  if (is_control || is_noncharacter) return;
  const char32_t windows = c >= 0x80 && c < 0xA0 ? kWindows1252[c - 0x80] : 0;
  append_code_point(out, windows != 0 ? windows : c);
}

// What escaping puts in the place of a character; empty for those that stay.
std::string_view entity_of(char c) {
  switch (c) {
    case '&':
      return "&amp;";
    case '<':
      return "&lt;";
    case '>':
      return "&gt;";
    case '"':
      return "&#34;";
    case '\'':
      return "&#39;";
    default:
      return {};
  }
}

struct Reference {
  std::size_t length = 0;  // bytes behind the '&'; 0 for none
  std::string characters{};
};

Reference read_number(std::string_view text) {
  const bool hex = text.size() > 1 && (text[1] == 'x' || text[1] == 'X');
  std::size_t at = hex ? 2 : 1;
  const std::size_t begin = at;
  std::uint64_t number = 0;
  for (; at < text.size(); ++at) {
    const char c = text[at];
    const char letter = static_cast<char>(c | 0x20);
    const bool is_hex_letter = hex && letter >= 'a' && letter <= 'f';
    if (!(c >= '0' && c <= '9') && !is_hex_letter) break;
    const int digit = is_hex_letter ? letter - 'a' + 10 : c - '0';
    number = std::min<std::uint64_t>(number * (hex ? 16 : 10) + static_cast<std::uint64_t>(digit),
                                     0x110000);
  }
  if (at == begin) return {};
  Reference out{.length = at + (at < text.size() && text[at] == ';' ? 1 : 0)};
  append_numbered(out.characters, number);
  return out;
}

// The reference behind an '&': the longest name that there is.
Reference read_reference(std::string_view text) {
  if (text.starts_with('#')) return read_number(text);
  std::size_t length = 0;
  while (length < std::min<std::size_t>(text.size(), 32) &&
         std::string_view("\t\n\f <&#;").find(text[length]) == std::string_view::npos)
    ++length;
  const bool has_semicolon = length < text.size() && text[length] == ';';
  for (std::size_t n = length; n > 1; --n) {
    const bool closed = n == length && has_semicolon;
    const auto c = named_entity(text.substr(0, n), closed);
    if (!c) continue;
    Reference out{.length = n + (closed ? 1 : 0)};
    append_code_point(out.characters, *c);
    return out;
  }
  return {};
}

}  // namespace

Text escape_html(const Text& text) {
  Text out;
  std::size_t done = 0;
  for (std::size_t at = 0; at < text.bytes.size(); ++at) {
    const std::string_view entity = entity_of(text.bytes[at]);
    if (entity.empty()) continue;
    out.append(text.slice(done, at));
    out.append(Text::like(text.slice(at, at + 1), std::string(entity)));
    done = at + 1;
  }
  out.append(text.slice(done, text.bytes.size()));
  out.safe = true;
  return out;
}

Text unescape_html(const Text& text) {
  Text out;
  std::size_t done = 0;
  for (std::size_t at = text.bytes.find('&'); at != std::string::npos;
       at = text.bytes.find('&', at + 1)) {
    const Reference reference = read_reference(std::string_view(text.bytes).substr(at + 1));
    if (reference.length == 0) continue;
    out.append(text.slice(done, at));
    const std::size_t end = at + 1 + reference.length;
    out.append(Text::like(text.slice(at, end), reference.characters));
    done = end;
    at = end - 1;
  }
  out.append(text.slice(done, text.bytes.size()));
  return out;
}

Text strip_tags(const Text& text) {
  const std::string& bytes = text.bytes;
  Text kept;
  std::size_t at = 0;
  for (std::size_t open = bytes.find('<'); open != std::string::npos; open = bytes.find('<', at)) {
    const std::string_view end = bytes.compare(open, 4, "<!--") == 0 ? "-->" : ">";
    const std::size_t close = bytes.find(end, end.size() == 3 ? open + 4 : open);
    if (close == std::string::npos) break;
    kept.append(text.slice(at, open));
    at = close + end.size();
  }
  kept.append(text.slice(at, bytes.size()));
  Text joined;
  bool first = true;
  for (const Text& word : split(kept, nullptr, static_cast<std::size_t>(-1))) {
    if (!first) joined.append(" ");
    first = false;
    joined.append(word);
  }
  return unescape_html(joined);
}

}  // namespace coxswain::chat
