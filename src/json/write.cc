#include <array>
#include <charconv>
#include <cmath>

#include "json/json.h"

namespace coxswain::json {
namespace {

constexpr char kHex[] = "0123456789abcdef";

// Length of the well-formed UTF-8 sequence at the start of `text`, 0 if there is none (Unicode 15,
// table 3-7).
std::size_t utf8_length(std::string_view text) {
  const auto byte = [&](std::size_t i) {
    return i < text.size() ? static_cast<unsigned char>(text[i]) : static_cast<unsigned char>(0);
  };
  const auto continues = [&](std::size_t i) { return (byte(i) & 0xC0) == 0x80; };
  const unsigned char first = byte(0);
  if (first < 0x80) return 1;
  if (first >= 0xC2 && first <= 0xDF) return continues(1) ? 2 : 0;
  if (first >= 0xE0 && first <= 0xEF) {
    if (!continues(1) || !continues(2)) return 0;
    if (first == 0xE0 && byte(1) < 0xA0) return 0;
    if (first == 0xED && byte(1) > 0x9F) return 0;
    return 3;
  }
  if (first >= 0xF0 && first <= 0xF4) {
    if (!continues(1) || !continues(2) || !continues(3)) return 0;
    if (first == 0xF0 && byte(1) < 0x90) return 0;
    if (first == 0xF4 && byte(1) > 0x8F) return 0;
    return 4;
  }
  return 0;
}

void append_control(std::string& out, char c) {
  switch (c) {
    case '"':
      out += "\\\"";
      return;
    case '\\':
      out += "\\\\";
      return;
    case '\b':
      out += "\\b";
      return;
    case '\f':
      out += "\\f";
      return;
    case '\n':
      out += "\\n";
      return;
    case '\r':
      out += "\\r";
      return;
    case '\t':
      out += "\\t";
      return;
    default:
      break;
  }
  out += "\\u00";
  out += kHex[(static_cast<unsigned char>(c) >> 4) & 15];
  out += kHex[static_cast<unsigned char>(c) & 15];
}

void append_value(std::string& out, const Value& value);

void append_array(std::string& out, const Array& array) {
  out += '[';
  bool first = true;
  for (const Value& element : array) {
    if (!first) out += ',';
    first = false;
    append_value(out, element);
  }
  out += ']';
}

void append_object(std::string& out, const Object& object) {
  out += '{';
  bool first = true;
  for (const auto& [key, member] : object) {
    if (!first) out += ',';
    first = false;
    append_quoted(out, key);
    out += ':';
    append_value(out, member);
  }
  out += '}';
}

// Values are as deep as the parser let them be, or as our own code built them.
void append_value(std::string& out, const Value& value) {
  switch (value.type()) {
    case Value::Type::kNull:
      out += "null";
      break;
    case Value::Type::kBool:
      out += value.as_bool() ? "true" : "false";
      break;
    case Value::Type::kNumber:
      out += value.number_text();
      break;
    case Value::Type::kString:
      append_quoted(out, value.as_string());
      break;
    case Value::Type::kArray:
      append_array(out, value.as_array());
      break;
    case Value::Type::kObject:
      append_object(out, value.as_object());
      break;
  }
}

template <typename Number>
void append_number(std::string& out, Number value) {
  std::array<char, 48> buffer;
  const auto result = std::to_chars(buffer.data(), buffer.data() + buffer.size(), value);
  out.append(buffer.data(), result.ptr);
}

}  // namespace

std::string write(const Value& value) {
  std::string out;
  append_value(out, value);
  return out;
}

void append_quoted(std::string& out, std::string_view text) {
  out += '"';
  std::size_t plain = 0;  // start of the run that needs no change
  for (std::size_t i = 0; i < text.size();) {
    const char c = text[i];
    const auto byte = static_cast<unsigned char>(c);
    if (byte >= 0x20 && byte < 0x80 && c != '"' && c != '\\') {
      ++i;
      continue;
    }
    const std::size_t length = byte < 0x80 ? 0 : utf8_length(text.substr(i));
    if (length > 0) {
      i += length;
      continue;
    }
    out.append(text.substr(plain, i - plain));
    if (byte < 0x80) {
      append_control(out, c);
    } else {
      out += "\xEF\xBF\xBD";
    }
    plain = ++i;
  }
  out.append(text.substr(plain));
  out += '"';
}

void append_real32(std::string& out, float value) {
  if (!std::isfinite(value)) {
    out += "null";
    return;
  }
  append_number(out, value);
}

void append_integer(std::string& out, std::int64_t value) {
  append_number(out, value);
}
void append_unsigned(std::string& out, std::uint64_t value) {
  append_number(out, value);
}

}  // namespace coxswain::json
