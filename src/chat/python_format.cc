#include "chat/python_format.h"

#include <algorithm>
#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>
#include <cstdlib>
#include <optional>

#include "chat/interpreter.h"
#include "chat/operators.h"

namespace coxswain::chat {
namespace {

void append_repr(Text& out, const Value& value);

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
  } else if (is_printable(c)) {
    base::append_utf8(out, c);
  } else {
    const char* format = c < 0x100 ? "\\x%02x" : c < 0x10000 ? "\\u%04x" : "\\U%08x";
    std::snprintf(buffer.data(), buffer.size(), format, static_cast<unsigned>(c));
    out += buffer.data();
  }
}

void append_string_repr(std::string& out, std::string_view text) {
  const bool has_single = text.find('\'') != std::string_view::npos;
  const char quote = has_single && text.find('"') == std::string_view::npos ? '"' : '\'';
  out += quote;
  const auto is_plain = [&](char c) { return c >= ' ' && c < 0x7F && c != quote && c != '\\'; };
  for (std::size_t at = 0; at < text.size();) {
    std::size_t end = at;
    while (end < text.size() && is_plain(text[end])) ++end;
    out.append(text.substr(at, end - at));
    at = end;
    if (at == text.size()) break;
    const auto [c, n_bytes] = base::code_point_at(text, at);
    append_escaped(out, c, quote);
    at += n_bytes;
  }
  out += quote;
}

// Marked as a whole if any of it is.
void append_text_repr(Text& out, const Text& text) {
  const std::size_t begin = out.bytes.size();
  if (text.safe) out.append("Markup(");
  append_string_repr(out.bytes, text.bytes);
  if (text.safe) out.append(")");
  if (text.is_marked()) out.marks.add({begin, out.bytes.size()});
}

void append_items(Text& out, std::string_view open, const List& list, std::string_view close) {
  out.append(open);
  for (std::size_t i = 0; i < list.items.size(); ++i) {
    if (i > 0) out.append(", ");
    append_repr(out, list.items[i]);
  }
  out.append(close);
}

void append_list_repr(Text& out, const List& list) {
  switch (list.kind) {
    case ListKind::kList:
      return append_items(out, "[", list, "]");
    case ListKind::kTuple:
    case ListKind::kGroup:
      return append_items(out, "(", list, list.items.size() == 1 ? ",)" : ")");
    case ListKind::kGenerator:
      return out.append("<generator object>");
    case ListKind::kDictView:
      out.append(list.view_name);
      return append_items(out, "([", list, "])");
  }
}

void append_dict_repr(Text& out, const Dict& dict) {
  out.append("{");
  bool first = true;
  for (const auto& [key, value] : dict.items()) {
    if (!first) out.append(", ");
    first = false;
    append_repr(out, key);
    out.append(": ");
    append_repr(out, value);
  }
  out.append("}");
}

void append_repr(Text& out, const Value& value) {
  switch (value.kind()) {
    case Value::Kind::kUndefined:
      return out.append("Undefined");
    case Value::Kind::kNone:
      return out.append("None");
    case Value::Kind::kBool:
      return out.append(value.truthy() ? "True" : "False");
    case Value::Kind::kInt:
      return out.append(std::to_string(value.as_int()));
    case Value::Kind::kLargeInt:
      return out.append(value.as_digits());
    case Value::Kind::kFloat:
      return out.append(float_repr(value.as_double()));
    case Value::Kind::kString:
      return append_text_repr(out, value.as_text());
    case Value::Kind::kList:
      return append_list_repr(out, value.as_list());
    case Value::Kind::kDict:
      return append_dict_repr(out, value.as_dict());
    case Value::Kind::kNamespace:
      out.append("<Namespace ");
      append_dict_repr(out, value.as_namespace().attributes);
      return out.append(">");
    case Value::Kind::kCallable:
      return out.append(value.as_callable().is_macro() ? "<Macro>" : "<function>");
  }
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
  Text out;
  append_repr(out, value);
  return out;
}

namespace {

constexpr unsigned kFormatWidthMax = 4096;  // widths and precisions are output size in disguise

// What stands behind a '%'.
struct Conversion {
  bool left = false;
  bool zeros = false;
  char sign = '\0';  // what stands in front of a number that is not negative: '+', ' ' or nothing
  int width = 0;
  std::optional<int> precision{};
  char type = '\0';
};

// Reads the number at `at`, which moves behind it; 0 if there is none.
int read_size(std::string_view format, std::size_t& at) {
  unsigned out = 0;
  const auto parsed = std::from_chars(format.data() + at, format.data() + format.size(), out);
  at = static_cast<std::size_t>(parsed.ptr - format.data());
  if (parsed.ec == std::errc::result_out_of_range || out > kFormatWidthMax)
    fail("a format width is more than " + std::to_string(kFormatWidthMax));
  return static_cast<int>(out);
}

// The conversion whose '%' stands in front of `at`, which moves behind it.
Conversion read_conversion(std::string_view format, std::size_t& at) {
  Conversion out;
  const auto peek = [&] { return at < format.size() ? format[at] : '\0'; };
  for (; peek() == '-' || peek() == '0' || peek() == '+' || peek() == ' '; ++at) {
    out.left = out.left || peek() == '-';
    out.zeros = out.zeros || peek() == '0';
    if (peek() == '+' || (peek() == ' ' && out.sign == '\0')) out.sign = peek();
  }
  if (peek() >= '1' && peek() <= '9') out.width = read_size(format, at);
  if (peek() == '.') out.precision = read_size(format, ++at);
  out.type = peek();
  constexpr std::string_view kTypes = "sdifrx%";
  if (out.type == '\0') fail("incomplete format");
  if (kTypes.find(out.type) == std::string_view::npos)
    fail("format '%" + std::string(format.substr(at, 1)) + "' is not supported");
  ++at;
  return out;
}

// A number without padding, behind its sign.
std::string number_text(const Value& value, const Conversion& conversion) {
  const char type = conversion.type;
  if (value.is_large_int() && (type == 'd' || type == 'i')) return value.as_digits();
  require_defined(value);
  if (!value.is_number() && !value.is_large_int())
    fail(std::string("%") + type + " format: a real number is required, not " + type_name(value));
  require_number(value, "%");
  std::array<char, 512 + kFormatWidthMax> buffer;
  char* const begin = buffer.data();
  char* const end = begin + buffer.size();
  if (type == 'f') {
    const int precision = conversion.precision.value_or(6);
    return {begin,
            std::to_chars(begin, end, value.as_double(), std::chars_format::fixed, precision).ptr};
  }
  if (type == 'x' && !value.is_integral())
    fail("%x format: an integer is required, not " + type_name(value));
  const std::int64_t whole = truncate_number(value).as_int();
  std::string out(begin, std::to_chars(begin, end, whole, type == 'x' ? 16 : 10).ptr);
  const std::size_t n_sign = whole < 0 ? 1 : 0;
  const std::size_t n_wanted = n_sign + static_cast<std::size_t>(conversion.precision.value_or(0));
  if (out.size() < n_wanted) out.insert(n_sign, n_wanted - out.size(), '0');
  return out;
}

Text convert(const Value& value, const Conversion& conversion) {
  Text body;
  const auto width = static_cast<std::size_t>(conversion.width);
  if (conversion.type == 's' || conversion.type == 'r') {
    body = conversion.type == 's' ? to_text(value) : repr(value);
    if (conversion.precision) {
      const std::vector<std::size_t> offsets = code_point_offsets(body.bytes);
      const auto kept = static_cast<std::size_t>(*conversion.precision);
      if (kept < offsets.size()) body = body.slice(0, offsets[kept]);
    }
  } else {
    std::string number = number_text(value, conversion);
    if (conversion.sign != '\0' && !number.starts_with('-')) number.insert(0, 1, conversion.sign);
    const std::size_t n_sign = number.find_first_of("0123456789abcdefin");
    if (conversion.zeros && !conversion.left && number.size() < width)
      number.insert(n_sign, width - number.size(), '0');
    body = Text(std::move(number));
  }
  const std::size_t length = base::count_characters(body.bytes);
  const std::string room(width > length ? width - length : 0, ' ');
  if (conversion.left) {
    body.append(room);
    return body;
  }
  Text out(room);
  out.append(body);
  return out;
}

}  // namespace

void check_percent_format(std::string_view format) {
  for (std::size_t at = format.find('%'); at != std::string_view::npos; at = format.find('%', at))
    read_conversion(format, ++at);
}

Text percent_format(Interpreter& interpreter, const Text& format, const Value& arguments) {
  const std::vector<Value> given =
      is_tuple(arguments) ? arguments.as_list().items : std::vector<Value>{arguments};
  std::size_t n_used = 0;
  Text out;
  for (std::size_t at = 0; at < format.bytes.size();) {
    const std::size_t before = out.bytes.size();
    const std::size_t percent = std::min(format.bytes.find('%', at), format.bytes.size());
    out.append(format.slice(at, percent));
    at = percent;
    if (percent < format.bytes.size()) {
      const Conversion conversion = read_conversion(format.bytes, ++at);
      if (conversion.type == '%') {
        out.append("%");
      } else {
        if (n_used == given.size()) fail("not enough arguments for format string");
        out.append(convert(given[n_used++], conversion));
      }
    }
    interpreter.charge(1);
    interpreter.grow_output(before, out.bytes.size());
  }
  const bool takes_none =
      arguments.is_dict() || arguments.is_undefined() || is_indexable(arguments);
  if (n_used < given.size() && (is_tuple(arguments) || !takes_none))
    fail("not all arguments converted during string formatting");
  return out;
}

}  // namespace coxswain::chat
