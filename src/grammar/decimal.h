#pragma once
// Decimal: the exact value of a JSON number, for comparisons that no double can make.
//
// Thread rule: plain values.

#include <compare>
#include <cstdint>
#include <optional>
#include <string>
#include <string_view>

namespace coxswain::grammar {

inline constexpr std::int64_t kDecimalExponentMax = 1000;  // more is more than a double holds

class Decimal {
 public:
  Decimal() = default;  // 0
  // Empty for texts that are no JSON number, and for exponents beyond the limit.
  static std::optional<Decimal> parse(std::string_view text);
  static Decimal integer(std::int64_t value);

  bool is_negative() const { return negative_; }
  bool is_zero() const { return digits_.empty(); }
  bool is_integer() const { return exponent_ >= 0; }
  Decimal negated() const;
  Decimal magnitude() const { return negative_ ? negated() : *this; }

  // The value is digits() * 10^exponent(); no zeros at either end. Zero has no digits.
  const std::string& digits() const { return digits_; }
  std::int64_t exponent() const { return exponent_; }
  // Of the magnitude: what stands before the point ("0" if nothing does) and behind it (no zeros at the end).
  std::string integer_digits() const;
  std::string fraction_digits() const;

  // `*this` is a whole multiple of `divisor`. Empty where the divisor has more than 18 digits or is zero.
  std::optional<bool> is_multiple_of(const Decimal& divisor) const;

  friend bool operator==(const Decimal&, const Decimal&) = default;
  friend std::strong_ordering operator<=>(const Decimal& a, const Decimal& b);

 private:
  bool negative_ = false;
  std::string digits_;
  std::int64_t exponent_ = 0;
};

// Of the digits of an integer from zero on; to subtract, from one on.
std::string add_one(std::string digits);
std::string subtract_one(std::string digits);

}  // namespace coxswain::grammar
