#include "chat/big_int.h"

#include <cmath>
#include <limits>
#include <random>

#include <gtest/gtest.h>

#include "chat/value.h"

namespace coxswain::chat {
namespace {

BigInt number(std::string_view digits, int base = 10) {
  return BigInt::parse(digits, base).value();
}

TEST(BigInt, ReadsAndPrints) {
  for (const char* text : {"0",
                           "-1",
                           "9223372036854775807",
                           "-9223372036854775808",
                           "18446744073709551616",
                           "100000000000000000000000000000000000000000000000001"}) {
    EXPECT_EQ(number(text).to_string(), text);
  }
  EXPECT_EQ(number("ffffffffffffffffffffffff", 16).magnitude_digits(16),
            "ffffffffffffffffffffffff");
  EXPECT_EQ(number("-0").to_string(), "0");
  EXPECT_FALSE(BigInt::parse("", 10));
  EXPECT_FALSE(BigInt::parse("12a", 10));
  EXPECT_FALSE(BigInt::parse(std::string(kBigIntDigitsMax + 1, '1'), 10));
}

// Random operands: what was multiplied divides back, and 128-bit arithmetic agrees.
TEST(BigInt, ArithmeticAgreesWithItself) {
  std::mt19937_64 random(7);
  for (int i = 0; i < 3000; ++i) {
    const auto digits = [&](std::size_t n) {
      std::string out(1 + random() % n, '0');
      // Runs of equal digits reach the corrections of the division.
      for (char& c : out) c = random() % 3 == 0 ? 'f' : "0123456789abcdef"[random() % 16];
      return number((random() % 2 == 0 ? "-" : "") + out, 16);
    };
    const BigInt a = digits(90);
    BigInt b = digits(50);
    if (b.is_zero()) b = BigInt(3);
    EXPECT_EQ((a / b) * b + a % b, a);
    EXPECT_EQ((a * b) / b, a);
    EXPECT_EQ(a + b - b, a);
    const BigInt rest = a % b;
    EXPECT_TRUE(rest.is_zero() || rest.is_negative() == b.is_negative());
  }
}

TEST(BigInt, RoundsDownAsPythonDoes) {
  EXPECT_EQ((number("-100000000000000000001") / BigInt(10)).to_string(), "-10000000000000000001");
  EXPECT_EQ((number("-100000000000000000001") % BigInt(10)).to_string(), "9");
  EXPECT_EQ((number("100000000000000000001") % BigInt(-10)).to_string(), "-9");
}

TEST(BigInt, ConvertsToTheNearestDouble) {
  EXPECT_EQ(number("9007199254740993").to_double(), 9007199254740992.0);
  EXPECT_EQ(number("9007199254740995").to_double(), 9007199254740996.0);
  EXPECT_EQ(number("-18446744073709551616").to_double(), -0x1p64);
  EXPECT_TRUE(std::isinf(BigInt(10).power(400).to_double()));
  EXPECT_EQ(BigInt::true_quotient(BigInt(10).power(400), BigInt(10).power(399)), 10.0);
  EXPECT_EQ(BigInt::true_quotient(BigInt(1), BigInt(3)), 1.0 / 3.0);
  std::mt19937_64 random(11);
  for (int i = 0; i < 1000; ++i) {
    const double value =
        std::ldexp(static_cast<double>(random() >> 11), static_cast<int>(random() % 900));
    EXPECT_EQ(BigInt::from_double(value).to_double(), value);
    EXPECT_EQ(BigInt::from_double(-value).to_double(), -value);
  }
}

TEST(BigInt, FitsOrNot) {
  EXPECT_EQ(number("-9223372036854775808").to_int64(), std::numeric_limits<std::int64_t>::min());
  EXPECT_FALSE(number("9223372036854775808").to_int64());
  EXPECT_FALSE(number("-9223372036854775809").to_int64());
  EXPECT_LT(number("-9223372036854775809"), BigInt(-1));
  EXPECT_GT(number("99999999999999999999"), number("9999999999999999999"));
}

TEST(BigInt, StopsAtItsLimits) {
  EXPECT_THROW((void)BigInt(2).power(kBigIntBitsMax + 1), RenderError);
  EXPECT_NO_THROW((void)BigInt(10).power(kBigIntDigitsMax - 1).to_string());
  EXPECT_THROW((void)BigInt(10).power(kBigIntDigitsMax).to_string(), RenderError);
}

}  // namespace
}  // namespace coxswain::chat
