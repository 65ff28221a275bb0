#pragma once
// Arithmetic, comparison and membership with Python's rules. Integers are 64 bits; beyond that is
// an error.

#include "chat/ast.h"
#include "chat/value.h"

namespace coxswain::chat {

class Interpreter;

Value apply_binary(Interpreter& interpreter, Operator op, const Value& left, const Value& right);
bool apply_comparison(Operator op, const Value& left, const Value& right);
// Python's ordering: negative, zero, positive. Throws for types without an order.
int order(const Value& left, const Value& right, const char* symbol);
bool contains(const Value& container, const Value& item);
Value negate(const Value& value);

}  // namespace coxswain::chat
