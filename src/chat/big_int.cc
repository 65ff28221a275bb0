#include "chat/big_int.h"

#include <algorithm>
#include <array>
#include <bit>
#include <cmath>
#include <limits>

#include "chat/value.h"

namespace coxswain::chat {
namespace {

using Limbs = std::vector<std::uint32_t>;
constexpr std::size_t kLimbBits = 32;

std::uint32_t low(std::uint64_t value) {
  return static_cast<std::uint32_t>(value);
}

void trim(Limbs& limbs) {
  while (!limbs.empty() && limbs.back() == 0) limbs.pop_back();
}

std::strong_ordering compare(const Limbs& a, const Limbs& b) {
  if (a.size() != b.size()) return a.size() <=> b.size();
  return std::lexicographical_compare_three_way(a.rbegin(), a.rend(), b.rbegin(), b.rend());
}

Limbs add(const Limbs& a, const Limbs& b) {
  Limbs out;
  out.reserve(std::max(a.size(), b.size()) + 1);
  std::uint64_t carry = 0;
  for (std::size_t i = 0; i < std::max(a.size(), b.size()); ++i) {
    carry += (i < a.size() ? a[i] : 0ULL) + (i < b.size() ? b[i] : 0ULL);
    out.push_back(low(carry));
    carry >>= kLimbBits;
  }
  out.push_back(low(carry));
  return out;
}

// REQUIRES: a >= b.
Limbs subtract(const Limbs& a, const Limbs& b) {
  Limbs out;
  out.reserve(a.size());
  std::uint64_t borrow = 0;
  for (std::size_t i = 0; i < a.size(); ++i) {
    const std::uint64_t rest = std::uint64_t{a[i]} - (i < b.size() ? b[i] : 0U) - borrow;
    out.push_back(low(rest));
    borrow = rest >> 63;
  }
  return out;
}

Limbs multiply(const Limbs& a, const Limbs& b) {
  Limbs out(a.size() + b.size(), 0);
  for (std::size_t i = 0; i < a.size(); ++i) {
    std::uint64_t carry = 0;
    for (std::size_t j = 0; j < b.size(); ++j) {
      carry += std::uint64_t{a[i]} * b[j] + out[i + j];
      out[i + j] = low(carry);
      carry >>= kLimbBits;
    }
    out[i + b.size()] = low(carry);
  }
  return out;
}

Limbs shift_left(const Limbs& a, std::size_t bits) {
  Limbs out(bits / kLimbBits, 0);
  const std::size_t rest = bits % kLimbBits;
  std::uint64_t carry = 0;
  for (const std::uint32_t limb : a) {
    carry |= std::uint64_t{limb} << rest;
    out.push_back(low(carry));
    carry >>= kLimbBits;
  }
  out.push_back(low(carry));
  trim(out);
  return out;
}

// Divides in place by one limb; returns the rest.
std::uint32_t divide_small(Limbs& a, std::uint32_t divisor) {
  std::uint64_t rest = 0;
  for (auto limb = a.rbegin(); limb != a.rend(); ++limb) {
    rest = (rest << kLimbBits) | *limb;
    *limb = low(rest / divisor);
    rest %= divisor;
  }
  trim(a);
  return low(rest);
}

struct Division {
  Limbs quotient;
  Limbs rest;
};

// One digit of algorithm D: the quotient of a[at .. at + n] by b, subtracted from a.
std::uint32_t divide_digit(Limbs& a, const Limbs& b, std::size_t at) {
  const std::size_t n = b.size();
  const std::uint64_t top = (std::uint64_t{a[at + n]} << kLimbBits) | a[at + n - 1];
  std::uint64_t guess = top / b[n - 1];
  std::uint64_t rest = top % b[n - 1];
  while ((guess >> kLimbBits) != 0 || guess * b[n - 2] > ((rest << kLimbBits) | a[at + n - 2])) {
    --guess;
    rest += b[n - 1];
    if ((rest >> kLimbBits) != 0) break;
  }
  std::uint64_t carry = 0;
  std::uint64_t borrow = 0;
  for (std::size_t i = 0; i <= n; ++i) {
    carry += i < n ? guess * b[i] : 0;
    const std::uint64_t difference = std::uint64_t{a[at + i]} - low(carry) - borrow;
    a[at + i] = low(difference);
    borrow = difference >> 63;
    carry >>= kLimbBits;
  }
  if (borrow != 0) {  // one too many
    --guess;
    std::uint64_t sum = 0;
    for (std::size_t i = 0; i <= n; ++i) {
      sum += std::uint64_t{a[at + i]} + (i < n ? b[i] : 0U);
      a[at + i] = low(sum);
      sum >>= kLimbBits;
    }
  }
  return low(guess);
}

Division divide(Limbs a, Limbs b) {
  if (compare(a, b) < 0) return {{}, std::move(a)};
  if (b.size() == 1) {
    const std::uint32_t rest = divide_small(a, b[0]);
    return {std::move(a), rest == 0 ? Limbs{} : Limbs{rest}};
  }
  const auto shift = static_cast<std::size_t>(std::countl_zero(b.back()));
  a = shift_left(a, shift);
  b = shift_left(b, shift);
  a.push_back(0);
  const std::size_t n = b.size();
  Limbs quotient(a.size() - n, 0);
  for (std::size_t at = quotient.size(); at-- > 0;) quotient[at] = divide_digit(a, b, at);
  trim(quotient);
  trim(a);
  for (std::size_t i = 0; i < a.size() && shift > 0; ++i) {
    const std::uint32_t above = i + 1 < a.size() ? a[i + 1] : 0;
    a[i] = (a[i] >> shift) | low(std::uint64_t{above} << (kLimbBits - shift));
  }
  trim(a);
  return {std::move(quotient), std::move(a)};
}

std::size_t bits_of(const Limbs& limbs) {
  return limbs.empty()
             ? 0
             : limbs.size() * kLimbBits - static_cast<std::size_t>(std::countl_zero(limbs.back()));
}

// The magnitude a / b * 2^0 as the nearest double: 64 bits of the quotient, the last of them set if
// anything is left below.
double nearest_quotient(const Limbs& a, const Limbs& b) {
  const auto shift =
      static_cast<std::ptrdiff_t>(bits_of(b)) - static_cast<std::ptrdiff_t>(bits_of(a)) + 60;
  const Division parts = divide(shift > 0 ? shift_left(a, static_cast<std::size_t>(shift)) : a,
                                shift < 0 ? shift_left(b, static_cast<std::size_t>(-shift)) : b);
  std::uint64_t bits = 0;
  for (auto limb = parts.quotient.rbegin(); limb != parts.quotient.rend(); ++limb)
    bits = (bits << kLimbBits) | *limb;
  if (!parts.rest.empty()) bits |= 1;
  return std::ldexp(static_cast<double>(bits), static_cast<int>(-shift));
}

int digit_of(char c) {
  return c >= '0' && c <= '9'   ? c - '0'
         : c >= 'a' && c <= 'z' ? c - 'a' + 10
         : c >= 'A' && c <= 'Z' ? c - 'A' + 10
                                : 36;
}

}  // namespace

BigInt::BigInt(Limbs limbs, bool negative) : limbs_(std::move(limbs)) {
  trim(limbs_);
  negative_ = negative && !limbs_.empty();
  if (bit_length() > kBigIntBitsMax)
    fail("the template makes an integer of more than " + std::to_string(kBigIntBitsMax) + " bits");
}

BigInt::BigInt(std::int64_t value) : negative_(value < 0) {
  const auto magnitude =
      negative_ ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  limbs_ = {low(magnitude), low(magnitude >> kLimbBits)};
  trim(limbs_);
}

BigInt BigInt::from_double(double value) {
  int exponent = 0;
  const double mantissa = std::frexp(std::trunc(std::fabs(value)), &exponent);
  const auto bits = static_cast<std::uint64_t>(std::ldexp(mantissa, 53));
  if (exponent <= 53) return BigInt(static_cast<std::int64_t>(value));
  return {shift_left({low(bits), low(bits >> kLimbBits)}, static_cast<std::size_t>(exponent - 53)),
          value < 0};
}

std::optional<BigInt> BigInt::parse(std::string_view text, int base) {
  const bool negative = text.starts_with('-');
  if (negative) text.remove_prefix(1);
  if (text.empty() || text.size() > kBigIntDigitsMax) return std::nullopt;
  Limbs limbs;
  for (const char c : text) {
    const int digit = digit_of(c);
    if (digit >= base) return std::nullopt;
    std::uint64_t carry = static_cast<std::uint64_t>(digit);
    for (std::uint32_t& limb : limbs) {
      carry += std::uint64_t{limb} * static_cast<std::uint64_t>(base);
      limb = low(carry);
      carry >>= kLimbBits;
    }
    if (carry != 0) limbs.push_back(low(carry));
  }
  return BigInt(std::move(limbs), negative);
}

std::size_t BigInt::bit_length() const {
  return bits_of(limbs_);
}

std::optional<std::int64_t> BigInt::to_int64() const {
  if (limbs_.size() > 2) return std::nullopt;
  std::uint64_t magnitude = 0;
  for (auto limb = limbs_.rbegin(); limb != limbs_.rend(); ++limb)
    magnitude = (magnitude << kLimbBits) | *limb;
  constexpr auto kMax = static_cast<std::uint64_t>(std::numeric_limits<std::int64_t>::max());
  if (magnitude > kMax + (negative_ ? 1 : 0)) return std::nullopt;
  return static_cast<std::int64_t>(negative_ ? ~magnitude + 1 : magnitude);
}

double BigInt::to_double() const {
  if (limbs_.empty()) return 0;
  const double magnitude = nearest_quotient(limbs_, {1});
  return negative_ ? -magnitude : magnitude;
}

std::string BigInt::magnitude_digits(int base) const {
  // As many digits at once as one limb holds.
  std::uint32_t chunk = static_cast<std::uint32_t>(base);
  std::size_t chunk_digits = 1;
  while (std::uint64_t{chunk} * static_cast<std::uint64_t>(base) <= 0xFFFFFFFFU) {
    chunk *= static_cast<std::uint32_t>(base);
    ++chunk_digits;
  }
  std::string out;
  for (Limbs rest = limbs_; !rest.empty();) {
    std::uint32_t part = divide_small(rest, chunk);
    for (std::size_t i = 0; i < chunk_digits && (part != 0 || !rest.empty()); ++i) {
      out += "0123456789abcdefghijklmnopqrstuvwxyz"[part % static_cast<std::uint32_t>(base)];
      part /= static_cast<std::uint32_t>(base);
    }
  }
  if (base == 10 && out.size() > kBigIntDigitsMax) {
    fail("Exceeds the limit (" + std::to_string(kBigIntDigitsMax) +
         " digits) for integer string conversion");
  }
  std::ranges::reverse(out);
  return out.empty() ? "0" : out;
}

std::string BigInt::to_string() const {
  return (negative_ ? "-" : "") + magnitude_digits(10);
}

BigInt BigInt::operator-() const {
  return {limbs_, !negative_};
}

BigInt operator+(const BigInt& a, const BigInt& b) {
  if (a.negative_ == b.negative_) return {add(a.limbs_, b.limbs_), a.negative_};
  if (compare(a.limbs_, b.limbs_) >= 0) return {subtract(a.limbs_, b.limbs_), a.negative_};
  return {subtract(b.limbs_, a.limbs_), b.negative_};
}

BigInt operator*(const BigInt& a, const BigInt& b) {
  return {multiply(a.limbs_, b.limbs_), a.negative_ != b.negative_};
}

BigInt operator/(const BigInt& a, const BigInt& b) {
  Division parts = divide(a.limbs_, b.limbs_);
  const bool negative = a.negative_ != b.negative_;
  BigInt out(std::move(parts.quotient), negative);
  return negative && !parts.rest.empty() ? out - BigInt(1) : out;
}

BigInt operator%(const BigInt& a, const BigInt& b) {
  const BigInt rest(divide(a.limbs_, b.limbs_).rest, a.negative_);
  return rest.is_zero() || a.negative_ == b.negative_ ? rest : rest + b;
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
  if (a.is_zero()) return b.negative_ ? -0.0 : 0.0;
  const double magnitude = nearest_quotient(a.limbs_, b.limbs_);
  return a.negative_ != b.negative_ ? -magnitude : magnitude;
}

std::strong_ordering operator<=>(const BigInt& a, const BigInt& b) {
  if (a.negative_ != b.negative_) return b.negative_ <=> a.negative_;
  return a.negative_ ? compare(b.limbs_, a.limbs_) : compare(a.limbs_, b.limbs_);
}

}  // namespace coxswain::chat
