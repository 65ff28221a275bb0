#include "sampling/stop_matcher.h"

#include <algorithm>
#include <random>

#include <gtest/gtest.h>

namespace coxswain::sampling {
namespace {

using Match = StopMatcher::Match;

std::optional<Match> push_all(StopMatcher matcher, std::initializer_list<std::string_view> pieces) {
  for (const auto piece : pieces) {
    if (auto match = matcher.push(piece)) return match;
  }
  return std::nullopt;
}

TEST(StopMatcher, FindsStopsInsideAndAcrossPieces) {
  const std::vector<std::string> stops = {"/test;"};
  EXPECT_EQ(push_all(StopMatcher(stops), {"a /test; b"}), (Match{2, 0}));
  EXPECT_EQ(push_all(StopMatcher(stops), {"a /te", "", "s", "t;"}), (Match{2, 0}));
  EXPECT_EQ(push_all(StopMatcher(stops), {"a /te", "xt;"}), std::nullopt);
  EXPECT_EQ(push_all(StopMatcher(stops), {"////te", "st", "; and more"}), (Match{3, 0}));
}

TEST(StopMatcher, TheMatchThatEndsFirstWinsThenTheLongest) {
  const std::vector<std::string> stops = {"abcd", "bc", "xbc"};
  EXPECT_EQ(push_all(StopMatcher(stops), {"abcd"}), (Match{1, 1}));
  EXPECT_EQ(push_all(StopMatcher(stops), {"xb", "c"}), (Match{0, 2}));
}

TEST(StopMatcher, WithoutStopsOrWithEmptyOnesNothingMatches) {
  StopMatcher none;
  EXPECT_TRUE(none.empty());
  EXPECT_EQ(none.push("anything"), std::nullopt);
  const std::vector<std::string> blank = {""};
  EXPECT_EQ(push_all(StopMatcher(blank), {"anything"}), std::nullopt);
}

// Cutting the text differently may report the match later, but it is the same match as in the whole text.
TEST(StopMatcher, RandomTextsAgainstSearchingTheWholeText) {
  std::mt19937 engine(11);
  const auto below = [&](std::size_t n) {
    return std::uniform_int_distribution<std::size_t>(0, n - 1)(engine);
  };
  const auto random_text = [&](std::size_t n) {
    std::string out;
    for (std::size_t i = 0; i < n; ++i) out.push_back("ab"[below(2)]);
    return out;
  };
  for (int round = 0; round < 3000; ++round) {
    std::vector<std::string> stops(1 + below(3));
    for (std::string& stop : stops) stop = random_text(1 + below(7));
    const std::string text = random_text(below(40));
    StopMatcher matcher(stops);
    std::optional<Match> found;
    std::size_t fed = 0;
    while (fed < text.size() && !found) {
      const std::size_t n = std::min(text.size() - fed, below(5));
      found = matcher.push(std::string_view(text).substr(fed, n));
      fed += n;
    }
    std::optional<Match> expected;
    for (std::size_t end = 1; end <= text.size() && !expected; ++end) {
      for (std::size_t begin = 0; begin < end && !expected; ++begin) {
        const auto at = std::find(stops.begin(), stops.end(), text.substr(begin, end - begin));
        if (at != stops.end())
          expected = Match{begin, static_cast<std::size_t>(at - stops.begin())};
      }
    }
    ASSERT_EQ(found, expected) << text;
  }
}

}  // namespace
}  // namespace coxswain::sampling
