#pragma once
// Methods of strings and numbers; methods.cc has those of lists and mappings, and the look-up of
// all.
//
// Thread rule: pure functions; what they return belongs to the interpreter that calls it.

#include <string_view>

#include "chat/callable.h"
#include "chat/value.h"

namespace coxswain::chat {

// The method `name` bound to a string; undefined if there is none.
Value find_text_method(const Value& object, std::string_view name);
// str.maketrans() and str.translate() (methods_translate.cc).
Value make_translation(Interpreter& interpreter, const Text& text, const Arguments& arguments);
Value translate(Interpreter& interpreter, const Text& text, const Arguments& arguments);

// The method `name` bound to a number; undefined if there is none.
Value find_number_method(const Value& object, std::string_view name);
// real, imag, numerator, denominator; undefined for any other name.
Value number_attribute(const Value& number, std::string_view name);

// True if mappings have a method `name`, which then hides a member of that name from `m.name`.
bool is_dict_method(std::string_view name);

}  // namespace coxswain::chat
