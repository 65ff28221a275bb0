#include "batch/length_forecast.h"

#include <gtest/gtest.h>

namespace coxswain::batch {
namespace {

TEST(LengthForecast, KnowingNothingItExpectsEverything) {
  const LengthForecast forecast;
  EXPECT_EQ(forecast.total(0, 100), 100U);
  EXPECT_EQ(forecast.total(60, 100), 100U);
  EXPECT_EQ(forecast.total(99, 100), 100U);
}

TEST(LengthForecast, LearnsTheShareThatIsUsed) {
  LengthForecast forecast;
  for (int i = 0; i < 2000; ++i) forecast.finished(50, 200);
  EXPECT_NEAR(forecast.total(0, 200), 50, 3);
  EXPECT_NEAR(forecast.total(0, 4000), 1000, 40) << "a share, not a number of tokens";
  EXPECT_NEAR(forecast.total(20, 200), 50, 3);
}

TEST(LengthForecast, WhoHasGoneFurtherIsComparedWithThoseThatWentFurther) {
  LengthForecast forecast;
  for (int i = 0; i < 1000; ++i) {
    forecast.finished(10, 1000);
    forecast.finished(600, 1000);
  }
  EXPECT_NEAR(forecast.total(0, 1000), 305, 10);
  EXPECT_NEAR(forecast.total(100, 1000), 600, 10);
  EXPECT_GT(forecast.total(700, 1000), 950U) << "only those that used everything went there";
}

TEST(LengthForecast, StaysBetweenOneMoreAndAll) {
  LengthForecast forecast;
  for (std::uint32_t i = 0; i < 3000; ++i) forecast.finished(1 + i % 7, 4096);
  for (const std::uint32_t n_max : {1U, 2U, 100U, 0xFFFFFFFFU}) {
    for (const std::uint32_t n : {0U, n_max / 3, n_max - 1}) {
      EXPECT_GT(forecast.total(n, n_max), n);
      EXPECT_LE(forecast.total(n, n_max), n_max);
    }
  }
}

TEST(LengthForecast, ForgetsWhatWasLongAgo) {
  LengthForecast forecast;
  for (int i = 0; i < 1000; ++i) forecast.finished(900, 1000);
  for (int i = 0; i < 3000; ++i) forecast.finished(100, 1000);
  EXPECT_NEAR(forecast.total(0, 1000), 100, 10);
}

TEST(LengthForecast, APauseAsksForMoreRoomForAWhile) {
  LengthForecast forecast;
  for (int i = 0; i < 3000; ++i) forecast.finished(100, 1000);
  const std::uint32_t before = forecast.total(0, 1000);
  forecast.paused(2);
  EXPECT_DOUBLE_EQ(forecast.brake(), 0.5);
  EXPECT_NEAR(forecast.total(0, 1000), 1.5 * before, 5);
  forecast.paused(1000);
  EXPECT_EQ(forecast.total(0, 1000), 1000U) << "and never for more than all";
  for (int i = 0; i < 20'000; ++i) forecast.stepped();
  EXPECT_EQ(forecast.brake(), 0);
  EXPECT_EQ(forecast.total(0, 1000), before);
}

}  // namespace
}  // namespace coxswain::batch
