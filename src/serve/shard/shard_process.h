#pragma once
// The process text-generation-server: one shard. `serve MODEL_ID` loads a model and serves it on a
// Unix socket until it is told to stop.
//
// Thread rule: call once, in main(), after hold_signals() and before any other thread.

namespace coxswain::serve {

// Returns the exit code (start_failure.h).
int run_shard(int argc, const char* const* argv);

}  // namespace coxswain::serve
