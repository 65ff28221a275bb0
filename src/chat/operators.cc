#include "chat/operators.h"

#include <algorithm>
#include <cmath>
#include <limits>

#include "chat/interpreter.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

const char* symbol_of(Operator op) {
  switch (op) {
    case Operator::kAdd:
      return "+";
    case Operator::kSubtract:
      return "-";
    case Operator::kMultiply:
      return "*";
    case Operator::kDivide:
      return "/";
    case Operator::kFloorDivide:
      return "//";
    case Operator::kModulo:
      return "%";
    case Operator::kPower:
      return "**";
    case Operator::kEqual:
      return "==";
    case Operator::kNotEqual:
      return "!=";
    case Operator::kLess:
      return "<";
    case Operator::kLessEqual:
      return "<=";
    case Operator::kGreater:
      return ">";
    case Operator::kGreaterEqual:
      return ">=";
    case Operator::kIn:
      return "in";
    case Operator::kNotIn:
      return "not in";
  }
  return "";
}

// A large integer is known by its digits alone.
void refuse_large(const Value& value) {
  if (value.is_large_int())
    fail("the integer " + value.as_digits().substr(0, 64) +
         " does not fit 64 bits: it can only be printed");
}

[[noreturn]] void unsupported(Operator op, const Value& left, const Value& right) {
  refuse_large(left);
  refuse_large(right);
  if (op == Operator::kAdd && left.is_string())
    fail("can only concatenate str (not \"" + type_name(right) + "\") to str");
  if (op == Operator::kAdd && left.is_list() && left.as_list().kind != ListKind::kGenerator) {
    fail("can only concatenate " + type_name(left) + " (not \"" + type_name(right) + "\") to " +
         type_name(left));
  }
  fail(std::string("unsupported operand type(s) for ") + symbol_of(op) + ": '" + type_name(left) +
       "' and '" + type_name(right) + "'");
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

// Empty if the result does not fit 64 bits. REQUIRES: exponent >= 0.
std::optional<std::int64_t> integer_power(std::int64_t base, std::int64_t exponent) {
  std::int64_t out = 1;
  for (; exponent > 0; exponent /= 2) {
    if (exponent % 2 != 0 && __builtin_mul_overflow(out, base, &out)) return std::nullopt;
    if (exponent > 1 && __builtin_mul_overflow(base, base, &base)) return std::nullopt;
  }
  return out;
}

double real_power(double base, double exponent) {
  if (base == 0 && exponent < 0) fail("0.0 cannot be raised to a negative power");
  const double out = std::pow(base, exponent);
  if (!std::isfinite(out) && std::isfinite(base) && std::isfinite(exponent))
    fail(std::isnan(out) ? "a power of a negative number with a fraction is complex"
                         : "Numerical result out of range");
  return out;
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
      return Value::real(real_power(a, b));
    default:
      break;
  }
  if (b == 0)
    fail(op == Operator::kDivide ? "division by zero" : "float division or modulo by zero");
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

Value integer_arithmetic(Operator op, std::int64_t a, std::int64_t b) {
  std::optional<std::int64_t> out = 0;
  bool overflows = false;
  switch (op) {
    case Operator::kAdd:
      overflows = __builtin_add_overflow(a, b, &*out);
      break;
    case Operator::kSubtract:
      overflows = __builtin_sub_overflow(a, b, &*out);
      break;
    case Operator::kMultiply:
      overflows = __builtin_mul_overflow(a, b, &*out);
      break;
    case Operator::kPower:
      if (b < 0) return real_arithmetic(op, static_cast<double>(a), static_cast<double>(b));
      out = integer_power(a, b);
      break;
    case Operator::kFloorDivide:
    case Operator::kModulo:
      if (b == 0) fail("integer division or modulo by zero");
      overflows =
          op == Operator::kFloorDivide && b == -1 && a == std::numeric_limits<std::int64_t>::min();
      if (!overflows) out = op == Operator::kModulo ? floor_modulo(a, b) : floor_divide(a, b);
      break;
    default:
      return real_arithmetic(op, static_cast<double>(a), static_cast<double>(b));
  }
  if (overflows || !out)
    fail("the result of " + std::to_string(a) + " " + symbol_of(op) + " " + std::to_string(b) +
         " does not fit 64 bits");
  return Value::integer(*out);
}

Value arithmetic(Operator op, const Value& left, const Value& right) {
  return left.is_float() || right.is_float()
             ? real_arithmetic(op, left.as_double(), right.as_double())
             : integer_arithmetic(op, left.as_int(), right.as_int());
}

Value repeat(Interpreter& interpreter, const Value& sequence, std::int64_t times) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(0, times));
  if (sequence.is_string()) {
    const Text& text = sequence.as_text();
    interpreter.reserve_output(text.bytes.size(), n);
    Text out;
    out.safe = text.safe;
    for (std::size_t i = 0; i < n && !text.empty(); ++i) out.append(text);
    return Value::string(std::move(out));
  }
  const List& list = sequence.as_list();
  interpreter.charge_product(list.items.size(), n);
  std::vector<Value> items;
  for (std::size_t i = 0; i < n && !list.items.empty(); ++i)
    items.insert(items.end(), list.items.begin(), list.items.end());
  return Value::list(std::move(items), list.kind);
}

bool is_sequence(const Value& value) {
  return value.is_string() || (value.is_list() && (value.as_list().kind == ListKind::kList ||
                                                   value.as_list().kind == ListKind::kTuple));
}

Value concatenate(Interpreter& interpreter, const Value& left, const Value& right) {
  if (left.is_string()) {
    interpreter.reserve_output(left.as_bytes().size() + right.as_bytes().size(), 1);
    const bool safe = left.as_text().safe || right.as_text().safe;
    Text out = safe && !left.as_text().safe ? escape_html(left.as_text()) : left.as_text();
    out.append(safe && !right.as_text().safe ? escape_html(right.as_text()) : right.as_text());
    out.safe = safe;
    return Value::string(std::move(out));
  }
  interpreter.charge_product(left.as_list().items.size() + right.as_list().items.size(), 1);
  std::vector<Value> items = left.as_list().items;
  items.insert(items.end(), right.as_list().items.begin(), right.as_list().items.end());
  return Value::list(std::move(items), left.as_list().kind);
}

}  // namespace

Value apply_binary(Interpreter& interpreter, Operator op, const Value& left, const Value& right) {
  require_defined(left);
  // What a text formats may be undefined.
  if (op == Operator::kModulo && left.is_string())
    return Value::string(percent_format(interpreter, left.as_text(), right));
  require_defined(right);
  if (left.is_number() && right.is_number()) return arithmetic(op, left, right);
  if (op == Operator::kMultiply && is_sequence(left) && right.is_integral())
    return repeat(interpreter, left, right.as_int());
  if (op == Operator::kMultiply && is_sequence(right) && left.is_integral())
    return repeat(interpreter, right, left.as_int());
  if (op == Operator::kAdd && is_sequence(left) && is_sequence(right) &&
      type_name(left) == type_name(right)) {
    return concatenate(interpreter, left, right);
  }
  unsupported(op, left, right);
}

void require_number(const Value& value, const char* what) {
  require_defined(value);
  refuse_large(value);
  if (!value.is_number())
    fail("bad operand type for " + std::string(what) + ": '" + type_name(value) + "'");
}

Value negate(const Value& value) {
  require_number(value, "unary -");
  return value.is_float() ? Value::real(-value.as_double())
                          : integer_arithmetic(Operator::kSubtract, 0, value.as_int());
}

Value truncate_number(const Value& value) {
  if (value.is_integral()) return Value::integer(value.as_int());
  const double real = value.as_double();
  if (std::isnan(real)) fail("cannot convert float NaN to integer");
  if (std::isinf(real)) fail("cannot convert float infinity to integer");
  if (!(real >= -0x1p63 && real < 0x1p63))
    fail("the integer of " + float_repr(real) + " does not fit 64 bits");
  return Value::integer(static_cast<std::int64_t>(real));
}

std::partial_ordering order(const Value& left, const Value& right, const char* symbol) {
  require_defined(left);
  require_defined(right);
  if (left.is_number() && right.is_number()) return compare_numbers(left, right);
  if (left.is_string() && right.is_string()) return left.as_bytes() <=> right.as_bytes();
  if (is_sequence(left) && is_sequence(right) && type_name(left) == type_name(right)) {
    const auto& a = left.as_list().items;
    const auto& b = right.as_list().items;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!(a[i] == b[i])) return order(a[i], b[i], symbol);
    }
    return a.size() <=> b.size();
  }
  refuse_large(left);
  refuse_large(right);
  fail(std::string("'") + symbol + "' not supported between instances of '" + type_name(left) +
       "' and '" + type_name(right) + "'");
}

bool contains(const Value& container, const Value& item) {
  switch (container.kind()) {
    case Value::Kind::kString:
      if (!item.is_string())
        fail("'in <string>' requires string as left operand, not " + type_name(item));
      return find_text(container.as_bytes(), item.as_bytes()) != std::string::npos;
    case Value::Kind::kUndefined:
      return false;  // it is an empty sequence
    case Value::Kind::kDict:
      if (!is_hashable(item)) fail("unhashable type: '" + type_name(item) + "'");
      return container.as_dict().find(item) != nullptr;
    case Value::Kind::kList:
      if (is_generator(container)) {  // looks no further than it must
        while (const Value* next = take_next(container)) {
          if (*next == item) return true;
        }
        return false;
      }
      return std::ranges::find(container.as_list().items, item) != container.as_list().items.end();
    default:
      fail("argument of type '" + type_name(container) + "' is not iterable");
  }
}

bool apply_comparison(Operator op, const Value& left, const Value& right) {
  switch (op) {
    case Operator::kEqual:
      return left == right;
    case Operator::kNotEqual:
      return !(left == right);
    case Operator::kLess:
      return order(left, right, "<") < 0;
    case Operator::kLessEqual:
      return order(left, right, "<=") <= 0;
    case Operator::kGreater:
      return order(left, right, ">") > 0;
    case Operator::kGreaterEqual:
      return order(left, right, ">=") >= 0;
    case Operator::kIn:
      return contains(right, left);
    default:
      return !contains(right, left);
  }
}

}  // namespace coxswain::chat
