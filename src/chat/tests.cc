// The built-in tests ("x is defined").

#include <algorithm>

#include "chat/interpreter.h"
#include "chat/operators.h"
#include "chat/parser.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

struct TestCall {
  Interpreter& interpreter;
  const Value& input;
  const Arguments& arguments;

  const Value& argument() const {
    if (arguments.positional.empty()) fail("the test takes an argument");
    return arguments.positional[0];
  }
};

bool is_sequence(const Value& v) {
  return v.is_undefined() || v.is_string() || v.is_dict() ||
         (v.is_list() && v.as_list().kind != ListKind::kGenerator &&
          v.as_list().kind != ListKind::kDictView && v.as_list().kind != ListKind::kSet);
}

// The rest of a division as Python's % has it.
Value remainder_of(const TestCall& c, const Value& divisor) {
  return apply_binary(c.interpreter, Operator::kModulo, c.input, divisor);
}

bool has_remainder_of_two(const TestCall& c, std::int64_t rest) {
  return remainder_of(c, Value::integer(std::int64_t{2})) == Value::integer(rest);
}

bool divisible(const TestCall& c) {
  return remainder_of(c, c.argument()) == Value::integer(std::int64_t{0});
}

bool compare(const TestCall& c, Operator op) {
  return apply_comparison(op, c.input, c.argument());
}

// The name that is looked for among those of filters or tests; empty for what is no text.
std::string_view name_in(const TestCall& c) {
  if (!is_hashable(c.input)) fail("unhashable type: '" + type_name(c.input) + "'");
  return c.input.is_string() ? std::string_view(c.input.as_bytes()) : std::string_view();
}

}  // namespace

struct TestEntry {
  std::string_view name;
  bool (*holds)(const TestCall& call);
};

namespace {

constexpr TestEntry kTests[] = {
    {"defined", [](const TestCall& c) { return !c.input.is_undefined(); }},
    {"undefined", [](const TestCall& c) { return c.input.is_undefined(); }},
    {"none", [](const TestCall& c) { return c.input.is_none(); }},
    {"boolean", [](const TestCall& c) { return c.input.is_bool(); }},
    {"true", [](const TestCall& c) { return c.input.is_bool() && c.input.truthy(); }},
    {"false", [](const TestCall& c) { return c.input.is_bool() && !c.input.truthy(); }},
    {"integer", [](const TestCall& c) { return c.input.is_int() || c.input.is_big_int(); }},
    {"float", [](const TestCall& c) { return c.input.is_float(); }},
    {"number", [](const TestCall& c) { return c.input.is_number(); }},
    {"string", [](const TestCall& c) { return c.input.is_string(); }},
    {"mapping", [](const TestCall& c) { return c.input.is_dict(); }},
    {"sequence", [](const TestCall& c) { return is_sequence(c.input); }},
    {"iterable", [](const TestCall& c) { return is_sequence(c.input) || c.input.is_list(); }},
    {"callable", [](const TestCall& c) { return c.input.is_undefined() || c.input.is_callable(); }},
    {"sameas", [](const TestCall& c) { return c.input.same_object(c.argument()); }},
    {"escaped", [](const TestCall& c) { return c.input.is_string() && c.input.as_text().safe; }},
    {"odd", [](const TestCall& c) { return has_remainder_of_two(c, 1); }},
    {"even", [](const TestCall& c) { return has_remainder_of_two(c, 0); }},
    {"divisibleby", divisible},
    {"lower", [](const TestCall& c) { return is_lower_text(to_text(c.input).bytes); }},
    {"upper", [](const TestCall& c) { return is_upper_text(to_text(c.input).bytes); }},
    {"in", [](const TestCall& c) { return contains(c.argument(), c.input); }},
    {"filter", [](const TestCall& c) { return find_filter(name_in(c)) != nullptr; }},
    {"test", [](const TestCall& c) { return find_test(name_in(c)) != nullptr; }},
    {"eq", [](const TestCall& c) { return compare(c, Operator::kEqual); }},
    {"equalto", [](const TestCall& c) { return compare(c, Operator::kEqual); }},
    {"==", [](const TestCall& c) { return compare(c, Operator::kEqual); }},
    {"ne", [](const TestCall& c) { return compare(c, Operator::kNotEqual); }},
    {"!=", [](const TestCall& c) { return compare(c, Operator::kNotEqual); }},
    {"lt", [](const TestCall& c) { return compare(c, Operator::kLess); }},
    {"lessthan", [](const TestCall& c) { return compare(c, Operator::kLess); }},
    {"<", [](const TestCall& c) { return compare(c, Operator::kLess); }},
    {"le", [](const TestCall& c) { return compare(c, Operator::kLessEqual); }},
    {"<=", [](const TestCall& c) { return compare(c, Operator::kLessEqual); }},
    {"gt", [](const TestCall& c) { return compare(c, Operator::kGreater); }},
    {"greaterthan", [](const TestCall& c) { return compare(c, Operator::kGreater); }},
    {">", [](const TestCall& c) { return compare(c, Operator::kGreater); }},
    {"ge", [](const TestCall& c) { return compare(c, Operator::kGreaterEqual); }},
    {">=", [](const TestCall& c) { return compare(c, Operator::kGreaterEqual); }},
};

}  // namespace

const TestEntry* find_test(std::string_view name) {
  const auto* it = std::ranges::find(kTests, name, &TestEntry::name);
  return it == std::end(kTests) ? nullptr : it;
}

bool apply_test(Interpreter& interpreter,
                const TestEntry& test,
                const Value& input,
                const Arguments& arguments) {
  if (input.is_string()) interpreter.charge(input.as_bytes().size() / 64);
  return test.holds({interpreter, input, arguments});
}

}  // namespace coxswain::chat
