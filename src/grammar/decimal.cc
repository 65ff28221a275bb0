#include "grammar/decimal.h"

#include <algorithm>
#include <charconv>

namespace coxswain::grammar {
namespace {

bool is_digit(char c) {
  return c >= '0' && c <= '9';
}

std::strong_ordering compare_magnitudes(const Decimal& a, const Decimal& b) {
  if (a.is_zero() || b.is_zero()) return b.is_zero() <=> a.is_zero();
  const std::int64_t a_point = static_cast<std::int64_t>(a.digits().size()) + a.exponent();
  const std::int64_t b_point = static_cast<std::int64_t>(b.digits().size()) + b.exponent();
  if (a_point != b_point) return a_point <=> b_point;
  // Without zeros at the end, the shorter of two that begin alike is the smaller.
  return a.digits() <=> b.digits();
}

}  // namespace

std::optional<Decimal> Decimal::parse(std::string_view text) {
  Decimal out;
  std::size_t i = 0;
  if (i < text.size() && text[i] == '-') {
    out.negative_ = true;
    ++i;
  }
  const std::size_t integer_begin = i;
  while (i < text.size() && is_digit(text[i])) out.digits_ += text[i++];
  if (i == integer_begin) return std::nullopt;
  if (i < text.size() && text[i] == '.') {
    const std::size_t fraction_begin = ++i;
    while (i < text.size() && is_digit(text[i])) out.digits_ += text[i++];
    if (i == fraction_begin) return std::nullopt;
    out.exponent_ = -static_cast<std::int64_t>(i - fraction_begin);
  }
  if (i < text.size() && (text[i] == 'e' || text[i] == 'E')) {
    ++i;
    if (i < text.size() && text[i] == '+') ++i;
    std::int64_t exponent = 0;
    const auto [end, error] = std::from_chars(text.data() + i, text.data() + text.size(), exponent);
    if (error != std::errc{}) return std::nullopt;
    if (exponent < -kDecimalExponentMax || exponent > kDecimalExponentMax) return std::nullopt;
    i = static_cast<std::size_t>(end - text.data());
    out.exponent_ += exponent;
  }
  if (i != text.size()) return std::nullopt;
  out.digits_.erase(0, std::min(out.digits_.find_first_not_of('0'), out.digits_.size()));
  while (!out.digits_.empty() && out.digits_.back() == '0') {
    out.digits_.pop_back();
    ++out.exponent_;
  }
  if (out.digits_.empty()) return Decimal{};
  return out;
}

Decimal Decimal::integer(std::int64_t value) {
  return parse(std::to_string(value)).value_or(Decimal{});
}

Decimal Decimal::negated() const {
  Decimal out = *this;
  if (!is_zero()) out.negative_ = !negative_;
  return out;
}

std::string Decimal::integer_digits() const {
  if (exponent_ >= 0) {
    return digits_.empty() ? "0" : digits_ + std::string(static_cast<std::size_t>(exponent_), '0');
  }
  const auto behind = static_cast<std::size_t>(-exponent_);
  return behind >= digits_.size() ? "0" : digits_.substr(0, digits_.size() - behind);
}

std::string Decimal::fraction_digits() const {
  if (exponent_ >= 0) return {};
  const auto behind = static_cast<std::size_t>(-exponent_);
  if (behind >= digits_.size()) return std::string(behind - digits_.size(), '0') + digits_;
  return digits_.substr(digits_.size() - behind);
}

std::optional<bool> Decimal::is_multiple_of(const Decimal& divisor) const {
  if (divisor.is_zero() || divisor.digits_.size() > 18) return std::nullopt;
  if (is_zero()) return true;
  std::uint64_t modulus = 0;
  for (const char c : divisor.digits_) modulus = modulus * 10 + static_cast<std::uint64_t>(c - '0');
  // value / divisor = digits / modulus * 10^shift
  const std::int64_t shift = exponent_ - divisor.exponent_;
  unsigned __int128 remainder = 0;
  const auto take = [&](std::uint64_t digit) { remainder = (remainder * 10 + digit) % modulus; };
  for (const char c : digits_) take(static_cast<std::uint64_t>(c - '0'));
  for (std::int64_t i = 0; i < shift && remainder != 0; ++i) take(0);
  // No zero ends the digits of the value, so a negative shift leaves digits behind the point.
  return remainder == 0 && shift >= 0;
}

std::strong_ordering operator<=>(const Decimal& a, const Decimal& b) {
  if (a.is_negative() != b.is_negative()) return b.is_negative() <=> a.is_negative();
  return a.is_negative() ? compare_magnitudes(b, a) : compare_magnitudes(a, b);
}

std::string add_one(std::string digits) {
  for (std::size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '9') {
      ++digits[i];
      return digits;
    }
    digits[i] = '0';
  }
  return '1' + digits;
}

std::string subtract_one(std::string digits) {
  for (std::size_t i = digits.size(); i-- > 0;) {
    if (digits[i] != '0') {
      --digits[i];
      break;
    }
    digits[i] = '9';
  }
  digits.erase(0, std::min(digits.find_first_not_of('0'), digits.size() - 1));
  return digits;
}

}  // namespace coxswain::grammar
