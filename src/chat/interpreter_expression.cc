// Expressions.

#include <algorithm>
#include <optional>
#include <utility>

#include "chat/builtins.h"
#include "chat/interpreter_guards.h"
#include "chat/methods.h"
#include "chat/operators.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

std::string object_name(const Value& object) {
  return object.is_none() ? "None" : type_name(object) + " object";
}

bool is_empty(const CallArguments& arguments) {
  return arguments.positional.empty() && arguments.named.empty() && !arguments.star &&
         !arguments.double_star;
}

Value no_element(const Value& object, std::int64_t index) {
  return Value::undefined(object_name(object) + " has no element " + std::to_string(index));
}

}  // namespace

Value Interpreter::evaluate(const Expr& expr) {
  if (expr.is_place) {
    Value scratch;
    const Value& found = resolve(expr, scratch);
    if (&found != &scratch) return found;
    return scratch;
  }
  const DepthGuard depth(*this);
  charge(1);
  switch (expr.kind) {
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
    case ExprKind::kFilter:
      return evaluate_filter(expr);
    case ExprKind::kTest:
      return evaluate_test(expr);
    default:
      return evaluate_operator(expr);
  }
}

const Value& Interpreter::resolve(const Expr& expr, Value& scratch) {
  if (!expr.is_place) return scratch = evaluate(expr);
  charge(1);
  if (expr.kind == ExprKind::kConstant) return expr.constant;
  if (expr.kind != ExprKind::kName) return resolve_member(expr, scratch);
  const Value* variable = find_variable(expr.name);
  return variable != nullptr ? *variable : scratch = look_up(expr.name);
}

// REQUIRES: a place that is an attribute or an item.
const Value& Interpreter::resolve_member(const Expr& expr, Value& scratch) {
  const DepthGuard depth(*this);
  Value object_scratch;
  const Value& object = resolve(*expr.children[0], object_scratch);
  // What a variable holds can stay where it is.
  const bool stays = object.is_dict() && &object != &object_scratch;
  if (expr.kind == ExprKind::kAttribute) {
    const Value* member = stays && !expr.hides_member ? object.as_dict().find(expr.text) : nullptr;
    return member != nullptr ? *member : scratch = attribute(object, expr.text);
  }
  charge(1);
  const Value& key = expr.children[1]->constant;
  const Value* member = stays ? object.as_dict().find(key) : nullptr;
  return member != nullptr ? *member : scratch = item(object, key);
}

bool Interpreter::is_true(const Expr& expr) {
  Value scratch;
  return resolve(expr, scratch).truthy();
}

Value Interpreter::evaluate_filter(const Expr& expr) {
  if (is_empty(expr.arguments)) {
    Value scratch;
    return apply_filter(*this, *expr.filter, resolve(*expr.children[0], scratch), {});
  }
  const Value input = evaluate(*expr.children[0]);
  return apply_filter(*this, *expr.filter, input, evaluate_arguments(expr.arguments));
}

Value Interpreter::evaluate_test(const Expr& expr) {
  if (is_empty(expr.arguments)) {
    Value scratch;
    return Value::boolean(apply_test(*this, *expr.test, resolve(*expr.children[0], scratch), {}));
  }
  const Value input = evaluate(*expr.children[0]);
  return Value::boolean(apply_test(*this, *expr.test, input, evaluate_arguments(expr.arguments)));
}

Value Interpreter::evaluate_operator(const Expr& expr) {
  switch (expr.kind) {
    case ExprKind::kNot:
      return Value::boolean(!is_true(*expr.children[0]));
    case ExprKind::kNegative:
      return negate(evaluate(*expr.children[0]));
    case ExprKind::kPositive: {
      const Value value = evaluate(*expr.children[0]);
      require_number(value, "unary +");
      return value.is_bool() ? Value::integer(value.as_int()) : value;
    }
    case ExprKind::kSum: {
      Text text;
      if (auto value = evaluate_sum(expr, text)) return *std::move(value);
      return Value::string(std::move(text));
    }
    case ExprKind::kBinary: {
      const Value left = evaluate(*expr.children[0]);
      return apply_binary(*this, expr.op, left, evaluate(*expr.children[1]));
    }
    case ExprKind::kConcat:
      return evaluate_concat(expr);
    case ExprKind::kCompare:
      return evaluate_compare(expr);
    case ExprKind::kAnd:
    case ExprKind::kOr: {
      const bool ends_at = expr.kind == ExprKind::kOr;
      Value value;
      for (const ExprPtr& child : expr.children) {
        value = evaluate(*child);
        if (value.truthy() == ends_at) break;
      }
      return value;
    }
    case ExprKind::kConditional:
      if (is_true(*expr.children[1])) return evaluate(*expr.children[0]);
      return expr.children[2] ? evaluate(*expr.children[2])
                              : Value::undefined(
                                    "the inline if-expression evaluated to false and no else "
                                    "section was defined");
    default:
      return Value();
  }
}

std::optional<Value> Interpreter::evaluate_sum(const Expr& sum, Text& text) {
  std::optional<Value> total;
  for (std::size_t i = 0; i < sum.children.size(); ++i) {
    Value scratch;
    const Value& part = resolve(*sum.children[i], scratch);
    // Texts of one kind of safety are strung together, anything else is added in the general way.
    if (!total && part.is_string() && (i == 0 || part.as_text().safe == text.safe)) {
      const std::size_t before = text.bytes.size();
      text.append(part.as_text());
      text.safe = part.as_text().safe;
      grow_output(before, text.bytes.size());
      continue;
    }
    if (i == 0) {
      total = part;
      continue;
    }
    if (!total) total = Value::string(std::exchange(text, {}));
    total = apply_binary(*this, Operator::kAdd, *total, part);
  }
  return total;
}

Value Interpreter::evaluate_concat(const Expr& expr) {
  Text out;
  for (const ExprPtr& child : expr.children) {
    const std::size_t before = out.bytes.size();
    out.append(to_text(evaluate(*child)));
    grow_output(before, out.bytes.size());
  }
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

// The smaller one of two values, or all of what is searched.
void Interpreter::charge_comparison(Operator op, const Value& left, const Value& right) {
  const bool searches = op == Operator::kIn || op == Operator::kNotIn;
  if (searches && right.is_dict()) return;
  const Extent extent = right.extent();
  const std::size_t nodes = searches ? extent.nodes : std::min(extent.nodes, left.extent().nodes);
  const bool orders = op != Operator::kEqual && op != Operator::kNotEqual && !searches;
  charge_product(nodes / 16, orders ? extent.depth : 1);
}

Value Interpreter::evaluate_compare(const Expr& expr) {
  Value left_scratch;
  Value right_scratch;
  const Value* left = &resolve(*expr.children[0], left_scratch);
  for (std::size_t i = 0; i < expr.ops.size(); ++i) {
    const Expr& next = *expr.children[i + 1];
    // What is evaluated may move what `left` refers to.
    if (!next.is_place && left != &left_scratch) left = &(left_scratch = *left);
    const Value* right = &resolve(next, right_scratch);
    charge_comparison(expr.ops[i], *left, *right);
    if (!apply_comparison(expr.ops[i], *left, *right)) return Value::boolean(false);
    left = right == &right_scratch ? &(left_scratch = std::move(right_scratch)) : right;
  }
  return Value::boolean(true);
}

Arguments Interpreter::evaluate_arguments(const CallArguments& arguments) {
  Arguments out;
  out.positional = evaluate_all(arguments.positional);
  for (const auto& [name, expr] : arguments.named) out.named.emplace_back(name, evaluate(*expr));
  if (arguments.star) {
    for (Value& value : items(evaluate(*arguments.star)))
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
  return apply_filter(*this, *filter.filter, inner, evaluate_arguments(filter.arguments));
}

Value Interpreter::attribute(const Value& object, std::string_view name) {
  require_defined(object);
  if (object.is_callable()) return object.as_callable().attribute(*this, name);
  if (object.is_list() && object.as_list().kind == ListKind::kGroup) {
    if (name == "grouper") return object.as_list().items[0];
    if (name == "list") return object.as_list().items[1];
  }
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
  } else if (key.is_integral() && is_indexable(object)) {
    const std::vector<Value>& items = object.as_list().items;
    const auto n = static_cast<std::int64_t>(items.size());
    const std::int64_t index = key.as_int() < 0 ? key.as_int() + n : key.as_int();
    if (index >= 0 && index < n) return items[static_cast<std::size_t>(index)];
    return no_element(object, key.as_int());
  } else if (key.is_integral() && object.is_string()) {
    charge(object.as_bytes().size() / 64);
    const TextSpan span = code_point_span(object.as_bytes(), key.as_int());
    if (span.end == 0) return no_element(object, key.as_int());
    return Value::string(object.as_text().slice(span.begin, span.end));
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
  if (object.is_string()) charge(object.as_bytes().size() / 64);
  const auto offsets =
      object.is_string() ? code_point_offsets(object.as_bytes()) : std::vector<std::size_t>{};
  const auto n = static_cast<std::int64_t>(object.is_string() ? offsets.size() - 1
                                                              : object.as_list().items.size());
  const auto clamp = [&](std::optional<std::int64_t> given, std::int64_t default_value) {
    if (!given) return default_value;
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
  if (object.is_string()) return Value::string(std::move(text));
  return Value::list(std::move(items), is_tuple(object) ? ListKind::kTuple : ListKind::kList);
}

}  // namespace coxswain::chat
