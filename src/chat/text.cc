#include "chat/text.h"

#include <algorithm>
#include <cstring>
#include <utf8proc.h>

namespace coxswain::chat {

Text Text::untrusted(std::string text) {
  Text out(std::move(text));
  if (!out.bytes.empty()) out.marks.add({0, out.bytes.size()});
  return out;
}

void Text::append(const Text& other) {
  const std::size_t shift = bytes.size();
  bytes.append(other.bytes);
  for (const TextSpan& mark : other.marks) marks.add({mark.begin + shift, mark.end + shift});
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out(bytes.substr(begin, end - begin));
  out.safe = safe;
  const TextSpan* mark = std::ranges::upper_bound(marks, begin, {}, &TextSpan::end);
  for (; mark != marks.end() && mark->begin < end; ++mark) {
    const std::size_t from = std::max(mark->begin, begin);
    const std::size_t to = std::min(mark->end, end);
    if (from < to) out.marks.add({from - begin, to - begin});
  }
  return out;
}

Text Text::like(const Text& source, std::string bytes) {
  return source.is_marked() ? untrusted(std::move(bytes)) : Text(std::move(bytes));
}

namespace {

bool is_continuation(char c) {
  return (static_cast<unsigned char>(c) & 0xC0) == 0x80;
}

std::size_t previous_code_point(std::string_view text, std::size_t at) {
  for (--at; at > 0 && is_continuation(text[at]);) --at;
  return at;
}

}  // namespace

std::size_t next_code_point(std::string_view text, std::size_t at) {
  for (++at; at < text.size() && is_continuation(text[at]);) ++at;
  return at;
}

std::size_t count_code_points(std::string_view text) {
  return text.size() - static_cast<std::size_t>(std::ranges::count_if(text, is_continuation));
}

std::vector<std::size_t> code_point_offsets(std::string_view text) {
  std::vector<std::size_t> out;
  out.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!is_continuation(text[i])) out.push_back(i);
  }
  out.push_back(text.size());
  return out;
}

TextSpan code_point_span(std::string_view text, std::int64_t index) {
  std::size_t begin = 0;
  if (index >= 0) {
    for (; index > 0 && begin < text.size(); --index) begin = next_code_point(text, begin);
  } else {
    begin = text.size();
    for (; index < 0 && begin > 0; ++index) begin = previous_code_point(text, begin);
    if (index < 0) return {};
  }
  return begin < text.size() ? TextSpan{begin, next_code_point(text, begin)} : TextSpan{};
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.size() < 32) return text.find(part, from);  // quicker, and not much to repeat
  const void* found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

char32_t code_point_at(std::string_view text, std::size_t byte, std::size_t* length) {
  utf8proc_int32_t c = 0;
  const auto n = utf8proc_iterate(reinterpret_cast<const utf8proc_uint8_t*>(text.data()) + byte,
                                  static_cast<utf8proc_ssize_t>(text.size() - byte),
                                  &c);
  if (n <= 0) {
    *length = 1;
    return 0xFFFD;
  }
  *length = static_cast<std::size_t>(n);
  return static_cast<char32_t>(c);
}

void append_code_point(std::string& out, char32_t c) {
  utf8proc_uint8_t buffer[4];
  const auto n = utf8proc_encode_char(static_cast<utf8proc_int32_t>(c), buffer);
  out.append(reinterpret_cast<const char*>(buffer), static_cast<std::size_t>(n));
}

bool is_space(char32_t c) {
  if (c < 0x80) return (c >= 9 && c <= 13) || (c >= 0x1C && c <= 0x20);
  if (c == 0x85) return true;
  const auto category = utf8proc_category(static_cast<utf8proc_int32_t>(c));
  return category == UTF8PROC_CATEGORY_ZS || category == UTF8PROC_CATEGORY_ZL ||
         category == UTF8PROC_CATEGORY_ZP;
}

Text map_code_points(const Text& text,
                     const std::function<void(char32_t, std::size_t, std::string&)>& map) {
  Text out;
  out.safe = text.safe;
  out.bytes.reserve(text.bytes.size());
  const TextSpan* mark = text.marks.begin();
  std::size_t index = 0;
  for (std::size_t at = 0; at < text.bytes.size(); ++index) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text.bytes, at, &length);
    const std::size_t begin = out.bytes.size();
    map(c, index, out.bytes);
    while (mark != text.marks.end() && mark->end <= at) ++mark;
    const bool marked = mark != text.marks.end() && mark->begin <= at;
    if (marked && out.bytes.size() > begin) out.marks.add({begin, out.bytes.size()});
    at += length;
  }
  return out;
}

Text strip(const Text& text, const std::string* set, Side side) {
  const std::string_view bytes(text.bytes);
  const auto strippable = [&](std::size_t begin, std::size_t end) {
    const std::string_view c = bytes.substr(begin, end - begin);
    if (set != nullptr) return set->find(c) != std::string::npos;
    std::size_t length = 0;
    return is_space(code_point_at(c, 0, &length));
  };
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const std::size_t next = next_code_point(bytes, begin);
    if (!strippable(begin, next)) break;
    begin = next;
  }
  while (side != Side::kLeft && begin < end) {
    const std::size_t last = previous_code_point(bytes, end);
    if (!strippable(last, end)) break;
    end = last;
  }
  return text.slice(begin, end);
}

Text replace_all(const Text& text, std::string_view from, const Text& to, std::size_t count_max) {
  Text out;
  if (from.empty()) {
    // Python puts `to` before every character and at the end.
    const auto offsets = code_point_offsets(text.bytes);
    std::size_t done = 0;
    for (std::size_t i = 0; i + 1 < offsets.size(); ++i) {
      if (done < count_max) out.append(to), ++done;
      out.append(text.slice(offsets[i], offsets[i + 1]));
    }
    if (done < count_max) out.append(to);
    return out;
  }
  std::size_t at = 0;
  for (std::size_t done = 0; done < count_max; ++done) {
    const std::size_t found = find_text(text.bytes, from, at);
    if (found == std::string::npos) break;
    out.append(text.slice(at, found));
    out.append(to);
    at = found + from.size();
  }
  out.append(text.slice(at, text.bytes.size()));
  return out;
}

namespace {

// Byte spans of the words between runs of white space.
std::vector<TextSpan> words_of(std::string_view text) {
  std::vector<TextSpan> out;
  bool inside = false;
  for (std::size_t at = 0; at < text.size();) {
    std::size_t length = 0;
    const bool space = is_space(code_point_at(text, at, &length));
    if (!space && !inside) out.push_back({at, at});
    if (!space) out.back().end = at + length;
    inside = !space;
    at += length;
  }
  return out;
}

}  // namespace

std::vector<Text> split(const Text& text, const std::string* separator, std::size_t splits_max) {
  std::vector<Text> out;
  if (separator == nullptr) {
    const auto words = words_of(text.bytes);
    for (std::size_t i = 0; i < words.size(); ++i) {
      if (i == splits_max) {
        out.push_back(text.slice(words[i].begin, text.bytes.size()));
        return out;
      }
      out.push_back(text.slice(words[i].begin, words[i].end));
    }
    return out;
  }
  std::size_t at = 0;
  while (out.size() < splits_max) {
    const std::size_t found = find_text(text.bytes, *separator, at);
    if (found == std::string::npos) break;
    out.push_back(text.slice(at, found));
    at = found + separator->size();
  }
  out.push_back(text.slice(at, text.bytes.size()));
  return out;
}

std::vector<Text> split_right(const Text& text,
                              const std::string* separator,
                              std::size_t splits_max) {
  std::vector<Text> out;
  std::size_t end = text.bytes.size();
  if (separator == nullptr) {
    auto words = words_of(text.bytes);
    while (!words.empty() && out.size() < splits_max) {
      out.push_back(text.slice(words.back().begin, words.back().end));
      words.pop_back();
    }
    if (!words.empty()) out.push_back(text.slice(0, words.back().end));
  } else {
    while (out.size() < splits_max && end > 0) {
      const std::size_t found = end < separator->size()
                                    ? std::string::npos
                                    : text.bytes.rfind(*separator, end - separator->size());
      if (found == std::string::npos) break;
      out.push_back(text.slice(found + separator->size(), end));
      end = found;
    }
    out.push_back(text.slice(0, end));
  }
  std::ranges::reverse(out);
  return out;
}

std::vector<Text> split_lines(const Text& text, bool keep_ends) {
  std::vector<Text> out;
  std::size_t begin = 0;
  for (std::size_t at = 0; at < text.bytes.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text.bytes, at, &length);
    const bool ends =
        (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    std::size_t next = at + length;
    if (ends) {
      if (c == '\r' && next < text.bytes.size() && text.bytes[next] == '\n') ++next;
      out.push_back(text.slice(begin, keep_ends ? next : at));
      begin = next;
    }
    at = next;
  }
  if (begin < text.bytes.size()) out.push_back(text.slice(begin, text.bytes.size()));
  return out;
}

}  // namespace coxswain::chat
