#include "tokenizer/unicode_scripts.h"

#include <array>
#include <string>
#include <string_view>
#include <utility>

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

constexpr std::size_t kHan = 3;
constexpr std::size_t kHiragana = 4;
constexpr std::size_t kKatakana = 5;

}  // namespace

Result<UnicodeScripts> UnicodeScripts::create() {
  std::string pattern;
  for (const std::string_view script : kScripts) {
    pattern += pattern.empty() ? "" : "|";
    pattern += "(\\p{" + std::string(script) + "})";
  }
  COXSWAIN_ASSIGN_OR_RETURN(Regex regex, Regex::compile(pattern));
  return UnicodeScripts(std::move(regex));
}

std::size_t UnicodeScripts::script_of(char32_t c) const {
  constexpr char32_t kLongVowelMark = 0x30FC;
  if (c == kLongVowelMark) return kHan;
  if (!reference_knows_script(c)) return 0;
  std::string text;
  append_utf8(text, c);
  const std::size_t script = regex_.matching_group(text);
  return script == kHiragana || script == kKatakana ? kHan : script;
}

}  // namespace coxswain::tokenizer
