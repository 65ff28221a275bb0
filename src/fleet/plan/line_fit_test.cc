#include "fleet/plan/line_fit.h"

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

TEST(LineFit, FindsALine) {
  LineFit fit;
  EXPECT_EQ(fit.at(100), 0.0);
  for (int i = 1; i <= 20; ++i) fit.observe(i, 3 + 0.5 * i);
  EXPECT_NEAR(fit.slope(), 0.5, 1e-9);
  EXPECT_NEAR(fit.at(0), 3, 1e-9);
  EXPECT_NEAR(fit.at(100), 53, 1e-6);
  EXPECT_GT(fit.ratio(), 0.5 + 3.0 / 20) << "what is not for each is in it";
  EXPECT_LT(fit.ratio(), 0.5 + 3.0 / 5);
}

TEST(LineFit, WithoutASpreadItIsARatio) {
  LineFit fit;
  for (int i = 0; i < 5; ++i) fit.observe(256, 0.512);
  EXPECT_NEAR(fit.slope(), 0.002, 1e-12);
  EXPECT_NEAR(fit.at(64), 0.128, 1e-12);
}

TEST(LineFit, NoPartIsNegative) {
  LineFit falls;
  falls.observe(10, 4);
  falls.observe(20, 2);
  EXPECT_EQ(falls.slope(), 0.0);
  EXPECT_NEAR(falls.at(15), 3, 0.1);
  LineFit below;
  below.observe(10, 1);
  below.observe(20, 4);
  EXPECT_EQ(below.at(0), 0.0);
  EXPECT_GT(below.slope(), 0.1);
  LineFit at_nothing;
  at_nothing.observe(0, 2);
  EXPECT_NEAR(at_nothing.at(50), 2, 1e-12);
}

TEST(LineFit, ForgetsAndIsNotMisled) {
  LineFit fit;
  for (int i = 0; i < 100; ++i) fit.observe(10, 1);
  fit.observe(10, 1000);
  EXPECT_LT(fit.at(10), 1.2);
  for (int i = 0; i < 400; ++i) fit.observe(10, 2);
  EXPECT_NEAR(fit.at(10), 2, 0.01);
}

}  // namespace
}  // namespace coxswain::fleet
