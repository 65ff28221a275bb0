// Filters over numbers, and those that read a number from a text.

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>

#include "chat/arithmetic.h"
#include "chat/filters.h"
#include "chat/python_format.h"
#include "chat/text_predicates.h"

namespace coxswain::chat {
namespace {

// A number's text as Python's int() and float() see it: white space around it gone, decimal digits
// of any script as 0 to 9. Underscores stay.
std::string plain_number(const Text& text) {
  const std::string stripped = strip(text, nullptr, Side::kBoth).bytes;
  std::string out;
  for (std::size_t at = 0; at < stripped.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(stripped, at, &length);
    if (c >= 0x80 && is_decimal(c)) {
      char32_t zero = c;  // the ten digits of a script stand in a row
      while (zero > c - 9 && is_decimal(zero - 1)) --zero;
      out += static_cast<char>('0' + (c - zero) % 10);
    } else {
      out.append(stripped, at, length);
    }
    at += length;
  }
  return out;
}

bool is_alphanumeric(char c) {
  return (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
}

// Without underscores between digits; empty if one stands anywhere else.
std::optional<std::string> without_underscores(std::string_view text, bool (*is_digit)(char)) {
  std::string out;
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (text[i] != '_') {
      out += text[i];
    } else if (i == 0 || i + 1 == text.size() || !is_digit(text[i - 1]) || !is_digit(text[i + 1])) {
      return std::nullopt;
    }
  }
  return out;
}

std::optional<double> parse_real(const Text& text) {
  const auto digits =
      without_underscores(plain_number(text), [](char c) { return c >= '0' && c <= '9'; });
  // A bracket would be the payload of a nan, which Python does not read.
  if (!digits || digits->find('(') != std::string::npos) return std::nullopt;
  std::string_view rest = *digits;
  if (rest.starts_with("+-")) return std::nullopt;
  if (rest.starts_with('+')) rest.remove_prefix(1);
  double out = 0;
  const auto [end, error] = std::from_chars(rest.data(), rest.data() + rest.size(), out);
  if (end != rest.data() + rest.size()) return std::nullopt;
  // Too large is infinite, too small is zero, as strtod has it.
  if (error == std::errc::result_out_of_range) return std::strtod(digits->c_str(), nullptr);
  return error == std::errc() ? std::optional(out) : std::nullopt;
}

// int(text, base); base 0 takes the base that the prefix names.
std::optional<Value> parse_integer(const Text& text, std::int64_t base) {
  if (base < 0 || base == 1 || base > 36) return std::nullopt;
  std::string number = plain_number(text);
  const bool negative = number.starts_with('-');
  if (negative || number.starts_with('+')) number.erase(0, 1);
  std::int64_t named = 10;
  if (number.size() > 2 && number[0] == '0') {
    const char letter = static_cast<char>(number[1] | 0x20);
    named = letter == 'x' ? 16 : letter == 'o' ? 8 : letter == 'b' ? 2 : 10;
  }
  if (named != 10 && (base == 0 || base == named)) {
    number.erase(0, number[2] == '_' ? 3 : 2);
    base = named;
  }
  const auto digits = without_underscores(number, is_alphanumeric);
  if (!digits || digits->starts_with('-')) return std::nullopt;
  if (base == 0) {  // a zero in front belongs to zero alone
    base = 10;
    if (digits->starts_with('0') && digits->find_first_not_of('0') != std::string::npos)
      return std::nullopt;
  }
  const auto value = BigInt::parse(*digits, static_cast<int>(base));
  return value ? std::optional(Value::integer(negative ? -*value : *value)) : std::nullopt;
}

// float(): empty where Python raises a ValueError or TypeError.
std::optional<double> real_of(const Value& value) {
  require_defined(value);
  if (value.is_number()) return value.as_double();
  return value.is_string() ? parse_real(value.as_text()) : std::nullopt;
}

Value filter_abs(const FilterCall& call) {
  if (!call.input.is_number()) fail("bad operand type for abs(): '" + type_name(call.input) + "'");
  if (call.input.is_float()) return Value::real(std::fabs(call.input.as_double()));
  return compare_numbers(call.input, Value::integer(std::int64_t{0})) < 0
             ? negate(call.input)
             : truncate_number(call.input);
}

Value filter_int(const FilterCall& call) {
  Value otherwise = call.arguments.get_or(0, "default", Value::integer(std::int64_t{0}));
  if (call.input.is_string()) {
    if (auto whole = parse_integer(call.input.as_text(), call.integer(1, "base", 10)))
      return *std::move(whole);
  }
  const auto real = real_of(call.input.is_whole() ? Value::boolean(false) : call.input);
  if (call.input.is_whole()) return truncate_number(call.input);
  if (!real || std::isnan(*real)) return otherwise;
  if (std::isinf(*real) && call.input.is_string()) return otherwise;
  return truncate_number(Value::real(*real));
}

Value filter_float(const FilterCall& call) {
  const auto real = real_of(call.input);
  return real ? Value::real(*real) : call.arguments.get_or(0, "default", Value::real(0));
}

Value filter_round(const FilterCall& call) {
  const std::int64_t precision = call.integer(0, "precision", 0);
  const std::string method = call.text(1, "method", "common").bytes;
  if (method != "common" && method != "ceil" && method != "floor")
    fail("method must be common, ceil or floor");
  if (!call.input.is_number())
    fail("type " + type_name(call.input) + " doesn't define __round__ method");
  if (method == "common") return round_number(call.input, precision);
  Interpreter& interpreter = call.interpreter;
  const Value unit = apply_arithmetic(
      interpreter, Operator::kPower, Value::integer(std::int64_t{10}), Value::integer(precision));
  Value scaled = apply_arithmetic(interpreter, Operator::kMultiply, call.input, unit);
  if (scaled.is_float()) {
    const double real = scaled.as_double();
    scaled = truncate_number(Value::real(method == "ceil" ? std::ceil(real) : std::floor(real)));
  }
  return apply_arithmetic(interpreter, Operator::kDivide, scaled, unit);
}

Value filter_filesizeformat(const FilterCall& call) {
  const auto real = real_of(call.input);
  if (!real) fail("could not convert " + type_name(call.input) + " to float");
  const bool binary = call.flag(0, "binary", false);
  const double base = binary ? 1024 : 1000;
  if (*real == 1) return Value::string("1 Byte");
  if (*real < base) {
    Text out = to_text(truncate_number(Value::real(*real)));
    out.append(" Bytes");
    return Value::string(std::move(out));
  }
  constexpr std::string_view kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  constexpr std::string_view kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  std::size_t prefix = 0;
  const auto unit = [&] { return std::pow(base, static_cast<double>(prefix + 2)); };
  while (prefix < 7 && !(*real < unit())) ++prefix;
  std::array<char, 512> out;
  std::snprintf(out.data(), out.size(), "%.1f ", base * *real / unit());
  return Value::string(out.data() + std::string(binary ? kBinary[prefix] : kDecimal[prefix]));
}

constexpr FilterEntry kFilters[] = {
    {"abs", filter_abs},
    {"int", filter_int},
    {"float", filter_float},
    {"round", filter_round},
    {"filesizeformat", filter_filesizeformat},
};

}  // namespace

std::span<const FilterEntry> number_filters() {
  return kFilters;
}

}  // namespace coxswain::chat
