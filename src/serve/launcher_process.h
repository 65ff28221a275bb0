#pragma once
// The process text-generation-launcher: checks the options, starts one shard and the router, shows
// what they say, restarts what dies and stops all.
//
// Thread rule: call once, in main(), with the signals blocked (supervise::Supervisor::block_signals); makes no threads.

namespace coxswain::serve {

// Returns the exit code (start_failure.h).
int run_launcher(int argc, char** argv);

}  // namespace coxswain::serve
