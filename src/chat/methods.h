#pragma once
// Methods of strings, lists and mappings: those of the reference that read. What would change a list or mapping is
// hidden, as in the reference's immutable sandbox.
//
// Thread rule: pure functions; what they return belongs to the interpreter that calls it.

#include <string_view>

#include "chat/value.h"

namespace coxswain::chat {

class Interpreter;

// The method `name` bound to `object`; undefined if there is none.
Value find_method(const Value& object, std::string_view name);
// True for methods that would change a list or mapping.
bool is_mutating_method(const Value& object, std::string_view name);
// True if mappings have a method `name`, which then hides a member of that name from `m.name`.
bool is_dict_method(std::string_view name);
// True if values of any type have a method `name`, hidden ones included. Others are refused when a
// template is compiled.
bool is_known_method(std::string_view name);

// Counts the output of replace_all().
void reserve_replaced(Interpreter& interpreter,
                      const Text& text,
                      std::string_view from,
                      const Text& to,
                      std::size_t count_max);

}  // namespace coxswain::chat
