// Methods of strings, and what Markup adds to them or does otherwise.

#include <algorithm>
#include <limits>
#include <optional>

#include "chat/html.h"
#include "chat/interpreter.h"
#include "chat/methods.h"
#include "chat/operators.h"
#include "chat/python_format.h"
#include "chat/text_predicates.h"

namespace coxswain::chat {
namespace {

using Args = Arguments;
constexpr std::size_t kNoLimit = std::numeric_limits<std::size_t>::max();

Value strings(std::vector<Text> parts) {
  std::vector<Value> out;
  out.reserve(parts.size());
  for (Text& part : parts) out.push_back(Value::string(std::move(part)));
  return Value::list(std::move(out));
}

// A string argument; null if it was left out or None.
const std::string* text_argument(const Args& args, std::size_t index, std::string_view name) {
  const Value* value = args.get(index, name);
  if (value == nullptr || value->is_none()) return nullptr;
  require_defined(*value);
  if (!value->is_string()) fail("must be str, not " + type_name(*value));
  return &value->as_bytes();
}

const std::string& required_text(const Args& args, std::size_t index, std::string_view name) {
  const std::string* text = text_argument(args, index, name);
  if (text == nullptr) fail("the method takes a string");
  return *text;
}

std::int64_t integer_argument(const Args& args,
                              std::size_t index,
                              std::string_view name,
                              std::int64_t otherwise) {
  const Value* value = args.get(index, name);
  if (value == nullptr || value->is_none()) return otherwise;
  if (!value->is_integral())
    fail("'" + type_name(*value) + "' object cannot be interpreted as an integer");
  return value->as_int();
}

std::size_t limit_argument(const Args& args, std::size_t index, std::string_view name) {
  const std::int64_t n = integer_argument(args, index, name, -1);
  return n < 0 ? kNoLimit : static_cast<std::size_t>(n);
}

const std::string* separator_argument(const Args& args) {
  const std::string* separator = text_argument(args, 0, "sep");
  if (separator != nullptr && separator->empty()) fail("empty separator");
  return separator;
}

// A search from the right looks at every place anew.
void charge_backward(Interpreter& interpreter, const Text& text, const std::string& part) {
  interpreter.charge_product(text.bytes.size() / 64, part.size() / 64);
}

// How often `needle` occurs, without overlaps; an empty one stands around every code point.
std::size_t count_of(std::string_view text, std::string_view needle) {
  if (needle.empty()) return count_code_points(text) + 1;
  std::size_t n = 0;
  for (std::size_t at = find_text(text, needle); at != std::string_view::npos;
       at = find_text(text, needle, at + needle.size()))
    ++n;
  return n;
}

// A step for each piece that a split may give, before any is made.
void charge_pieces(Interpreter& interpreter,
                   const Text& text,
                   const std::string* separator,
                   std::size_t splits_max) {
  const std::size_t n =
      separator == nullptr ? text.bytes.size() / 8 : count_of(text.bytes, *separator);
  interpreter.charge(std::min(n, splits_max));
}

template <Side side>
Value do_strip(Interpreter&, const Text& text, const Args& args) {
  return Value::string(strip(text, text_argument(args, 0, "chars"), side));
}

template <bool from_right>
Value do_split(Interpreter& interpreter, const Text& text, const Args& args) {
  const std::string* separator = separator_argument(args);
  const std::size_t splits_max = limit_argument(args, 1, "maxsplit");
  charge_pieces(interpreter, text, separator, splits_max);
  if (!from_right) return strings(split(text, separator, splits_max));
  if (separator != nullptr) charge_backward(interpreter, text, *separator);
  return strings(split_right(text, separator, splits_max));
}

// The bytes between two positions, given as Python's slices give them: arguments `first` and the
// one behind it. Empty if the positions are the wrong way round.
std::optional<TextSpan> bounds(const Text& text, const Args& args, std::size_t first) {
  if (args.positional.size() <= first) return TextSpan{0, text.bytes.size()};
  const auto offsets = code_point_offsets(text.bytes);
  const auto n = static_cast<std::int64_t>(offsets.size() - 1);
  const auto position = [&](std::size_t index, std::int64_t otherwise) {
    const std::int64_t given = integer_argument(args, index, "", otherwise);
    return std::max<std::int64_t>(0, given < 0 ? given + n : given);
  };
  const std::int64_t begin = position(first, 0);
  const std::int64_t end = std::min(position(first + 1, n), n);
  if (begin > end) return std::nullopt;
  return TextSpan{offsets[static_cast<std::size_t>(begin)], offsets[static_cast<std::size_t>(end)]};
}

std::string_view part_of(const Text& text, const TextSpan& span) {
  return std::string_view(text.bytes).substr(span.begin, span.end - span.begin);
}

// startswith and endswith take one string or a tuple of them.
template <bool at_end>
Value do_affix(Interpreter&, const Text& text, const Args& args) {
  const Value* affix = args.get(0, "prefix");
  if (affix == nullptr) fail("the method takes a string or a tuple of strings");
  const auto span = bounds(text, args, 1);
  const auto matches = [&](const Value& value) {
    require_defined(value);
    if (!value.is_string())
      fail("first arg must be str or a tuple of str, not " + type_name(value));
    if (!span) return false;
    return at_end ? part_of(text, *span).ends_with(value.as_bytes())
                  : part_of(text, *span).starts_with(value.as_bytes());
  };
  if (!is_tuple(*affix)) return Value::boolean(matches(*affix));
  return Value::boolean(std::ranges::any_of(affix->as_list().items, matches));
}

Value do_replace(Interpreter& interpreter, const Text& text, const Args& args) {
  const Value* to = args.get(1, "new");
  const std::string& from = required_text(args, 0, "old");
  required_text(args, 1, "new");
  const std::size_t count_max = limit_argument(args, 2, "count");
  reserve_replaced(interpreter, text, from, to->as_text(), count_max);
  return Value::string(replace_all(text, from, to->as_text(), count_max));
}

Value do_join(Interpreter& interpreter, const Text& text, const Args& args) {
  if (args.positional.size() != 1) fail("join() takes exactly one argument");
  Text out;
  bool first = true;
  for (const Value& item : interpreter.items(args.positional[0])) {
    if (!item.is_string())
      fail("sequence item: expected str instance, " + type_name(item) + " found");
    const std::size_t before = out.bytes.size();
    if (!first) out.append(text);
    first = false;
    out.append(item.as_text());
    interpreter.grow_output(before, out.bytes.size());
  }
  return Value::string(std::move(out));
}

// Index in code points, -1 if absent.
template <bool from_right>
Value do_find(Interpreter& interpreter, const Text& text, const Args& args) {
  const std::string& needle = required_text(args, 0, "sub");
  const auto span = bounds(text, args, 1);
  if (!span) return Value::integer(-1);
  const std::string_view part = part_of(text, *span);
  if (from_right) charge_backward(interpreter, text, needle);
  const std::size_t at = from_right ? part.rfind(needle) : find_text(part, needle);
  if (at == std::string_view::npos) return Value::integer(-1);
  return Value::integer(static_cast<std::int64_t>(
      count_code_points(std::string_view(text.bytes).substr(0, span->begin + at))));
}

template <bool from_right>
Value do_index(Interpreter& interpreter, const Text& text, const Args& args) {
  Value at = do_find<from_right>(interpreter, text, args);
  if (at.as_int() < 0) fail("substring not found");
  return at;
}

Value do_count(Interpreter&, const Text& text, const Args& args) {
  const std::string& needle = required_text(args, 0, "sub");
  const auto span = bounds(text, args, 1);
  if (!span) return Value::integer(0);
  return Value::integer(static_cast<std::int64_t>(count_of(part_of(text, *span), needle)));
}

template <bool from_right>
Value do_partition(Interpreter& interpreter, const Text& text, const Args& args) {
  const std::string& separator = required_text(args, 0, "sep");
  if (separator.empty()) fail("empty separator");
  if (from_right) charge_backward(interpreter, text, separator);
  const std::size_t at =
      from_right ? text.bytes.rfind(separator) : find_text(text.bytes, separator);
  if (at == std::string::npos) {
    Value empty = Value::string("");
    return from_right ? Value::tuple({empty, empty, Value::string(text)})
                      : Value::tuple({Value::string(text), empty, empty});
  }
  return Value::tuple({Value::string(text.slice(0, at)),
                       Value::string(text.slice(at, at + separator.size())),
                       Value::string(text.slice(at + separator.size(), text.bytes.size()))});
}

template <bool suffix>
Value do_remove_affix(Interpreter&, const Text& text, const Args& args) {
  const std::string& affix = required_text(args, 0, "prefix");
  if (suffix && text.bytes.ends_with(affix))
    return Value::string(text.slice(0, text.bytes.size() - affix.size()));
  if (!suffix && text.bytes.starts_with(affix))
    return Value::string(text.slice(affix.size(), text.bytes.size()));
  return Value::string(text);
}

// ljust, rjust, center
template <int where>
Value do_justify(Interpreter& interpreter, const Text& text, const Args& args) {
  const auto width =
      static_cast<std::size_t>(std::max<std::int64_t>(0, integer_argument(args, 0, "width", 0)));
  const std::string* given = text_argument(args, 1, "fillchar");
  const std::string fill = given == nullptr ? " " : *given;
  if (count_code_points(fill) != 1) fail("The fill character must be exactly one character long");
  const std::size_t length = count_code_points(text.bytes);
  if (width <= length) return Value::string(text);
  interpreter.reserve_output(width, fill.size());
  const std::size_t room = width - length;
  const std::size_t left = where < 0 ? 0 : where > 0 ? room : room / 2 + (room & width & 1);
  Text out;
  for (std::size_t i = 0; i < left; ++i) out.append(fill);
  out.append(text);
  for (std::size_t i = left; i < room; ++i) out.append(fill);
  return Value::string(std::move(out));
}

Value do_zfill(Interpreter& interpreter, const Text& text, const Args& args) {
  const auto width =
      static_cast<std::size_t>(std::max<std::int64_t>(0, integer_argument(args, 0, "width", 0)));
  const std::size_t length = count_code_points(text.bytes);
  if (width <= length) return Value::string(text);
  interpreter.reserve_output(width, 1);
  const std::size_t sign = !text.empty() && (text.bytes[0] == '-' || text.bytes[0] == '+') ? 1 : 0;
  Text out = text.slice(0, sign);
  out.append(std::string(width - length, '0'));
  out.append(text.slice(sign, text.bytes.size()));
  return Value::string(std::move(out));
}

// True if the text is not empty and `accepts` holds for every code point.
template <bool (*accepts)(char32_t)>
Value do_all(Interpreter&, const Text& text, const Args&) {
  for (std::size_t at = 0; at < text.bytes.size();) {
    std::size_t length = 0;
    if (!accepts(code_point_at(text.bytes, at, &length))) return Value::boolean(false);
    at += length;
  }
  return Value::boolean(!text.empty());
}

bool is_ascii(char32_t c) {
  return c < 0x80;
}

// True for the empty text too.
template <bool (*accepts)(char32_t)>
Value do_all_or_empty(Interpreter& interpreter, const Text& text, const Args& args) {
  return text.empty() ? Value::boolean(true) : do_all<accepts>(interpreter, text, args);
}

Value do_expand_tabs(Interpreter& interpreter, const Text& text, const Args& args) {
  const auto size = static_cast<std::size_t>(
      std::clamp<std::int64_t>(integer_argument(args, 0, "tabsize", 8), 0, 1024));
  interpreter.reserve_output(size + 1, text.bytes.size());
  return Value::string(expand_tabs(text, size));
}

Value do_format_map(Interpreter& interpreter, const Text& text, const Args& args) {
  if (args.positional.size() != 1 || !args.positional[0].is_dict())
    fail("format_map() takes one mapping");
  Args named;
  for (const auto& [key, value] : args.positional[0].as_dict().items()) {
    if (key.is_string()) named.named.emplace_back(key.as_bytes(), value);
  }
  return Value::string(brace_format(interpreter, text, named));
}

struct TextMethod {
  std::string_view name;
  Value (*apply)(Interpreter&, const Text&, const Args&);
};

constexpr TextMethod kTextMethods[] = {
    {"strip", do_strip<Side::kBoth>},
    {"lstrip", do_strip<Side::kLeft>},
    {"rstrip", do_strip<Side::kRight>},
    {"split", do_split<false>},
    {"rsplit", do_split<true>},
    {"splitlines",
     [](Interpreter& interpreter, const Text& t, const Args& a) {
       charge_pieces(interpreter, t, nullptr, kNoLimit);
       return strings(split_lines(t, a.get_or(0, "keepends", Value::boolean(false)).truthy()));
     }},
    {"startswith", do_affix<false>},
    {"endswith", do_affix<true>},
    {"replace", do_replace},
    {"join", do_join},
    {"find", do_find<false>},
    {"rfind", do_find<true>},
    {"index", do_index<false>},
    {"rindex", do_index<true>},
    {"count", do_count},
    {"partition", do_partition<false>},
    {"rpartition", do_partition<true>},
    {"removeprefix", do_remove_affix<false>},
    {"removesuffix", do_remove_affix<true>},
    {"upper", [](Interpreter&, const Text& t, const Args&) { return Value::string(to_upper(t)); }},
    {"lower", [](Interpreter&, const Text& t, const Args&) { return Value::string(to_lower(t)); }},
    {"casefold",
     [](Interpreter&, const Text& t, const Args&) { return Value::string(fold_case(t)); }},
    {"swapcase",
     [](Interpreter&, const Text& t, const Args&) { return Value::string(swap_case(t)); }},
    {"title", [](Interpreter&, const Text& t, const Args&) { return Value::string(to_title(t)); }},
    {"capitalize",
     [](Interpreter&, const Text& t, const Args&) { return Value::string(to_capitalized(t)); }},
    {"isupper",
     [](Interpreter&, const Text& t, const Args&) {
       return Value::boolean(is_upper_text(t.bytes));
     }},
    {"islower",
     [](Interpreter&, const Text& t, const Args&) {
       return Value::boolean(is_lower_text(t.bytes));
     }},
    {"isdigit", do_all<is_digit>},
    {"isnumeric", do_all<is_numeric>},
    {"isdecimal", do_all<is_decimal>},
    {"isspace", do_all<is_space>},
    {"isalpha", do_all<is_letter>},
    {"isalnum", do_all<is_letter_or_number>},
    {"isascii", do_all_or_empty<is_ascii>},
    {"isprintable", do_all_or_empty<is_printable_character>},
    {"istitle",
     [](Interpreter&, const Text& t, const Args&) {
       return Value::boolean(is_title_text(t.bytes));
     }},
    {"isidentifier",
     [](Interpreter&, const Text& t, const Args&) {
       return Value::boolean(is_identifier_text(t.bytes));
     }},
    {"expandtabs", do_expand_tabs},
    {"format_map", do_format_map},
    {"ljust", do_justify<-1>},
    {"rjust", do_justify<1>},
    {"center", do_justify<0>},
    {"zfill", do_zfill},
    {"maketrans", make_translation},
    {"translate", translate},
    {"encode",
     [](Interpreter&, const Text&, const Args&) -> Value {
       fail("str.encode() gives bytes, which templates here do not have");
     }},
    {"format",
     [](Interpreter& interpreter, const Text& t, const Args& a) {
       return Value::string(brace_format(interpreter, t, a));
     }},
};

bool takes_keywords(std::string_view name) {
  return name == "split" || name == "rsplit" || name == "splitlines" || name == "format" ||
         name == "expandtabs" || name == "encode";
}

Value as_safe(const Value& value) {
  if (value.is_string()) {
    Text text = value.as_text();
    text.safe = true;
    return Value::string(std::move(text));
  }
  if (!value.is_list()) return value;
  std::vector<Value> items;
  for (const Value& item : value.as_list().items) items.push_back(as_safe(item));
  return Value::list(std::move(items), value.as_list().kind);
}

Value escaped(const Value& value) {
  return value.is_string() && value.as_text().safe ? value
                                                   : Value::string(escape_html(to_text(value)));
}

// True for the methods that put their second argument into the text.
bool puts_in_its_second(std::string_view name) {
  return name == "replace" || name == "ljust" || name == "rjust" || name == "center";
}

// A method of a safe text: what is put into it is escaped, and the result is safe, as with Markup.
Value apply_to_safe(const TextMethod& method,
                    Interpreter& interpreter,
                    const Text& text,
                    Args args) {
  if (method.name == "join" && args.positional.size() == 1) {
    std::vector<Value> items = interpreter.items(args.positional[0]);
    for (Value& item : items) item = escaped(item);
    args.positional[0] = Value::list(std::move(items));
  } else if (puts_in_its_second(method.name) && args.positional.size() >= 2) {
    args.positional[1] = escaped(args.positional[1]);
  }
  return as_safe(method.apply(interpreter, text, args));
}

// What Markup has beyond the methods of str.
constexpr TextMethod kMarkupMethods[] = {
    {"striptags",
     [](Interpreter&, const Text& t, const Args&) { return Value::string(strip_tags(t)); }},
    {"unescape",
     [](Interpreter&, const Text& t, const Args&) { return Value::string(unescape_html(t)); }},
    {"escape",
     [](Interpreter&, const Text&, const Args& args) {
       if (args.positional.size() != 1) fail("escape() takes exactly one argument");
       return escaped(args.positional[0]);
     }},
};

Value bind(const Value& text, const TextMethod& method) {
  return make_callable([text, &method](Interpreter& interpreter, const Args& args) {
    return method.apply(interpreter, text.as_text(), args);
  });
}

}  // namespace

void reserve_replaced(Interpreter& interpreter,
                      const Text& text,
                      std::string_view from,
                      const Text& to,
                      std::size_t count_max) {
  const std::size_t n = std::min(count_of(text.bytes, from), count_max);
  interpreter.reserve_output(text.bytes.size(), 1);
  interpreter.reserve_output(n, to.bytes.size());
}

Value find_text_method(const Value& object, std::string_view name) {
  const auto* method = std::ranges::find(kTextMethods, name, &TextMethod::name);
  if (method == std::end(kTextMethods)) {
    const auto* markup = std::ranges::find(kMarkupMethods, name, &TextMethod::name);
    return object.as_text().safe && markup != std::end(kMarkupMethods) ? bind(object, *markup)
                                                                       : Value();
  }
  return make_callable([text = object, method](Interpreter& interpreter, const Args& args) {
    interpreter.charge(text.as_bytes().size() / 64);
    if (!args.named.empty() && !takes_keywords(method->name)) {
      fail("str." + std::string(method->name) + "() takes no keyword arguments");
    }
    return text.as_text().safe ? apply_to_safe(*method, interpreter, text.as_text(), args)
                               : method->apply(interpreter, text.as_text(), args);
  });
}

}  // namespace coxswain::chat
