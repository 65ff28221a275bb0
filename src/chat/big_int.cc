#include "chat/big_int.h"

#include <cmath>
#include <limits>

#include <boost/multiprecision/cpp_int.hpp>

#include "chat/value.h"

namespace coxswain::chat {
namespace {

namespace mp = boost::multiprecision;
using Whole = mp::number<mp::cpp_int_backend<>, mp::et_off>;

std::size_t bits_of(const Whole& value) {
  return value.is_zero() ? 0 : mp::msb(mp::abs(value)) + 1;
}

struct Division {
  Whole quotient;
  Whole rest;  // with the sign of the divisor
};

// Rounds down.
Division divide(const Whole& a, const Whole& b) {
  Division out;
  mp::divide_qr(a, b, out.quotient, out.rest);
  if (!out.rest.is_zero() && (out.rest < 0) != (b < 0)) {
    --out.quotient;
    out.rest += b;
  }
  return out;
}

// The double nearest to a / b, ties to even: 60 or 61 bits of the quotient, the last of them set if
// anything is left below. REQUIRES: a >= 0, b > 0.
double nearest_quotient(const Whole& a, const Whole& b) {
  const int shift = static_cast<int>(bits_of(b)) - static_cast<int>(bits_of(a)) + 60;
  const Division parts =
      divide(shift > 0 ? Whole(a << shift) : a, shift < 0 ? Whole(b << -shift) : b);
  auto bits = parts.quotient.convert_to<std::uint64_t>();
  if (!parts.rest.is_zero()) bits |= 1;
  return std::ldexp(static_cast<double>(bits), -shift);
}

int digit_of(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'z' ? c - 'a' + 10
         : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                : 36;
}

std::string binary_digits(const Whole& magnitude) {
  std::string out;
  for (std::size_t i = bits_of(magnitude); i > 0; --i)
    out += mp::bit_test(magnitude, static_cast<unsigned>(i - 1)) ? '1' : '0';
  return out.empty() ? "0" : out;
}

}  // namespace

struct BigInt::Number {
  Whole value;
};

BigInt::BigInt(Number number) : number_(std::make_shared<const Number>(std::move(number))) {
  if (bit_length() > kBigIntBitsMax)
    fail("the template makes an integer of more than " + std::to_string(kBigIntBitsMax) + " bits");
}

BigInt::BigInt(std::int64_t value) : BigInt(Number{Whole(value)}) {}

BigInt BigInt::from_double(double value) {
  return BigInt(Number{Whole(std::trunc(value))});
}

std::optional<BigInt> BigInt::parse(std::string_view text, int base) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > kBigIntDigitsMax) return std::nullopt;
  Whole out = 0;
  for (const char c : text) {
    const int digit = digit_of(c);
    if (digit >= base) return std::nullopt;
    out = out * base + digit;
  }
  return BigInt(Number{negative ? Whole(-out) : out});
}

bool BigInt::is_negative() const {
  return number_->value < 0;
}

bool BigInt::is_zero() const {
  return number_->value.is_zero();
}

bool BigInt::is_odd() const {
  return number_->value % 2 != 0;
}

std::size_t BigInt::bit_length() const {
  return bits_of(number_->value);
}

std::optional<std::int64_t> BigInt::to_int64() const {
  const Whole& value = number_->value;
  if (value < std::numeric_limits<std::int64_t>::min() ||
      value > std::numeric_limits<std::int64_t>::max())
    return std::nullopt;
  return value.convert_to<std::int64_t>();
}

double BigInt::to_double() const {
  return true_quotient(*this, BigInt(1));
}

std::string BigInt::magnitude_digits(int base) const {
  const Whole magnitude = mp::abs(number_->value);
  if (base == 2) return binary_digits(magnitude);
  if (base != 10) return magnitude.str(0, base == 8 ? std::ios_base::oct : std::ios_base::hex);
  std::string out = magnitude.str();
  if (out.size() > kBigIntDigitsMax) {
    fail("Exceeds the limit (" + std::to_string(kBigIntDigitsMax) +
         " digits) for integer string conversion");
  }
  return out;
}

std::string BigInt::to_string() const {
  return (is_negative() ? "-" : "") + magnitude_digits(10);
}

BigInt BigInt::operator-() const {
  return BigInt(Number{-number_->value});
}

BigInt operator+(const BigInt& a, const BigInt& b) {
  return BigInt(BigInt::Number{a.number_->value + b.number_->value});
}

BigInt operator-(const BigInt& a, const BigInt& b) {
  return BigInt(BigInt::Number{a.number_->value - b.number_->value});
}

BigInt operator*(const BigInt& a, const BigInt& b) {
  return BigInt(BigInt::Number{a.number_->value * b.number_->value});
}

BigInt operator/(const BigInt& a, const BigInt& b) {
  return BigInt(BigInt::Number{divide(a.number_->value, b.number_->value).quotient});
}

BigInt operator%(const BigInt& a, const BigInt& b) {
  return BigInt(BigInt::Number{divide(a.number_->value, b.number_->value).rest});
}

BigInt BigInt::power(std::uint64_t exponent) const {
  BigInt out(1);
  for (BigInt factor = *this;; exponent >>= 1) {
    if ((exponent & 1) != 0) out = out * factor;
    if (exponent <= 1) return out;
    factor = factor * factor;
  }
}

double BigInt::true_quotient(const BigInt& a, const BigInt& b) {
  const bool negative = a.is_negative() != b.is_negative();
  if (a.is_zero()) return b.is_negative() ? -0.0 : 0.0;
  const double magnitude = nearest_quotient(mp::abs(a.number_->value), mp::abs(b.number_->value));
  return negative ? -magnitude : magnitude;
}

std::strong_ordering operator<=>(const BigInt& a, const BigInt& b) {
  return a.number_->value.compare(b.number_->value) <=> 0;
}

}  // namespace coxswain::chat
