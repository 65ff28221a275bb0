// Filters over strings.

#include <algorithm>
#include <limits>

#include "chat/filters.h"
#include "chat/python_format.h"
#include "chat/text_predicates.h"

namespace coxswain::chat {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

Value filter_upper(const FilterCall& call) {
  return Value::string(to_upper(to_text(call.input)));
}
Value filter_lower(const FilterCall& call) {
  return Value::string(to_lower(to_text(call.input)));
}
Value filter_capitalize(const FilterCall& call) {
  return Value::string(to_capitalized(to_text(call.input)));
}

// Words begin after white space, '-', '(', '{', '[' or '<'; each gets an upper-case start and a
// lower-case rest.
Value filter_title(const FilterCall& call) {
  const Text text = to_text(call.input);
  Text out;
  bool at_start = true;
  for (std::size_t at = 0; at < text.bytes.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text.bytes, at, &length);
    const Text character = text.slice(at, at + length);
    out.append(at_start ? to_upper(character) : to_lower(character));
    at_start = is_space(c) || c == '-' || c == '(' || c == '{' || c == '[' || c == '<';
    at += length;
  }
  return Value::string(std::move(out));
}

Value filter_trim(const FilterCall& call) {
  const Value* set = call.argument(0, "chars");
  const std::string* characters = set != nullptr && set->is_string() ? &set->as_bytes() : nullptr;
  return Value::string(strip(to_text(call.input), characters, Side::kBoth));
}

Value filter_string(const FilterCall& call) {
  return Value::string(to_text(call.input));
}
Value filter_safe(const FilterCall& call) {
  Text text = to_text(call.input);
  text.safe = true;
  return Value::string(std::move(text));
}

Value filter_replace(const FilterCall& call) {
  const Text text = to_text(call.input);
  const Value* from = call.argument(0, "old");
  const Value* to = call.argument(1, "new");
  if (from == nullptr || to == nullptr) fail("replace takes two strings");
  const std::int64_t count = call.integer(2, "count", -1);
  const Text replacement = to_text(*to);
  call.interpreter.reserve_output(replacement.bytes.size() + 1, text.bytes.size() + 1);
  return Value::string(replace_all(text,
                                   to_text(*from).bytes,
                                   replacement,
                                   count < 0 ? kNoLimit : static_cast<std::size_t>(count)));
}

Value filter_force_escape(const FilterCall& call) {
  return Value::string(escape_html(to_text(call.input)));
}

Value filter_escape(const FilterCall& call) {
  return call.input.is_string() && call.input.as_text().safe ? call.input
                                                             : filter_force_escape(call);
}

void require_text(const Value& value) {
  require_defined(value);
  if (!value.is_string()) fail("'" + type_name(value) + "' object has no attribute 'splitlines'");
}

Value filter_indent(const FilterCall& call) {
  require_text(call.input);
  const Value* width = call.argument(0, "width");
  std::string indent(4, ' ');
  if (width != nullptr && width->is_string())
    indent = width->as_bytes();
  else if (width != nullptr)
    indent.assign(
        static_cast<std::size_t>(std::clamp<std::int64_t>(call.integer(0, "width", 4), 0, 1024)),
        ' ');
  const bool first = call.flag(1, "first", false);
  const bool blank = call.flag(2, "blank", false);
  const Text text = to_text(call.input);
  call.interpreter.reserve_output(indent.size() + 1, text.bytes.size() + 1);
  std::vector<Text> lines = split_lines(text, false);
  if (text.bytes.ends_with('\n') || text.empty()) lines.emplace_back();
  Text out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    if ((i > 0 || first) && (blank || !lines[i].empty())) out.append(indent);
    out.append(lines[i]);
  }
  return Value::string(std::move(out));
}

Value filter_format(const FilterCall& call) {
  if (!call.arguments.named.empty()) {
    Dict named;
    for (const auto& [name, value] : call.arguments.named) named.set(Value::string(name), value);
    return Value::string(percent_format(to_text(call.input), Value::dict(std::move(named))));
  }
  return Value::string(
      percent_format(to_text(call.input), Value::tuple(call.arguments.positional)));
}

Value filter_center(const FilterCall& call) {
  const Text text = to_text(call.input);
  const auto width =
      static_cast<std::size_t>(std::clamp<std::int64_t>(call.integer(0, "width", 80), 0, 1 << 20));
  const std::size_t length = count_code_points(text.bytes);
  if (length >= width) return Value::string(text);
  const std::size_t room = width - length;
  const std::size_t left = room / 2 + (room & width & 1);
  Text out(std::string(left, ' '));
  out.append(text);
  out.append(std::string(room - left, ' '));
  return Value::string(std::move(out));
}

Value filter_truncate(const FilterCall& call) {
  if (call.input.is_list() || call.input.is_dict()) {
    // Only the length of a short one is looked at.
    const auto n = static_cast<std::int64_t>(iterate(call.input).size());
    if (n <= call.integer(0, "length", 255) + call.integer(3, "leeway", 5)) return call.input;
  }
  if (!call.input.is_string() && !call.input.is_undefined())
    fail("'" + type_name(call.input) + "' object cannot be truncated");
  const Text text = to_text(call.input);
  const auto length =
      static_cast<std::size_t>(std::max<std::int64_t>(0, call.integer(0, "length", 255)));
  const bool kill_words = call.flag(1, "killwords", false);
  const Text end = call.text(2, "end", "...");
  const auto leeway =
      static_cast<std::size_t>(std::max<std::int64_t>(0, call.integer(3, "leeway", 5)));
  const auto offsets = code_point_offsets(text.bytes);
  const std::size_t end_length = count_code_points(end.bytes);
  if (length < end_length) fail("truncate: length must be at least the length of the end");
  if (offsets.size() - 1 <= length + leeway) return Value::string(text);
  Text out = text.slice(0, offsets[length - end_length]);
  if (!kill_words) {
    const std::size_t blank = out.bytes.rfind(' ');
    if (blank != std::string::npos) out = out.slice(0, blank);
  }
  out.append(end);
  return Value::string(std::move(out));
}

Value filter_wordcount(const FilterCall& call) {
  const Text text = to_text(call.input);
  std::int64_t words = 0;
  bool inside = false;
  for (std::size_t at = 0; at < text.bytes.size();) {
    std::size_t length = 0;
    const char32_t c = code_point_at(text.bytes, at, &length);
    const bool part = is_word_character(c);
    if (part && !inside) ++words;
    inside = part;
    at += length;
  }
  return Value::integer(words);
}

// Greedy lines of at most `width` characters, broken at blanks; longer words are cut.
void wrap_line(const Text& line, std::size_t width, bool break_long, const Text& wrap, Text& out) {
  std::size_t used = 0;
  for (Text word : split(line, nullptr, kNoLimit)) {
    std::size_t length = count_code_points(word.bytes);
    if (used > 0 && used + 1 + length <= width) {
      out.append(" ");
      ++used;
    } else if (used > 0) {
      out.append(wrap);
      used = 0;
    }
    while (break_long && length > width) {
      const auto offsets = code_point_offsets(word.bytes);
      out.append(word.slice(0, offsets[width]));
      out.append(wrap);
      word = word.slice(offsets[width], word.bytes.size());
      length -= width;
    }
    out.append(word);
    used += length;
  }
}

Value filter_wordwrap(const FilterCall& call) {
  require_text(call.input);
  const auto width =
      static_cast<std::size_t>(std::clamp<std::int64_t>(call.integer(0, "width", 79), 1, 1 << 20));
  const bool break_long = call.flag(1, "break_long_words", true);
  const Text wrap = call.text(2, "wrapstring", "\n");
  const Text text = to_text(call.input);
  call.interpreter.reserve_output(wrap.bytes.size() + 1, text.bytes.size() + 1);
  Text out;
  bool first = true;
  for (const Text& line : split_lines(text, false)) {
    if (!first) out.append(wrap);
    first = false;
    wrap_line(line, width, break_long, wrap, out);
  }
  return Value::string(std::move(out));
}

Value filter_striptags(const FilterCall& call) {
  const Text text = to_text(call.input);
  Text out;
  std::size_t at = 0;
  while (at < text.bytes.size()) {
    const std::size_t open = std::min(text.bytes.find('<', at), text.bytes.size());
    out.append(text.slice(at, open));
    const std::size_t close = text.bytes.find('>', open);
    if (close == std::string::npos) {
      out.append(text.slice(open, text.bytes.size()));
      break;
    }
    at = close + 1;
  }
  Text joined;
  for (const Text& word : split(out, nullptr, kNoLimit)) {
    if (!joined.empty()) joined.append(" ");
    joined.append(word);
  }
  return Value::string(std::move(joined));
}

// `is_query`: as part of a query, where a blank is a plus and a slash is written by its number.
std::string url_quote(std::string_view text, bool is_query) {
  constexpr char kHex[] = "0123456789ABCDEF";
  std::string out;
  for (const char c : text) {
    const bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') ||
                       c == '_' || c == '.' || c == '-' || c == '~' || (!is_query && c == '/');
    if (plain) {
      out += c;
    } else if (is_query && c == ' ') {
      out += '+';
    } else {
      out += '%';
      out += kHex[(static_cast<unsigned char>(c) >> 4) & 15];
      out += kHex[static_cast<unsigned char>(c) & 15];
    }
  }
  return out;
}

Value filter_urlencode(const FilterCall& call) {
  if (!call.input.is_dict() && !call.input.is_list()) {
    const Text text = to_text(call.input);
    return Value::string(Text::like(text, url_quote(text.bytes, false)));
  }
  Text out;
  const auto add = [&](const Value& key, const Value& value) {
    if (!out.empty()) out.append("&");
    out.append(Text::like(to_text(key), url_quote(to_text(key).bytes, true)));
    out.append("=");
    out.append(Text::like(to_text(value), url_quote(to_text(value).bytes, true)));
  };
  if (call.input.is_dict()) {
    for (const auto& [key, value] : call.input.as_dict().items()) add(key, value);
  } else {
    for (const Value& pair : call.input.as_list().items) {
      const auto parts = iterate(pair);
      if (parts.size() != 2) fail("urlencode takes pairs");
      add(parts[0], parts[1]);
    }
  }
  return Value::string(std::move(out));
}

Value filter_xmlattr(const FilterCall& call) {
  if (!call.input.is_dict()) fail("xmlattr takes a mapping");
  Text out;
  for (const auto& [key, value] : call.input.as_dict().items()) {
    if (value.is_none() || value.is_undefined()) continue;
    const Text name = to_text(key);
    const Text content = to_text(value);
    out.append(" ");
    out.append(escape_html(name));
    out.append("=\"");
    out.append(escape_html(content));
    out.append("\"");
  }
  if (!call.flag(0, "autospace", true) && !out.empty()) out = out.slice(1, out.bytes.size());
  return Value::string(std::move(out));
}

Value filter_pprint(const FilterCall& call) {
  return Value::string(repr(call.input));
}

constexpr FilterEntry kFilters[] = {
    {"upper", filter_upper},
    {"lower", filter_lower},
    {"capitalize", filter_capitalize},
    {"title", filter_title},
    {"trim", filter_trim},
    {"string", filter_string},
    {"safe", filter_safe},
    {"replace", filter_replace},
    {"escape", filter_escape},
    {"e", filter_escape},
    {"forceescape", filter_force_escape},
    {"indent", filter_indent},
    {"format", filter_format},
    {"center", filter_center},
    {"truncate", filter_truncate},
    {"wordcount", filter_wordcount},
    {"wordwrap", filter_wordwrap},
    {"striptags", filter_striptags},
    {"urlencode", filter_urlencode},
    {"xmlattr", filter_xmlattr},
    {"pprint", filter_pprint},
};

}  // namespace

std::span<const FilterEntry> text_filters() {
  return kFilters;
}

}  // namespace coxswain::chat
