#include "chat/methods.h"

#include <algorithm>
#include <limits>
#include <optional>
#include <span>

#include "chat/interpreter.h"

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
                              std::int64_t default_value) {
  const Value* value = args.get(index, name);
  if (value == nullptr || value->is_none()) return default_value;
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
  if (needle.empty()) return base::count_characters(text) + 1;
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
  const auto position = [&](std::size_t index, std::int64_t default_value) {
    const std::int64_t given = integer_argument(args, index, "", default_value);
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
      base::count_characters(std::string_view(text.bytes).substr(0, span->begin + at))));
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

// True if the text is not empty and `accepts` holds for every code point.
template <bool (*accepts)(char32_t)>
Value do_all(Interpreter&, const Text& text, const Args&) {
  for (std::size_t at = 0; at < text.bytes.size();) {
    const auto [c, n_bytes] = base::code_point_at(text.bytes, at);
    if (!accepts(c)) return Value::boolean(false);
    at += n_bytes;
  }
  return Value::boolean(!text.empty());
}

bool is_letter_or_number(char32_t c) {
  return is_letter(c) || is_number(c);
}

template <Text (*change)(const Text&)>
Value do_change(Interpreter&, const Text& text, const Args&) {
  return Value::string(change(text));
}

template <bool (*holds)(std::string_view)>
Value do_ask(Interpreter&, const Text& text, const Args&) {
  return Value::boolean(holds(text.bytes));
}

bool is_ascii(std::string_view text) {
  return std::ranges::all_of(text, [](char c) { return static_cast<unsigned char>(c) < 0x80; });
}

Value do_split_lines(Interpreter& interpreter, const Text& text, const Args& args) {
  charge_pieces(interpreter, text, nullptr, kNoLimit);
  return strings(split_lines(text, args.get_or(0, "keepends", Value::boolean(false)).truthy()));
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
    {"splitlines", do_split_lines},
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
    {"upper", do_change<to_upper>},
    {"lower", do_change<to_lower>},
    {"title", do_change<to_title>},
    {"capitalize", do_change<to_capitalized>},
    {"isupper", do_ask<is_upper_text>},
    {"islower", do_ask<is_lower_text>},
    {"isascii", do_ask<is_ascii>},
    {"isspace", do_all<is_space>},
    {"isdigit", do_all<is_digit>},
    {"isnumeric", do_all<is_number>},
    {"isalpha", do_all<is_letter>},
    {"isalnum", do_all<is_letter_or_number>},
};

bool takes_keywords(std::string_view name) {
  return name == "split" || name == "rsplit" || name == "splitlines";
}

Value text_method(const Value& object, std::string_view name) {
  const auto* method = std::ranges::find(kTextMethods, name, &TextMethod::name);
  if (method == std::end(kTextMethods)) return Value();
  return make_callable([text = object, method](Interpreter& interpreter, const Args& args) {
    interpreter.charge(text.as_bytes().size() / 64);
    if (!args.named.empty() && !takes_keywords(method->name))
      fail("str." + std::string(method->name) + "() takes no keyword arguments");
    return method->apply(interpreter, text.as_text(), args);
  });
}

Value list_method(const Value& list, std::string_view name) {
  const ListKind kind = list.as_list().kind;
  if (kind == ListKind::kGenerator || kind == ListKind::kDictView) return Value();
  if (name == "index") {
    return make_callable([list](Interpreter&, const Args& args) {
      const auto& items = list.as_list().items;
      const auto it =
          args.positional.empty() ? items.end() : std::ranges::find(items, args.positional[0]);
      if (it == items.end()) fail("the value is not in the list");
      return Value::integer(it - items.begin());
    });
  }
  if (name == "count") {
    return make_callable([list](Interpreter&, const Args& args) {
      if (args.positional.size() != 1) fail("count() takes exactly one argument");
      return Value::integer(std::ranges::count(list.as_list().items, args.positional[0]));
    });
  }
  if (name == "copy" && kind == ListKind::kList)
    return make_callable([list](Interpreter&, const Args&) { return list; });
  return Value();
}

Value dict_view(const Value& dict, std::string_view name) {
  std::vector<Value> items;
  items.reserve(dict.as_dict().size());
  for (const auto& [key, value] : dict.as_dict().items()) {
    items.push_back(name == "keys" ? key : name == "values" ? value : Value::tuple({key, value}));
  }
  return Value::dict_view(std::move(items),
                          name == "keys"     ? "dict_keys"
                          : name == "values" ? "dict_values"
                                             : "dict_items");
}

Value dict_method(const Value& dict, std::string_view name) {
  if (name == "get") {
    return make_callable([dict](Interpreter&, const Args& args) {
      if (!args.named.empty()) fail("dict.get() takes no keyword arguments");
      if (args.positional.empty()) fail("get expected at least 1 argument, got 0");
      if (!is_hashable(args.positional[0]))
        fail("unhashable type: '" + type_name(args.positional[0]) + "'");
      const Value* value = dict.as_dict().find(args.positional[0]);
      return value != nullptr ? *value : args.get_or(1, "default", Value::none());
    });
  }
  if (name == "items" || name == "keys" || name == "values") {
    return make_callable([dict, kind = std::string(name)](Interpreter& interpreter, const Args&) {
      interpreter.charge(dict.as_dict().size());
      return dict_view(dict, kind);
    });
  }
  if (name == "copy") return make_callable([dict](Interpreter&, const Args&) { return dict; });
  return Value();
}

constexpr std::string_view kDictReaders[] = {"get", "items", "keys", "values", "copy"};
constexpr std::string_view kListMutators[] = {
    "append", "extend", "insert", "remove", "reverse", "sort", "pop", "clear"};
constexpr std::string_view kLoopMethods[] = {"cycle", "changed"};
constexpr std::string_view kListReaders[] = {"index", "count", "copy"};
constexpr std::string_view kDictMutators[] = {"clear", "pop", "popitem", "setdefault", "update"};

bool is_among(std::span<const std::string_view> names, std::string_view name) {
  return std::ranges::find(names, name) != names.end();
}

}  // namespace

Value find_method(const Value& object, std::string_view name) {
  if (object.is_string()) return text_method(object, name);
  if (object.is_list()) return list_method(object, name);
  return object.is_dict() ? dict_method(object, name) : Value();
}

bool is_mutating_method(const Value& object, std::string_view name) {
  return (object.is_list() && is_among(kListMutators, name)) ||
         (object.is_dict() && is_among(kDictMutators, name));
}

bool is_dict_method(std::string_view name) {
  return is_among(kDictReaders, name) || is_among(kDictMutators, name);
}

bool is_known_method(std::string_view name) {
  return std::ranges::find(kTextMethods, name, &TextMethod::name) != std::end(kTextMethods) ||
         is_among(kListReaders, name) || is_among(kListMutators, name) || is_dict_method(name) ||
         is_among(kLoopMethods, name);
}

void reserve_replaced(Interpreter& interpreter,
                      const Text& text,
                      std::string_view from,
                      const Text& to,
                      std::size_t count_max) {
  const std::size_t n = std::min(count_of(text.bytes, from), count_max);
  interpreter.reserve_output(text.bytes.size(), 1);
  interpreter.reserve_output(n, to.bytes.size());
}

}  // namespace coxswain::chat
