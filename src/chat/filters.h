#pragma once
// The filters, by what they work on; filters.cc joins their tables. docs/chat-templates.md lists them.
//
// Thread rule: the tables are constant; a call belongs to its interpreter's thread.

#include <span>
#include <string_view>

#include "chat/builtins.h"
#include "chat/interpreter.h"

namespace coxswain::chat {

struct FilterCall {
  Interpreter& interpreter;
  const Value& input;
  const Arguments& arguments;

  // Argument `index` (after the input) or named `name`.
  const Value* argument(std::size_t index, std::string_view name) const {
    return arguments.get(index, name);
  }
  std::int64_t integer(std::size_t index, std::string_view name, std::int64_t default_value) const;
  bool flag(std::size_t index, std::string_view name, bool default_value) const;
  Text text(std::size_t index, std::string_view name, std::string_view default_value) const;
  // str() of the input, with its steps.
  Text input_text() const;
};

struct FilterEntry {
  std::string_view name;
  Value (*apply)(const FilterCall& call);
};

std::span<const FilterEntry> text_filters();
std::span<const FilterEntry> sequence_filters();

// `a.b.0` or an integer, applied to one value (map, groupby, sort, ...).
Value look_up_path(Interpreter& interpreter, const Value& object, const Value& path);

}  // namespace coxswain::chat
