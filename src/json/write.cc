#include <array>
#include <charconv>
#include <cmath>

#include "base/utf8.h"
#include "json/json.h"

namespace coxswain::json {
namespace {

constexpr char kHex[] = "0123456789abcdef";

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
    const std::size_t length = byte < 0x80 ? 0 : base::well_formed_length(text.substr(i));
    if (length > 0) {
      i += length;
      continue;
    }
    out.append(text.substr(plain, i - plain));
    if (byte < 0x80) {
      append_control(out, c);
    } else {
      out += base::kReplacementUtf8;
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
