#include "chat/format_spec.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

constexpr std::string_view kAligns = "<>^=";

bool contains(std::string_view set, char c) {
  return set.find(c) != std::string_view::npos;
}

std::string upper(std::string text) {
  for (char& c : text) c = c >= 'a' && c <= 'z' ? static_cast<char>(c - 32) : c;
  return text;
}

// Separators between groups counted from the right; zeros in front fill up to `width_min`.
std::string group_digits(const std::string& digits,
                         char separator,
                         std::size_t group,
                         std::size_t width_min) {
  std::string out;
  std::size_t n = 0;
  for (auto digit = digits.rbegin(); digit != digits.rend() || out.size() < width_min; ++n) {
    if (separator != '\0' && n > 0 && n % group == 0) out += separator;
    out += digit != digits.rend() ? *digit++ : '0';
  }
  std::ranges::reverse(out);
  return out;
}

// "1.5e+07" as digits and exponent.
struct Scientific {
  std::string digits;
  int exponent = 0;
};

Scientific to_scientific(double value, int n_digits) {
  std::string text(static_cast<std::size_t>(n_digits) + 32, '\0');
  const int n = std::snprintf(text.data(), text.size(), "%.*e", n_digits - 1, value);
  text.resize(static_cast<std::size_t>(n));
  const std::size_t e = text.find('e');
  Scientific out;
  const char* exponent = text.data() + e + (text[e + 1] == '+' ? 2 : 1);
  std::from_chars(exponent, text.data() + text.size(), out.exponent);
  std::ranges::copy_if(
      text.substr(0, e), std::back_inserter(out.digits), [](char c) { return c != '.'; });
  return out;
}

// A precision without a type: like 'g', but an exponent comes one digit earlier and a whole number
// keeps ".0".
std::string general_with_point(double value, const FormatSpec& spec) {
  const int precision = std::max(spec.precision, 1);
  Scientific number = to_scientific(value, precision);
  if (!spec.alternate) {
    while (number.digits.size() > 1 && number.digits.back() == '0') number.digits.pop_back();
  }
  const int e = number.exponent;
  if (e < -4 || e >= precision - 1) {
    std::string out = number.digits.substr(0, 1);
    if (number.digits.size() > 1 || spec.alternate) out += "." + number.digits.substr(1);
    const int magnitude = std::abs(e);
    return out + (e < 0 ? "e-" : "e+") + (magnitude < 10 ? "0" : "") + std::to_string(magnitude);
  }
  if (e < 0) return "0." + std::string(static_cast<std::size_t>(-e - 1), '0') + number.digits;
  const auto n_whole = static_cast<std::size_t>(e) + 1;
  if (number.digits.size() <= n_whole)
    return number.digits + std::string(n_whole - number.digits.size(), '0') + ".0";
  return number.digits.substr(0, n_whole) + "." + number.digits.substr(n_whole);
}

std::string real_digits(double value, const FormatSpec& spec) {
  if (spec.type == '\0' && (spec.precision < 0 || !std::isfinite(value))) return float_repr(value);
  if (spec.type == '\0') return general_with_point(value, spec);
  std::array<char, 16> format;
  const char type = spec.type == '%' ? 'f' : spec.type == 'n' ? 'g' : spec.type;
  std::snprintf(format.data(), format.size(), "%%%s.*%c", spec.alternate ? "#" : "", type);
  std::string out(static_cast<std::size_t>(kFormatWidthMax) + 512, '\0');
  const int n = std::snprintf(
      out.data(), out.size(), format.data(), spec.precision < 0 ? 6 : spec.precision, value);
  out.resize(std::min(out.size(), static_cast<std::size_t>(std::max(0, n))));
  return out;
}

Text format_text(const Text& text, const FormatSpec& spec) {
  if (spec.sign != '-') fail("Sign not allowed in string format specifier");
  if (spec.alternate) fail("Alternate form (#) not allowed in string format specifier");
  if (spec.no_negative_zero)
    fail("Negative zero coercion (z) not allowed in format specifier with string");
  if (spec.align == '=') fail("'=' alignment not allowed in string format specifier");
  return pad(cut_to_precision(text, spec), spec, '<');
}

Text format_whole(const Value& value, const FormatSpec& spec) {
  if (spec.no_negative_zero)
    fail("Negative zero coercion (z) not allowed in format specifier with integer");
  if (spec.precision >= 0) fail("Precision not allowed in integer format specifier");
  if (spec.type != 'c')
    return lay_out_number(integer_parts(value, spec.type, spec.alternate), spec);
  if (spec.sign != '-' || spec.alternate || spec.grouping != '\0')
    fail("only a width is allowed with integer format specifier 'c'");
  return pad(Text(character_of(value)), spec, '>');
}

// Whether `spec` may be used with a value; `types` lists the letters that its kind knows.
void check_type(const FormatSpec& spec, std::string_view types, const Value& value) {
  if (spec.type != '\0' && !contains(types, spec.type)) {
    fail(std::string("Unknown format code '") + spec.type + "' for object of type '" +
         type_name(value) + "'");
  }
  const bool groups_by_four = contains("boxX", spec.type) && spec.type != '\0';
  const bool may_group = spec.type == '\0' || contains("deEfFgG%", spec.type) ||
                         (groups_by_four && spec.grouping == '_');
  if (spec.grouping != '\0' && (!may_group || value.is_string()))
    fail(std::string("Cannot specify '") + spec.grouping + "' with this format");
}

}  // namespace

int read_format_number(std::string_view text, std::size_t& at) {
  int out = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9') {
    out = out * 10 + (text[at++] - '0');
    if (out > kFormatWidthMax)
      fail("a format width of " + std::to_string(out) + " is more than " +
           std::to_string(kFormatWidthMax));
  }
  return out;
}

FormatSpec read_format_spec(std::string_view text) {
  FormatSpec spec;
  std::size_t at = 0;
  std::size_t first = 0;
  if (!text.empty()) code_point_at(text, 0, &first);
  const bool has_fill = text.size() > first && first > 0 && contains(kAligns, text[first]);
  if (has_fill) {
    spec.fill = text.substr(0, first);
    at = first;
  }
  const auto take = [&](std::string_view set, char otherwise) {
    return at < text.size() && contains(set, text[at]) ? text[at++] : otherwise;
  };
  spec.align = take(kAligns, '\0');
  spec.sign = take("+- ", '-');
  spec.no_negative_zero = take("z", '\0') != '\0';
  spec.alternate = take("#", '\0') != '\0';
  const bool zero = !has_fill && take("0", '\0') != '\0';
  if (zero) spec.fill = "0";
  spec.width = read_format_number(text, at);
  spec.grouping = take(",", '\0');
  if (take("_", '\0') != '\0') {
    if (spec.grouping != '\0') fail("Cannot specify both ',' and '_'.");
    spec.grouping = '_';
  }
  if (take(".", '\0') != '\0') {
    const std::size_t begin = at;
    spec.precision = read_format_number(text, at);
    if (at == begin) fail("Format specifier missing precision");
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size()) fail("Invalid format specifier '" + std::string(text.substr(0, 32)) + "'");
  // A zero without alignment goes between sign and digits; texts know no such place.
  if (zero && spec.align == '\0' && spec.type != 's') spec.align = '0';
  return spec;
}

Text cut_to_precision(const Text& text, const FormatSpec& spec) {
  if (spec.precision < 0) return text;
  const auto offsets = code_point_offsets(text.bytes);
  return text.slice(
      0, offsets[std::min(offsets.size() - 1, static_cast<std::size_t>(spec.precision))]);
}

Text pad(const Text& text, const FormatSpec& spec, char default_align) {
  const std::size_t length = count_code_points(text.bytes);
  const auto width = static_cast<std::size_t>(std::max(0, spec.width));
  if (length >= width) return text;
  const std::size_t room = width - length;
  const char align = spec.align == '\0' || spec.align == '0' ? default_align : spec.align;
  const std::size_t left = align == '<' ? 0 : align == '^' ? room / 2 : room;
  Text out;
  for (std::size_t i = 0; i < left; ++i) out.append(spec.fill);
  out.append(text);
  for (std::size_t i = left; i < room; ++i) out.append(spec.fill);
  return out;
}

std::string character_of(const Value& code) {
  if (!code.is_integral() || code.as_int() < 0 || code.as_int() > 0x10FFFF)
    fail("a character's number is not in range(0x110000)");
  if (code.as_int() >= 0xD800 && code.as_int() <= 0xDFFF)
    fail("a surrogate is no character: " + std::to_string(code.as_int()));
  std::string out;
  append_code_point(out, static_cast<char32_t>(code.as_int()));
  return out;
}

NumberParts integer_parts(const Value& whole, char type, bool alternate) {
  const int base = type == 'x' || type == 'X' ? 16 : type == 'o' ? 8 : type == 'b' ? 2 : 10;
  const BigInt number = whole.to_big_int();
  NumberParts out{.negative = number.is_negative(), .whole = number.magnitude_digits(base)};
  if (alternate && base != 10) out.prefix = base == 16 ? "0x" : base == 8 ? "0o" : "0b";
  if (type == 'X') {
    out.prefix = upper(out.prefix);
    out.whole = upper(out.whole);
  }
  return out;
}

NumberParts real_parts(double value, const FormatSpec& spec) {
  NumberParts out{.negative = std::signbit(value) && !std::isnan(value)};
  std::string digits = real_digits(std::fabs(spec.type == '%' ? value * 100 : value), spec);
  if (spec.no_negative_zero && digits.find_first_of("123456789if") == std::string::npos)
    out.negative = false;
  const std::size_t n_whole = std::min(digits.find_first_not_of("0123456789"), digits.size());
  out.whole = digits.substr(0, n_whole);
  out.rest = digits.substr(n_whole) + (spec.type == '%' ? "%" : "");
  return out;
}

Text lay_out_number(const NumberParts& parts, const FormatSpec& spec) {
  std::string head = parts.negative ? "-" : spec.sign == '-' ? "" : std::string(1, spec.sign);
  head += parts.prefix;
  const bool inner = spec.align == '=' || spec.align == '0';
  const std::size_t taken = head.size() + parts.rest.size();
  const auto width = static_cast<std::size_t>(spec.width);
  const bool zeros = inner && spec.fill == "0" && width > taken;
  // What is not finite has no digits to group.
  const std::string whole = group_digits(parts.whole,
                                         parts.whole.empty() ? '\0' : spec.grouping,
                                         contains("boxX", spec.type) && spec.type != '\0' ? 4 : 3,
                                         zeros ? width - taken : 0);
  if (!inner) return pad(Text(head + whole + parts.rest), spec, '>');
  Text out(head);
  FormatSpec rest = spec;
  rest.width = std::max(0, spec.width - static_cast<int>(head.size()));
  rest.align = '>';
  out.append(pad(Text(whole + parts.rest), rest, '>'));
  return out;
}

Text format_value(const Value& value, std::string_view text) {
  if (text.empty()) return to_text(value);
  if (!value.is_string() && !value.is_number())
    fail("unsupported format string passed to " + type_name(value) + ".__format__");
  FormatSpec spec = read_format_spec(text);
  check_type(spec,
             value.is_string()  ? "s"
             : value.is_float() ? "eEfFgGn%"
                                : "bcdeEfFgGnoxX%",
             value);
  if (value.is_string()) return format_text(value.as_text(), spec);
  const bool as_real = value.is_float() || (spec.type != '\0' && contains("eEfFgG%", spec.type));
  if (!as_real) return format_whole(value, spec);
  return lay_out_number(real_parts(value.as_double(), spec), spec);
}

}  // namespace coxswain::chat
