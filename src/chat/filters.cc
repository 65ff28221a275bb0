#include "chat/filters.h"

#include <algorithm>
#include <charconv>
#include <cmath>
#include <cstdlib>

#include "chat/operators.h"
#include "chat/parser.h"
#include "chat/python_format.h"
#include "chat/text_predicates.h"
#include "chat/to_json.h"

namespace coxswain::chat {
namespace {

Value filter_default(const FilterCall& call) {
  const bool use =
      call.input.is_undefined() || (call.flag(1, "boolean", false) && !call.input.truthy());
  return use ? call.arguments.get_or(0, "default_value", Value::string("")) : call.input;
}

Value filter_length(const FilterCall& call) {
  const Value& v = call.input;
  const auto number = [](std::size_t n) { return Value::integer(static_cast<std::int64_t>(n)); };
  if (v.is_undefined()) return number(0);
  if (v.is_string()) return number(count_code_points(v.as_bytes()));
  if (v.is_dict()) return number(v.as_dict().size());
  if (v.is_list() && v.as_list().kind != ListKind::kGenerator)
    return number(v.as_list().items.size());
  fail("object of type '" + type_name(v) + "' has no len()");
}

Value filter_tojson(const FilterCall& call) {
  ToJsonOptions options;
  options.ensure_ascii = call.flag(0, "ensure_ascii", false);
  if (const Value* indent = call.argument(1, "indent"); indent != nullptr && !indent->is_none()) {
    if (indent->is_string())
      options.indent = indent->as_bytes();
    else if (indent->is_integral())
      options.indent = std::string(
          static_cast<std::size_t>(std::clamp<std::int64_t>(indent->as_int(), 0, 64)), ' ');
    else
      fail("tojson: indent must be a number or a string");
  }
  if (const Value* separators = call.argument(2, "separators");
      separators != nullptr && !separators->is_none()) {
    const auto parts = iterate(*separators);
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string())
      fail("tojson: separators must be two strings");
    options.separators.emplace(parts[0].as_bytes(), parts[1].as_bytes());
  }
  options.sort_keys = call.flag(3, "sort_keys", false);
  Text out = to_json(call.input, options);
  call.interpreter.reserve_output(out.bytes.size(), 1);
  return Value::string(std::move(out));
}

Value filter_abs(const FilterCall& call) {
  if (call.input.is_float()) return Value::real(std::fabs(call.input.as_double()));
  if (!call.input.is_integral())
    fail("bad operand type for abs(): '" + type_name(call.input) + "'");
  return call.input.as_int() < 0 ? negate(call.input) : Value::integer(call.input.as_int());
}

std::optional<double> parse_real(std::string_view text) {
  while (!text.empty() && is_space(static_cast<unsigned char>(text.front()))) text.remove_prefix(1);
  while (!text.empty() && is_space(static_cast<unsigned char>(text.back()))) text.remove_suffix(1);
  if (text.starts_with('+')) text.remove_prefix(1);
  double out = 0;
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), out);
  if (error == std::errc::result_out_of_range && end == text.data() + text.size()) {
    // Too large is infinite, too small is zero, as strtod has it.
    return std::strtod(std::string(text).c_str(), nullptr);
  }
  if (error != std::errc() || end != text.data() + text.size()) return std::nullopt;
  return out;
}

// The digits that Python's int() would see: decimal digits of any script, underscores between
// digits and the prefix of the base left out.
std::string plain_digits(std::string_view text, int base) {
  std::string out;
  if (text.starts_with('-')) {
    out = "-";
    text.remove_prefix(1);
  }
  const std::string_view prefixes = base == 16 ? "xX" : base == 8 ? "oO" : base == 2 ? "bB" : "";
  if (text.size() > 2 && text[0] == '0' && prefixes.find(text[1]) != std::string_view::npos)
    text.remove_prefix(2);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text, at, &length);
    const bool is_separator = c == '_' && at > 0 && at + 1 < text.size() && text[at - 1] != '_';
    if (c >= 0x80 && is_decimal(c)) {
      char32_t zero = c;  // the ten digits of a script stand in a row
      while (zero > c - 9 && is_decimal(zero - 1)) --zero;
      out += static_cast<char>('0' + (c - zero) % 10);
    } else if (!is_separator) {
      out.append(text.substr(at, length));
    }
    at += length;
  }
  return out;
}

Value filter_int(const FilterCall& call) {
  require_defined(call.input);
  Value otherwise = call.arguments.get_or(0, "default", Value::integer(0));
  const Value& v = call.input;
  if (v.is_integral()) return Value::integer(v.as_int());
  std::optional<double> real;
  if (v.is_float()) real = v.as_double();
  if (v.is_string()) {
    const Text text = strip(v.as_text(), nullptr, Side::kBoth);
    std::string_view digits = text.bytes;
    if (digits.starts_with('+')) digits.remove_prefix(1);
    std::int64_t out = 0;
    const int base = static_cast<int>(std::clamp<std::int64_t>(call.integer(1, "base", 10), 2, 36));
    const std::string plain = plain_digits(digits, base);
    digits = plain;
    const auto [end, error] =
        std::from_chars(digits.data(), digits.data() + digits.size(), out, base);
    if (error == std::errc() && end == digits.data() + digits.size()) return Value::integer(out);
    real = parse_real(text.bytes);
  }
  if (!real || !(std::fabs(*real) < 9.2e18)) return otherwise;
  return Value::integer(static_cast<std::int64_t>(*real));
}

Value filter_float(const FilterCall& call) {
  require_defined(call.input);
  if (call.input.is_number()) return Value::real(call.input.as_double());
  if (call.input.is_string()) {
    if (const auto value = parse_real(call.input.as_bytes())) return Value::real(*value);
  }
  return call.arguments.get_or(0, "default", Value::real(0));
}

Value filter_round(const FilterCall& call) {
  if (!call.input.is_number())
    fail("type " + type_name(call.input) + " doesn't define __round__ method");
  const std::int64_t precision =
      std::clamp<std::int64_t>(call.integer(0, "precision", 0), -300, 300);
  const std::string method = call.text(1, "method", "common").bytes;
  const double value = call.input.as_double();
  const double factor = std::pow(10.0, static_cast<double>(precision));
  if (method == "ceil") return Value::real(std::ceil(value * factor) / factor);
  if (method == "floor") return Value::real(std::floor(value * factor) / factor);
  if (method != "common") fail("method must be common, ceil or floor");
  if (call.input.is_integral() && precision >= 0) return Value::integer(call.input.as_int());
  if (precision < 0) return Value::real(std::nearbyint(value * factor) / factor);
  // Decimal digits, correctly rounded from the exact binary value, as Python rounds.
  std::array<char, 700> buffer;
  const auto end = std::to_chars(buffer.data(),
                                 buffer.data() + buffer.size(),
                                 value,
                                 std::chars_format::fixed,
                                 static_cast<int>(precision))
                       .ptr;
  double out = 0;
  std::from_chars(buffer.data(), end, out);
  return Value::real(out);
}

Value filter_attr(const FilterCall& call) {
  const Text name = call.text(0, "name", "");
  // Only attributes, never items: a mapping's keys are out of reach here.
  if (call.input.is_dict()) {
    Value method = find_method(call.input, name.bytes);
    return method.is_undefined()
               ? Value::undefined("'dict object' has no attribute '" + name.bytes + "'")
               : method;
  }
  return call.interpreter.attribute(call.input, name.bytes);
}

Value filter_filesizeformat(const FilterCall& call) {
  if (call.input.is_string() && !parse_real(call.input.as_bytes()))
    fail("could not convert string to float: '" + call.input.as_bytes().substr(0, 64) + "'");
  const auto number = filter_float(call);
  const bool binary = call.flag(0, "binary", false);
  const double base = binary ? 1024 : 1000;
  double bytes = number.as_double();
  if (bytes == 1) return Value::string("1 Byte");
  if (bytes < -0x1p63) fail("filesizeformat: the number does not fit an integer of 64 bits");
  if (bytes < base)
    return Value::string(std::to_string(static_cast<std::int64_t>(bytes)) + " Bytes");
  constexpr std::string_view kDecimal[] = {"kB", "MB", "GB", "TB", "PB", "EB", "ZB", "YB"};
  constexpr std::string_view kBinary[] = {"KiB", "MiB", "GiB", "TiB", "PiB", "EiB", "ZiB", "YiB"};
  std::size_t unit = 0;
  for (bytes /= base; bytes >= base && unit < 7; bytes /= base) ++unit;
  std::array<char, 64> out;
  std::snprintf(out.data(), out.size(), "%.1f ", bytes);
  return Value::string(out.data() + std::string(binary ? kBinary[unit] : kDecimal[unit]));
}

constexpr FilterEntry kValueFilters[] = {
    {"default", filter_default},
    {"d", filter_default},
    {"length", filter_length},
    {"count", filter_length},
    {"tojson", filter_tojson},
    {"abs", filter_abs},
    {"int", filter_int},
    {"float", filter_float},
    {"round", filter_round},
    {"attr", filter_attr},
    {"filesizeformat", filter_filesizeformat},
};

const FilterEntry* find_filter(std::string_view name) {
  for (const std::span<const FilterEntry> table :
       {std::span<const FilterEntry>(kValueFilters), text_filters(), sequence_filters()}) {
    const auto it = std::ranges::find(table, name, &FilterEntry::name);
    if (it != table.end()) return &*it;
  }
  return nullptr;
}

}  // namespace

std::int64_t FilterCall::integer(std::size_t index,
                                 std::string_view name,
                                 std::int64_t otherwise) const {
  const Value* value = argument(index, name);
  if (value == nullptr || value->is_none()) return otherwise;
  if (!value->is_integral())
    fail("argument '" + std::string(name) + "' must be an integer, not " + type_name(*value));
  return value->as_int();
}

bool FilterCall::flag(std::size_t index, std::string_view name, bool otherwise) const {
  const Value* value = argument(index, name);
  return value == nullptr ? otherwise : value->truthy();
}

Text FilterCall::text(std::size_t index, std::string_view name, std::string_view otherwise) const {
  const Value* value = argument(index, name);
  return value == nullptr || value->is_none() ? Text(std::string(otherwise)) : to_text(*value);
}

bool filter_exists(std::string_view name) {
  return find_filter(name) != nullptr;
}

Value apply_filter(Interpreter& interpreter,
                   std::string_view name,
                   const Value& input,
                   const Arguments& arguments) {
  const FilterEntry* filter = find_filter(name);
  if (filter == nullptr) fail("no filter named '" + std::string(name.substr(0, 64)) + "'");
  return filter->apply({interpreter, input, arguments});
}

Value look_up_path(Interpreter& interpreter, const Value& object, const Value& path) {
  if (path.is_integral()) return interpreter.item(object, path);
  Value out = object;
  std::string_view rest = path.is_string() ? std::string_view(path.as_bytes()) : std::string_view();
  for (;;) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool numeric =
        error == std::errc() && end == part.data() + part.size() && !part.empty() && part[0] != '-';
    out = interpreter.item(out, numeric ? Value::integer(index) : Value::string(std::string(part)));
    if (part.size() == rest.size()) return out;
    rest.remove_prefix(part.size() + 1);
  }
}

}  // namespace coxswain::chat
