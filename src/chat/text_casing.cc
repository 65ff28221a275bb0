// Case mappings that yield several characters, and upper, lower and title case of texts.

#include <algorithm>
#include <array>
#include <utf8proc.h>

#include "chat/text.h"

namespace coxswain::chat {
namespace {

struct LongMapping {
  char32_t character;
  std::u32string_view upper;
  std::u32string_view title;
};

// The unconditional mappings of SpecialCasing.txt of the Unicode Character Database, by character.
constexpr std::array<LongMapping, 102> kLongMappings{{
    {0x00DF, U"SS", U"Ss"},
    {0x0149, U"\u02BCN", U"\u02BCN"},
    {0x01F0, U"J\u030C", U"J\u030C"},
    {0x0390, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x03B0, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x0587, U"\u0535\u0552", U"\u0535\u0582"},
    {0x1E96, U"H\u0331", U"H\u0331"},
    {0x1E97, U"T\u0308", U"T\u0308"},
    {0x1E98, U"W\u030A", U"W\u030A"},
    {0x1E99, U"Y\u030A", U"Y\u030A"},
    {0x1E9A, U"A\u02BE", U"A\u02BE"},
    {0x1F50, U"\u03A5\u0313", U"\u03A5\u0313"},
    {0x1F52, U"\u03A5\u0313\u0300", U"\u03A5\u0313\u0300"},
    {0x1F54, U"\u03A5\u0313\u0301", U"\u03A5\u0313\u0301"},
    {0x1F56, U"\u03A5\u0313\u0342", U"\u03A5\u0313\u0342"},
    {0x1F80, U"\u1F08\u0399", U"\u1F88"},
    {0x1F81, U"\u1F09\u0399", U"\u1F89"},
    {0x1F82, U"\u1F0A\u0399", U"\u1F8A"},
    {0x1F83, U"\u1F0B\u0399", U"\u1F8B"},
    {0x1F84, U"\u1F0C\u0399", U"\u1F8C"},
    {0x1F85, U"\u1F0D\u0399", U"\u1F8D"},
    {0x1F86, U"\u1F0E\u0399", U"\u1F8E"},
    {0x1F87, U"\u1F0F\u0399", U"\u1F8F"},
    {0x1F88, U"\u1F08\u0399", U"\u1F88"},
    {0x1F89, U"\u1F09\u0399", U"\u1F89"},
    {0x1F8A, U"\u1F0A\u0399", U"\u1F8A"},
    {0x1F8B, U"\u1F0B\u0399", U"\u1F8B"},
    {0x1F8C, U"\u1F0C\u0399", U"\u1F8C"},
    {0x1F8D, U"\u1F0D\u0399", U"\u1F8D"},
    {0x1F8E, U"\u1F0E\u0399", U"\u1F8E"},
    {0x1F8F, U"\u1F0F\u0399", U"\u1F8F"},
    {0x1F90, U"\u1F28\u0399", U"\u1F98"},
    {0x1F91, U"\u1F29\u0399", U"\u1F99"},
    {0x1F92, U"\u1F2A\u0399", U"\u1F9A"},
    {0x1F93, U"\u1F2B\u0399", U"\u1F9B"},
    {0x1F94, U"\u1F2C\u0399", U"\u1F9C"},
    {0x1F95, U"\u1F2D\u0399", U"\u1F9D"},
    {0x1F96, U"\u1F2E\u0399", U"\u1F9E"},
    {0x1F97, U"\u1F2F\u0399", U"\u1F9F"},
    {0x1F98, U"\u1F28\u0399", U"\u1F98"},
    {0x1F99, U"\u1F29\u0399", U"\u1F99"},
    {0x1F9A, U"\u1F2A\u0399", U"\u1F9A"},
    {0x1F9B, U"\u1F2B\u0399", U"\u1F9B"},
    {0x1F9C, U"\u1F2C\u0399", U"\u1F9C"},
    {0x1F9D, U"\u1F2D\u0399", U"\u1F9D"},
    {0x1F9E, U"\u1F2E\u0399", U"\u1F9E"},
    {0x1F9F, U"\u1F2F\u0399", U"\u1F9F"},
    {0x1FA0, U"\u1F68\u0399", U"\u1FA8"},
    {0x1FA1, U"\u1F69\u0399", U"\u1FA9"},
    {0x1FA2, U"\u1F6A\u0399", U"\u1FAA"},
    {0x1FA3, U"\u1F6B\u0399", U"\u1FAB"},
    {0x1FA4, U"\u1F6C\u0399", U"\u1FAC"},
    {0x1FA5, U"\u1F6D\u0399", U"\u1FAD"},
    {0x1FA6, U"\u1F6E\u0399", U"\u1FAE"},
    {0x1FA7, U"\u1F6F\u0399", U"\u1FAF"},
    {0x1FA8, U"\u1F68\u0399", U"\u1FA8"},
    {0x1FA9, U"\u1F69\u0399", U"\u1FA9"},
    {0x1FAA, U"\u1F6A\u0399", U"\u1FAA"},
    {0x1FAB, U"\u1F6B\u0399", U"\u1FAB"},
    {0x1FAC, U"\u1F6C\u0399", U"\u1FAC"},
    {0x1FAD, U"\u1F6D\u0399", U"\u1FAD"},
    {0x1FAE, U"\u1F6E\u0399", U"\u1FAE"},
    {0x1FAF, U"\u1F6F\u0399", U"\u1FAF"},
    {0x1FB2, U"\u1FBA\u0399", U"\u1FBA\u0345"},
    {0x1FB3, U"\u0391\u0399", U"\u1FBC"},
    {0x1FB4, U"\u0386\u0399", U"\u0386\u0345"},
    {0x1FB6, U"\u0391\u0342", U"\u0391\u0342"},
    {0x1FB7, U"\u0391\u0342\u0399", U"\u0391\u0342\u0345"},
    {0x1FBC, U"\u0391\u0399", U"\u1FBC"},
    {0x1FC2, U"\u1FCA\u0399", U"\u1FCA\u0345"},
    {0x1FC3, U"\u0397\u0399", U"\u1FCC"},
    {0x1FC4, U"\u0389\u0399", U"\u0389\u0345"},
    {0x1FC6, U"\u0397\u0342", U"\u0397\u0342"},
    {0x1FC7, U"\u0397\u0342\u0399", U"\u0397\u0342\u0345"},
    {0x1FCC, U"\u0397\u0399", U"\u1FCC"},
    {0x1FD2, U"\u0399\u0308\u0300", U"\u0399\u0308\u0300"},
    {0x1FD3, U"\u0399\u0308\u0301", U"\u0399\u0308\u0301"},
    {0x1FD6, U"\u0399\u0342", U"\u0399\u0342"},
    {0x1FD7, U"\u0399\u0308\u0342", U"\u0399\u0308\u0342"},
    {0x1FE2, U"\u03A5\u0308\u0300", U"\u03A5\u0308\u0300"},
    {0x1FE3, U"\u03A5\u0308\u0301", U"\u03A5\u0308\u0301"},
    {0x1FE4, U"\u03A1\u0313", U"\u03A1\u0313"},
    {0x1FE6, U"\u03A5\u0342", U"\u03A5\u0342"},
    {0x1FE7, U"\u03A5\u0308\u0342", U"\u03A5\u0308\u0342"},
    {0x1FF2, U"\u1FFA\u0399", U"\u1FFA\u0345"},
    {0x1FF3, U"\u03A9\u0399", U"\u1FFC"},
    {0x1FF4, U"\u038F\u0399", U"\u038F\u0345"},
    {0x1FF6, U"\u03A9\u0342", U"\u03A9\u0342"},
    {0x1FF7, U"\u03A9\u0342\u0399", U"\u03A9\u0342\u0345"},
    {0x1FFC, U"\u03A9\u0399", U"\u1FFC"},
    {0xFB00, U"FF", U"Ff"},
    {0xFB01, U"FI", U"Fi"},
    {0xFB02, U"FL", U"Fl"},
    {0xFB03, U"FFI", U"Ffi"},
    {0xFB04, U"FFL", U"Ffl"},
    {0xFB05, U"ST", U"St"},
    {0xFB06, U"ST", U"St"},
    {0xFB13, U"\u0544\u0546", U"\u0544\u0576"},
    {0xFB14, U"\u0544\u0535", U"\u0544\u0565"},
    {0xFB15, U"\u0544\u053B", U"\u0544\u056B"},
    {0xFB16, U"\u054E\u0546", U"\u054E\u0576"},
    {0xFB17, U"\u0544\u053D", U"\u0544\u056D"},
}};

const LongMapping* long_mapping(char32_t c) {
  if (c < 0xDF) return nullptr;
  const auto* it = std::ranges::lower_bound(kLongMappings, c, {}, &LongMapping::character);
  return it != kLongMappings.end() && it->character == c ? it : nullptr;
}

void append_all(std::u32string_view characters, std::string& out) {
  for (const char32_t c : characters) append_code_point(out, c);
}

void append_upper(char32_t c, std::string& out) {
  if (const LongMapping* mapping = long_mapping(c)) return append_all(mapping->upper, out);
  append_code_point(out, static_cast<char32_t>(utf8proc_toupper(static_cast<utf8proc_int32_t>(c))));
}

void append_title(char32_t c, std::string& out) {
  if (const LongMapping* mapping = long_mapping(c)) return append_all(mapping->title, out);
  append_code_point(out, static_cast<char32_t>(utf8proc_totitle(static_cast<utf8proc_int32_t>(c))));
}

void append_lower(char32_t c, std::string& out) {
  if (c == 0x130) {
    out += "i\xCC\x87";
  } else {
    append_code_point(out,
                      static_cast<char32_t>(utf8proc_tolower(static_cast<utf8proc_int32_t>(c))));
  }
}

bool is_cased(char32_t c) {
  const auto code = static_cast<utf8proc_int32_t>(c);
  return utf8proc_toupper(code) != code || utf8proc_tolower(code) != code ||
         utf8proc_category(code) == UTF8PROC_CATEGORY_LU ||
         utf8proc_category(code) == UTF8PROC_CATEGORY_LL;
}

constexpr char32_t kCapitalSigma = 0x3A3;

bool is_case_ignorable(char32_t c) {
  switch (utf8proc_category(static_cast<utf8proc_int32_t>(c))) {
    case UTF8PROC_CATEGORY_MN:
    case UTF8PROC_CATEGORY_ME:
    case UTF8PROC_CATEGORY_CF:
    case UTF8PROC_CATEGORY_LM:
    case UTF8PROC_CATEGORY_SK:
      return true;
    default:
      return c == '\'' || c == '.' || c == ':' || c == 0xB7 || c == 0x2019 || c == 0x2018;
  }
}

// Final_Sigma of the Unicode Standard, section 3.13: a letter stands before, none behind.
bool ends_word(std::string_view text, const std::vector<std::size_t>& offsets, std::size_t index) {
  const auto at = [&](std::size_t i) {
    std::size_t length = 0;
    return code_point_at(text, offsets[i], &length);
  };
  std::size_t before = index;
  while (before > 0 && is_case_ignorable(at(before - 1))) --before;
  if (before == 0 || !is_cased(at(before - 1))) return false;
  std::size_t behind = index + 1;
  while (behind + 1 < offsets.size() && is_case_ignorable(at(behind))) ++behind;
  return behind + 1 >= offsets.size() || !is_cased(at(behind));
}

bool has_only_case(std::string_view text, utf8proc_category_t wrong) {
  bool cased = false;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const auto category =
        utf8proc_category(static_cast<utf8proc_int32_t>(code_point_at(text, at, &length)));
    if (category == wrong || category == UTF8PROC_CATEGORY_LT) return false;
    cased = cased || category == UTF8PROC_CATEGORY_LU || category == UTF8PROC_CATEGORY_LL;
    at += length;
  }
  return cased;
}

// Lower case of the character at `index`; a capital sigma looks at what is around it.
class Lowering {
 public:
  explicit Lowering(std::string_view text)
      : text_(text),
        offsets_(text.find("\xCE\xA3") == std::string_view::npos ? std::vector<std::size_t>{}
                                                                 : code_point_offsets(text)) {}
  void append(char32_t c, std::size_t index, std::string& out) const {
    if (c == kCapitalSigma && ends_word(text_, offsets_, index)) {
      out += "\xCF\x82";
    } else {
      append_lower(c, out);
    }
  }

 private:
  std::string_view text_;
  std::vector<std::size_t> offsets_;
};

}  // namespace

Text to_upper(const Text& text) {
  return map_code_points(text,
                         [](char32_t c, std::size_t, std::string& out) { append_upper(c, out); });
}

Text to_lower(const Text& text) {
  const Lowering lowering(text.bytes);
  return map_code_points(text, [&](char32_t c, std::size_t index, std::string& out) {
    lowering.append(c, index, out);
  });
}

Text to_title(const Text& text) {
  const Lowering lowering(text.bytes);
  bool inside = false;
  return map_code_points(text, [&](char32_t c, std::size_t index, std::string& out) {
    inside ? lowering.append(c, index, out) : append_title(c, out);
    inside = is_cased(c);
  });
}

Text to_capitalized(const Text& text) {
  const Lowering lowering(text.bytes);
  return map_code_points(text, [&](char32_t c, std::size_t index, std::string& out) {
    index == 0 ? append_title(c, out) : lowering.append(c, index, out);
  });
}

bool is_upper_text(std::string_view text) {
  return has_only_case(text, UTF8PROC_CATEGORY_LL);
}
bool is_lower_text(std::string_view text) {
  return has_only_case(text, UTF8PROC_CATEGORY_LU);
}

}  // namespace coxswain::chat
