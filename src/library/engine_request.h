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

// For whoever has room for one answer. Errors: kInvalidArgument naming `n`.
Status require_one_sequence(std::uint32_t n);

}  // namespace coxswain::library
