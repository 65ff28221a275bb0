#include "tensor/dtype.h"

#include <cmath>
#include <limits>

#include <gtest/gtest.h>

namespace coxswain::tensor {
namespace {

// The value of a binary16 pattern by its definition.
double value_of_f16(std::uint16_t bits) {
  const double sign = (bits & 0x8000) != 0 ? -1.0 : 1.0;
  const int exponent = (bits >> 10) & 31;
  const int mantissa = bits & 1023;
  if (exponent == 0) return sign * std::ldexp(mantissa, -24);
  return sign * std::ldexp(1024 + mantissa, exponent - 25);
}

TEST(F16, EveryPatternConvertsExactlyAndBack) {
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const auto half = static_cast<std::uint16_t>(bits);
    const float wide = f16_to_float(half);
    if ((bits & 0x7C00U) == 0x7C00U) {
      EXPECT_EQ(std::isnan(wide), (bits & 0x3FFU) != 0) << bits;
      EXPECT_EQ(std::signbit(wide), (bits & 0x8000U) != 0) << bits;
      if (std::isnan(wide)) {
        EXPECT_TRUE(std::isnan(f16_to_float(float_to_f16(wide))));
      } else {
        EXPECT_EQ(float_to_f16(wide), half);
      }
      continue;
    }
    EXPECT_EQ(static_cast<double>(wide), value_of_f16(half)) << bits;
    EXPECT_EQ(float_to_f16(wide), half) << bits;
  }
}

TEST(F16, RoundsToNearestEven) {
  for (std::uint16_t bits = 0; bits < 0x7BFF; ++bits) {
    const auto next = static_cast<std::uint16_t>(bits + 1);
    const auto middle = static_cast<float>((value_of_f16(bits) + value_of_f16(next)) / 2);
    const std::uint16_t even = (bits & 1) == 0 ? bits : next;
    ASSERT_EQ(float_to_f16(middle), even) << bits;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, 0.0F)), bits) << bits;
    ASSERT_EQ(float_to_f16(std::nextafter(middle, 1e9F)), next) << bits;
    ASSERT_EQ(float_to_f16(-middle), even | 0x8000) << bits;
  }
  EXPECT_EQ(float_to_f16(65519.996F), 0x7BFF);
  EXPECT_EQ(float_to_f16(65520.0F), 0x7C00);
  EXPECT_EQ(float_to_f16(-1e30F), 0xFC00);
  EXPECT_EQ(float_to_f16(1e-30F), 0);
}

TEST(Bf16, RoundsToNearestEvenAndKeepsNan) {
  EXPECT_EQ(float_to_bf16(1.0F), 0x3F80);
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808000U)), 0x3F80);  // tie, even below
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F818000U)), 0x3F82);  // tie, even above
  EXPECT_EQ(float_to_bf16(std::bit_cast<float>(0x3F808001U)), 0x3F81);
  EXPECT_EQ(float_to_bf16(std::numeric_limits<float>::max()), 0x7F80);
  EXPECT_TRUE(std::isnan(bf16_to_float(float_to_bf16(std::bit_cast<float>(0x7F800001U)))));
  for (std::uint32_t bits = 0; bits < 0x10000; ++bits) {
    const float wide = bf16_to_float(static_cast<std::uint16_t>(bits));
    if (std::isnan(wide)) continue;
    ASSERT_EQ(float_to_bf16(wide), bits);
  }
}

}  // namespace
}  // namespace coxswain::tensor
