// Filters over strings and numbers.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdlib>
#include <limits>

#include "chat/filters.h"
#include "chat/json_values.h"
#include "chat/methods.h"
#include "chat/operators.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

Value filter_upper(const FilterCall& call) {
  return Value::string(to_upper(call.input_text()));
}
Value filter_lower(const FilterCall& call) {
  return Value::string(to_lower(call.input_text()));
}
Value filter_capitalize(const FilterCall& call) {
  return Value::string(to_capitalized(call.input_text()));
}

// Words begin after white space, '-', '(', '{', '[' or '<'; each gets an upper-case start and a lower-case rest.
Value filter_title(const FilterCall& call) {
  const Text text = call.input_text();
  Text out;
  bool at_start = true;
  for (std::size_t at = 0; at < text.bytes.size();) {
    const auto [c, n_bytes] = base::code_point_at(text.bytes, at);
    const Text character = text.slice(at, at + n_bytes);
    out.append(at_start ? to_upper(character) : to_lower(character));
    at_start = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    at += n_bytes;
  }
  return Value::string(std::move(out));
}

Value filter_trim(const FilterCall& call) {
  const Value* set = call.argument(0, "chars");
  const std::string* characters = set != nullptr && set->is_string() ? &set->as_bytes() : nullptr;
  return Value::string(strip(call.input_text(), characters, Side::kBoth));
}

Value filter_string(const FilterCall& call) {
  return Value::string(call.input_text());
}

Value filter_safe(const FilterCall& call) {
  Text text = call.input_text();
  text.safe = true;
  return Value::string(std::move(text));
}

Value filter_escape(const FilterCall& call) {
  return call.input.is_string() && call.input.as_text().safe
             ? call.input
             : Value::string(escape_html(call.input_text()));
}

Value filter_from_json(const FilterCall& call) {
  return from_json(call.interpreter, call.input);
}

Value filter_replace(const FilterCall& call) {
  const Value* old_text = call.argument(0, "old");
  const Value* new_text = call.argument(1, "new");
  if (old_text == nullptr || new_text == nullptr) fail("replace takes two strings");
  const std::int64_t given = call.integer(2, "count", -1);
  const std::size_t count_max = given < 0 ? kNoLimit : static_cast<std::size_t>(given);
  const Text text = call.input_text();
  const Text from = to_text(*old_text);
  const Text to = to_text(*new_text);
  reserve_replaced(call.interpreter, text, from.bytes, to, count_max);
  return Value::string(replace_all(text, from.bytes, to, count_max));
}

Value filter_indent(const FilterCall& call) {
  require_defined(call.input);
  if (!call.input.is_string())
    fail("'" + type_name(call.input) + "' object has no attribute 'splitlines'");
  const Value* width = call.argument(0, "width");
  std::string indent(4, ' ');
  if (width != nullptr && width->is_string())
    indent = width->as_bytes();
  else if (width != nullptr)
    indent.assign(
        static_cast<std::size_t>(std::clamp<std::int64_t>(call.integer(0, "width", 4), 0, 1024)),
        ' ');
  const bool first = call.flag(1, "first", false);
  const bool blank = call.flag(2, "blank", false);
  const Text text = call.input_text();
  std::vector<Text> lines = split_lines(text, false);
  call.interpreter.reserve_output(text.bytes.size(), 1);
  call.interpreter.reserve_output(lines.size() + 1, indent.size());
  if (text.bytes.ends_with('\n') || text.empty()) lines.emplace_back();
  Text out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    if (i > 0 ? blank || !lines[i].empty() : first) out.append(indent);
    out.append(lines[i]);
  }
  return Value::string(std::move(out));
}

// A number's text without the white space around it and the underscores between digits, as Python's int() and
// float() read it; empty if an underscore stands anywhere else.
std::string plain_number(const Text& text, bool (*is_digit)(char)) {
  const std::string stripped = strip(text, nullptr, Side::kBoth).bytes;
  std::string out;
  for (std::size_t i = 0; i < stripped.size(); ++i) {
    if (stripped[i] != '_') {
      out += stripped[i];
    } else if (i == 0 || i + 1 == stripped.size() || !is_digit(stripped[i - 1]) ||
               !is_digit(stripped[i + 1])) {
      return {};
    }
  }
  return out;
}

bool is_decimal(char c) {
  return c >= '0' && c <= '9';
}

bool is_alphanumeric(char c) {
  return is_decimal(c) || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

std::optional<double> parse_real(const Text& text) {
  const std::string digits = plain_number(text, is_decimal);
  std::string_view rest = digits;
  // A bracket would be the payload of a nan, which Python does not read.
  if (rest.find('(') != std::string_view::npos || rest.starts_with("+-")) return std::nullopt;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  double out = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
  if (end != rest.data() + rest.size()) return std::nullopt;
  // Too large is infinite, too small is zero, as strtod has it.
  if (error == std::errc::result_out_of_range) return std::strtod(digits.c_str(), nullptr);
  return error == std::errc() ? std::optional(out) : std::nullopt;
}

// int(text, base). Beyond 64 bits a decimal number keeps its digits, any other is none.
std::optional<Value> parse_integer(const Text& text, std::int64_t base) {
  if (base < 2 || base > 36) return std::nullopt;
  std::string digits = plain_number(text, is_alphanumeric);
  if (digits.find('-', 1) != std::string::npos) return std::nullopt;
  if (digits.starts_with('+')) digits.erase(0, 1);
  const std::size_t sign = digits.starts_with('-') ? 1 : 0;
  if (digits.size() > sign + 2 && digits[sign] == '0') {
    const char letter = static_cast<char>(digits[sign + 1] | 0x20);
    if ((letter == 'x' && base == 16) || (letter == 'o' && base == 8) ||
        (letter == 'b' && base == 2))
      digits.erase(sign, 2);
  }
  std::int64_t out = 0;
  const char* const end = digits.data() + digits.size();
  const auto parsed = std::from_chars(digits.data(), end, out, static_cast<int>(base));
  if (parsed.ptr != end || parsed.ec == std::errc::invalid_argument) return std::nullopt;
  if (parsed.ec == std::errc()) return Value::integer(out);
  return base == 10 ? std::optional(Value::integer(digits)) : std::nullopt;
}

Value filter_abs(const FilterCall& call) {
  require_number(call.input, "abs()");
  return call.input.as_double() < 0 ? negate(call.input)
         : call.input.is_float()    ? Value::real(std::fabs(call.input.as_double()))
                                    : truncate_number(call.input);
}

Value filter_int(const FilterCall& call) {
  const Value& v = call.input;
  require_defined(v);
  if (v.is_large_int() || (v.is_number() && !v.is_float()))
    return v.is_bool() ? truncate_number(v) : v;
  std::optional<double> real;
  if (v.is_float()) real = v.as_double();
  if (v.is_string()) {
    if (auto whole = parse_integer(v.as_text(), call.integer(1, "base", 10)))
      return *std::move(whole);
    real = parse_real(v.as_text());
  }
  const bool fails = !real || std::isnan(*real) || (std::isinf(*real) && v.is_string());
  return fails ? call.arguments.get_or(0, "default", Value::integer(0))
               : truncate_number(Value::real(*real));
}

Value filter_float(const FilterCall& call) {
  const Value& v = call.input;
  require_defined(v);
  if (v.is_number()) return Value::real(v.as_double());
  const auto real = v.is_large_int() ? parse_real(Text(v.as_digits()))
                    : v.is_string()  ? parse_real(v.as_text())
                                     : std::nullopt;
  return real ? Value::real(*real) : call.arguments.get_or(0, "default", Value::real(0));
}

// The nearest with `digits` behind the point, or with zeros in front of it if negative; ties to even.
double round_real(double real, std::int64_t digits) {
  if (!std::isfinite(real) || digits > 323) return real;  // it has no more digits
  if (digits < 0) {
    const double unit = std::pow(10.0, -static_cast<double>(digits));
    return std::isinf(unit) ? 0 : std::nearbyint(real / unit) * unit;
  }
  // Decimal digits, correctly rounded from the exact binary value.
  std::array<char, 700> buffer;
  const auto end = std::to_chars(buffer.data(),
                                 buffer.data() + buffer.size(),
                                 real,
                                 std::chars_format::fixed,
                                 static_cast<int>(digits))
                       .ptr;
  double out = 0;
  std::from_chars(buffer.data(), end, out);
  return out;
}

Value filter_round(const FilterCall& call) {
  const std::int64_t digits = call.integer(0, "precision", 0);
  const std::string method = call.text(1, "method", "common").bytes;
  require_number(call.input, "round()");
  const double real = call.input.as_double();
  if (method == "common") {
    if (call.input.is_float()) return Value::real(round_real(real, digits));
    return truncate_number(digits < 0 ? Value::real(round_real(real, digits)) : call.input);
  }
  if (method != "ceil" && method != "floor") fail("method must be common, ceil or floor");
  const double unit = std::pow(10.0, static_cast<double>(digits));
  return Value::real((method == "ceil" ? std::ceil(real * unit) : std::floor(real * unit)) / unit);
}

constexpr FilterEntry kFilters[] = {
    {"upper", filter_upper},
    {"lower", filter_lower},
    {"capitalize", filter_capitalize},
    {"title", filter_title},
    {"trim", filter_trim},
    {"string", filter_string},
    {"safe", filter_safe},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"from_json", filter_from_json},
    {"fromjson", filter_from_json},
    {"replace", filter_replace},
    {"indent", filter_indent},
    {"abs", filter_abs},
    {"int", filter_int},
    {"float", filter_float},
    {"round", filter_round},
};

}  // namespace

std::span<const FilterEntry> text_filters() {
  return kFilters;
}

}  // namespace coxswain::chat
