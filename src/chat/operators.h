#pragma once
// The operators, comparison and membership with Python's rules. Integers have 64 bits, and a result that does not fit
// is an error; a float makes the result a float. A larger integer (value.h) is equal to its own digits and takes part
// in nothing else: the error names it.
//
// Thread rule: pure functions but for the interpreter's budgets.

#include <compare>

#include "chat/ast.h"
#include "chat/value.h"

namespace coxswain::chat {

class Interpreter;

Value apply_binary(Interpreter& interpreter, Operator op, const Value& left, const Value& right);
Value negate(const Value& value);
// Throws unless `value` is a number to calculate with. `what` names the operation: "abs()", "unary -".
void require_number(const Value& value, const char* what);
// int() of a number: without its fraction. Throws for what is not finite or does not fit 64 bits.
Value truncate_number(const Value& value);

bool apply_comparison(Operator op, const Value& left, const Value& right);
// Python's ordering. Throws for types without an order.
std::partial_ordering order(const Value& left, const Value& right, const char* symbol);
bool contains(const Value& container, const Value& item);

}  // namespace coxswain::chat
