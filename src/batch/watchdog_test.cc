#include "batch/watchdog.h"

#include <gtest/gtest.h>

namespace coxswain::batch {
namespace {

using namespace std::chrono_literals;

TEST(Watchdog, IsContentWithoutWork) {
  Watchdog w;
  const TimePoint t0{};
  EXPECT_TRUE(w.check(t0 + 1h).ok());
  w.work(t0);
  w.idle();
  EXPECT_TRUE(w.check(t0 + 1h).ok());
}

TEST(Watchdog, BarksFiveSecondsAfterTheLastStep) {
  Watchdog w;
  const TimePoint t0{};
  w.work(t0);
  EXPECT_TRUE(w.check(t0 + 5s).ok());
  EXPECT_EQ(w.check(t0 + 5001ms).kind(), ErrorKind::kHealthcheck);
  EXPECT_EQ(w.check(t0 + 5001ms).code(), Code::kDeadlineExceeded);  // late is not lost
  w.step_finished(t0 + 4s, 10ms);
  EXPECT_TRUE(w.check(t0 + 9s).ok());
  EXPECT_FALSE(w.check(t0 + 9001ms).ok());
}

TEST(Watchdog, AllowsTwentyTimesTheMedianStep) {
  Watchdog w;
  const TimePoint t0{};
  for (const auto d : {1s, 2s, 9s}) w.step_finished(t0, d);
  EXPECT_TRUE(w.check(t0 + 40s).ok());
  EXPECT_FALSE(w.check(t0 + 40001ms).ok());
}

}  // namespace
}  // namespace coxswain::batch
