#include "runner/guess_source.h"

#include <vector>

#include <gtest/gtest.h>

namespace coxswain::runner {
namespace {

TEST(WorkCosts, BetweenAndBeyondWhatWasSeen) {
  WorkCosts costs;
  EXPECT_EQ(costs.seconds(3), 0);
  costs.observe(4, 0.4);
  EXPECT_DOUBLE_EQ(costs.seconds(4), 0.4);
  EXPECT_DOUBLE_EQ(costs.seconds(1), 0.4) << "less rows are not known to be cheaper";
  EXPECT_DOUBLE_EQ(costs.seconds(8), 0.8);
  costs.observe(16, 0.8);
  EXPECT_DOUBLE_EQ(costs.seconds(10), 0.6);
}

TEST(WorkCosts, FollowsWhatIsSeenAndHardlyADisturbance) {
  WorkCosts costs;
  for (int i = 0; i < 100; ++i) costs.observe(1, i < 50 ? 1.0 : 2.0);
  EXPECT_NEAR(costs.seconds(1), 2.0, 0.02);
  costs.observe(1, 1000.0);
  EXPECT_LT(costs.seconds(1), 2.5);
}

TEST(WorkCosts, AShorterTimeCountsForMore) {
  WorkCosts costs;
  costs.observe(1, 3.0);
  for (int i = 0; i < 5; ++i) costs.observe(1, 1.0);
  EXPECT_LT(costs.seconds(1), 1.5) << "the first was disturbed";
  for (int i = 0; i < 5; ++i) costs.observe(1, 3.0);
  EXPECT_LT(costs.seconds(1), 2.2);
}

TEST(ProbeBudget, AShareOfTheTimeSinceTheSourceWasAsked) {
  ProbeBudget probes;
  for (std::uint32_t i = 0; i < ProbeBudget::kSteps - 1; ++i) probes.pass_step(10.0);
  EXPECT_FALSE(probes.may_take(0.0)) << "too soon";
  probes.pass_step(10.0);
  EXPECT_TRUE(probes.may_take(6.3));
  EXPECT_FALSE(probes.may_take(6.5)) << "long prompts wait longer";
  for (int i = 0; i < 2; ++i) probes.pass_step(10.0);
  EXPECT_TRUE(probes.may_take(6.5));
  probes.begin_anew();
  EXPECT_FALSE(probes.may_take(0.0));
}

TEST(RowsThatPay, AsLongAsTheChanceIsAboveThePrice) {
  EXPECT_EQ(rows_that_pay(0.5, 9, 0.2), 2U);
  EXPECT_EQ(rows_that_pay(0.5, 1, 0.2), 1U);
  EXPECT_EQ(rows_that_pay(0.1, 9, 0.2), 0U);
}

// A round takes `of_step` of a step, a further row `row`; `n` sequences, one token each.
std::size_t rounds(double chance, double of_step, double row, std::size_t n = 1) {
  WorkCosts costs;
  costs.observe(n, of_step);
  const std::vector<RoundCandidate> candidates(n, {.chance = chance, .n_max = 8, .first_rows = 1});
  const auto tokens = static_cast<double>(n);
  return rounds_that_pay(
      costs,
      {.tokens = tokens, .seconds = 1, .row_seconds = row, .row_price = row * tokens},
      candidates,
      1.0);
}

TEST(Rounds, TheMoreTheMoreIsRightAndTheCheaperTheyAre) {
  EXPECT_EQ(rounds(0.9, 0.01, 0.0), 8U);
  EXPECT_EQ(rounds(0.5, 0.1, 0.0), 2U);
  EXPECT_EQ(rounds(0.5, 0.21, 0.0), 1U);
  EXPECT_EQ(rounds(0.5, 0.5, 0.0), 0U) << "a round costs what it gives";
  EXPECT_EQ(rounds(0.5, 0.2, 0.4), 0U) << "with its row it costs more";
}

// By trying: tokens a second of each number of rounds.
TEST(Rounds, TheNumberOfMostTokensASecond) {
  for (double chance = 0.05; chance < 1; chance += 0.05) {
    for (double cost = 0.01; cost < 1; cost += 0.07) {
      std::size_t best = 0;
      double best_rate = 1;
      double tokens = 1;
      double all = 1;
      for (std::size_t n = 1; n <= 8; ++n) {
        tokens += all *= chance;
        const double rate = tokens / (1 + static_cast<double>(n) * cost);
        if (rate <= best_rate) continue;
        best = n;
        best_rate = rate;
      }
      EXPECT_EQ(rounds(chance, cost, 0.0), best) << chance << " " << cost;
    }
  }
}

TEST(Rounds, NoneWhereRowsCostATokenEach) {
  EXPECT_EQ(rounds(0.9, 0.001, 1.0 / 32, 32), 0U);
}

TEST(Rounds, WhatIsKnownForNothingIsToBeBeaten) {
  WorkCosts costs;
  costs.observe(1, 0.1);
  const RoundBase base{.tokens = 1.8, .seconds = 1, .row_seconds = 0, .row_price = 0};
  RoundCandidate candidate{.chance = 0.7, .n_max = 2, .known_rows = 1, .known_tokens = 0.8};
  EXPECT_EQ(rounds_that_pay(costs, base, {&candidate, 1}, 1.0), 2U) << "2.19 in 1.2 s";
  candidate.chance = 0.6;
  EXPECT_EQ(rounds_that_pay(costs, base, {&candidate, 1}, 1.0), 0U) << "1.96 in 1.2 s";
}

TEST(Rounds, APromptThatIsBehindCostsItsRows) {
  WorkCosts costs;
  costs.observe(1, 0.1);
  const RoundBase base{.tokens = 1, .seconds = 1, .row_seconds = 0, .row_price = 0};
  RoundCandidate candidate{.chance = 0.9, .n_max = 4};
  EXPECT_EQ(rounds_that_pay(costs, base, {&candidate, 1}, 1.0), 4U);
  candidate.first_rows = 30;
  EXPECT_EQ(rounds_that_pay(costs, base, {&candidate, 1}, 1.0), 0U);
}

}  // namespace
}  // namespace coxswain::runner
