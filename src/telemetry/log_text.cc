#include "telemetry/log_text.h"

#include <algorithm>

namespace coxswain::telemetry {
namespace {

constexpr std::string_view kReplacement = "\xEF\xBF\xBD";

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0U) == 0x80U;
}

// Length of the well-formed UTF-8 character that `text` starts with, 0 if there is none (Unicode
// 15, table 3-7).
std::size_t character_length(std::string_view text) {
  const auto lead = static_cast<unsigned char>(text[0]);
  if (lead < 0x80) return 1;
  const std::size_t length = lead >= 0xC2 && lead <= 0xDF   ? 2
                             : (lead & 0xF0U) == 0xE0       ? 3
                             : lead >= 0xF0 && lead <= 0xF4 ? 4
                                                            : 0;
  if (length == 0 || text.size() < length) return 0;
  for (std::size_t i = 1; i < length; ++i) {
    if (!is_continuation(text[i])) return 0;
  }
  const auto second = static_cast<unsigned char>(text[1]);
  if ((lead == 0xE0 && second < 0xA0) || (lead == 0xED && second > 0x9F) ||
      (lead == 0xF0 && second < 0x90) || (lead == 0xF4 && second > 0x8F)) {
    return 0;
  }
  return length;
}

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

std::string_view cut_utf8(std::string_view text, std::size_t bytes_max) {
  if (text.size() <= bytes_max) return text;
  std::size_t end = bytes_max;
  for (std::size_t back = 0; back < 3 && end > 0 && is_continuation(text[end]); ++back) --end;
  return text.substr(0, end);
}

void append_escaped(std::string& out, std::string_view text, Escapes escapes) {
  while (!text.empty()) {
    const std::size_t length = character_length(text);
    if (length == 1) {
      append_ascii(out, text[0], escapes);
    } else if (length == 0) {
      out += kReplacement;
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
