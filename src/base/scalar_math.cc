#include "base/scalar_math.h"

#include <bit>
#include <cstdint>
#include <limits>

namespace coxswain::base {
namespace {

constexpr double kInfinity = std::numeric_limits<double>::infinity();
constexpr double kNan = std::numeric_limits<double>::quiet_NaN();

// ln 2 in two parts. The first has 32 bits, so that its products with exponents are exact.
constexpr double kLn2High = 0x1.62e42feep-1;
constexpr double kLn2Low = 0x1.a39ef35793c76p-33;
constexpr double kInverseLn2 = 0x1.71547652b82fep+0;

// A value as a sum of two, the second below the last place of the first.
struct Pair {
  double high;
  double low;
};

// REQUIRES: |a| >= |b|, or a == 0.
Pair sum_of(double a, double b) {
  const double sum = a + b;
  return {sum, b - (sum - a)};
}

// The exact product (T. J. Dekker, 1971). REQUIRES: neither overflows when multiplied by 2^27.
Pair product_of(double a, double b) {
  const auto split = [](double x) {
    const double shifted = x * 0x1.0000002p27;
    const double high = shifted - (shifted - x);
    return Pair{high, x - high};
  };
  const Pair p = split(a);
  const Pair q = split(b);
  const double product = a * b;
  return {product, ((p.high * q.high - product) + p.high * q.low + p.low * q.high) + p.low * q.low};
}

// x to the nearest whole number, |x| < 2^51: the last bit of a double near 1.5 * 2^52 is 1.
double nearest(double x) {
  constexpr double kShift = 0x1.8p52;
  return (x + kShift) - kShift;
}

// 2^n as a double. REQUIRES: -1022 <= n <= 1023.
double power_of_two(std::int64_t n) {
  return std::bit_cast<double>(static_cast<std::uint64_t>(n + 1023) << 52);
}

// 2^n e^r for |r| <= 0.35, -1100 <= n <= 1100. Taylor's series to r^13 errs by less than 2^-57.
double scaled_exp(Pair r, double n) {
  const double x = r.high;
  double p = 1.0 / 6227020800.0;
  p = p * x + 1.0 / 479001600.0;
  p = p * x + 1.0 / 39916800.0;
  p = p * x + 1.0 / 3628800.0;
  p = p * x + 1.0 / 362880.0;
  p = p * x + 1.0 / 40320.0;
  p = p * x + 1.0 / 5040.0;
  p = p * x + 1.0 / 720.0;
  p = p * x + 1.0 / 120.0;
  p = p * x + 1.0 / 24.0;
  p = p * x + 1.0 / 6.0;
  p = p * x + 0.5;
  const Pair one = sum_of(1.0, x);
  const double rest = x * x * p;
  const double value = one.high + (one.low + (rest + r.low * (one.high + rest)));
  // In two steps, since 2^n alone may be no normal number.
  const auto whole = static_cast<std::int64_t>(n);
  const std::int64_t half = whole / 2;
  return value * power_of_two(half) * power_of_two(whole - half);
}

// e^(x.high + x.low) for |x.high| < 746.
double exp_of(Pair x) {
  const double n = nearest(x.high * kInverseLn2);
  const double rest = x.high - n * kLn2High;  // exact
  const double low = n * kLn2Low;
  const double r = rest - low;
  return scaled_exp({r, ((rest - r) - low) + x.low}, n);
}

// ln x for x positive and finite: x = 2^k m with m in [sqrt(1/2), sqrt(2)], and ln m = 2 atanh(s) with
// s = (m - 1) / (m + 1). Its series to s^21 errs by less than 2^-59 of s.
Pair log_of(double x) {
  double k = 0.0;
  if (x < 0x1p-1022) {
    x *= 0x1p54;
    k = -54.0;
  }
  const auto bits = std::bit_cast<std::uint64_t>(x);
  k += static_cast<double>(static_cast<std::int64_t>(bits >> 52) - 1023);
  double m = std::bit_cast<double>((bits & 0xFFFFFFFFFFFFF) | 0x3FF0000000000000);
  if (m > 0x1.6a09e667f3bcdp0) {
    m *= 0.5;
    k += 1.0;
  }
  const double f = m - 1.0;  // exact
  const Pair d = sum_of(m > 1.0 ? m : 1.0, m > 1.0 ? 1.0 : m);
  const double s = f / d.high;
  const Pair back = product_of(s, d.high);
  const double s_low = (((f - back.high) - back.low) - s * d.low) / d.high;
  const double z = s * s;
  double p = 1.0 / 21.0;
  p = p * z + 1.0 / 19.0;
  p = p * z + 1.0 / 17.0;
  p = p * z + 1.0 / 15.0;
  p = p * z + 1.0 / 13.0;
  p = p * z + 1.0 / 11.0;
  p = p * z + 1.0 / 9.0;
  p = p * z + 1.0 / 7.0;
  p = p * z + 1.0 / 5.0;
  p = p * z + 1.0 / 3.0;
  const Pair sum = sum_of(k * kLn2High, 2.0 * s);
  return sum_of(sum.high, sum.low + (2.0 * (s_low + s * z * p) + k * kLn2Low));
}

}  // namespace

double exp(double x) {
  if (x != x) return x;
  if (x > 709.8) return kInfinity;
  if (x < -745.2) return 0.0;
  return exp_of({x, 0.0});
}

double exp2(double x) {
  if (x != x) return x;
  if (x >= 1024.0) return kInfinity;
  if (x < -1075.0) return 0.0;
  const double n = nearest(x);
  const double f = x - n;  // exact
  const Pair product = product_of(f, kLn2High);
  const Pair r = sum_of(product.high, product.low + f * kLn2Low);
  return scaled_exp(r, n);
}

double log(double x) {
  if (x == 0.0) return -kInfinity;
  if (!(x > 0.0)) return kNan;
  if (x > std::numeric_limits<double>::max()) return x;
  return log_of(x).high;
}

double pow(double x, double y) {
  const Pair l = log_of(x);
  const Pair product = product_of(y, l.high);
  const double low = product.low + y * l.low;
  if (product.high > 709.8) return kInfinity;
  if (product.high < -745.2) return 0.0;
  return exp_of({product.high, low});
}

}  // namespace coxswain::base
