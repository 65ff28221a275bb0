// The global functions: range, namespace, dict, cycler, joiner, lipsum, raise_exception,
// strftime_now.

#include "chat/functions.h"

#include <array>
#include <ctime>

#include "chat/interpreter.h"
#include "chat/operators.h"
#include "chat/python_format.h"

namespace coxswain::chat {
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
  return Value::range(std::move(items), {begin, end, step});
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
  throw RenderError{arguments.positional.empty() ? "" : to_text(arguments.positional[0]).bytes,
                    true};
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

// Goes round its items; next() moves on.
class Cycler : public Callable {
 public:
  explicit Cycler(std::vector<Value> items) : items_(std::move(items)) {}
  Value call(Interpreter&, const Arguments&) const override {
    fail("'Cycler' object is not callable");
  }
  Value attribute(Interpreter&, std::string_view name) const override {
    if (name == "current") return items_[*at_];
    if (name == "next") {
      return make_callable([items = items_, at = at_](Interpreter&, const Arguments&) {
        Value out = items[*at];
        *at = (*at + 1) % items.size();
        return out;
      });
    }
    if (name == "reset") {
      return make_callable([at = at_](Interpreter&, const Arguments&) {
        *at = 0;
        return Value::none();
      });
    }
    return Value();
  }

 private:
  std::vector<Value> items_;
  std::shared_ptr<std::size_t> at_ = std::make_shared<std::size_t>(0);
};

Value call_cycler(Interpreter&, const Arguments& arguments) {
  if (arguments.positional.empty()) fail("at least one item has to be provided");
  return Value::callable(std::make_shared<Cycler>(arguments.positional));
}

Value call_joiner(Interpreter&, const Arguments& arguments) {
  const Value separator = arguments.get_or(0, "sep", Value::string(", "));
  return make_callable(
      [separator, used = std::make_shared<bool>(false)](Interpreter&, const Arguments&) {
        return std::exchange(*used, true) ? separator : Value::string("");
      });
}

}  // namespace

Value global_function(std::string_view name) {
  if (name == "range") return make_callable(call_range);
  if (name == "raise_exception") return make_callable(call_raise);
  if (name == "strftime_now") return make_callable(call_strftime_now);
  if (name == "cycler") return make_callable(call_cycler);
  if (name == "joiner") return make_callable(call_joiner);
  if (name == "dict") return make_callable(call_dict);
  if (name == "lipsum") return make_callable(call_lipsum);
  if (name == "namespace") return make_callable(call_namespace);
  return Value();
}

}  // namespace coxswain::chat
