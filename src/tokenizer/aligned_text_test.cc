// The places of changed texts against a table with one entry for each byte.

#include "tokenizer/aligned_text.h"

#include <algorithm>
#include <random>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "tokenizer/unicode.h"

namespace coxswain::tokenizer {
namespace {

// A text and for each byte where it came from, the long way.
struct Naive {
  std::string text;
  std::vector<Origin> origins;
};

Naive naive_input(std::string_view input) {
  Naive out{std::string(input), {}};
  for (std::size_t at = 0; at < input.size();) {
    const auto begin = static_cast<std::uint32_t>(at);
    const std::uint32_t length = code_point_at(input, at).n_bytes;
    out.origins.insert(out.origins.end(), length, Origin{begin, begin + length});
    at += length;
  }
  return out;
}

class Rewriting {
 public:
  explicit Rewriting(std::uint32_t seed) : random_(seed) {}

  std::string text(std::size_t n_max = 12) {
    std::string out;
    const std::size_t n = 1 + random_() % n_max;
    while (out.size() < n)
      out += std::vector<std::string>{"a", "b", " ", "\u00E9", "\u4F60"}[random_() % 5];
    return out;
  }
  // Keeps, replaces and removes characters at random.
  void change(AlignedText& text, Naive& naive) {
    AlignedBuilder out(text);
    Naive changed;
    const std::string source(text.text());
    for (std::size_t at = 0; at < source.size();) {
      std::size_t end = at;
      for (std::size_t n = 1 + random_() % 3; n > 0 && end < source.size(); --n)
        end += code_point_at(source, end).n_bytes;
      const auto from = [&](std::size_t i) {
        return naive.origins.begin() + static_cast<std::ptrdiff_t>(i);
      };
      if (random_() % 2 == 0) {
        out.keep(at, end);
        changed.text += source.substr(at, end - at);
        changed.origins.insert(changed.origins.end(), from(at), from(end));
      } else {
        const std::string bytes = random_() % 4 == 0 ? "" : this->text();
        const Origin first = naive.origins[at];
        const Origin last = naive.origins[end - 1];
        out.put(bytes, at, end);
        changed.text += bytes;
        changed.origins.insert(
            changed.origins.end(), bytes.size(), {first.begin, std::max(last.end, first.begin)});
      }
      at = end;
    }
    AlignedText made = std::move(out).finish();
    text = std::move(made);
    naive = std::move(changed);
  }

 private:
  std::mt19937 random_;
};

void expect_same(const AlignedText& text, const Naive& naive) {
  ASSERT_EQ(text.text(), naive.text);
  for (const std::size_t step : {std::size_t{1}, std::size_t{3}}) {
    for (std::size_t at = 0; at < naive.text.size(); at += step) {
      EXPECT_EQ(text.origin_of_byte(at).begin, naive.origins[at].begin);
      EXPECT_EQ(text.origin_of_byte(at).end, naive.origins[at].end);
    }
  }
  for (std::size_t at = naive.text.size(); at-- > 0;)
    EXPECT_EQ(text.origin_of_byte(at).begin, naive.origins[at].begin);
  constexpr std::size_t kStride = 7919;  // here and there
  for (std::size_t i = 0; i < naive.text.size(); ++i) {
    const std::size_t at = i * kStride % naive.text.size();
    EXPECT_EQ(text.origin_of_byte(at).end, naive.origins[at].end);
  }
}

TEST(AlignedTexts, PlacesAreThoseOfATableOfAllBytes) {
  for (std::uint32_t seed = 0; seed < 500; ++seed) {
    Rewriting rewriting(seed);
    const std::string input = rewriting.text(seed % 10 == 0 ? 1000 : 12);
    AlignedText text(input, 0);
    Naive naive = naive_input(input);
    for (int round = 0; round < 3 && !text.empty(); ++round) {
      rewriting.change(text, naive);
      expect_same(text, naive);
    }
    std::size_t middle = naive.text.size() / 2;
    while (middle < naive.text.size() && is_continuation(naive.text[middle])) ++middle;
    const auto half = static_cast<std::ptrdiff_t>(middle);
    expect_same(text.slice(middle, naive.text.size()),
                {naive.text.substr(middle), {naive.origins.begin() + half, naive.origins.end()}});
  }
}

TEST(Utf8, ThePrefixEndsBeforeTheFirstBrokenByte) {
  for (const std::string& good :
       {std::string(), std::string("\u00E9"), std::string("\u4F60\U0001F600")}) {
    for (std::size_t n = 0; n < 20; ++n) {
      const std::string before = std::string(n, 'a') + good + std::string(n, 'b');
      EXPECT_EQ(valid_utf8_prefix(before), before.size());
      for (const char* broken :
           {"\xC3", "\xC3(", "\xC1\x81", "\xDF\xC0", "\xE4\xBD", "\xED\xA0\x80", "\x80", "\xFF"})
        EXPECT_EQ(valid_utf8_prefix(before + broken + (n % 2 == 0 ? "" : "ccccccccc")),
                  before.size());
    }
  }
}

TEST(AlignedTexts, BrokenBytesHaveTheirPlaces) {
  const AlignedText text = sanitized("a\xFF\xFF\u4F60\xE4\xBD");
  EXPECT_EQ(text.text(), "a\uFFFD\uFFFD\u4F60\uFFFD");
  EXPECT_EQ(text.origin(1, 4).begin, 1U);
  EXPECT_EQ(text.origin(4, 7).end, 3U);
  EXPECT_EQ(text.origin(7, 10).begin, 3U);
  EXPECT_EQ(text.origin(10, 13).begin, 6U);
  EXPECT_EQ(text.origin(10, 13).end, 8U);
}

}  // namespace
}  // namespace coxswain::tokenizer
