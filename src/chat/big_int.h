#pragma once
// BigInt: a whole number of any size within kBigIntBitsMax, for what Python prints exactly where 64
// bits end: ids in tool arguments, powers, sums.
//
// Python's rules over Boost.Multiprecision's cpp_int, which stays inside big_int.cc. Operations
// throw RenderError past a limit. Thread rule: a value.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain::chat {

inline constexpr std::size_t kBigIntBitsMax = 16384;
inline constexpr std::size_t kBigIntDigitsMax = 4300;  // CPython's limit for int <-> decimal text

class BigInt {
 public:
  BigInt() : BigInt(0) {}
  explicit BigInt(std::int64_t value);
  // Without its fraction. REQUIRES: finite.
  static BigInt from_double(double value);
  // Digits of `base` (2 to 36) behind an optional '-'; empty for anything else and for more than
  // kBigIntDigitsMax digits.
  static std::optional<BigInt> parse(std::string_view text, int base);

  bool is_negative() const;
  bool is_zero() const;
  bool is_odd() const;
  std::size_t bit_length() const;  // of the magnitude; 0 for zero

  std::optional<std::int64_t> to_int64() const;
  double to_double() const;  // the nearest, ties to even; infinite if it is too large
  // Digits of the magnitude, lower case. Base 10 throws for more than kBigIntDigitsMax.
  // REQUIRES: base is 2, 8, 10 or 16.
  std::string magnitude_digits(int base) const;
  std::string to_string() const;  // decimal, with the sign

  BigInt operator-() const;
  friend BigInt operator+(const BigInt& a, const BigInt& b);
  friend BigInt operator-(const BigInt& a, const BigInt& b);
  friend BigInt operator*(const BigInt& a, const BigInt& b);
  // Both round down, as Python's // and % do. REQUIRES: b is not zero.
  friend BigInt operator/(const BigInt& a, const BigInt& b);
  friend BigInt operator%(const BigInt& a, const BigInt& b);
  BigInt power(std::uint64_t exponent) const;
  // Python's a / b: the double nearest to the quotient. REQUIRES: b is not zero.
  static double true_quotient(const BigInt& a, const BigInt& b);

  friend bool operator==(const BigInt& a, const BigInt& b) { return a <=> b == 0; }
  friend std::strong_ordering operator<=>(const BigInt& a, const BigInt& b);

 private:
  struct Number;
  explicit BigInt(Number number);  // checks the size

  std::shared_ptr<const Number> number_;  // never null, never changed
};

}  // namespace coxswain::chat
