#pragma once
// How Python prints values: str(), repr(), the % operator and str.format().

#include <string>
#include <string_view>

#include "chat/callable.h"
#include "chat/value.h"

namespace coxswain::chat {

Text to_text(const Value& value);  // str(); undefined gives nothing
Text repr(const Value& value);
std::string float_repr(
    double value);  // repr(float): shortest digits, exponent below 1e-4 and from 1e16 on

// `format` % arguments. Conversions: d i u f F e E g G x X o s r a c %, flags, width and precision.
Text percent_format(const Text& format, const Value& arguments);
// str.format() with automatic, numbered and named fields, ! conversions, attribute and item look-up
// left out, and format specs.
Text brace_format(const Text& format, const Arguments& arguments);

}  // namespace coxswain::chat
