// str() and repr(). The formatting languages: python_format.cc.

#include <array>
#include <charconv>
#include <cmath>
#include <cstdio>

#include "chat/python_format.h"
#include "chat/text_predicates.h"

namespace coxswain::chat {
namespace {

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
    case Value::Kind::kBigInt:
      return Text(value.as_big_int().to_string());
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

}  // namespace coxswain::chat
