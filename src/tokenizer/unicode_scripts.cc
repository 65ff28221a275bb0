#include "tokenizer/unicode_scripts.h"

#include <algorithm>
#include <array>
#include <string>
#include <string_view>
#include <utility>

#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"
#include "tokenizer/unicode_reference.h"

namespace coxswain::tokenizer {
namespace {

// In the order in which they are tried: frequent ones first.
constexpr std::array<std::string_view, 138> kScripts{
    "Common",
    "Latin",
    "Han",
    "Hiragana",
    "Katakana",
    "Cyrillic",
    "Greek",
    "Arabic",
    "Hebrew",
    "Devanagari",
    "Thai",
    "Hangul",
    "Armenian",
    "Inherited",
    "Bengali",
    "Gurmukhi",
    "Gujarati",
    "Oriya",
    "Tamil",
    "Telugu",
    "Kannada",
    "Malayalam",
    "Sinhala",
    "Lao",
    "Tibetan",
    "Myanmar",
    "Georgian",
    "Ethiopic",
    "Cherokee",
    "Canadian_Aboriginal",
    "Ogham",
    "Runic",
    "Khmer",
    "Mongolian",
    "Bopomofo",
    "Yi",
    "Old_Italic",
    "Gothic",
    "Deseret",
    "Tagalog",
    "Hanunoo",
    "Buhid",
    "Tagbanwa",
    "Limbu",
    "Tai_Le",
    "Linear_B",
    "Ugaritic",
    "Shavian",
    "Osmanya",
    "Cypriot",
    "Braille",
    "Buginese",
    "Coptic",
    "New_Tai_Lue",
    "Glagolitic",
    "Tifinagh",
    "Syloti_Nagri",
    "Old_Persian",
    "Kharoshthi",
    "Balinese",
    "Cuneiform",
    "Phoenician",
    "Phags_Pa",
    "Nko",
    "Sundanese",
    "Lepcha",
    "Ol_Chiki",
    "Vai",
    "Saurashtra",
    "Kayah_Li",
    "Rejang",
    "Lycian",
    "Carian",
    "Lydian",
    "Cham",
    "Tai_Tham",
    "Tai_Viet",
    "Avestan",
    "Egyptian_Hieroglyphs",
    "Samaritan",
    "Lisu",
    "Bamum",
    "Javanese",
    "Meetei_Mayek",
    "Imperial_Aramaic",
    "Old_South_Arabian",
    "Inscriptional_Parthian",
    "Inscriptional_Pahlavi",
    "Old_Turkic",
    "Kaithi",
    "Batak",
    "Brahmi",
    "Mandaic",
    "Chakma",
    "Meroitic_Cursive",
    "Meroitic_Hieroglyphs",
    "Miao",
    "Sharada",
    "Sora_Sompeng",
    "Takri",
    "Syriac",
    "Thaana",
    "Adlam",
    "Osage",
    "Tangut",
    "Nushu",
    "Bhaiksuki",
    "Newa",
    "Marchen",
    "Old_Permic",
    "Elbasan",
    "Caucasian_Albanian",
    "Linear_A",
    "Palmyrene",
    "Nabataean",
    "Hatran",
    "Old_North_Arabian",
    "Manichaean",
    "Psalter_Pahlavi",
    "Old_Hungarian",
    "Mahajani",
    "Khojki",
    "Multani",
    "Khudawadi",
    "Grantha",
    "Tirhuta",
    "Siddham",
    "Modi",
    "Ahom",
    "Warang_Citi",
    "Pau_Cin_Hau",
    "Anatolian_Hieroglyphs",
    "Mro",
    "Bassa_Vah",
    "Pahawh_Hmong",
    "Duployan",
    "SignWriting",
    "Mende_Kikakui",
};

// Where characters with a script lie.
constexpr std::array<std::pair<char32_t, char32_t>, 3> kAssigned{
    {{0, 0xD7FF}, {0xE000, 0x323AF}, {0xE0000, 0xE01EF}}};

constexpr std::size_t kHan = 3;
constexpr std::size_t kHiragana = 4;
constexpr std::size_t kKatakana = 5;

}  // namespace

Result<UnicodeScripts> UnicodeScripts::create() {
  std::string pattern;
  for (const std::string_view script : kScripts) {
    pattern += pattern.empty() ? "" : "|";
    pattern += "(\\p{" + std::string(script) + "}++)";
  }
  COXSWAIN_ASSIGN_OR_RETURN(const Regex regex, Regex::compile(pattern + "|\\p{Unknown}++"));
  std::vector<Range> ranges;
  std::string text;
  for (const auto& [first, last] : kAssigned) {
    text.clear();
    for (char32_t c = first; c <= last; ++c) append_utf8(text, c);
    char32_t c = first;
    for (std::size_t at = 0; at < text.size();) {
      const std::string_view rest = std::string_view(text).substr(at);
      Regex::GroupMatch run = regex.match_group(rest);
      if (run.n_bytes == 0) run.n_bytes = code_point_at(rest, 0).n_bytes;
      const auto n = static_cast<char32_t>(count_characters(rest.substr(0, run.n_bytes)));
      const bool is_kana = run.group == kHiragana || run.group == kKatakana;
      if (run.group != 0) ranges.push_back({c, c + n - 1, is_kana ? kHan : run.group});
      c += n;
      at += run.n_bytes;
    }
  }
  return UnicodeScripts(std::move(ranges));
}

std::size_t UnicodeScripts::script_of(char32_t c) const {
  constexpr char32_t kLongVowelMark = 0x30FC;
  if (c == kLongVowelMark) return kHan;
  if (!reference_knows_script(c)) return 0;
  const auto range = std::ranges::lower_bound(ranges_, c, {}, &Range::last);
  return range != ranges_.end() && c >= range->first ? range->script : 0;
}

}  // namespace coxswain::tokenizer
