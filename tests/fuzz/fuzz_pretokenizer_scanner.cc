// The hand-written split scanners against PCRE2 on the patterns that they stand for.
//
// First byte: bits 0-3 = scanner, bit 7 = the rest is text; otherwise every byte picks a character
// of a palette in which all classes that the patterns know are close together.

#include <array>
#include <string>
#include <vector>

#include "fuzz/fuzz_input.h"
#include "tokenizer/regex.h"
#include "tokenizer/split_scanner.h"
#include "tokenizer/unicode.h"

namespace {

using coxswain::fuzz::require;
namespace tokenizer = coxswain::tokenizer;

constexpr std::array kScanners{
    tokenizer::SplitScanner::kGpt2,
    tokenizer::SplitScanner::kCl100k,
    tokenizer::SplitScanner::kCl100kOneDigit,
    tokenizer::SplitScanner::kO200k,
    tokenizer::SplitScanner::kTekken,
    tokenizer::SplitScanner::kDeepseekWords,
    tokenizer::SplitScanner::kThreeNumbers,
    tokenizer::SplitScanner::kCjkRuns,
    tokenizer::SplitScanner::kThreeAsciiDigits,
};

constexpr std::size_t kTextBytesMax = 512;

// Letters of each case and none, marks, numbers of each kind, blanks of each kind, punctuation,
// symbols, what contractions are made of, controls, unassigned and private characters.
constexpr std::u32string_view kPalette =
    U"aszSTdDlLvVeErRmMx\u017Ft'\u2019 "
    U"\t\n\r\v\f\u0085\u00A0\u2028\u2029\u3000\u200B0129\u0660"
    U"\u00B2\u216B\u4E00\u9FA5\u9FA6\u3041\u309F\u30FC\u30FF\u3105\uAC00\u0301\u0903\u20DD\u00E9"
    U"\u00C9\u01C5\u02B0"
    U"\u0130\u0131\u212A\u00DF.,!?-_/\\(){}$+<>|~^`#@%&*=:;\"[]\u00AB\u2014\u20AC\u2603\U0001F600"
    U"\U0001D7D8\U00020000\uFFFD\uE000\uFEFF\u0378\u00AD\u0001\u007F";

std::string palette_text(std::string_view picks) {
  std::string out;
  for (const char pick : picks)
    tokenizer::append_utf8(out, kPalette[static_cast<unsigned char>(pick) % kPalette.size()]);
  return out;
}

const std::vector<tokenizer::Regex>& references() {
  static const std::vector<tokenizer::Regex> compiled = [] {
    std::vector<tokenizer::Regex> out;
    for (const tokenizer::SplitScanner scanner : kScanners) {
      auto regex = tokenizer::Regex::compile(tokenizer::scanner_pattern(scanner));
      require(regex.ok(), "every scanner's pattern compiles");
      require(tokenizer::known_scanner(tokenizer::scanner_pattern(scanner)) == scanner,
              "every scanner's pattern is known");
      out.push_back(std::move(regex).value());
    }
    return out;
  }();
  return compiled;
}

// The classes that patterns ask for, one character at a time.
struct ClassPattern {
  tokenizer::Regex regex;
  std::uint16_t classes;
};

const std::vector<ClassPattern>& class_patterns() {
  static const std::vector<ClassPattern> compiled = [] {
    constexpr std::array<std::pair<std::string_view, int>, 8> kClasses{{
        {"\\s", tokenizer::kClassSpace},
        {"[\\p{Lu}\\p{Lt}]", tokenizer::kClassUpper},
        {"\\p{Ll}", tokenizer::kClassLower},
        {"[\\p{Lm}\\p{Lo}]", tokenizer::kClassOtherLetter},
        {"\\p{M}", tokenizer::kClassMark},
        {"\\p{N}", tokenizer::kClassNumber},
        {"\\p{P}", tokenizer::kClassPunctuation},
        {"\\p{S}", tokenizer::kClassSymbol},
    }};
    std::vector<ClassPattern> out;
    for (const auto& [pattern, classes] : kClasses)
      out.push_back({*tokenizer::Regex::compile(pattern), static_cast<std::uint16_t>(classes)});
    return out;
  }();
  return compiled;
}

// False if the text has a character that the two libraries put into different classes: their
// releases of Unicode differ, and PCRE2 counts U+180E as a blank, which Unicode does not any more.
bool classes_agree(std::string_view text) {
  std::vector<std::uint16_t> seen(text.size());
  std::uint16_t asked = 0;
  for (const ClassPattern& pattern : class_patterns()) {
    const auto found = pattern.regex.find_all(text);
    if (!found.ok()) return false;
    for (const coxswain::TextSpan& span : *found) seen[span.begin] |= pattern.classes;
    asked |= pattern.classes;
  }
  for (std::size_t at = 0; at < text.size();) {
    const tokenizer::CodePoint c = tokenizer::code_point_at(text, at);
    if ((tokenizer::char_class(c.value) & asked) != seen[at]) return false;
    at += c.n_bytes;
  }
  return true;
}

}  // namespace

extern "C" int LLVMFuzzerTestOneInput(const std::uint8_t* data, std::size_t size) {
  coxswain::fuzz::Input input(data, size);
  const std::uint8_t flags = input.byte();
  const std::size_t which = (flags & 15U) % kScanners.size();
  const std::string_view rest = input.rest().substr(0, kTextBytesMax);
  std::string text;
  if ((flags & 0x80) != 0) {
    tokenizer::append_lossy(text, rest);
  } else {
    text = palette_text(rest);
    require(classes_agree(text), "the palette's classes are not in doubt");
  }
  if (!classes_agree(text)) return 0;
  const auto expected = references()[which].find_all(text);
  if (!expected.ok()) return 0;  // over a limit of PCRE2: no answer to compare with
  std::vector<tokenizer::PieceRange> found;
  tokenizer::scan_some(kScanners[which], text, 3, 0, text.size(), found);
  require(found.size() == expected->size(), "as many pieces as the pattern matches");
  for (std::size_t i = 0; i < found.size(); ++i)
    require(found[i].begin == (*expected)[i].begin + 3 && found[i].end == (*expected)[i].end + 3,
            "every piece is a match of the pattern");
  return 0;
}
