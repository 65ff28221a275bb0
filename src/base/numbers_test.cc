#include "base/numbers.h"

#include <cstdint>
#include <limits>
#include <set>

#include <gtest/gtest.h>

#include "base/random.h"

namespace coxswain::base {
namespace {

TEST(Numbers, PiecesAreCountedUp) {
  EXPECT_EQ(ceil_div(0U, 16U), 0U);
  EXPECT_EQ(ceil_div(1U, 16U), 1U);
  EXPECT_EQ(ceil_div(16U, 16U), 1U);
  EXPECT_EQ(ceil_div(17U, 16U), 2U);
  EXPECT_EQ(round_up(17U, 16U), 32U);
  EXPECT_EQ(round_up(32U, 16U), 32U);
}

TEST(Numbers, NothingOverflows) {
  constexpr std::uint32_t kMax = std::numeric_limits<std::uint32_t>::max();
  EXPECT_EQ(ceil_div(kMax, 16U), kMax / 16 + 1);
  EXPECT_EQ(ceil_div(kMax, kMax), 1U);
}

TEST(Numbers, ADifferenceStopsAtZero) {
  EXPECT_EQ(sub_sat(17U, 16U), 1U);
  EXPECT_EQ(sub_sat(16U, 16U), 0U);
  EXPECT_EQ(sub_sat(0U, 16U), 0U);
}

TEST(Random, NumbersDifferAndAreNotZero) {
  std::set<std::uint64_t> seen;
  for (int i = 0; i < 1000; ++i) seen.insert(random_u64());
  EXPECT_EQ(seen.size(), 1000U);
  EXPECT_FALSE(seen.contains(0));
}

}  // namespace
}  // namespace coxswain::base
