#pragma once
// What serving adds to a decode step: the engine core plans, commits and applies it, and the plan
// and its result cross a Unix socket (ShardedClient, ShardService), as between router and shard.
//
// The share is the time of a step in which the model did not compute: wall time less the
// runner's own. With look-ahead most of the work lies behind the step before; what is left is
// the hand-over. Planning without any of this is what coxswain-bench-scheduler prints, and the
// socket alone coxswain-bench-rpc.

#include <cstdint>

#include <coxswain/step_runner.h>

namespace coxswain::bench {

// Prints one line for n_streams sequences of n_prompt tokens that decode n_steps steps
// together. REQUIRES: nobody else drives the runner; its cache holds the sequences. Dies with a
// message where something fails.
void print_engine_share(StepRunner& runner,
                        std::uint32_t n_streams,
                        std::uint32_t n_prompt,
                        std::uint32_t n_steps);

}  // namespace coxswain::bench
