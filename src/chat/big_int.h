#pragma once
// BigInt: a whole number of any size within kBigIntBitsMax, for what Python prints exactly where 64
// bits end: ids in tool arguments, powers, sums.
//
// Sign and magnitude in 32-bit limbs, schoolbook arithmetic; division is Knuth's algorithm D (The
// Art of Computer Programming, volume 2, 4.3.1). Operations throw RenderError past a limit.
// Thread rule: a value.

#include <compare>
#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

namespace coxswain::chat {

inline constexpr std::size_t kBigIntBitsMax = 16384;
inline constexpr std::size_t kBigIntDigitsMax = 4300;  // CPython's limit for int <-> decimal text

class BigInt {
 public:
  BigInt() = default;
  explicit BigInt(std::int64_t value);
  // Without its fraction. REQUIRES: finite.
  static BigInt from_double(double value);
  // Digits of `base` (2 to 36) behind an optional '-'; empty for anything else and for more than
  // kBigIntDigitsMax decimal digits.
  static std::optional<BigInt> parse(std::string_view text, int base);

  bool is_negative() const { return negative_; }
  bool is_zero() const { return limbs_.empty(); }
  bool is_odd() const { return !limbs_.empty() && (limbs_[0] & 1) != 0; }
  std::size_t bit_length() const;
  std::size_t n_limbs() const { return limbs_.size(); }

  std::optional<std::int64_t> to_int64() const;
  double to_double() const;  // the nearest, ties to even; infinite if it is too large
  // Digits of the magnitude, lower case. Base 10 throws for more than kBigIntDigitsMax.
  std::string magnitude_digits(int base) const;
  std::string to_string() const;  // decimal, with the sign

  BigInt operator-() const;
  friend BigInt operator+(const BigInt& a, const BigInt& b);
  friend BigInt operator-(const BigInt& a, const BigInt& b) { return a + -b; }
  friend BigInt operator*(const BigInt& a, const BigInt& b);
  // Both round down, as Python's // and % do. REQUIRES: b is not zero.
  friend BigInt operator/(const BigInt& a, const BigInt& b);
  friend BigInt operator%(const BigInt& a, const BigInt& b);
  BigInt power(std::uint64_t exponent) const;
  // Python's a / b: the double nearest to the quotient. REQUIRES: b is not zero.
  static double true_quotient(const BigInt& a, const BigInt& b);

  friend bool operator==(const BigInt& a, const BigInt& b) = default;
  friend std::strong_ordering operator<=>(const BigInt& a, const BigInt& b);

 private:
  using Limbs = std::vector<std::uint32_t>;
  BigInt(Limbs limbs, bool negative);  // drops leading zeros, checks the size

  Limbs limbs_;  // least significant first, no leading zeros; none for zero
  bool negative_ = false;
};

}  // namespace coxswain::chat
