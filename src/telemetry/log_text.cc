#include "telemetry/log_text.h"

#include <algorithm>

#include "base/utf8.h"

namespace coxswain::telemetry {
namespace {

void append_code(std::string& out, unsigned char c) {
  constexpr std::string_view kHex = "0123456789abcdef";
  out += "\\u00";
  out += kHex[c >> 4U];
  out += kHex[c & 15U];
}

void append_ascii(std::string& out, char c, Escapes escapes) {
  if (c == '\n') {
    out += "\\n";
  } else if (c == '\t') {
    out += "\\t";
  } else if (c == '\r') {
    out += "\\r";
  } else if (static_cast<unsigned char>(c) < 0x20 || c == 0x7F) {
    append_code(out, static_cast<unsigned char>(c));
  } else {
    if (escapes == Escapes::kString && (c == '"' || c == '\\')) out += '\\';
    out += c;
  }
}

bool is_plain_word(std::string_view text) {
  return !text.empty() && std::all_of(text.begin(), text.end(), [](char c) {
    return c > ' ' && c < 0x7F && c != '"' && c != '\\' && c != '=';
  });
}

}  // namespace

void append_escaped(std::string& out, std::string_view text, Escapes escapes) {
  while (!text.empty()) {
    const std::size_t length = base::well_formed_length(text);
    if (length == 1) {
      append_ascii(out, text[0], escapes);
    } else if (length == 0) {
      out += base::kReplacementUtf8;
    } else {
      out += text.substr(0, length);
    }
    text.remove_prefix(std::max<std::size_t>(length, 1));
  }
}

void append_quoted(std::string& out, std::string_view text, Quotes quotes) {
  if (quotes == Quotes::kIfNeeded && is_plain_word(text)) {
    out += text;
    return;
  }
  out += '"';
  append_escaped(out, text, Escapes::kString);
  out += '"';
}

}  // namespace coxswain::telemetry
