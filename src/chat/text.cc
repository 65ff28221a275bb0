#include "chat/text.h"

#include <algorithm>
#include <utf8proc.h>

namespace coxswain::chat {

Text Text::untrusted(std::string text) {
  Text out(std::move(text));
  if (!out.bytes.empty()) out.marks.push_back({0, out.bytes.size()});
  return out;
}

bool Text::marked_at(std::size_t byte) const {
  const auto after = std::ranges::upper_bound(marks, byte, {}, &TextSpan::begin);
  return after != marks.begin() && byte < std::prev(after)->end;
}

void Text::append(const Text& other) {
  const std::size_t shift = bytes.size();
  bytes.append(other.bytes);
  for (const TextSpan& mark : other.marks) {
    if (!marks.empty() && marks.back().end == mark.begin + shift) {
      marks.back().end = mark.end + shift;
    } else {
      marks.push_back({mark.begin + shift, mark.end + shift});
    }
  }
}

Text Text::slice(std::size_t begin, std::size_t end) const {
  Text out(bytes.substr(begin, end - begin));
  out.safe = safe;
  for (const TextSpan& mark : marks) {
    const std::size_t from = std::max(mark.begin, begin);
    const std::size_t to = std::min(mark.end, end);
    if (from < to) out.marks.push_back({from - begin, to - begin});
  }
  return out;
}

Text Text::like(const Text& source, std::string bytes) {
  return source.is_marked() ? untrusted(std::move(bytes)) : Text(std::move(bytes));
}

std::size_t count_code_points(std::string_view text) {
  return static_cast<std::size_t>(std::ranges::count_if(
      text, [](char c) { return (static_cast<unsigned char>(c) & 0xC0) != 0x80; }));
}

std::vector<std::size_t> code_point_offsets(std::string_view text) {
  std::vector<std::size_t> out;
  out.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if ((static_cast<unsigned char>(text[i]) & 0xC0) != 0x80) out.push_back(i);
  }
  out.push_back(text.size());
  return out;
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
  std::size_t index = 0;
  for (std::size_t at = 0; at < text.bytes.size(); ++index) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text.bytes, at, &length);
    Text piece;
    map(c, index, piece.bytes);
    if (!piece.bytes.empty() && text.marked_at(at)) piece.marks.push_back({0, piece.bytes.size()});
    out.append(piece);
    at += length;
  }
  return out;
}

Text strip(const Text& text, const std::string* set, Side side) {
  const auto offsets = code_point_offsets(text.bytes);
  const auto strippable = [&](std::size_t index) {
    const std::string_view c =
        std::string_view(text.bytes).substr(offsets[index], offsets[index + 1] - offsets[index]);
    if (set != nullptr) return set->find(c) != std::string::npos;
    std::size_t length = 0;
    return is_space(code_point_at(c, 0, &length));
  };
  std::size_t begin = 0;
  std::size_t end = offsets.size() - 1;
  if (side != Side::kRight) {
    while (begin < end && strippable(begin)) ++begin;
  }
  if (side != Side::kLeft) {
    while (end > begin && strippable(end - 1)) --end;
  }
  return text.slice(offsets[begin], offsets[end]);
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
    const std::size_t found = text.bytes.find(from, at);
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
    const std::size_t found = text.bytes.find(*separator, at);
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
