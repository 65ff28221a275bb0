// Filters over lists and mappings.

#include <algorithm>

#include "chat/filters.h"
#include "chat/operators.h"
#include "chat/python_format.h"

namespace coxswain::chat {
namespace {

std::vector<Value> items_of(const FilterCall& call) {
  return call.interpreter.items(call.input);
}

// Strings compare without case unless asked to.
Value fold_case(const Value& value, bool case_sensitive) {
  return value.is_string() && !case_sensitive ? Value::string(to_lower(value.as_text())) : value;
}

// What `path` leads to from `item`; the item itself without a path.
Value attribute_or_item(const FilterCall& call, const Value& item, const Value* path) {
  return path == nullptr || path->is_none() ? item : look_up_path(call.interpreter, item, *path);
}

Value filter_list(const FilterCall& call) {
  return Value::list(items_of(call));
}

Value filter_join(const FilterCall& call) {
  const Text separator = call.text(0, "d", "");
  const Value* path = call.argument(1, "attribute");
  Text out;
  bool first = true;
  for (const Value& item : items_of(call)) {
    const std::size_t before = out.bytes.size();
    if (!first) out.append(separator);
    first = false;
    out.append(to_text(attribute_or_item(call, item, path)));
    call.interpreter.grow_output(before, out.bytes.size());
  }
  return Value::string(std::move(out));
}

// The first character, or the last; undefined if there is none.
Value end_character(const Value& text, bool last) {
  const TextSpan span = code_point_span(text.as_bytes(), last ? -1 : 0);
  if (span.end == 0) return Value();
  Text out = text.as_text().slice(span.begin, span.end);
  out.safe = false;  // iterating gives plain strings
  return Value::string(std::move(out));
}

Value filter_first(const FilterCall& call) {
  Value out;
  if (call.input.is_string()) {
    out = end_character(call.input, false);
  } else if (is_generator(call.input)) {
    if (const Value* next = take_next(call.input)) out = *next;
  } else if (call.input.is_list()) {
    const auto& items = call.input.as_list().items;
    if (!items.empty()) out = items.front();
  } else if (const auto items = items_of(call); !items.empty()) {
    out = items.front();
  }
  return out.is_undefined() ? Value::undefined("No first item, sequence was empty.") : out;
}

Value filter_last(const FilterCall& call) {
  if (is_generator(call.input)) fail("'" + type_name(call.input) + "' object is not reversible");
  Value out;
  if (call.input.is_string()) {
    out = end_character(call.input, true);
  } else if (call.input.is_list()) {
    const auto& items = call.input.as_list().items;
    if (!items.empty()) out = items.back();
  } else if (const auto items = items_of(call); !items.empty()) {
    out = items.back();
  }
  return out.is_undefined() ? Value::undefined("No last item, sequence was empty.") : out;
}

Value filter_reverse(const FilterCall& call) {
  std::vector<Value> items = items_of(call);
  std::ranges::reverse(items);
  if (is_generator(call.input)) return Value::list(std::move(items));
  if (!call.input.is_string()) return Value::generator(std::move(items));
  Text out;
  out.safe = call.input.as_text().safe;
  for (const Value& item : items) out.append(item.as_text());
  return Value::string(std::move(out));
}

// Keys of a sort: one value per attribute path ("a,b" names two).
std::vector<Value> sort_keys(const FilterCall& call,
                             const Value& item,
                             const Value* attribute,
                             bool case_sensitive) {
  if (attribute == nullptr || attribute->is_none()) return {fold_case(item, case_sensitive)};
  std::vector<Value> out;
  const std::string comma = ",";
  if (!attribute->is_string())
    return {fold_case(look_up_path(call.interpreter, item, *attribute), case_sensitive)};
  for (const Text& path : split(attribute->as_text(), &comma, static_cast<std::size_t>(-1))) {
    out.push_back(
        fold_case(look_up_path(call.interpreter, item, Value::string(path)), case_sensitive));
  }
  return out;
}

std::vector<Value> sorted(const FilterCall& call,
                          std::vector<Value> items,
                          const Value* attribute,
                          bool reverse,
                          bool case_sensitive) {
  std::vector<std::pair<Value, Value>> keyed;
  for (Value& item : items) {
    Value key = Value::list(sort_keys(call, item, attribute, case_sensitive));
    keyed.emplace_back(std::move(key), std::move(item));
  }
  call.interpreter.charge_product(keyed.size(), 16);
  std::ranges::stable_sort(keyed, [&](const auto& a, const auto& b) {
    return reverse ? order(b.first, a.first, "<") < 0 : order(a.first, b.first, "<") < 0;
  });
  std::vector<Value> out;
  out.reserve(keyed.size());
  for (auto& [key, item] : keyed) out.push_back(std::move(item));
  return out;
}

Value filter_sort(const FilterCall& call) {
  return Value::list(sorted(call,
                            items_of(call),
                            call.argument(2, "attribute"),
                            call.flag(0, "reverse", false),
                            call.flag(1, "case_sensitive", false)));
}

Value filter_dictsort(const FilterCall& call) {
  if (!call.input.is_dict())
    fail("'" + type_name(call.input) + "' object has no attribute 'items'");
  const std::string by = call.text(1, "by", "key").bytes;
  if (by != "key" && by != "value") fail("You can only sort by either \"key\" or \"value\"");
  const bool by_value = by == "value";
  std::vector<Value> pairs;
  for (const auto& [key, value] : call.input.as_dict().items())
    pairs.push_back(Value::tuple({key, value}));
  call.interpreter.charge(pairs.size());
  const Value index = Value::integer(by_value ? 1 : 0);
  return Value::list(sorted(call,
                            std::move(pairs),
                            &index,
                            call.flag(2, "reverse", false),
                            call.flag(0, "case_sensitive", false)));
}

Value filter_items(const FilterCall& call) {
  if (call.input.is_undefined()) return Value::generator({});
  if (!call.input.is_dict()) fail("Can only get item pairs from a mapping.");
  std::vector<Value> pairs;
  for (const auto& [key, value] : call.input.as_dict().items())
    pairs.push_back(Value::tuple({key, value}));
  call.interpreter.charge(pairs.size());
  return Value::generator(std::move(pairs));
}

Value filter_map(const FilterCall& call) {
  std::vector<Value> out;
  const Value* path = call.arguments.find_named("attribute");
  if (path == nullptr &&
      (call.arguments.positional.empty() || !call.arguments.positional[0].is_string())) {
    fail("map requires a filter argument");
  }
  const Value* default_value = call.arguments.find_named("default");
  Arguments rest;
  if (path == nullptr) {
    rest.positional.assign(call.arguments.positional.begin() + 1, call.arguments.positional.end());
    rest.named = call.arguments.named;
  }
  if (!call.input.truthy()) return Value::generator({});  // none included
  const FilterEntry* filter = nullptr;
  if (path == nullptr) {
    const std::string& name = call.arguments.positional[0].as_bytes();
    filter = find_filter(name);
    if (filter == nullptr) fail("filter '" + name.substr(0, 64) + "' is not supported");
  }
  for (const Value& item : items_of(call)) {
    if (path != nullptr) {
      Value value = look_up_path(call.interpreter, item, *path);
      if (value.is_undefined() && default_value != nullptr) value = *default_value;
      out.push_back(std::move(value));
    } else {
      out.push_back(apply_filter(call.interpreter, *filter, item, rest));
    }
  }
  return Value::generator(std::move(out));
}

// select, reject, selectattr, rejectattr: a test on the item or on one of its attributes.
Value select(const FilterCall& call, bool by_attribute, bool keep) {
  const auto& positional = call.arguments.positional;
  if (by_attribute && positional.empty()) fail("Missing parameter for attribute name");
  const std::size_t test_at = by_attribute ? 1 : 0;
  Arguments rest;
  if (positional.size() > test_at)
    rest.positional.assign(positional.begin() + static_cast<std::ptrdiff_t>(test_at) + 1,
                           positional.end());
  rest.named = call.arguments.named;
  std::vector<Value> out;
  if (!call.input.truthy()) return Value::generator({});  // none included
  const TestEntry* test = nullptr;
  if (positional.size() > test_at) {
    const std::string name = to_text(positional[test_at]).bytes;
    test = find_test(name);
    if (test == nullptr) fail("test '" + name.substr(0, 64) + "' is not supported");
  }
  for (const Value& item : items_of(call)) {
    const Value subject = by_attribute ? look_up_path(call.interpreter, item, positional[0]) : item;
    const bool holds =
        test != nullptr ? apply_test(call.interpreter, *test, subject, rest) : subject.truthy();
    if (holds == keep) out.push_back(item);
  }
  return Value::generator(std::move(out));
}

Value filter_select(const FilterCall& call) {
  return select(call, false, true);
}
Value filter_reject(const FilterCall& call) {
  return select(call, false, false);
}
Value filter_selectattr(const FilterCall& call) {
  return select(call, true, true);
}
Value filter_rejectattr(const FilterCall& call) {
  return select(call, true, false);
}

Value filter_unique(const FilterCall& call) {
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  const Value* path = call.argument(1, "attribute");
  Dict seen;
  std::vector<Value> out;
  for (const Value& item : items_of(call)) {
    Value key = fold_case(attribute_or_item(call, item, path), case_sensitive);
    if (!is_hashable(key)) fail("unhashable type: '" + type_name(key) + "'");
    if (seen.find(key) != nullptr) continue;
    seen.append_new(std::move(key), Value::none());
    out.push_back(item);
  }
  return Value::generator(std::move(out));
}

Value extreme(const FilterCall& call, bool maximum) {
  const bool case_sensitive = call.flag(0, "case_sensitive", false);
  const Value* path = call.argument(1, "attribute");
  std::optional<std::pair<Value, Value>> best;
  for (const Value& item : items_of(call)) {
    Value key = fold_case(attribute_or_item(call, item, path), case_sensitive);
    if (!best || (maximum ? order(key, best->first, ">") > 0 : order(key, best->first, "<") < 0))
      best.emplace(std::move(key), item);
  }
  return best ? best->second : Value::undefined("No aggregated item, sequence was empty.");
}

Value filter_min(const FilterCall& call) {
  return extreme(call, false);
}
Value filter_max(const FilterCall& call) {
  return extreme(call, true);
}

Value filter_sum(const FilterCall& call) {
  const Value* path = call.argument(0, "attribute");
  Value out = call.arguments.get_or(1, "start", Value::integer(0));
  for (const Value& item : items_of(call)) {
    out = apply_binary(call.interpreter, Operator::kAdd, out, attribute_or_item(call, item, path));
  }
  return out;
}

Value filter_batch(const FilterCall& call) {
  const std::int64_t size = call.integer(0, "linecount", 0);
  if (size <= 0) fail("batch takes a positive number");
  const Value* fill = call.argument(1, "fill_with");
  std::vector<Value> out;
  std::vector<Value> row;
  for (Value& item : items_of(call)) {
    if (row.size() == static_cast<std::size_t>(size))
      out.push_back(Value::list(std::exchange(row, {})));
    row.push_back(std::move(item));
  }
  if (!row.empty()) {
    if (fill != nullptr && !fill->is_none()) {
      call.interpreter.charge(static_cast<std::size_t>(size));
      row.resize(static_cast<std::size_t>(size), *fill);
    }
    out.push_back(Value::list(std::move(row)));
  }
  return Value::generator(std::move(out));
}

Value filter_slice(const FilterCall& call) {
  const std::int64_t given = call.integer(0, "slices", 0);
  if (given <= 0) fail("slice takes a positive number");
  const auto slices = static_cast<std::size_t>(given);
  call.interpreter.charge(slices);
  const Value* fill = call.argument(1, "fill_with");
  const auto items = items_of(call);
  const std::size_t each = items.size() / slices;
  const std::size_t longer = items.size() % slices;
  std::vector<Value> out;
  std::size_t at = 0;
  for (std::size_t i = 0; i < slices; ++i) {
    const std::size_t n = each + (i < longer ? 1 : 0);
    std::vector<Value> part(items.begin() + static_cast<std::ptrdiff_t>(at),
                            items.begin() + static_cast<std::ptrdiff_t>(at + n));
    if (fill != nullptr && !fill->is_none() && i >= longer) part.push_back(*fill);
    out.push_back(Value::list(std::move(part)));
    at += n;
  }
  return Value::generator(std::move(out));
}

Value filter_groupby(const FilterCall& call) {
  const Value* path = call.argument(0, "attribute");
  if (path == nullptr) fail("groupby requires an attribute");
  const bool case_sensitive = call.flag(2, "case_sensitive", false);
  const Value* default_value = call.argument(1, "default");
  std::vector<Value> groups;
  std::vector<std::pair<Value, std::vector<Value>>> open;
  for (const Value& item : sorted(call, items_of(call), path, false, case_sensitive)) {
    Value key = look_up_path(call.interpreter, item, *path);
    if (key.is_undefined() && default_value != nullptr) key = *default_value;
    if (!open.empty()) require_defined(key);  // it was compared
    if (open.empty() ||
        !(fold_case(open.back().first, case_sensitive) == fold_case(key, case_sensitive)))
      open.emplace_back(key, std::vector<Value>{});
    open.back().second.push_back(item);
  }
  groups.reserve(open.size());
  for (auto& [key, items] : open)
    groups.push_back(Value::list({key, Value::list(std::move(items))}, ListKind::kGroup));
  return Value::list(std::move(groups));
}

constexpr FilterEntry kFilters[] = {
    {"list", filter_list},
    {"join", filter_join},
    {"first", filter_first},
    {"last", filter_last},
    {"reverse", filter_reverse},
    {"sort", filter_sort},
    {"dictsort", filter_dictsort},
    {"items", filter_items},
    {"map", filter_map},
    {"select", filter_select},
    {"reject", filter_reject},
    {"selectattr", filter_selectattr},
    {"rejectattr", filter_rejectattr},
    {"unique", filter_unique},
    {"min", filter_min},
    {"max", filter_max},
    {"sum", filter_sum},
    {"batch", filter_batch},
    {"slice", filter_slice},
    {"groupby", filter_groupby},
};

}  // namespace

std::span<const FilterEntry> sequence_filters() {
  return kFilters;
}

}  // namespace coxswain::chat
