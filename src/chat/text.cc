#include "chat/text.h"

#include <algorithm>
#include <cstring>

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

std::vector<std::size_t> code_point_offsets(std::string_view text) {
  std::vector<std::size_t> out;
  out.reserve(text.size() + 1);
  for (std::size_t i = 0; i < text.size(); ++i) {
    if (!base::is_continuation(text[i])) out.push_back(i);
  }
  out.push_back(text.size());
  return out;
}

TextSpan code_point_span(std::string_view text, std::int64_t index) {
  std::size_t begin = 0;
  if (index >= 0) {
    for (; index > 0 && begin < text.size(); --index)
      begin += base::code_point_at(text, begin).n_bytes;
  } else {
    begin = text.size();
    for (; index < 0 && begin > 0; ++index) begin -= base::code_point_before(text, begin).n_bytes;
    if (index < 0) return {};
  }
  if (begin >= text.size()) return {};
  return {begin, begin + base::code_point_at(text, begin).n_bytes};
}

std::size_t find_text(std::string_view text, std::string_view part, std::size_t from) {
  if (from > text.size()) return std::string_view::npos;
  if (part.size() < 32) return text.find(part, from);  // quicker, and not much to repeat
  const void* found = ::memmem(text.data() + from, text.size() - from, part.data(), part.size());
  if (found == nullptr) return std::string_view::npos;
  return static_cast<std::size_t>(static_cast<const char*>(found) - text.data());
}

Text map_code_points(const Text& text,
                     const std::function<void(char32_t, std::size_t, std::string&)>& map) {
  Text out;
  out.safe = text.safe;
  out.bytes.reserve(text.bytes.size());
  const TextSpan* mark = text.marks.begin();
  std::size_t index = 0;
  for (std::size_t at = 0; at < text.bytes.size(); ++index) {
    const auto [c, n_bytes] = base::code_point_at(text.bytes, at);
    const std::size_t begin = out.bytes.size();
    map(c, index, out.bytes);
    while (mark != text.marks.end() && mark->end <= at) ++mark;
    const bool marked = mark != text.marks.end() && mark->begin <= at;
    if (marked && out.bytes.size() > begin) out.marks.add({begin, out.bytes.size()});
    at += n_bytes;
  }
  return out;
}

Text strip(const Text& text, const std::string* set, Side side) {
  const std::string_view bytes(text.bytes);
  const auto strippable = [&](std::size_t at, const base::CodePoint& c) {
    return set != nullptr ? set->find(bytes.substr(at, c.n_bytes)) != std::string::npos
                          : is_space(c.value);
  };
  std::size_t begin = 0;
  std::size_t end = bytes.size();
  while (side != Side::kRight && begin < end) {
    const base::CodePoint first = base::code_point_at(bytes, begin);
    if (!strippable(begin, first)) break;
    begin += first.n_bytes;
  }
  while (side != Side::kLeft && begin < end) {
    const base::CodePoint last = base::code_point_before(bytes, end);
    if (!strippable(end - last.n_bytes, last)) break;
    end -= last.n_bytes;
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
    const auto [c, n_bytes] = base::code_point_at(text, at);
    const bool space = is_space(c);
    if (!space && !inside) out.push_back({at, at});
    at += n_bytes;
    if (!space) out.back().end = at;
    inside = !space;
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
    const auto [c, n_bytes] = base::code_point_at(text.bytes, at);
    const bool ends =
        (c >= 10 && c <= 13) || (c >= 0x1C && c <= 0x1E) || c == 0x85 || c == 0x2028 || c == 0x2029;
    std::size_t next = at + n_bytes;
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

Text escape_html(const Text& text) {
  constexpr std::string_view kFrom = "&<>\"'";
  constexpr std::string_view kTo[] = {"&amp;", "&lt;", "&gt;", "&#34;", "&#39;"};
  Text out = map_code_points(text, [&](char32_t c, std::size_t, std::string& bytes) {
    const std::size_t found = c < 0x80 ? kFrom.find(static_cast<char>(c)) : std::string_view::npos;
    found == std::string_view::npos ? base::append_utf8(bytes, c)
                                    : static_cast<void>(bytes += kTo[found]);
  });
  out.safe = true;
  return out;
}

}  // namespace coxswain::chat
