#pragma once
// The notation in which the description (description.h) says what a value may be, and its JSON Schema.
//
//   TYPE  = ONE { "|" ONE }
//   ONE   = WORD { BOUND } | "[" TYPE "]" { BOUND } | "{" TYPE "}" { BOUND } | "'" TEXT "'"
//   WORD  = integer | u32 | u64 | i32 | number | string | bool | object | any | null | the name of an object
//   BOUND = ">=" NUMBER | ">" NUMBER | "<=" NUMBER | "<" NUMBER
//
// [T] is an array of T, {T} an object whose members are T, 'text' that string alone. A bound is of a number's value, of
// the number of characters of a string, of the size of an array or object. Names of objects begin with a capital.
//
// Thread rule: pure functions.

#include <string_view>

#include "json/json.h"

namespace coxswain::openapi {

// As JSON Schema 2020-12. REQUIRES: the notation (checked; anything else is a bug of the description and aborts).
json::Value schema_of(std::string_view type);

// The same, or null.
json::Value nullable_schema_of(std::string_view type);

}  // namespace coxswain::openapi
