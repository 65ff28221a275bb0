// str() and repr(). The formatting languages: python_format.cc.

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "chat/callable.h"
#include "chat/python_format.h"
#include "chat/text_predicates.h"

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
  } else if (is_printable_character(c)) {
    append_code_point(out, c);
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
    std::size_t length = 0;
    append_escaped(out, code_point_at(text, at, &length), quote);
    at += length;
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

std::string range_repr(const Range& range) {
  std::string out = "range(" + std::to_string(range.begin) + ", " + std::to_string(range.end);
  if (range.step != 1) out += ", " + std::to_string(range.step);
  return out + ")";
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
    case ListKind::kRange:
      return out.append(range_repr(list.range));
    case ListKind::kSet:
      if (list.items.empty()) return out.append("set()");
      return append_items(out, "{", list, "}");
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
    case Value::Kind::kBigInt:
      return out.append(value.as_big_int().to_string());
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

}  // namespace coxswain::chat
