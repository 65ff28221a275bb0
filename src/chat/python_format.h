#pragma once
// How Python prints values: str(), repr() and the % operator.
//
// Thread rule: pure functions but for the interpreter's budgets.

#include <string>
#include <string_view>

#include "chat/value.h"

namespace coxswain::chat {

class Interpreter;

Text to_text(const Value& value);  // str(); undefined gives nothing
Text repr(const Value& value);
// repr(float): shortest digits, exponent below 1e-4 and from 1e16 on.
std::string float_repr(double value);

// `format` % arguments, with the conversions %s %r %d %i %x %f %%, flags, width and precision. Counts what it makes
// against the interpreter's budgets. Throws RenderError for any other conversion and for arguments that do not fit.
Text percent_format(Interpreter& interpreter, const Text& format, const Value& arguments);
// Throws RenderError if `format` holds a conversion that percent_format() does not know.
void check_percent_format(std::string_view format);

}  // namespace coxswain::chat
