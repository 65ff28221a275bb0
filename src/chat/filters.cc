#include "chat/filters.h"

#include <algorithm>
#include <charconv>

#include "chat/methods.h"
#include "chat/python_format.h"
#include "chat/to_json.h"

namespace coxswain::chat {
namespace {

Value filter_default(const FilterCall& call) {
  const bool use =
      call.input.is_undefined() || (call.flag(1, "boolean", false) && !call.input.truthy());
  return use ? call.arguments.get_or(0, "default_value", Value::string("")) : call.input;
}

Value filter_length(const FilterCall& call) {
  const Value& v = call.input;
  const auto number = [](std::size_t n) { return Value::integer(static_cast<std::int64_t>(n)); };
  if (v.is_undefined()) return number(0);
  if (v.is_string()) return number(base::count_characters(v.as_bytes()));
  if (v.is_dict()) return number(v.as_dict().size());
  if (v.is_list() && v.as_list().kind != ListKind::kGenerator)
    return number(v.as_list().items.size());
  fail("object of type '" + type_name(v) + "' has no len()");
}

Value filter_tojson(const FilterCall& call) {
  ToJsonOptions options;
  options.bytes_max = call.interpreter.output_bytes_max();
  options.ensure_ascii = call.flag(0, "ensure_ascii", false);
  if (const Value* indent = call.argument(1, "indent"); indent != nullptr && !indent->is_none()) {
    if (indent->is_string())
      options.indent = indent->as_bytes();
    else if (indent->is_integral())
      options.indent = std::string(
          static_cast<std::size_t>(std::clamp<std::int64_t>(indent->as_int(), 0, 64)), ' ');
    else
      fail("tojson: indent must be a number or a string");
  }
  if (const Value* separators = call.argument(2, "separators");
      separators != nullptr && !separators->is_none()) {
    const auto parts = iterate(*separators);
    if (parts.size() != 2 || !parts[0].is_string() || !parts[1].is_string())
      fail("tojson: separators must be two strings");
    options.separators.emplace(parts[0].as_bytes(), parts[1].as_bytes());
  }
  options.sort_keys = call.flag(3, "sort_keys", false);
  Text out = to_json(call.input, options);
  call.interpreter.reserve_output(out.bytes.size(), 1);
  return Value::string(std::move(out));
}

Value filter_attr(const FilterCall& call) {
  const Text name = call.text(0, "name", "");
  // Only attributes, never items: a mapping's keys are out of reach here.
  if (call.input.is_dict()) {
    Value method = find_method(call.input, name.bytes);
    return method.is_undefined()
               ? Value::undefined("'dict object' has no attribute '" + name.bytes + "'")
               : method;
  }
  return call.interpreter.attribute(call.input, name.bytes);
}

constexpr FilterEntry kValueFilters[] = {
    {"default", filter_default},
    {"d", filter_default},
    {"length", filter_length},
    {"count", filter_length},
    {"tojson", filter_tojson},
    {"attr", filter_attr},
};

}  // namespace

const FilterEntry* find_filter(std::string_view name) {
  for (const std::span<const FilterEntry> table :
       {std::span<const FilterEntry>(kValueFilters), text_filters(), sequence_filters()}) {
    const auto it = std::ranges::find(table, name, &FilterEntry::name);
    if (it != table.end()) return &*it;
  }
  return nullptr;
}

std::int64_t FilterCall::integer(std::size_t index,
                                 std::string_view name,
                                 std::int64_t default_value) const {
  const Value* value = argument(index, name);
  if (value == nullptr || value->is_none()) return default_value;
  if (!value->is_integral())
    fail("argument '" + std::string(name) + "' must be an integer, not " + type_name(*value));
  return value->as_int();
}

bool FilterCall::flag(std::size_t index, std::string_view name, bool default_value) const {
  const Value* value = argument(index, name);
  return value == nullptr ? default_value : value->truthy();
}

Text FilterCall::text(std::size_t index,
                      std::string_view name,
                      std::string_view default_value) const {
  const Value* value = argument(index, name);
  return value == nullptr || value->is_none() ? Text(std::string(default_value)) : to_text(*value);
}

Text FilterCall::input_text() const {
  if (!input.is_string()) interpreter.charge(input.extent().nodes / 4);
  return to_text(input);
}

Value apply_filter(Interpreter& interpreter,
                   const FilterEntry& filter,
                   const Value& input,
                   const Arguments& arguments) {
  if (input.is_string()) interpreter.charge(input.as_bytes().size() / 64);
  return filter.apply({interpreter, input, arguments});
}

Value look_up_path(Interpreter& interpreter, const Value& object, const Value& path) {
  if (path.is_integral()) return interpreter.item(object, path);
  Value out = object;
  std::string_view rest = path.is_string() ? std::string_view(path.as_bytes()) : std::string_view();
  for (;;) {
    const std::string_view part = rest.substr(0, rest.find('.'));
    std::int64_t index = 0;
    const auto [end, error] = std::from_chars(part.data(), part.data() + part.size(), index);
    const bool numeric =
        error == std::errc() && end == part.data() + part.size() && !part.empty() && part[0] != '-';
    out = interpreter.item(out, numeric ? Value::integer(index) : Value::string(std::string(part)));
    if (part.size() == rest.size()) return out;
    rest.remove_prefix(part.size() + 1);
  }
}

}  // namespace coxswain::chat
