#include "chat/builtins.h"

#include <algorithm>
#include <array>
#include <ctime>

#include "chat/interpreter.h"
#include "chat/json_values.h"
#include "chat/operators.h"
#include "chat/python_format.h"

namespace coxswain::chat {

// ---- tests

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
          v.as_list().kind != ListKind::kDictView);
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
    {"integer", [](const TestCall& c) { return c.input.is_int() || c.input.is_large_int(); }},
    {"float", [](const TestCall& c) { return c.input.is_float(); }},
    {"number", [](const TestCall& c) { return c.input.is_number() || c.input.is_large_int(); }},
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

// ---- functions

namespace {

constexpr std::int64_t kRangeMax = 100'000;  // the sandbox's own limit

Value call_range(Interpreter& interpreter, const Arguments& arguments) {
  const auto number = [&](std::size_t i) {
    const Value& value = arguments.positional[i];
    if (!value.is_integral())
      fail("'" + type_name(value) + "' object cannot be interpreted as an integer");
    return value.as_int();
  };
  const std::size_t n = arguments.positional.size();
  if (n == 0 || n > 3) fail("range expected 1 to 3 arguments, got " + std::to_string(n));
  const std::int64_t begin = n == 1 ? 0 : number(0);
  const std::int64_t end = n == 1 ? number(0) : number(1);
  const std::int64_t step = n == 3 ? number(2) : 1;
  if (step == 0) fail("range() arg 3 must not be zero");
  const __int128 span =
      step > 0 ? static_cast<__int128>(end) - begin : static_cast<__int128>(begin) - end;
  const __int128 stride = step > 0 ? step : -static_cast<__int128>(step);
  const __int128 count = span <= 0 ? 0 : (span + stride - 1) / stride;
  if (count > kRangeMax)
    fail("Range too big. The sandbox blocks ranges larger than MAX_RANGE (100000).");
  interpreter.charge(static_cast<std::size_t>(count));
  std::vector<Value> items;
  items.reserve(static_cast<std::size_t>(count));
  for (std::int64_t i = 0; i < static_cast<std::int64_t>(count); ++i)
    items.push_back(Value::integer(begin + i * step));
  return Value::list(std::move(items));
}

Dict dict_of(Interpreter& interpreter, const Arguments& arguments) {
  Dict out;
  for (const Value& value : arguments.positional) {
    if (value.is_dict()) {
      interpreter.charge(value.as_dict().size());
      for (const auto& [key, member] : value.as_dict().items()) out.set(key, member);
      continue;
    }
    for (const Value& pair : interpreter.items(value)) {
      const auto parts = interpreter.items(pair);
      if (parts.size() != 2) fail("dict() takes pairs");
      out.set(parts[0], parts[1]);
    }
  }
  for (const auto& [name, value] : arguments.named) out.set(Value::string(name), value);
  return out;
}

Value call_namespace(Interpreter& interpreter, const Arguments& arguments) {
  return Value::name_space(dict_of(interpreter, arguments));
}

Value call_dict(Interpreter& interpreter, const Arguments& arguments) {
  return Value::dict(dict_of(interpreter, arguments));
}

Value call_raise(Interpreter&, const Arguments& arguments) {
  fail(arguments.positional.empty() ? "" : to_text(arguments.positional[0]).bytes);
}

// Replaces the two directives that a naive Python datetime prints differently from the C library.
std::string python_directives(const std::string& format) {
  std::string out;
  for (std::size_t i = 0; i < format.size(); ++i) {
    if (format[i] != '%' || i + 1 == format.size()) {
      out += format[i];
      continue;
    }
    const char c = format[++i];
    if (c == 'f')
      out += "000000";
    else if (c == '%')
      out += "%%";
    else if (c != 'z' && c != 'Z')
      (out += '%') += c;
  }
  return out;
}

Value call_strftime_now(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.size() != 1 || !arguments.positional[0].is_string())
    fail("strftime_now takes one string");
  const std::time_t seconds = std::chrono::system_clock::to_time_t(interpreter.now());
  std::tm calendar{};
  gmtime_r(&seconds, &calendar);
  const std::string format = python_directives(arguments.positional[0].as_bytes());
  if (format.empty()) return Value::string("");
  std::array<char, 4096> buffer;
  const std::size_t n = std::strftime(buffer.data(), buffer.size(), format.c_str(), &calendar);
  if (n == 0)
    fail("strftime_now: the date does not fit " + std::to_string(buffer.size()) + " bytes");
  return Value::string(std::string(buffer.data(), n));
}

Value call_from_json(Interpreter& interpreter, const Arguments& arguments) {
  if (arguments.positional.size() != 1) fail("from_json takes one text");
  return from_json(interpreter, arguments.positional[0]);
}

struct Function {
  std::string_view name;
  Value (*call)(Interpreter&, const Arguments&);
};

constexpr Function kFunctions[] = {
    {"range", call_range},
    {"dict", call_dict},
    {"namespace", call_namespace},
    {"raise_exception", call_raise},
    {"strftime_now", call_strftime_now},
    {"from_json", call_from_json},
};

}  // namespace

Value find_function(std::string_view name) {
  const auto* function = std::ranges::find(kFunctions, name, &Function::name);
  return function == std::end(kFunctions) ? Value() : make_callable(function->call);
}

}  // namespace coxswain::chat
