#include "base/scalar_math.h"

#include <algorithm>
#include <bit>
#include <cmath>
#include <cstdint>
#include <limits>

#include <gtest/gtest.h>

// The same file compiled for CPUs with FMA (CMakeLists.txt).
namespace coxswain::base_fma {
double exp(double x);
double exp2(double x);
double log(double x);
double pow(double x, double y);
}  // namespace coxswain::base_fma

namespace coxswain::base {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();

// Distance from the reference in units in the last place of its double.
double error_of(double value, long double reference) {
  const auto near = static_cast<double>(reference);
  const double next = std::nextafter(std::fabs(near), kInfinity);
  const long double unit =
      static_cast<long double>(next) - std::fabs(static_cast<long double>(near));
  return static_cast<double>(std::fabs(static_cast<long double>(value) - reference) / unit);
}

// Calls visit(x) for n values from low to high, their low bits mixed.
template <typename Visit>
void for_dense(double low, double high, int n, Visit visit) {
  std::uint64_t bits = 1;
  for (int i = 0; i < n; ++i) {
    bits = bits * 6364136223846793005u + 1442695040888963407u;
    visit(low + (high - low) * (i + static_cast<double>(bits >> 11) * 0x1p-53) / n);
  }
}

TEST(ScalarMath, ExpIsWithinItsStatedError) {
  double worst = 0.0;
  const auto check = [&](double x) {
    worst = std::max(worst, error_of(exp(x), std::exp(static_cast<long double>(x))));
  };
  for_dense(-708.0, 709.7, 400'000, check);
  for_dense(-1.0, 1.0, 200'000, check);
  for_dense(-1e-6, 1e-6, 20'000, check);
  EXPECT_LT(worst, 0.65);
}

TEST(ScalarMath, Exp2IsWithinItsStatedError) {
  double worst = 0.0;
  const auto check = [&](double x) {
    worst = std::max(worst, error_of(exp2(x), std::exp2(static_cast<long double>(x))));
  };
  for_dense(-1022.0, 1023.9, 400'000, check);
  for_dense(-1.0, 1.0, 200'000, check);
  EXPECT_LT(worst, 0.65);
  for (int n = -1074; n < 1024; ++n) ASSERT_EQ(exp2(n), std::ldexp(1.0, n)) << n;
}

TEST(ScalarMath, LogIsWithinItsStatedError) {
  double worst = 0.0;
  const auto check = [&](double x) {
    worst = std::max(worst, error_of(log(x), std::log(static_cast<long double>(x))));
  };
  for_dense(0.5, 4.0, 400'000, check);
  for_dense(1.0 - 1e-6, 1.0 + 1e-6, 50'000, check);
  for_dense(-1073.0, 1023.0, 200'000, [&](double e) { check(std::exp2(e)); });
  check(0x1.6a09e667f3bcdp0);
  check(0x1.6a09e667f3bcep0);
  EXPECT_LT(worst, 0.54);
}

TEST(ScalarMath, PowIsWithinItsStatedError) {
  double worst = 0.0;
  for (const double base : {1.0000001, 1.5, 2.0, 100.0, 1e4, 1.5e5, 5e5, 1e6, 1e7, 1e12}) {
    for_dense(-2.0, 2.0, 40'000, [&](double y) {
      worst = std::max(worst, error_of(pow(base, y), std::pow(static_cast<long double>(base), y)));
    });
  }
  EXPECT_LT(worst, 0.65);
  EXPECT_EQ(pow(1e4, 0.0), 1.0);
  EXPECT_EQ(pow(1e4, 1.0), 1e4);
}

TEST(ScalarMath, EdgesAreDefined) {
  const double nan = std::numeric_limits<double>::quiet_NaN();
  EXPECT_EQ(exp(0.0), 1.0);
  EXPECT_EQ(exp(-kInfinity), 0.0);
  EXPECT_EQ(exp(-746.0), 0.0);
  EXPECT_EQ(exp(-745.0), std::numeric_limits<double>::denorm_min());
  EXPECT_EQ(exp(709.79), kInfinity);
  EXPECT_EQ(exp(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(exp(nan)));
  EXPECT_EQ(exp2(kInfinity), kInfinity);
  EXPECT_EQ(exp2(-kInfinity), 0.0);
  EXPECT_TRUE(std::isnan(exp2(nan)));
  EXPECT_EQ(log(1.0), 0.0);
  EXPECT_FALSE(std::signbit(log(1.0)));
  EXPECT_EQ(log(0.0), -kInfinity);
  EXPECT_EQ(log(kInfinity), kInfinity);
  EXPECT_TRUE(std::isnan(log(-1.0)));
  EXPECT_TRUE(std::isnan(log(nan)));
}

struct Functions {
  double (*exp)(double);
  double (*exp2)(double);
  double (*log)(double);
  double (*pow)(double, double);
};

std::uint64_t bits_of(const Functions& f) {
  std::uint64_t hash = 0;
  const auto add = [&](double value) {
    hash = (hash ^ std::bit_cast<std::uint64_t>(value)) * 0x9E3779B97F4A7C15u;
    hash ^= hash >> 29;
  };
  for_dense(-50.0, 50.0, 20'000, [&](double x) { add(f.exp(x)); });
  for_dense(-50.0, 50.0, 20'000, [&](double x) { add(f.exp2(x)); });
  for_dense(0.0, 300'000.0, 20'000, [&](double x) { add(f.log(x)); });
  for_dense(-1.0, 1.0, 20'000, [&](double y) { add(f.pow(5e5, y)); });
  return hash;
}

constexpr std::uint64_t kBits = 17152739512302838962u;

// In every build, whatever the compiler, its level of optimisation and the CPU.
TEST(ScalarMath, BitsAreThese) {
  EXPECT_EQ(bits_of({exp, exp2, log, pow}), kBits);
}

#if defined(__x86_64__)
TEST(ScalarMath, BitsDoNotHangOnFma) {
  if (!__builtin_cpu_supports("fma") || !__builtin_cpu_supports("avx2"))
    GTEST_SKIP() << "needs a CPU with FMA and AVX2";
  EXPECT_EQ(bits_of({base_fma::exp, base_fma::exp2, base_fma::log, base_fma::pow}), kBits);
}
#endif

}  // namespace
}  // namespace coxswain::base
