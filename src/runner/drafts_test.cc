#include "runner/drafts.h"

#include <algorithm>
#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::runner {
namespace {

using Ids = std::vector<TokenId>;

Ids guess_of(const Drafter& drafter, std::size_t n) {
  const auto guess = drafter.guess(n);
  return {guess.begin(), guess.end()};
}

Ids guess_after(const Ids& text, std::size_t n) {
  Drafter drafter({});
  drafter.follow(text, {});
  return guess_of(drafter, n);
}

// The rule in its plainest form: of the copies of the last tokens the longest, of those the latest.
Ids plain_guess(const Ids& text, std::size_t n) {
  std::size_t best = 0;
  std::size_t best_length = 1;
  for (std::size_t end = text.size() - 1; end >= 2; --end) {
    std::size_t length = 0;
    while (length < std::min<std::size_t>(end, 8) &&
           text[end - 1 - length] == text[text.size() - 1 - length])
      ++length;
    if (length <= best_length) continue;
    best = end;
    best_length = length;
  }
  if (best == 0) return {};
  const auto begin = text.begin() + static_cast<std::ptrdiff_t>(best);
  return {begin, begin + static_cast<std::ptrdiff_t>(std::min(n, text.size() - best))};
}

TEST(Drafter, WhatFollowedTheLastTokensBefore) {
  EXPECT_EQ(guess_after({1, 2, 3, 4, 9, 1, 2}, 3), (Ids{3, 4, 9}));
  EXPECT_EQ(guess_after({1, 2, 3, 4, 9, 1, 2}, 99), (Ids{3, 4, 9, 1, 2}));
  EXPECT_EQ(guess_after({1, 2, 3, 9, 2}, 3), Ids{}) << "one token is no copy";
  EXPECT_EQ(guess_after({7, 7, 7}, 3), (Ids{7}));
  EXPECT_EQ(guess_after({7}, 3), Ids{});
  EXPECT_EQ(guess_after({1, 2, 3, 5, 1, 2, 4, 1, 2}, 1), (Ids{4})) << "the latest";
  EXPECT_EQ(guess_after({5, 1, 2, 3, 6, 1, 2, 4, 5, 1, 2}, 1), (Ids{3})) << "the longest";
}

TEST(Drafter, AsThePlainRuleSaysInRandomTexts) {
  std::mt19937 random(5);
  std::size_t n_guessed = 0;
  for (int run = 0; run < 400; ++run) {
    // Few enough places of each pair that all are looked at.
    std::uniform_int_distribution<TokenId> any(0, 11);
    Ids text;
    for (int i = 0; i < 3 + run % 300; ++i) text.push_back(any(random));
    EXPECT_EQ(guess_after(text, 4), plain_guess(text, 4)) << run;
    n_guessed += plain_guess(text, 4).empty() ? 0 : 1;
  }
  EXPECT_GT(n_guessed, 100U);
}

TEST(Drafter, FollowsAGuessThatGoesOnAndLooksAgainWhereItDoesNot) {
  const Ids prompt{1, 2, 3, 4, 5, 6, 1, 2};
  Drafter drafter({});
  Ids output;
  drafter.follow(prompt, output);
  const double first = drafter.chance();
  for (const TokenId token : {3, 4}) {
    ASSERT_EQ(guess_of(drafter, 1), Ids{token});
    output.push_back(token);
    drafter.follow(prompt, output);
  }
  EXPECT_GT(drafter.chance(), first);
  EXPECT_EQ(guess_of(drafter, 2), (Ids{5, 6}));
  const double before = drafter.chance();
  output.insert(output.end(), {9, 1, 2});
  drafter.follow(prompt, output);
  EXPECT_LT(drafter.chance(), before);
  EXPECT_EQ(guess_of(drafter, 2), (Ids{3, 4}));
}

TEST(Drafter, ADraftIsTheFirstGuessAndIsFoundAgainBehindAnotherToken) {
  const Ids draft{20, 21, 22, 23, 24, 25, 26};
  Drafter drafter(draft);
  drafter.follow(Ids{1, 2}, {});
  EXPECT_EQ(guess_of(drafter, 3), (Ids{20, 21, 22}));
  drafter.follow(Ids{1, 2}, Ids{20, 99});
  EXPECT_EQ(guess_of(drafter, 2), (Ids{22, 23})) << "one token was another";
  drafter.follow(Ids{1, 2}, Ids{20, 99, 22, 23});
  EXPECT_EQ(guess_of(drafter, 2), (Ids{24, 25}));
}

TEST(Drafter, InACopyATokenMayBeAnother) {
  Drafter drafter({});
  const Ids prompt{1, 2, 3, 4, 5, 6, 7, 8, 1, 2};
  drafter.follow(prompt, Ids{3, 99});
  EXPECT_FALSE(drafter.has_guess()) << "one right guess is no copy yet";
  Drafter copying({});
  copying.follow(prompt, Ids{3, 4, 99});
  EXPECT_EQ(guess_of(copying, 2), (Ids{6, 7}));
}

// Seconds of a step of `n` rows.
using StepTime = double (*)(double n);

double price_after(StepTime time, std::size_t n_base, std::size_t n_drafts) {
  RowCosts costs;
  for (int i = 0; i < 300; ++i) {
    const std::size_t n = n_base + (i % 8 == 0 ? n_drafts : 0);
    costs.observe(n_base, n, time(static_cast<double>(n)));
  }
  return costs.price(n_base, n_base);
}

TEST(RowCosts, ARowIsCheapBesideWeightsThatAreReadAnyway) {
  EXPECT_NEAR(price_after([](double n) { return 0.1 + 0.001 * n; }, 1, 4), 0.0099, 1e-3);
}

TEST(RowCosts, ARowCostsAToken) {
  EXPECT_GT(price_after([](double n) { return 0.001 * n; }, 32, 4), 0.95);
  EXPECT_LE(price_after([](double n) { return 0.001 * n; }, 32, 4), 1.0);
}

TEST(RowCosts, ADisturbedStepHardlyCounts) {
  RowCosts costs;
  for (int i = 0; i < 100; ++i) costs.observe(1, i % 2 == 0 ? 1 : 5, i % 2 == 0 ? 0.1 : 0.104);
  costs.observe(1, 5, 100.0);
  EXPECT_LT(costs.price(1, 1), 0.1);
}

TEST(RowCosts, BatchesOfAnotherSizeDoNotCount) {
  RowCosts costs;
  const double before = costs.price(1, 1);
  costs.observe(32, 32, 0.5);
  EXPECT_EQ(costs.price(1, 1), before);
  EXPECT_NEAR(before, 1.0 / 9, 1e-9);
}

}  // namespace
}  // namespace coxswain::runner
