#include "runner/forced_text.h"

#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "runner/testing/test_grammars.h"

namespace coxswain::runner {
namespace {

class ForcedTextTest : public ::testing::Test {
 protected:
  // The guess behind these tokens.
  Guess guess(const std::vector<TokenId>& output, std::size_t n_max = 8) {
    grammar::TokenMasks::Position at = masks_.begin();
    for (const TokenId id : output) EXPECT_TRUE(masks_.advance(at, id));
    return forced_.guess(masks_, at, output, n_max, all_);
  }
  static std::vector<TokenId> ids(const Guess& guess) {
    return {guess.ids.begin(), guess.ids.end()};
  }

  const grammar::TokenMasks masks_{testing::regex_program("(abc){9}[xy](abc){9}"),
                                   grammar::testing::trie_of({"a", "b", "c", "abc", "x"})};
  ForcedText forced_;
  double all_ = 0.5;  // the chance of all sequences
};

TEST_F(ForcedTextTest, LearnsHowOftenTheLongestTokensAreTaken) {
  EXPECT_EQ(ids(guess({})), std::vector<TokenId>(8, 3));
  const double first = guess({}).chance;
  // Two of the guess, though it was not computed.
  const Guess second = guess({3, 3});
  EXPECT_EQ(ids(second), std::vector<TokenId>(7, 3));
  const double after_two = second.chance;
  EXPECT_GT(after_two, first);
  // One right, then another token; what came behind it was no guess.
  const Guess third = guess({3, 3, 3, 0, 1});
  EXPECT_EQ(ids(third), (std::vector<TokenId>{2, 3, 3, 3, 3, 3}));
  EXPECT_LT(third.chance, after_two);
  // Another sequence begins with what was seen of this one: three right, one wrong.
  EXPECT_GT(all_, 0.5);
  forced_ = {};
  EXPECT_EQ(guess({}).chance, all_);
}

TEST_F(ForcedTextTest, KeepsToTheMostAndSaysNothingAtAChoice) {
  EXPECT_EQ(ids(guess({}, 2)), std::vector<TokenId>(2, 3));
  const double chance = guess({}, 0).chance;
  const Guess at_choice = guess(std::vector<TokenId>(9, 3));
  EXPECT_TRUE(at_choice.ids.empty());
  EXPECT_EQ(at_choice.chance, chance);
  // An output that was cut is no reason to think less of it.
  EXPECT_EQ(guess({3}).chance, chance);
}

}  // namespace
}  // namespace coxswain::runner
