#pragma once
// EngineParts: what an engine of the library is made of, checked: a runner, the lease of the model that it belongs to,
// the engine's options and the limits of requests.
//
// Thread rule: values and functions, any thread.

#include <memory>

#include <coxswain/executor.h>
#include <coxswain/local_model.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "batch/engine.h"
#include "library/model_state.h"
#include "request/checks.h"

namespace coxswain::library {

struct EngineParts {
  ModelLease lease;  // empty of a runner that is no LocalModel's
  std::shared_ptr<StepRunner> runner;
  std::shared_ptr<const TextCodec> codec;  // of a LocalModel
  batch::EngineOptions options;
  request::RequestLimits limits;
};

// Errors: kFailedPrecondition if another engine computes with the model; kInvalidArgument naming the option, or that
// the KV cache is too small for any request.
Result<EngineParts> make_parts(const LocalModel& model, const ExecutorOptions& options);
// The same; kInvalidArgument if there is no runner.
Result<EngineParts> make_parts(std::shared_ptr<StepRunner> runner, const ExecutorOptions& options);

}  // namespace coxswain::library
