#pragma once
// What a template calls by name: filters ("x | trim", filters*.cc), tests ("x is defined") and functions ("range(3)").
// docs/chat-templates.md lists them. The parser refuses every other name.
//
// Thread rule: constant tables; a call belongs to its interpreter's thread.

#include <string_view>

#include "chat/callable.h"
#include "chat/value.h"

namespace coxswain::chat {

struct FilterEntry;
struct TestEntry;

// The filter or test of that name; nullptr if there is none.
const FilterEntry* find_filter(std::string_view name);
const TestEntry* find_test(std::string_view name);
// The function of that name; undefined if there is none.
Value find_function(std::string_view name);

Value apply_filter(Interpreter& interpreter,
                   const FilterEntry& filter,
                   const Value& input,
                   const Arguments& arguments);
bool apply_test(Interpreter& interpreter,
                const TestEntry& test,
                const Value& input,
                const Arguments& arguments);

}  // namespace coxswain::chat
