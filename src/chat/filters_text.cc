// Filters over strings.

#include <algorithm>
#include <limits>

#include "chat/filters.h"
#include "chat/html.h"
#include "chat/python_format.h"
#include "chat/text_predicates.h"
#include "chat/text_wrap.h"

namespace coxswain::chat {
namespace {

constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

Value filter_upper(const FilterCall& call) {
  return Value::string(to_upper(call.input_text()));
}
Value filter_lower(const FilterCall& call) {
  return Value::string(to_lower(call.input_text()));
}
Value filter_capitalize(const FilterCall& call) {
  return Value::string(to_capitalized(call.input_text()));
}

// Words begin after white space, '-', '(', '{', '[' or '<'; each gets an upper-case start and a
// lower-case rest.
Value filter_title(const FilterCall& call) {
  const Text text = call.input_text();
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
  return Value::string(strip(call.input_text(), characters, Side::kBoth));
}

Value filter_string(const FilterCall& call) {
  return Value::string(call.input_text());
}
Value filter_replace(const FilterCall& call) {
  const Value* old_text = call.argument(0, "old");
  const Value* new_text = call.argument(1, "new");
  if (old_text == nullptr || new_text == nullptr) fail("replace takes two strings");
  const std::int64_t given = call.integer(2, "count", -1);
  const std::size_t count_max = given < 0 ? kNoLimit : static_cast<std::size_t>(given);
  Text text = call.input_text();
  const Text from = to_text(*old_text);
  Text to = to_text(*new_text);
  bool safe = false;
  if (call.interpreter.autoescapes()) {
    if (from.safe || (to.safe && !text.safe)) text = text.safe ? text : escape_html(text);
    safe = text.safe;
    if (safe && !to.safe) to = escape_html(to);
  }
  reserve_replaced(call.interpreter, text, from.bytes, to, count_max);
  Text out = replace_all(text, from.bytes, to, count_max);
  out.safe = safe;
  return Value::string(std::move(out));
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
  const Text text = call.input_text();
  std::vector<Text> lines = split_lines(text, false);
  call.interpreter.reserve_output(text.bytes.size(), 1);
  call.interpreter.reserve_output(lines.size() + 1, indent.size());
  if (text.bytes.ends_with('\n') || text.empty()) lines.emplace_back();
  Text out;
  for (std::size_t i = 0; i < lines.size(); ++i) {
    if (i > 0) out.append("\n");
    if (i > 0 ? blank || !lines[i].empty() : first) out.append(indent);
    out.append(lines[i]);
  }
  return Value::string(std::move(out));
}

Value filter_format(const FilterCall& call) {
  const Arguments& given = call.arguments;
  if (given.named.empty())
    return Value::string(
        percent_format(call.interpreter, call.input_text(), Value::tuple(given.positional)));
  if (!given.positional.empty())
    fail("can't handle positional and keyword arguments at the same time");
  Dict named;
  for (const auto& [name, value] : given.named) named.set(Value::string(name), value);
  return Value::string(
      percent_format(call.interpreter, call.input_text(), Value::dict(std::move(named))));
}

Value filter_center(const FilterCall& call) {
  const Text text = call.input_text();
  const auto width =
      static_cast<std::size_t>(std::clamp<std::int64_t>(call.integer(0, "width", 80), 0, 1 << 20));
  const std::size_t length = count_code_points(text.bytes);
  if (length >= width) return Value::string(text);
  const std::size_t room = width - length;
  const std::size_t left = room / 2 + (room & width & 1);
  Text out(std::string(left, ' '));
  out.safe = text.safe;
  out.append(text);
  out.append(std::string(room - left, ' '));
  return Value::string(std::move(out));
}

Value filter_truncate(const FilterCall& call) {
  if (call.input.is_list() || call.input.is_dict()) {
    if (is_generator(call.input)) fail("object of type 'generator' has no len()");
    // Only the length of a short one is looked at.
    const auto n = static_cast<std::int64_t>(iterate(call.input).size());
    if (n <= call.integer(0, "length", 255) + call.integer(3, "leeway", 5)) return call.input;
  }
  if (!call.input.is_string() && !call.input.is_undefined())
    fail("'" + type_name(call.input) + "' object cannot be truncated");
  const Text text = call.input_text();
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
  const Text text = call.input_text();
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

Value filter_wordwrap(const FilterCall& call) {
  require_text(call.input);
  const std::int64_t width = call.integer(0, "width", 79);
  const WrapOptions options{
      .width = static_cast<std::size_t>(std::clamp<std::int64_t>(width, 1, 1 << 20)),
      .break_long_words = call.flag(1, "break_long_words", true),
      .break_on_hyphens = call.flag(3, "break_on_hyphens", true)};
  const Text wrap = call.text(2, "wrapstring", "\n");
  const Text text = call.input_text();
  call.interpreter.reserve_output(wrap.bytes.size() + 1, text.bytes.size() + 1);
  Text out;
  bool first = true;
  for (const Text& paragraph : split_lines(text, false)) {
    if (!first) out.append(wrap);
    first = false;
    bool first_line = true;
    const std::vector<Text> lines = wrap_text(paragraph, options);
    if (width <= 0 && !paragraph.empty())
      fail("invalid width " + std::to_string(width) + " (must be > 0)");
    for (const Text& line : lines) {
      if (!first_line) out.append(wrap);
      first_line = false;
      out.append(line);
    }
  }
  return Value::string(std::move(out));
}

Value filter_pprint(const FilterCall& call) {
  const Extent extent = call.input.extent();
  call.interpreter.charge_product(extent.nodes, extent.depth);
  Text out = pretty_print(call.input, call.interpreter.output_bytes_max());
  call.interpreter.reserve_output(out.bytes.size(), 1);
  return Value::string(std::move(out));
}

constexpr FilterEntry kFilters[] = {
    {"upper", filter_upper},
    {"lower", filter_lower},
    {"capitalize", filter_capitalize},
    {"title", filter_title},
    {"trim", filter_trim},
    {"string", filter_string},
    {"replace", filter_replace},
    {"indent", filter_indent},
    {"format", filter_format},
    {"center", filter_center},
    {"truncate", filter_truncate},
    {"wordcount", filter_wordcount},
    {"wordwrap", filter_wordwrap},
    {"pprint", filter_pprint},
};

}  // namespace

std::span<const FilterEntry> text_filters() {
  return kFilters;
}

}  // namespace coxswain::chat
