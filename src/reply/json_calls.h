#pragma once
// Calls as JSON objects: {"name": ..., "arguments": {...}}, one, several or a list of them.
//
// The members come in any order; "tool_name" stands for "name", "parameters" for "arguments", and "id" or
// "tool_call_id" gives the call's id if it comes before the arguments. A call begins with the first byte of its
// arguments; arguments written as a string that holds an object count, null or none are {}.

#include "reply/answer.h"

namespace coxswain::reply {

enum class Names : std::uint8_t {
  kAny,
  kDeclared,  // for formats without a marker; such a call needs arguments, too
};

// One object. REQUIRES: '{' comes next.
Reading<Outcome> read_call_object(Answer& answer, Names names);

// Objects one behind the other, between them white space or ';', or a list of objects.
Reading<Outcome> read_call_objects(Answer& answer, Names names);

// The same, with `close` behind it, which may be missing.
Reading<Outcome> read_framed_call_objects(Answer& answer, std::string_view close);

// At the beginning of an answer: call objects of declared names, in a code fence or not.
Reading<Outcome> read_bare_calls(Answer& answer);

}  // namespace coxswain::reply
