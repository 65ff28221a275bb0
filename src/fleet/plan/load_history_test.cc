#include "fleet/plan/load_history.h"

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kBegin{1h};

TEST(LoadHistory, RatesAndPeaksOfTheWindow) {
  LoadHistory history(10s, 50ms);
  EXPECT_EQ(history.trend().tokens_per_s, 0.0);
  history.add({.at = kBegin, .arrived_tokens = 0, .used_blocks = 7});
  history.add({.at = kBegin + 2s, .arrived_tokens = 200, .used_blocks = 3});
  history.add({.at = kBegin + 4s, .arrived_tokens = 800, .used_blocks = 2});
  EXPECT_EQ(history.peak_tokens_per_s(), 300.0);
  EXPECT_EQ(history.peak_blocks(), 7U);
  history.add({.at = kBegin + 12s, .arrived_tokens = 800, .used_blocks = 0});
  EXPECT_EQ(history.peak_blocks(), 3U) << "the first is older than the window";
  history.add({.at = kBegin + 30s, .arrived_tokens = 800, .used_blocks = 0});
  EXPECT_EQ(history.peak_blocks(), 0U);
  EXPECT_EQ(history.trend().tokens_per_s, 0.0);
}

TEST(LoadHistory, TheRateIsTheOneByNow) {
  LoadHistory history(10s, 50ms);
  history.add({.at = kBegin, .arrived_tokens = 0});
  history.add({.at = kBegin + 1s, .arrived_tokens = 100});
  EXPECT_EQ(history.trend().tokens_per_s, 100.0) << "nothing is known of how it changes";
  for (std::uint64_t s = 2; s <= 10; ++s)
    history.add({.at = kBegin + std::chrono::seconds(s), .arrived_tokens = 100 * s});
  EXPECT_DOUBLE_EQ(history.trend().tokens_per_s, 100.0) << "an even rate stays what it is";
  history.add({.at = kBegin + 16s, .arrived_tokens = 1'000});
  EXPECT_EQ(history.trend().tokens_per_s, 0.0) << "what falls does not fall below nothing";
}

TEST(LoadHistory, AfterARestItKnowsABurstAtOnce) {
  LoadHistory history(10s, 50ms);
  history.add({.at = kBegin, .arrived_tokens = 0});
  history.add({.at = kBegin + 100s, .arrived_tokens = 0});
  history.add({.at = kBegin + 101s, .arrived_tokens = 500, .arrived_squares = 5e4});
  EXPECT_NEAR(history.trend().tokens_per_s, 400.0, 1.0) << "five prompts in a second and a quarter";
}

TEST(LoadHistory, TwoPromptsWithinAMomentAreNoRate) {
  LoadHistory history(10s, 50ms);
  history.add({.at = kBegin, .arrived_tokens = 0});
  history.add({.at = kBegin + 2s, .arrived_tokens = 300, .arrived_squares = 9e4});
  history.add({.at = kBegin + 2s + 4ms, .arrived_tokens = 600, .arrived_squares = 18e4});
  EXPECT_NEAR(history.trend().tokens_per_s, 150.0, 1.0);
  EXPECT_NEAR(history.peak_tokens_per_s(), 150.0, 1.0);
  history.add({.at = kBegin + 2s + 50ms, .arrived_tokens = 600, .arrived_squares = 18e4});
  EXPECT_NEAR(history.peak_tokens_per_s(), 6'000.0, 1.0);
}

// Prompts of 100 tokens, so many in each tenth of a second of each part.
LoadHistory history_of(std::initializer_list<std::pair<int, std::uint64_t>> parts) {
  LoadHistory out(10s, 50ms);
  LoadPoint point{.at = kBegin};
  out.add(point);
  for (const auto& [n_tenths, n_prompts] : parts) {
    for (int i = 0; i < n_tenths; ++i) {
      point.at += 100ms;
      point.arrived_tokens += 100 * n_prompts;
      point.arrived_squares += 1e4 * static_cast<double>(n_prompts);
      out.add(point);
    }
  }
  return out;
}

TEST(LoadHistory, AStepIsARateBySoonAndNotATrend) {
  const LoadTrend trend = history_of({{80, 1}, {20, 10}}).trend();
  EXPECT_NEAR(trend.tokens_per_s, 10'000.0, 1.0) << "not what a line through ten seconds says";
  EXPECT_NEAR(trend.slope, 0.0, 1.0);
  EXPECT_LT(history_of({{50, 10}, {50, 1}}).trend().tokens_per_s, 1'001.0) << "down as well";
}

TEST(LoadHistory, WhatALineExplainsIsTakenWhole) {
  LoadHistory history(10s, 50ms);
  double n = 0.0;
  for (int i = 0; i <= 100; ++i) {  // from 1,000 tokens a second on, 500 more in each second
    const double s = 0.1 * i;
    n = 1'000.0 * s + 250.0 * s * s;
    history.add({.at = kBegin + i * 100ms,
                 .arrived_tokens = static_cast<std::uint64_t>(n),
                 .arrived_squares = 100.0 * n});
  }
  EXPECT_NEAR(history.trend().slope, 500.0, 5.0);
  EXPECT_NEAR(history.trend().tokens_per_s, 6'000.0, 30.0);
}

TEST(LoadHistory, FewPromptsAreNoBurst) {
  // One prompt a second for a while, then three in the last one.
  LoadHistory history(10s, 50ms);
  LoadPoint point{.at = kBegin};
  history.add(point);
  for (int i = 1; i <= 100; ++i) {
    const bool one = i <= 90 ? i % 10 == 0 : i == 93 || i == 96 || i == 99;
    point.at += 100ms;
    point.arrived_tokens += one ? 100 : 0;
    point.arrived_squares += one ? 1e4 : 0.0;
    history.add(point);
  }
  EXPECT_NEAR(history.trend().tokens_per_s, 170.0, 10.0) << "what the whole window says";
}

TEST(LatencyWindow, PercentilesOfWhatEndedLately) {
  LatencyWindow window;
  EXPECT_EQ(window.within(kBegin, 10s).ttft, 0ms);
  for (int i = 1; i <= 100; ++i) window.note(kBegin + i * 10ms, i * 1ms, 40ms, 5);
  window.note(kBegin + 1s, 1ms, 0ms, 1);
  EXPECT_EQ(window.within(kBegin + 1s, 10s).ttft, 95ms);
  EXPECT_EQ(window.within(kBegin + 1s, 10s).itl, 10ms) << "one token has no gap";
  EXPECT_EQ(window.within(kBegin + 1s, 100ms).ttft, 99ms);
  EXPECT_EQ(window.within(kBegin + 12s, 10s).ttft, 0ms);
}

TEST(LatencyWindow, KeepsTheLastOnes) {
  LatencyWindow window;
  for (int i = 0; i < 10'000; ++i) window.note(kBegin, i < 9'000 ? 1h : 1ms, 0ms, 1);
  EXPECT_EQ(window.within(kBegin, 10s).ttft, 1ms);
}

}  // namespace
}  // namespace coxswain::fleet
