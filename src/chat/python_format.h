#pragma once
// How Python prints values: str(), repr(), the % operator and str.format().
//
// Thread rule: pure functions but for the interpreter's budgets.

#include <cstddef>
#include <string>
#include <string_view>

#include "chat/callable.h"
#include "chat/value.h"

namespace coxswain::chat {

Text to_text(const Value& value);  // str(); undefined gives nothing
Text repr(const Value& value);
// repr(float): shortest digits, exponent below 1e-4 and from 1e16 on.
std::string float_repr(double value);
// pprint.pformat(): repr() over several lines where 80 columns do not hold it.
// Throws RenderError where it gets longer than bytes_max: indentation makes a long text of a small
// value.
Text pretty_print(const Value& value, std::size_t bytes_max);

// `format` % arguments. What is put into a safe format is escaped first, here and below.
// Both count what they make against the interpreter's budgets.
Text percent_format(Interpreter& interpreter, const Text& format, const Value& arguments);
// str.format()
Text brace_format(Interpreter& interpreter, const Text& format, const Arguments& arguments);

}  // namespace coxswain::chat
