#pragma once
// Sets, and the views of a mapping's keys and items, which compare and subtract as sets do. Jinja's
// grammar has no & | ^ and no literal of a set: one comes from `d.keys() - e`.
//
// Thread rule: pure functions but for the interpreter's budgets.

#include <compare>
#include <string_view>

#include "chat/value.h"

namespace coxswain::chat {

class Interpreter;

// A set, or a view of keys or items.
bool is_set_like(const Value& value);

// Both hold the same; the first is part of the second (less); the second of the first (greater); or
// neither (unordered). REQUIRES: both are set-like.
std::partial_ordering compare_sets(const Value& left, const Value& right);

// left - right, where one of them is set-like; undefined if Python does not subtract the two.
Value subtract_sets(Interpreter& interpreter, const Value& left, const Value& right);

// The methods of sets that read, and isdisjoint() of views; undefined for any other name.
// REQUIRES: set-like.
Value find_set_method(const Value& object, std::string_view name);

}  // namespace coxswain::chat
