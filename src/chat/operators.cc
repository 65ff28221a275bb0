#include "chat/operators.h"

#include <algorithm>

#include "chat/arithmetic.h"
#include "chat/html.h"
#include "chat/interpreter.h"
#include "chat/python_format.h"
#include "chat/sets.h"

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
  if (left.is_number() && right.is_number()) return apply_arithmetic(interpreter, op, left, right);
  if (op == Operator::kMultiply && is_sequence(left) && right.is_integral())
    return repeat(interpreter, left, right.as_int());
  if (op == Operator::kMultiply && is_sequence(right) && left.is_integral())
    return repeat(interpreter, right, left.as_int());
  if (op == Operator::kAdd && is_sequence(left) && is_sequence(right) &&
      type_name(left) == type_name(right)) {
    return concatenate(interpreter, left, right);
  }
  if (op == Operator::kSubtract && (is_set_like(left) || is_set_like(right))) {
    Value difference = subtract_sets(interpreter, left, right);
    if (!difference.is_undefined()) return difference;
  }
  unsupported(op, left, right);
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
  if (is_set_like(left) && is_set_like(right)) return compare_sets(left, right);
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
      if ((container.as_list().view_name == "dict_keys" ||
           container.as_list().kind == ListKind::kSet) &&
          !is_hashable(item))
        fail("unhashable type: '" + type_name(item) + "'");
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
