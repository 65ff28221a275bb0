#pragma once
// From a program's Request to the engine's, and from its options to the engine's: the library's share of the checks,
// the rest of which the engine does when it takes the request.
//
// Thread rule: pure functions.

#include <cstdint>

#include <coxswain/executor.h>
#include <coxswain/request.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "batch/engine.h"
#include "request/checks.h"

namespace coxswain::library {

struct EngineSetup {
  batch::EngineOptions options;
  request::RequestLimits limits;
};

// `model_batch` and `model_prefill`: what the model was opened for, 0 = not known.
// Errors: kInvalidArgument naming the option, or that the runner's cache is too small for any request.
Result<EngineSetup> make_setup(const ExecutorOptions& options,
                               const RunnerInfo& info,
                               std::uint32_t model_batch,
                               std::uint32_t model_prefill);

// Errors: kInvalidArgument naming the field.
Result<batch::GenerationRequest> make_engine_request(Request request,
                                                     RequestId id,
                                                     const request::RequestLimits& limits);

}  // namespace coxswain::library
