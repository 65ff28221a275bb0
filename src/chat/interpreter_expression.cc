// Expressions.

#include <algorithm>
#include <optional>
#include <utility>

#include "chat/arithmetic.h"
#include "chat/html.h"
#include "chat/interpreter.h"
#include "chat/operators.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

std::string object_name(const Value& object) {
  return object.is_none() ? "None" : type_name(object) + " object";
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr) {
  charge(1);
  switch (expr.kind) {
    case ExprKind::kConstant:
      return expr.constant;
    case ExprKind::kName:
      return look_up(expr.name);
    case ExprKind::kList:
      return Value::list(evaluate_all(expr.children));
    case ExprKind::kTuple:
      return Value::tuple(evaluate_all(expr.children));
    case ExprKind::kDict:
      return evaluate_dict(expr);
    case ExprKind::kAttribute:
      return attribute(evaluate(*expr.children[0]), expr.text);
    case ExprKind::kItem:
      if (expr.children[1]->kind == ExprKind::kSlice) return evaluate_slice(expr);
      {
        const Value object = evaluate(*expr.children[0]);
        return item(object, evaluate(*expr.children[1]));
      }
    case ExprKind::kSlice:
      fail("a slice stands outside of an index");
    case ExprKind::kCall:
      return evaluate_call(expr);
    case ExprKind::kFilter: {
      const Value input = evaluate(*expr.children[0]);
      return apply_filter(*this, expr.text, input, evaluate_arguments(expr.arguments));
    }
    case ExprKind::kTest: {
      const Value input = evaluate(*expr.children[0]);
      return Value::boolean(
          apply_test(*this, expr.text, input, evaluate_arguments(expr.arguments)));
    }
    default:
      return evaluate_operator(expr);
  }
}

Value Interpreter::evaluate_operator(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kNot:
      return Value::boolean(!evaluate(*expr.children[0]).truthy());
    case ExprKind::kNegative:
      return negate(evaluate(*expr.children[0]));
    case ExprKind::kPositive: {
      const Value value = evaluate(*expr.children[0]);
      if (!value.is_number()) fail("bad operand type for unary +: '" + type_name(value) + "'");
      return value.is_bool() ? Value::integer(value.as_int()) : value;
    }
    case ExprKind::kBinary: {
      const Value left = evaluate(*expr.children[0]);
      return apply_binary(*this, expr.op, left, evaluate(*expr.children[1]));
    }
    case ExprKind::kConcat:
      return evaluate_concat(expr);
    case ExprKind::kCompare:
      return evaluate_compare(expr);
    case ExprKind::kAnd: {
      Value left = evaluate(*expr.children[0]);
      return left.truthy() ? evaluate(*expr.children[1]) : left;
    }
    case ExprKind::kOr: {
      Value left = evaluate(*expr.children[0]);
      return left.truthy() ? left : evaluate(*expr.children[1]);
    }
    case ExprKind::kConditional:
      if (evaluate(*expr.children[1]).truthy()) return evaluate(*expr.children[0]);
      return expr.children[2] ? evaluate(*expr.children[2])
                              : Value::undefined(
                                    "the inline if-expression evaluated to false and no else "
                                    "section was defined");
    default:
      return Value();
  }
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  std::vector<Text> parts;
  std::size_t n_bytes = 0;
  for (const ExprPtr& child : expr.children) {
    parts.push_back(to_text(evaluate(*child)));
    n_bytes += parts.back().bytes.size();
    reserve_output(n_bytes, 1);
  }
  Text out;
  out.safe = expr.escaping == Escaping::kOn && std::ranges::any_of(parts, &Text::safe);
  for (const Text& part : parts) out.append(out.safe && !part.safe ? escape_html(part) : part);
  return Value::string(std::move(out));
}

std::vector<Value> Interpreter::evaluate_all(const std::vector<ExprPtr>& exprs) {
  std::vector<Value> out;
  out.reserve(exprs.size());
  for (const ExprPtr& expr : exprs) out.push_back(evaluate(*expr));
  return out;
}

Value Interpreter::evaluate_dict(const Expr& expr) {
  Dict out;
  for (std::size_t i = 0; i < expr.children.size(); i += 2) {
    Value key = evaluate(*expr.children[i]);
    if (!is_hashable(key)) fail("unhashable type: '" + type_name(key) + "'");
    out.set(std::move(key), evaluate(*expr.children[i + 1]));
  }
  return Value::dict(std::move(out));
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left = evaluate(*expr.children[0]);
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    Value right = evaluate(*expr.children[i + 1]);
    if (!apply_comparison(expr.ops[i], left, right)) return Value::boolean(false);
    left = std::move(right);
  }
  return Value::boolean(true);
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments) {
  Arguments out;
  out.positional = evaluate_all(arguments.positional);
  for (const auto& [name, expr] : arguments.named) out.named.emplace_back(name, evaluate(*expr));
  if (arguments.star) {
    for (Value& value : iterate(evaluate(*arguments.star)))
      out.positional.push_back(std::move(value));
  }
  if (arguments.double_star) {
    const Value mapping = evaluate(*arguments.double_star);
    if (!mapping.is_dict()) fail("argument after ** must be a mapping, not " + type_name(mapping));
    for (const auto& [key, value] : mapping.as_dict().items()) {
      if (!key.is_string()) fail("keywords must be strings");
      out.named.emplace_back(key.as_bytes(), value);
    }
  }
  return out;
}

Value Interpreter::evaluate_call(const Expr& expr) {
  const Value callee = evaluate(*expr.children[0]);
  return call(callee, evaluate_arguments(expr.arguments));
}

Value Interpreter::call(const Value& callee, const Arguments& arguments) {
  require_defined(callee);
  if (!callee.is_callable()) fail("'" + type_name(callee) + "' object is not callable");
  return callee.as_callable().call(*this, arguments);
}

Value Interpreter::apply_filters(const Expr& filter, const Value& input) {
  if (filter.kind != ExprKind::kFilter) return input;
  const Value inner = apply_filters(*filter.children[0], input);
  return apply_filter(*this, filter.text, inner, evaluate_arguments(filter.arguments));
}

namespace {

// A list that takes numbers as keys: no generator and no view of a mapping.
bool is_indexable(const Value& value) {
  return value.is_list() && !is_generator(value) && value.as_list().kind != ListKind::kDictView;
}

}  // namespace

Value Interpreter::attribute(const Value& object, std::string_view name) {
  require_defined(object);
  if (object.is_callable()) return object.as_callable().attribute(*this, name);
  if (object.is_list() && object.as_list().kind == ListKind::kGroup) {
    if (name == "grouper") return object.as_list().items[0];
    if (name == "list") return object.as_list().items[1];
  }
  if (object.is_number() && (name == "real" || name == "numerator") &&
      (name == "real" || object.is_whole()))
    return object.is_bool() ? Value::integer(object.as_int()) : object;
  const Value* member = nullptr;
  if (object.kind() == Value::Kind::kNamespace)
    member = object.as_namespace().attributes.find(name);
  if (member != nullptr) return *member;
  if (!name.starts_with('_')) {
    Value method = find_method(object, name);
    if (!method.is_undefined()) return method;
    if (is_mutating_method(object, name)) {
      return Value::undefined("access to attribute '" + std::string(name) + "' of '" +
                              type_name(object) + "' object is unsafe.");
    }
  }
  if (object.is_dict()) member = object.as_dict().find(name);
  if (member != nullptr) return *member;
  return Value::undefined("'" + object_name(object) + "' has no attribute '" +
                          std::string(name.substr(0, 64)) + "'");
}

Value Interpreter::item(const Value& object, const Value& key) {
  require_defined(object);
  if (object.is_dict()) {
    if (const Value* member = object.as_dict().find(key)) return *member;
  } else if (key.is_integral() && (is_indexable(object) || object.is_string())) {
    const std::vector<Value> items = object.is_list() ? std::vector<Value>{} : iterate(object);
    const std::vector<Value>& sequence = object.is_list() ? object.as_list().items : items;
    const auto n = static_cast<std::int64_t>(sequence.size());
    const std::int64_t index = key.as_int() < 0 ? key.as_int() + n : key.as_int();
    if (index >= 0 && index < n) {
      const Value& found = sequence[static_cast<std::size_t>(index)];
      if (!object.is_string() || !object.as_text().safe) return found;
      Text character = found.as_text();
      character.safe = true;
      return Value::string(std::move(character));
    }
    return Value::undefined(object_name(object) + " has no element " +
                            std::to_string(key.as_int()));
  }
  if (key.is_string()) return attribute(object, key.as_bytes());
  return Value::undefined(object_name(object) + " has no element " +
                          to_text(key).bytes.substr(0, 64));
}

Value Interpreter::evaluate_slice(const Expr& expr) {
  const Value object = evaluate(*expr.children[0]);
  require_defined(object);
  if (!is_indexable(object) && !object.is_string())
    fail("'" + type_name(object) + "' object is not subscriptable");
  const Expr& slice = *expr.children[1];
  const auto part = [&](std::size_t i) -> std::optional<std::int64_t> {
    if (!slice.children[i]) return std::nullopt;
    const Value value = evaluate(*slice.children[i]);
    if (value.is_none()) return std::nullopt;
    if (!value.is_integral())
      fail("slice indices must be integers or None or have an __index__ method");
    return value.as_int();
  };
  const std::optional<std::int64_t> begin_given = part(0);
  const std::optional<std::int64_t> end_given = part(1);
  const std::int64_t step = part(2).value_or(1);
  if (step == 0) fail("slice step cannot be zero");
  const auto offsets =
      object.is_string() ? code_point_offsets(object.as_bytes()) : std::vector<std::size_t>{};
  const auto n = static_cast<std::int64_t>(object.is_string() ? offsets.size() - 1
                                                              : object.as_list().items.size());
  const auto clamp = [&](std::optional<std::int64_t> given, std::int64_t otherwise) {
    if (!given) return otherwise;
    const std::int64_t index = *given < 0 ? *given + n : *given;
    return std::clamp<std::int64_t>(index, step > 0 ? 0 : -1, step > 0 ? n : n - 1);
  };
  const std::int64_t begin = clamp(begin_given, step > 0 ? 0 : n - 1);
  const std::int64_t end = clamp(end_given, step > 0 ? n : -1);
  if (object.is_string() && step == 1) {
    const auto from = static_cast<std::size_t>(begin);
    return Value::string(object.as_text().slice(
        offsets[from], offsets[static_cast<std::size_t>(std::max(begin, end))]));
  }
  Text text;
  text.safe = object.is_string() && object.as_text().safe;
  std::vector<Value> items;
  for (std::int64_t i = begin; step > 0 ? i < end : i > end; i += step) {
    charge(1);
    const auto at = static_cast<std::size_t>(i);
    if (object.is_string())
      text.append(object.as_text().slice(offsets[at], offsets[at + 1]));
    else
      items.push_back(object.as_list().items[at]);
    // The next index could overflow only when the end is already passed.
    if (step > 0 ? step > end - i : step < end - i) break;
  }
  return object.is_string()
             ? Value::string(std::move(text))
             : Value::list(std::move(items), is_tuple(object) ? ListKind::kTuple : ListKind::kList);
}

}  // namespace coxswain::chat
