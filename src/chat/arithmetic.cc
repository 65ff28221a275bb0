#include "chat/arithmetic.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <limits>

#include "chat/interpreter.h"

namespace coxswain::chat {
namespace {

constexpr std::int64_t kDigitsMin = -(1 << 20);  // zero long before
constexpr std::int64_t kInt64Min = std::numeric_limits<std::int64_t>::min();

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// The result where it fits 64 bits; empty where the exact way has to be taken.
std::optional<Value> small_arithmetic(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(a, b, &out);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &out);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &out);
      break;
    case Operator::kFloorDivide:
      overflows = b == 0 || (b == -1 && a == kInt64Min);
      if (!overflows) out = floor_divide(a, b);
      break;
    case Operator::kModulo:
      overflows = b == 0;
      if (!overflows) out = floor_modulo(a, b);
      break;
    case Operator::kDivide: {
      constexpr std::int64_t kExact = std::int64_t{1} << 53;  // integers up to here are doubles
      if (b == 0 || std::max(a, b) > kExact || std::min(a, b) < -kExact) return std::nullopt;
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    }
    default:
      return std::nullopt;
  }
  return overflows ? std::nullopt : std::optional(Value::integer(out));
}

double finite_power(double base, double exponent) {
  if (base == 0 && exponent < 0) fail("0.0 cannot be raised to a negative power");
  if (base < 0 && std::isfinite(base) && std::isfinite(exponent) &&
      exponent != std::floor(exponent))
    fail("a power of a negative number with a fraction is complex, which templates cannot use");
  const double out = std::pow(base, exponent);
  if (std::isinf(out) && std::isfinite(base) && std::isfinite(exponent))
    fail("Numerical result out of range");
  return out;
}

Value integer_power(Interpreter& interpreter, const Value& base, const Value& exponent) {
  const BigInt factor = base.to_big_int();
  const BigInt times = exponent.to_big_int();
  if (times.is_negative()) return Value::real(finite_power(base.as_double(), exponent.as_double()));
  if (factor.bit_length() <= 1) {  // 0, 1 and -1 to any power
    const bool negates = factor.is_negative() && !times.is_odd();
    return times.is_zero() ? Value::integer(1) : Value::integer(negates ? -factor : factor);
  }
  interpreter.charge(64);
  return Value::integer(
      factor.power(static_cast<std::uint64_t>(times.to_int64().value_or(std::int64_t{1} << 62))));
}

Value big_arithmetic(Interpreter& interpreter, Operator op, const Value& left, const Value& right) {
  if (op == Operator::kPower) return integer_power(interpreter, left, right);
  const BigInt a = left.to_big_int();
  const BigInt b = right.to_big_int();
  interpreter.charge_product(1 + a.bit_length() / 256, 1 + b.bit_length() / 256);
  switch (op) {
    case Operator::kAdd:
      return Value::integer(a + b);
    case Operator::kSubtract:
      return Value::integer(a - b);
    case Operator::kMultiply:
      return Value::integer(a * b);
    default:
      break;
  }
  if (b.is_zero())
    fail(op == Operator::kDivide ? "division by zero" : "integer division or modulo by zero");
  if (op == Operator::kFloorDivide) return Value::integer(a / b);
  if (op == Operator::kModulo) return Value::integer(a % b);
  const double quotient = BigInt::true_quotient(a, b);
  if (std::isinf(quotient)) fail("integer division result too large for a float");
  return Value::real(quotient);
}

Value real_arithmetic(Operator op, double a, double b) {
  switch (op) {
    case Operator::kAdd:
      return Value::real(a + b);
    case Operator::kSubtract:
      return Value::real(a - b);
    case Operator::kMultiply:
      return Value::real(a * b);
    case Operator::kPower:
      return Value::real(finite_power(a, b));
    default:
      break;
  }
  if (b == 0) fail("float division by zero");
  if (op == Operator::kDivide) return Value::real(a / b);
  // As CPython: the rest has the sign of the divisor, the quotient follows from it.
  double rest = std::fmod(a, b);
  double quotient = (a - rest) / b;
  if (rest == 0) {
    rest = std::copysign(0.0, b);
  } else if ((rest < 0) != (b < 0)) {
    rest += b;
    quotient -= 1;
  }
  if (op == Operator::kModulo) return Value::real(rest);
  if (quotient == 0) return Value::real(std::copysign(0.0, a / b));
  const double below = std::floor(quotient);
  return Value::real(quotient - below > 0.5 ? below + 1 : below);
}

// To a multiple of 10^zeros, ties to even. `has_fraction`: the number is a bit larger than given.
BigInt round_whole(const BigInt& number, std::int64_t zeros, bool has_fraction) {
  if (zeros > static_cast<std::int64_t>(kBigIntDigitsMax)) return {};
  const BigInt unit = BigInt(10).power(static_cast<std::uint64_t>(zeros));
  const BigInt rest = number % unit;
  const BigInt below = number - rest;
  const auto side = rest + rest <=> unit;
  const bool up = side > 0 || (side == 0 && (has_fraction || (below / unit).is_odd()));
  return up ? below + unit : below;
}

}  // namespace

Value apply_arithmetic(Interpreter& interpreter,
                       Operator op,
                       const Value& left,
                       const Value& right) {
  if (!left.is_whole() || !right.is_whole())
    return real_arithmetic(op, left.as_double(), right.as_double());
  if (left.is_integral() && right.is_integral()) {
    if (auto small = small_arithmetic(op, left.as_int(), right.as_int())) return *std::move(small);
  }
  return big_arithmetic(interpreter, op, left, right);
}

Value negate(const Value& value) {
  require_defined(value);
  if (value.is_float()) return Value::real(-value.as_double());
  if (!value.is_whole()) fail("bad operand type for unary -: '" + type_name(value) + "'");
  if (value.is_big_int() || value.as_int() == kInt64Min) return Value::integer(-value.to_big_int());
  return Value::integer(-value.as_int());
}

Value round_number(const Value& value, std::int64_t digits) {
  if (value.is_whole()) {
    if (digits < 0)
      return Value::integer(round_whole(value.to_big_int(), -std::max(digits, kDigitsMin), false));
    return value.is_bool() ? Value::integer(value.as_int()) : value;
  }
  const double real = value.as_double();
  // Every double is kept as it is beyond this.
  if (!std::isfinite(real) || digits > 323) return value;
  std::array<char, 700> buffer;
  if (digits >= 0) {
    // Decimal digits, correctly rounded from the exact binary value.
    const auto end = std::to_chars(buffer.data(),
                                   buffer.data() + buffer.size(),
                                   real,
                                   std::chars_format::fixed,
                                   static_cast<int>(digits))
                         .ptr;
    double out = 0;
    std::from_chars(buffer.data(), end, out);
    return Value::real(out);
  }
  const double magnitude = std::fabs(real);
  const double out = round_whole(BigInt::from_double(magnitude),
                                 -std::max(digits, kDigitsMin),
                                 magnitude != std::trunc(magnitude))
                         .to_double();
  return Value::real(std::copysign(out, real));
}

Value truncate_number(const Value& value) {
  if (value.is_whole()) return value.is_bool() ? Value::integer(value.as_int()) : value;
  const double real = value.as_double();
  if (std::isnan(real)) fail("cannot convert float NaN to integer");
  if (std::isinf(real)) fail("cannot convert float infinity to integer");
  return Value::integer(BigInt::from_double(real));
}

}  // namespace coxswain::chat
