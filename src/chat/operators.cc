#include "chat/operators.h"

#include <algorithm>
#include <cmath>

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

[[noreturn]] void unsupported(Operator op, const Value& left, const Value& right) {
  if (op == Operator::kAdd && left.is_string())
    fail("can only concatenate str (not \"" + type_name(right) + "\") to str");
  if (op == Operator::kAdd && left.is_list() && left.as_list().kind != ListKind::kGenerator) {
    fail("can only concatenate " + type_name(left) + " (not \"" + type_name(right) + "\") to " +
         type_name(left));
  }
  fail(std::string("unsupported operand type(s) for ") + symbol_of(op) + ": '" + type_name(left) +
       "' and '" + type_name(right) + "'");
}

[[noreturn]] void overflow() {
  fail("integer result does not fit 64 bits");
}

std::int64_t floor_divide(std::int64_t a, std::int64_t b) {
  if (b == -1 && a == std::numeric_limits<std::int64_t>::min()) overflow();
  const std::int64_t quotient = a / b;
  return a % b != 0 && (a < 0) != (b < 0) ? quotient - 1 : quotient;
}

std::int64_t floor_modulo(std::int64_t a, std::int64_t b) {
  if (b == -1) return 0;
  const std::int64_t rest = a % b;
  return rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest;
}

Value power(std::int64_t base, std::int64_t exponent) {
  if (exponent < 0) {
    if (base == 0) fail("0.0 cannot be raised to a negative power");
    return Value::real(std::pow(static_cast<double>(base), static_cast<double>(exponent)));
  }
  std::int64_t out = 1;
  for (std::int64_t factor = base;; exponent >>= 1) {
    if ((exponent & 1) != 0 && __builtin_mul_overflow(out, factor, &out)) overflow();
    if (exponent <= 1) return Value::integer(out);
    if (__builtin_mul_overflow(factor, factor, &factor)) overflow();
  }
}

Value integer_arithmetic(Operator op, std::int64_t a, std::int64_t b) {
  std::int64_t out = 0;
  switch (op) {
    case Operator::kAdd:
      if (__builtin_add_overflow(a, b, &out)) overflow();
      return Value::integer(out);
    case Operator::kSubtract:
      if (__builtin_sub_overflow(a, b, &out)) overflow();
      return Value::integer(out);
    case Operator::kMultiply:
      if (__builtin_mul_overflow(a, b, &out)) overflow();
      return Value::integer(out);
    case Operator::kDivide:
      if (b == 0) fail("division by zero");
      return Value::real(static_cast<double>(a) / static_cast<double>(b));
    case Operator::kFloorDivide:
      if (b == 0) fail("integer division or modulo by zero");
      return Value::integer(floor_divide(a, b));
    case Operator::kModulo:
      if (b == 0) fail("integer modulo by zero");
      return Value::integer(floor_modulo(a, b));
    default:
      return power(a, b);
  }
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
      return Value::real(std::pow(a, b));
    default:
      break;
  }
  if (b == 0) fail("float division by zero");
  if (op == Operator::kDivide) return Value::real(a / b);
  if (op == Operator::kFloorDivide) return Value::real(std::floor(a / b));
  const double rest = std::fmod(a, b);
  return Value::real(rest != 0 && (rest < 0) != (b < 0) ? rest + b : rest);
}

Value repeat(Interpreter& interpreter, const Value& sequence, std::int64_t times) {
  const auto n = static_cast<std::size_t>(std::max<std::int64_t>(0, times));
  if (sequence.is_string()) {
    const Text& text = sequence.as_text();
    interpreter.reserve_output(text.bytes.size(), n);
    Text out;
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

Value escaped_for_format(const Value& value) {
  if (value.is_string() && !value.as_text().safe)
    return Value::string(escape_html(value.as_text()));
  return value;
}

// A safe text stays safe: strings that are put into it are escaped first.
Value format_safe(const Text& format, const Value& arguments) {
  Value values = escaped_for_format(arguments);
  if (is_tuple(arguments)) {
    std::vector<Value> items;
    for (const Value& item : arguments.as_list().items) items.push_back(escaped_for_format(item));
    values = Value::tuple(std::move(items));
  } else if (arguments.is_dict()) {
    Dict named;
    for (const auto& [key, value] : arguments.as_dict().items())
      named.set(key, escaped_for_format(value));
    values = Value::dict(std::move(named));
  }
  Text out = percent_format(format, values);
  out.safe = true;
  return Value::string(std::move(out));
}

}  // namespace

Value apply_binary(Interpreter& interpreter, Operator op, const Value& left, const Value& right) {
  require_defined(left);
  require_defined(right);
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral())
      return integer_arithmetic(op, left.as_int(), right.as_int());
    return real_arithmetic(op, left.as_double(), right.as_double());
  }
  if (op == Operator::kModulo && left.is_string())
    return left.as_text().safe ? format_safe(left.as_text(), right)
                               : Value::string(percent_format(left.as_text(), right));
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

int order(const Value& left, const Value& right, const char* symbol) {
  require_defined(left);
  require_defined(right);
  if (left.is_number() && right.is_number()) {
    if (left.is_integral() && right.is_integral())
      return left.as_int() < right.as_int() ? -1 : left.as_int() > right.as_int();
    return left.as_double() < right.as_double() ? -1 : left.as_double() > right.as_double();
  }
  if (left.is_string() && right.is_string()) return left.as_bytes().compare(right.as_bytes());
  if (is_sequence(left) && is_sequence(right) && type_name(left) == type_name(right)) {
    const auto& a = left.as_list().items;
    const auto& b = right.as_list().items;
    for (std::size_t i = 0; i < std::min(a.size(), b.size()); ++i) {
      if (!(a[i] == b[i])) return order(a[i], b[i], symbol);
    }
    return a.size() < b.size() ? -1 : a.size() > b.size();
  }
  fail(std::string("'") + symbol + "' not supported between instances of '" + type_name(left) +
       "' and '" + type_name(right) + "'");
}

bool contains(const Value& container, const Value& item) {
  switch (container.kind()) {
    case Value::Kind::kString:
      if (!item.is_string())
        fail("'in <string>' requires string as left operand, not " + type_name(item));
      return container.as_bytes().find(item.as_bytes()) != std::string::npos;
    case Value::Kind::kUndefined:
      return false;  // it is an empty sequence
    case Value::Kind::kDict:
      if (item.is_dict() || (item.is_list() && item.as_list().kind == ListKind::kList))
        fail("unhashable type: '" + type_name(item) + "'");
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

Value negate(const Value& value) {
  require_defined(value);
  if (value.is_float()) return Value::real(-value.as_double());
  if (!value.is_integral()) fail("bad operand type for unary -: '" + type_name(value) + "'");
  if (value.as_int() == std::numeric_limits<std::int64_t>::min()) overflow();
  return Value::integer(-value.as_int());
}

}  // namespace coxswain::chat
