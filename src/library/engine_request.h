#pragma once
// From a program's Request to the engine's: the library's share of the checks. The engine does the rest.
//
// Thread rule: pure functions.

#include <coxswain/request.h>
#include <coxswain/status.h>

#include "batch/engine.h"
#include "request/checks.h"

namespace coxswain::library {

// Errors: kInvalidArgument naming the field.
Result<batch::GenerationRequest> make_engine_request(Request request,
                                                     RequestId id,
                                                     const request::RequestLimits& limits);

// Whether some of its sequences are given, and not all.
inline bool chooses_answers(const Request& request) {
  return request.best_of > request.n;
}

// For whoever has room for one answer; and for one that is read as it comes. Errors: kInvalidArgument naming `n` or
// `best_of`.
Status require_one_answer(const Request& request);
Status require_one_sequence(const Request& request);

// For whoever does not hand requests over. Errors: kInvalidArgument naming `type`.
Status require_whole_request(const Request& request);

}  // namespace coxswain::library
