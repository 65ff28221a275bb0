#pragma once
// How Python prints values: str(), repr(), the % operator and str.format().
//
// Thread rule: pure functions.

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
Text pretty_print(const Value& value);

// `format` % arguments. What is put into a safe format is escaped first, here and below.
Text percent_format(const Text& format, const Value& arguments);
// str.format()
Text brace_format(Interpreter& interpreter, const Text& format, const Arguments& arguments);

}  // namespace coxswain::chat
