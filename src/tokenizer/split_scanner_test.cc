// Scanners against PCRE2 on random text, and Split's behaviours.

#include "tokenizer/split_scanner.h"

#include <array>
#include <random>
#include <string>

#include <gtest/gtest.h>

#include "tokenizer/regex.h"
#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

constexpr std::array kScanners{SplitScanner::kGpt2,
                               SplitScanner::kCl100k,
                               SplitScanner::kCl100kOneDigit,
                               SplitScanner::kO200k,
                               SplitScanner::kTekken,
                               SplitScanner::kDeepseekWords,
                               SplitScanner::kThreeNumbers,
                               SplitScanner::kCjkRuns,
                               SplitScanner::kThreeAsciiDigits};

// Characters that rules look at come often, any other one now and then. Code points that younger
// Unicode versions assign are left out: the two libraries need not be of one version.
std::string random_text(std::mt19937& random) {
  static constexpr std::u32string_view kOften =
      U"abzABZ019'' \t\n\r\u00A0\u3000\u0085.,!/-_<>|sStTmMdDlLrRvVeE\u017F\u0301\u0300\u02B0\u00AA"
      U"\u01C5\u4E00\u9FA5\u3042\u30FC\u0660\u00B2\u2160\u0430\u0410\u20AC\U0001F600\u200D\u200B"
      U"\u2028";
  static constexpr std::array<std::pair<char32_t, char32_t>, 8> kRanges{{{0x20, 0x7E},
                                                                         {0xA0, 0x17F},
                                                                         {0x370, 0x377},
                                                                         {0x400, 0x52F},
                                                                         {0x5D0, 0x5EA},
                                                                         {0x900, 0x94D},
                                                                         {0x4E00, 0x9FA5},
                                                                         {0x1F600, 0x1F64F}}};
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(random);
  };
  std::string out;
  for (std::size_t n = below(24); n > 0; --n) {
    char32_t c = kOften[below(kOften.size())];
    if (below(4) == 0) {
      const auto [low, high] = kRanges[below(kRanges.size())];
      c = low + static_cast<char32_t>(below(high - low + 1));
    }
    for (std::size_t times = below(8) == 0 ? 1 + below(5) : 1; times > 0; --times)
      append_utf8(out, c);
  }
  return out;
}

std::string as_text(const std::vector<PieceRange>& pieces) {
  std::string out;
  for (const PieceRange& piece : pieces)
    out += "[" + std::to_string(piece.begin) + "," + std::to_string(piece.end) + ")";
  return out;
}

TEST(SplitScannerTest, EveryScannerMatchesAsItsPattern) {
  for (const SplitScanner scanner : kScanners) {
    const std::string pattern(scanner_pattern(scanner));
    ASSERT_FALSE(pattern.empty());
    const auto regex = Regex::compile(pattern);
    ASSERT_TRUE(regex.ok()) << regex.status().message();
    std::mt19937 random(20);
    for (int round = 0; round < 20'000; ++round) {
      const std::string text = random_text(random);
      const auto found = regex->find_all(text);
      ASSERT_TRUE(found.ok()) << found.status().message();
      std::vector<PieceRange> wanted;
      for (const TextSpan& span : *found)
        wanted.push_back(
            {static_cast<std::uint32_t>(span.begin), static_cast<std::uint32_t>(span.end)});
      std::vector<PieceRange> got;
      scan_some(scanner, text, 0, 0, text.size(), got);
      ASSERT_EQ(got, wanted) << pattern << "\nround " << round << ": \"" << text << "\"\nscanner "
                             << as_text(got) << "\nregex   " << as_text(wanted);
    }
  }
}

TEST(SplitScannerTest, AllSpellingsOfGpt2AreKnown) {
  for (const SplitScanner scanner : kScanners)
    EXPECT_EQ(known_scanner(scanner_pattern(scanner)), scanner);
  EXPECT_EQ(
      known_scanner(R"('(?:[sdmt]|ll|ve|re)| ?\p{L}+| ?\p{N}+| ?[^\s\p{L}\p{N}]+|\s+(?!\S)|\s+)"),
      SplitScanner::kGpt2);
  EXPECT_EQ(known_scanner("a+"), std::nullopt);
}

std::string matches(const std::string& pattern, const std::string& text) {
  const auto regex = Regex::compile(pattern);
  EXPECT_TRUE(regex.ok()) << regex.status().message();
  std::string out;
  if (!regex.ok()) return out;
  const auto found = regex->find_all(text);
  if (!found.ok()) return found.status().message();
  for (const TextSpan& span : *found)
    out += "[" + text.substr(span.begin, span.end - span.begin) + "]";
  return out;
}

TEST(RegexTest, NestedClassesAndIntersectionsAreOnigurumas) {
  EXPECT_EQ(matches(" ?[^(\\s|[.,!?])]+", "ab cd.e(f) |g"), "[ab][ cd][e][f][g]");
  EXPECT_EQ(matches("[\\p{L}&&[^\\p{Lu}]]+", "abCDe"), "[ab][e]");
  EXPECT_EQ(matches("[a-c[x-z]]+", "abxq1z"), "[abx][z]");
  EXPECT_EQ(matches("[^a[^b]]", "ab"), "[b]");
  EXPECT_EQ(matches("[[:digit:]x]+", "1x:2"), "[1x][2]");
  EXPECT_EQ(matches("[\\[\\]]+", "a[]b"), "[[]]");
  EXPECT_EQ(matches("\\w+", "a_1 b\xCC\x81-c"), "[a_1][b\xCC\x81][c]");
  EXPECT_EQ(matches("b$", "ab\nb"), "[b][b]");
}

TEST(RegexTest, LimitsEndAHopelessSearch) {
  const auto regex = Regex::compile("(a+)+$");
  ASSERT_TRUE(regex.ok());
  const auto found = regex->find_all(std::string(64, 'a') + "b");
  EXPECT_FALSE(found.ok());
  EXPECT_EQ(found.status().code(), Code::kResourceExhausted);
}

TEST(RegexTest, BadPatternNamesThePlace) {
  const auto regex = Regex::compile("a(b");
  ASSERT_FALSE(regex.ok());
  EXPECT_NE(regex.status().message().find("offset 3"), std::string::npos);
}

}  // namespace
}  // namespace coxswain::tokenizer
