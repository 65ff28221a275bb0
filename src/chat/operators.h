#pragma once
// The binary operators, comparison and membership with Python's rules. Numbers: arithmetic.h.
//
// Thread rule: pure functions but for the interpreter's budgets.

#include <compare>

#include "chat/ast.h"
#include "chat/value.h"

namespace coxswain::chat {

class Interpreter;

Value apply_binary(Interpreter& interpreter, Operator op, const Value& left, const Value& right);
bool apply_comparison(Operator op, const Value& left, const Value& right);
// Python's ordering. Throws for types without an order.
std::partial_ordering order(const Value& left, const Value& right, const char* symbol);
bool contains(const Value& container, const Value& item);

}  // namespace coxswain::chat
