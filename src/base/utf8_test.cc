#include "base/utf8.h"

#include <gtest/gtest.h>

namespace coxswain::base {
namespace {

TEST(Utf8, ReadsAndWritesCharactersOfEveryLength) {
  std::string text;
  const std::u32string characters = U"a\u00E9\u20AC\U0001F600";
  for (const char32_t c : characters) append_utf8(text, c);
  ASSERT_EQ(text, "a\xC3\xA9\xE2\x82\xAC\xF0\x9F\x98\x80");
  EXPECT_EQ(count_characters(text), characters.size());
  EXPECT_TRUE(is_utf8(text));
  std::size_t at = 0;
  for (const char32_t c : characters) {
    EXPECT_EQ(code_point_at(text, at).value, c);
    at += code_point_at(text, at).n_bytes;
    EXPECT_EQ(code_point_before(text, at).value, c);
  }
}

TEST(Utf8, CutsBeforeTheCharacterThatDoesNotFit) {
  const std::string_view text = "a\xE2\x82\xACz";
  EXPECT_EQ(cut_utf8(text, 5), text);
  EXPECT_EQ(cut_utf8(text, 4), "a\xE2\x82\xAC");
  EXPECT_EQ(cut_utf8(text, 3), "a");
  EXPECT_EQ(cut_utf8(text, 1), "a");
  EXPECT_EQ(cut_utf8(text, 0), "");
  EXPECT_EQ(cut_utf8("abcd", 3), "abc");
  EXPECT_EQ(cut_utf8("a\xC3\xA9z", 2), "a");
  EXPECT_EQ(cut_utf8("\xF0\x9F\x98\x80z", 3), "");
  EXPECT_EQ(cut_utf8("\xF0\x9F\x98\x80z", 4), "\xF0\x9F\x98\x80");
}

// Both know table 3-7: one says what is well-formed, the other how far what is broken goes.
TEST(Utf8, WellFormedIsWhatIsNotBroken) {
  const std::string_view borders =
      "\x7F\x80\x8F\x90\x9F\xA0\xBF\xC0\xC1\xC2\xDF\xE0\xE1\xEC\xED\xEE\xEF\xF0\xF1\xF3\xF4\xF5"
      "\xFF";
  const std::size_t n = borders.size();
  for (std::size_t i = 0; i < n * n * n * n; ++i) {
    const std::string text = {
        borders[i / (n * n * n)], borders[i / (n * n) % n], borders[i / n % n], borders[i % n]};
    const auto lead = static_cast<unsigned char>(text[0]);
    const std::size_t length = lead < 0x80 ? 1 : lead < 0xE0 ? 2 : lead < 0xF0 ? 3 : 4;
    const bool is_whole = lead < 0x80 || broken_utf8_at(text.substr(0, length)).n_bytes == length;
    const bool leads = lead < 0x80 || (lead >= 0xC2 && lead <= 0xF4);
    ASSERT_EQ(well_formed_length(text), leads && is_whole ? length : 0);
  }
}

// Table 3-8 of the Unicode standard and the borders of table 3-7.
TEST(Utf8, EachMaximalBrokenSubpartBecomesOneReplacement) {
  const auto repaired = [](std::string_view bytes) {
    std::string out;
    append_lossy(out, bytes);
    return out;
  };
  const std::string r(kReplacementUtf8);
  EXPECT_EQ(repaired("\x61\xF1\x80\x80\xE1\x80\xC2\x62\x80\x63\x80\xBF\x64"),
            "a" + r + r + r + "b" + r + "c" + r + r + "d");
  for (const std::string_view broken : {"\xC0", "\xC1", "\xF5", "\xFF", "\x80"})
    EXPECT_EQ(repaired(broken), r);
  EXPECT_EQ(repaired("\xED\xA0\x80"), r + r + r);          // a surrogate
  EXPECT_EQ(repaired("\xF4\x90\x80\x80"), r + r + r + r);  // above U+10FFFF
  EXPECT_EQ(repaired("\xE0\x9F\x80"), r + r + r);          // longer than needed
  EXPECT_TRUE(broken_utf8_at("\xE2\x82").is_incomplete);
  EXPECT_FALSE(broken_utf8_at("\xE2x").is_incomplete);
  EXPECT_EQ(valid_utf8_prefix("twelve bytes\xE2\x82"), 12U);
}

}  // namespace
}  // namespace coxswain::base
