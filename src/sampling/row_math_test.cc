#include "sampling/row_math.h"

#include <algorithm>
#include <cmath>
#include <limits>
#include <vector>

#include <gtest/gtest.h>

#include "sampling/test_rows.h"

namespace coxswain::sampling {
namespace {

constexpr float kInf = std::numeric_limits<float>::infinity();
constexpr float kNan = std::numeric_limits<float>::quiet_NaN();

TEST(RowMath, SummaryFindsTheLowestIdOfTheMaximumAtEverySize) {
  for (const std::size_t n : {1u, 2u, 15u, 16u, 17u, 31u, 33u, 1023u, 1024u, 1025u, 5000u}) {
    std::vector<float> row = random_row(n, 2.0F, static_cast<unsigned>(n));
    const auto best = std::max_element(row.begin(), row.end());
    EXPECT_EQ(summarise(row).argmax, static_cast<std::size_t>(best - row.begin()));
    EXPECT_EQ(summarise(row).max, *best);
    EXPECT_EQ(max_of(row), *best);
    row.back() = row.front() = 100.0F;  // a tie
    EXPECT_EQ(summarise(row).argmax, 0u);
  }
}

TEST(RowMath, SummaryClampsInfinitiesAndSeesNan) {
  const std::vector<float> infinite = {0.0F, kInf, 2e30F, -kInf};
  EXPECT_EQ(summarise(infinite).max, kScoreMax);
  EXPECT_EQ(summarise(infinite).argmax, 1u);
  const std::vector<float> lowest(40, -kInf);
  EXPECT_EQ(summarise(lowest).max, -kScoreMax);
  EXPECT_EQ(summarise(lowest).argmax, 0u);
  for (const std::size_t at : {0u, 20u, 39u}) {
    std::vector<float> row(40, 1.0F);
    row[at] = kNan;
    EXPECT_TRUE(summarise(row).has_nan);
    std::vector<float> copy(40);
    EXPECT_TRUE(copy_clamped(row, copy).has_nan);
  }
}

TEST(RowMath, ExponentialsAreWithinTwoUnitsInTheLastPlace) {
  std::vector<float> row;
  for (float x = 0.0F; x > -86.9F; x -= 0.0137F) row.push_back(x);
  row.push_back(-87.5F);
  row.push_back(-1e36F);
  std::vector<float> weights(row.size());
  std::vector<double> sums((row.size() + kSumBlock - 1) / kSumBlock);
  exp_weights(row, 0.0F, weights, sums);
  for (std::size_t i = 0; i + 2 < row.size(); ++i) {
    const double expected = std::exp(static_cast<double>(row[i]));
    EXPECT_NEAR(weights[i] / expected, 1.0, 2.5e-7) << row[i];
  }
  EXPECT_EQ(weights[0], 1.0F);
  EXPECT_EQ(weights[weights.size() - 2], 0.0F);
  EXPECT_EQ(weights.back(), 0.0F);
}

TEST(RowMath, SumsAgreeWithDoubleArithmeticAndWithEachOther) {
  for (const std::size_t n : {1u, 17u, 1024u, 1500u, 128'256u}) {
    const std::vector<float> row = random_row(n, 3.0F, 5);
    const float max = max_of(row);
    double expected = 0.0;
    for (const float v : row)
      expected += std::exp(static_cast<double>(v) - static_cast<double>(max));
    std::vector<float> weights(n);
    std::vector<double> sums((n + kSumBlock - 1) / kSumBlock);
    const double sum = exp_weights(row, max, weights, sums);
    EXPECT_NEAR(sum / expected, 1.0, 1e-6);
    EXPECT_EQ(sum, sum_exp(row, max));
  }
}

TEST(RowMath, IndicesAtLeastFindsEveryOne) {
  for (const std::size_t n : {1u, 63u, 64u, 65u, 1000u}) {
    const std::vector<float> row = random_row(n, 1.0F, 7);
    for (const float threshold : {-10.0F, 0.0F, 2.0F, row[n / 2], 10.0F}) {
      std::vector<std::uint32_t> seen(n);
      seen.resize(indices_at_least(row, threshold, seen));
      std::vector<std::uint32_t> expected;
      for (std::size_t i = 0; i < n; ++i) {
        if (row[i] >= threshold) expected.push_back(static_cast<std::uint32_t>(i));
      }
      EXPECT_EQ(seen, expected);
    }
  }
}

TEST(RowMath, NegativeNanAndZeroesOfEitherSign) {
  std::vector<float> row(2000, -1.0F);
  row[1500] = 0.0F;
  row[3] = -0.0F;
  EXPECT_EQ(summarise(row).argmax, 3u);
  row[700] = -kNan;
  EXPECT_TRUE(summarise(row).has_nan);
}

TEST(RowMath, BlockMaximaCoverShortLastBlocks) {
  const std::vector<float> row = random_row(130, 1.0F, 3);
  std::vector<float> maxima(3);
  block_maxima(row, 64, maxima);
  EXPECT_EQ(maxima[2], std::max(row[128], row[129]));
  EXPECT_EQ(*std::max_element(maxima.begin(), maxima.end()), max_of(row));
}

}  // namespace
}  // namespace coxswain::sampling
