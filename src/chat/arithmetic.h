#pragma once
// Arithmetic on numbers with Python's rules: integers are exact (see BigInt for their limit), a
// float makes the result a float.

#include "chat/ast.h"
#include "chat/value.h"

namespace coxswain::chat {

class Interpreter;

// REQUIRES: two numbers, an operator from kAdd to kPower.
Value apply_arithmetic(Interpreter& interpreter,
                       Operator op,
                       const Value& left,
                       const Value& right);
Value negate(const Value& value);
// round(): the nearest, ties to even; `digits` behind the point, or zeros before it if negative.
Value round_number(const Value& value, std::int64_t digits);
// int() of a number: without its fraction. Throws for what is not finite.
Value truncate_number(const Value& value);

}  // namespace coxswain::chat
