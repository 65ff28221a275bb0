#include "chat/python_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "chat/text_predicates.h"

namespace coxswain::chat {
namespace {

// Widths and precisions beyond this are refused: they are output size in disguise.
constexpr int kWidthMax = 4096;

void append_escaped(std::string& out, char32_t c, char quote) {
  std::array<char, 16> buffer;
  if (c == static_cast<char32_t>(quote) || c == '\\') {
    out += '\\';
    out += static_cast<char>(c);
  } else if (c == '\n') {
    out += "\\n";
  } else if (c == '\r') {
    out += "\\r";
  } else if (c == '\t') {
    out += "\\t";
  } else if (is_printable_character(c)) {
    append_code_point(out, c);
  } else {
    const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
    out += buffer.data();
  }
}

std::string string_repr(std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  std::string out(1, quote);
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    append_escaped(out, code_point_at(text, at, &length), quote);
    at += length;
  }
  return out + quote;
}

Text list_repr(const List& list) {
  if (list.kind == ListKind::kRange) return Text(list.view_name);
  const bool tuple = list.kind == ListKind::kTuple || list.kind == ListKind::kGroup;
  Text out(tuple ? "(" : "[");
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    out.append(repr(list.items[i]));
  }
  out.append(tuple ? (list.items.size() == 1 ? ",)" : ")") : "]");
  if (list.kind != ListKind::kDictView) return out;
  Text view(list.view_name + "(");
  view.append(out);
  view.append(")");
  return view;
}

Text dict_repr(const Dict& dict) {
  Text out("{");
  bool first = true;
  for (const auto& [key, value] : dict.items()) {
    if (!first) out.append(", ");
    first = false;
    out.append(repr(key));
    out.append(": ");
    out.append(repr(value));
  }
  out.append("}");
  return out;
}

}  // namespace

std::string float_repr(double value) {
  if (std::isnan(value)) return "nan";
  if (std::isinf(value)) return value < 0 ? "-inf" : "inf";
  std::array<char, 64> buffer;
  const auto end =
      std::to_chars(
          buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::scientific)
          .ptr;
  const std::string_view text(buffer.data(), static_cast<std::size_t>(end - buffer.data()));
  const std::size_t e = text.find('e');
  int exponent = 0;
  std::from_chars(text.data() + e + (text[e + 1] == '+' ? 2 : 1), end, exponent);
  if (exponent < -4 || exponent >= 16) {
    std::string out(text.substr(0, e));
    const int magnitude = std::abs(exponent);
    return out + (exponent < 0 ? "e-" : "e+") + (magnitude < 10 ? "0" : "") +
           std::to_string(magnitude);
  }
  const auto fixed_end =
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), value, std::chars_format::fixed)
          .ptr;
  std::string out(buffer.data(), fixed_end);
  if (out.find('.') == std::string::npos) out += ".0";
  return out;
}

Text to_text(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return {};
    case Value::Kind::kString:
      return value.as_text();
    default:
      return repr(value);
  }
}

Text repr(const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return Text("Undefined");
    case Value::Kind::kNone:
      return Text("None");
    case Value::Kind::kBool:
      return Text(value.truthy() ? "True" : "False");
    case Value::Kind::kInt:
      return Text(std::to_string(value.as_int()));
    case Value::Kind::kFloat:
      return Text(float_repr(value.as_double()));
    case Value::Kind::kString: {
      std::string text = string_repr(value.as_bytes());
      if (value.as_text().safe) text = "Markup(" + text + ")";
      return Text::like(value.as_text(), std::move(text));
    }
    case Value::Kind::kList:
      if (value.as_list().kind == ListKind::kGenerator) return Text("<generator object>");
      return list_repr(value.as_list());
    case Value::Kind::kDict:
      return dict_repr(value.as_dict());
    case Value::Kind::kNamespace: {
      Text out("<Namespace ");
      out.append(dict_repr(value.as_namespace().attributes));
      out.append(">");
      return out;
    }
    case Value::Kind::kCallable:
      return Text(value.as_callable().is_macro() ? "<Macro>" : "<function>");
  }
  return {};
}

namespace {

// Characters beyond ASCII as escapes, as Python's ascii() has them.
std::string ascii_only(std::string_view text) {
  std::string out;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text, at, &length);
    std::array<char, 16> buffer;
    const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    if (c < 0x80) {
      out += static_cast<char>(c);
    } else {
      std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
      out += buffer.data();
    }
    at += length;
  }
  return out;
}

// One conversion of either formatting language.
struct Spec {
  char fill = ' ';
  char align = '\0';  // '<', '>', '^', '='
  char sign = '-';
  bool alternate = false;
  bool zero = false;
  bool comma = false;
  int width = 0;
  int precision = -1;
  char type = '\0';
};

int checked_width(int value) {
  if (value > kWidthMax)
    fail("a format width of " + std::to_string(value) + " is more than " +
         std::to_string(kWidthMax));
  return value;
}

Text pad(const Text& text, const Spec& spec, char default_align) {
  const std::size_t length = count_code_points(text.bytes);
  const auto width = static_cast<std::size_t>(std::max(0, spec.width));
  if (length >= width) return text;
  const std::size_t room = width - length;
  const char align = spec.align == '\0' ? default_align : spec.align;
  if (align == '=') {
    const std::size_t sign =
        !text.empty() && (text.bytes[0] == '-' || text.bytes[0] == '+') ? 1 : 0;
    Text out = text.slice(0, sign);
    out.append(std::string(room, spec.fill));
    out.append(text.slice(sign, text.bytes.size()));
    return out;
  }
  const std::size_t left = align == '<' ? 0 : align == '>' ? room : room / 2;
  Text out(std::string(left, spec.fill));
  out.append(text);
  out.append(std::string(room - left, spec.fill));
  return out;
}

std::string with_sign(const std::string& digits, bool negative, char sign) {
  if (negative) return "-" + digits;
  return sign == '+' ? "+" + digits : sign == ' ' ? " " + digits : digits;
}

std::string integer_digits(std::int64_t value, const Spec& spec) {
  const auto magnitude =
      value < 0 ? ~static_cast<std::uint64_t>(value) + 1 : static_cast<std::uint64_t>(value);
  const int base = spec.type == 'x' || spec.type == 'X' ? 16
                   : spec.type == 'o'                   ? 8
                   : spec.type == 'b'                   ? 2
                                                        : 10;
  std::array<char, 72> buffer;
  std::string digits(
      buffer.data(),
      std::to_chars(buffer.data(), buffer.data() + buffer.size(), magnitude, base).ptr);
  if (spec.type == 'X')
    std::ranges::transform(
        digits, digits.begin(), [](char c) { return static_cast<char>(c >= 'a' ? c - 32 : c); });
  if (spec.comma) {
    for (std::size_t at = digits.size(); at > 3; at -= 3) digits.insert(at - 3, ",");
  }
  if (spec.precision > 0 && digits.size() < static_cast<std::size_t>(spec.precision)) {
    digits.insert(0, static_cast<std::size_t>(spec.precision) - digits.size(), '0');
  }
  if (spec.alternate && base != 10)
    digits.insert(0, base == 16 ? (spec.type == 'X' ? "0X" : "0x") : base == 8 ? "0o" : "0b");
  return with_sign(digits, value < 0, spec.sign);
}

std::string real_digits(double value, const Spec& spec) {
  std::array<char, 32> format;
  const char type = spec.type == '%' ? 'f' : spec.type;
  std::snprintf(format.data(), format.size(), "%%%s.*%c", spec.alternate ? "#" : "", type);
  std::string digits(static_cast<std::size_t>(kWidthMax) + 512, '\0');
  const int n = std::snprintf(digits.data(),
                              digits.size(),
                              format.data(),
                              spec.precision < 0 ? 6 : spec.precision,
                              std::fabs(spec.type == '%' ? value * 100 : value));
  digits.resize(std::min(digits.size(), static_cast<std::size_t>(std::max(0, n))));
  if (spec.comma) {
    const std::size_t point = std::min(digits.find('.'), digits.size());
    for (std::size_t at = point; at > 3; at -= 3) digits.insert(at - 3, ",");
  }
  if (spec.type == '%') digits += '%';
  return with_sign(digits, std::signbit(value), spec.sign);
}

std::int64_t to_integer_for(const Value& value, char type) {
  if (value.is_integral()) return value.as_int();
  if (value.is_float() && (type == 'd' || type == 'i' || type == 'u')) {
    const double real = value.as_double();
    if (!(real >= -0x1p63 && real < 0x1p63)) fail("a number does not fit an integer of 64 bits");
    return static_cast<std::int64_t>(real);
  }
  fail(std::string("%") + type + " format: a real number is required, not " + type_name(value));
}

Text convert(const Value& value, const Spec& spec) {
  switch (spec.type) {
    case 'd':
    case 'i':
    case 'u':
    case 'x':
    case 'X':
    case 'o':
    case 'b':
      return pad(Text(integer_digits(to_integer_for(value, spec.type), spec)), spec, '>');
    case 'f':
    case 'F':
    case 'e':
    case 'E':
    case 'g':
    case 'G':
    case '%':
      if (!value.is_number()) fail("must be real number, not " + type_name(value));
      return pad(Text(real_digits(value.as_double(), spec)), spec, '>');
    case 'c':
      if (value.is_int()) {
        std::string c;
        append_code_point(c, static_cast<char32_t>(value.as_int()));
        return pad(Text(c), spec, '<');
      }
      return pad(to_text(value), spec, '<');
    default:
      break;
  }
  Text text = spec.type == 'r'   ? repr(value)
              : spec.type == 'a' ? Text::like(repr(value), ascii_only(repr(value).bytes))
                                 : to_text(value);
  if (spec.precision >= 0) {
    const auto offsets = code_point_offsets(text.bytes);
    text = text.slice(
        0, offsets[std::min(offsets.size() - 1, static_cast<std::size_t>(spec.precision))]);
  }
  return pad(text, spec, value.is_number() ? '>' : '<');
}

int read_number(std::string_view text, std::size_t& at) {
  int out = 0;
  while (at < text.size() && text[at] >= '0' && text[at] <= '9')
    out = checked_width(out * 10 + (text[at++] - '0'));
  return out;
}

// Reads the conversion behind a '%' whose next character is at `at`; leaves `at` behind it.
Spec read_percent_spec(std::string_view text, std::size_t& at) {
  Spec spec;
  for (; at < text.size(); ++at) {
    if (text[at] == '-')
      spec.align = '<';
    else if (text[at] == '0')
      spec.zero = true;
    else if (text[at] == '+' || text[at] == ' ')
      spec.sign = text[at];
    else if (text[at] == '#')
      spec.alternate = true;
    else
      break;
  }
  spec.width = read_number(text, at);
  if (at < text.size() && text[at] == '.') {
    ++at;
    spec.precision = read_number(text, at);
  }
  if (at >= text.size()) fail("incomplete format");
  spec.type = text[at++];
  const bool numeric = std::string_view("diufFeEgGxXo").find(spec.type) != std::string_view::npos;
  if (spec.zero && numeric && spec.align == '\0') {
    spec.fill = '0';
    spec.align = '=';
  }
  if (spec.align == '\0') spec.align = '>';
  if (!numeric && std::string_view("srac").find(spec.type) == std::string_view::npos) {
    fail(std::string("unsupported format character '") + spec.type + "'");
  }
  return spec;
}

Spec read_brace_spec(std::string_view text) {
  Spec spec;
  std::size_t at = 0;
  constexpr std::string_view kAligns = "<>^=";
  if (text.size() > 1 && kAligns.find(text[1]) != std::string_view::npos) {
    spec.fill = text[0];
    spec.align = text[1];
    at = 2;
  } else if (!text.empty() && kAligns.find(text[0]) != std::string_view::npos) {
    spec.align = text[at++];
  }
  if (at < text.size() && (text[at] == '+' || text[at] == '-' || text[at] == ' '))
    spec.sign = text[at++];
  if (at < text.size() && text[at] == '#') spec.alternate = true, ++at;
  if (at < text.size() && text[at] == '0') {
    ++at;
    if (spec.align == '\0') spec.fill = '0', spec.align = '=';
  }
  spec.width = read_number(text, at);
  if (at < text.size() && text[at] == ',') spec.comma = true, ++at;
  if (at < text.size() && text[at] == '.') {
    ++at;
    spec.precision = read_number(text, at);
  }
  if (at < text.size()) spec.type = text[at++];
  if (at != text.size() ||
      std::string_view("\0sdfFeEgGxXobc%", 15).find(spec.type) == std::string_view::npos) {
    fail("invalid format specifier '" + std::string(text.substr(0, 32)) + "'");
  }
  return spec;
}

Text convert_brace(const Value& value, Spec spec) {
  if (spec.type == '\0' && value.is_integral() && !value.is_bool()) spec.type = 'd';
  if (spec.type == '\0' && value.is_float() && spec.precision >= 0) spec.type = 'g';
  return convert(value, spec);
}

}  // namespace

Text percent_format(const Text& format, const Value& arguments) {
  const bool is_tuple = arguments.is_list() && arguments.as_list().kind == ListKind::kTuple;
  std::size_t used = 0;
  const auto next = [&]() -> const Value& {
    const std::size_t available = is_tuple ? arguments.as_list().items.size() : 1;
    if (used >= available) fail("not enough arguments for format string");
    return is_tuple ? arguments.as_list().items[used++] : (++used, arguments);
  };
  Text out;
  std::size_t at = 0;
  while (at < format.bytes.size()) {
    const std::size_t percent = std::min(format.bytes.find('%', at), format.bytes.size());
    out.append(format.slice(at, percent));
    if (percent == format.bytes.size()) break;
    at = percent + 1;
    if (at < format.bytes.size() && format.bytes[at] == '%') {
      out.append("%");
      ++at;
    } else if (at < format.bytes.size() && format.bytes[at] == '(') {
      const std::size_t close = format.bytes.find(')', at);
      if (close == std::string::npos) fail("incomplete format key");
      if (!arguments.is_dict()) fail("format requires a mapping");
      const Value* value =
          arguments.as_dict().find(std::string_view(format.bytes).substr(at + 1, close - at - 1));
      if (value == nullptr) fail("format names a key that is not there");
      at = close + 1;
      out.append(convert(*value, read_percent_spec(format.bytes, at)));
      used = 1;
    } else {
      const Spec spec = read_percent_spec(format.bytes, at);
      out.append(convert(next(), spec));
    }
  }
  const bool all_used = is_tuple ? used == arguments.as_list().items.size()
                                 : used == 1 || arguments.is_dict() || arguments.is_list();
  if (!all_used) fail("not all arguments converted during string formatting");
  return out;
}

Text brace_format(const Text& format, const Arguments& arguments) {
  Text out;
  std::size_t automatic = 0;
  const std::string& text = format.bytes;
  std::size_t at = 0;
  while (at < text.size()) {
    const std::size_t brace = std::min(text.find_first_of("{}", at), text.size());
    out.append(format.slice(at, brace));
    if (brace == text.size()) break;
    if (brace + 1 < text.size() && text[brace + 1] == text[brace]) {
      out.append(text[brace] == '{' ? "{" : "}");
      at = brace + 2;
      continue;
    }
    const std::size_t close = text.find('}', brace);
    if (text[brace] == '}' || close == std::string::npos)
      fail("single '" + std::string(1, text[brace]) + "' in format string");
    std::string_view field = std::string_view(text).substr(brace + 1, close - brace - 1);
    const std::string_view spec =
        field.find(':') == std::string_view::npos ? "" : field.substr(field.find(':') + 1);
    field = field.substr(0, field.find(':'));
    const std::string_view conversion =
        field.find('!') == std::string_view::npos ? "" : field.substr(field.find('!') + 1);
    field = field.substr(0, field.find('!'));
    const Value* value = nullptr;
    std::size_t index = 0;
    if (field.empty()) {
      index = automatic++;
      value = index < arguments.positional.size() ? &arguments.positional[index] : nullptr;
    } else if (std::from_chars(field.data(), field.data() + field.size(), index).ptr ==
               field.data() + field.size()) {
      value = index < arguments.positional.size() ? &arguments.positional[index] : nullptr;
    } else {
      value = arguments.find_named(field);
    }
    if (value == nullptr)
      fail("format field '" + std::string(field.substr(0, 32)) + "' has no argument");
    const Value shown = conversion == "r"   ? Value::string(repr(*value))
                        : conversion == "s" ? Value::string(to_text(*value))
                                            : *value;
    out.append(convert_brace(shown, read_brace_spec(spec)));
    at = close + 1;
  }
  return out;
}

}  // namespace coxswain::chat
