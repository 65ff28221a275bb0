#pragma once
// The process text-generation-server: one shard. `serve MODEL_ID` loads a model and serves it on a
// Unix socket until it is told to stop.
//
// Thread rule: call once, in main(), after hold_signals() and before any other thread.

#include <functional>
#include <memory>

#include <coxswain/step_runner.h>

namespace coxswain::serve {

// What is served in the place of the runner, which outlives it; for measurements.
using ServedAs = std::function<std::unique_ptr<StepRunner>(StepRunner&)>;

// Returns the exit code (start_failure.h).
int run_shard(int argc, const char* const* argv, const ServedAs& served_as = {});

}  // namespace coxswain::serve
