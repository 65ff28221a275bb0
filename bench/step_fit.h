#pragma once
// coxswain-bench-runner --only fit: what steps of a runner take, as the coefficients of bench/step_costs.h.
//
// Thread rule: one thread.

#include <cstdint>

#include <coxswain/step_runner.h>

namespace coxswain::bench {

// Block ids that print_step_costs() uses, from 1 on.
std::uint32_t step_fit_blocks(std::uint32_t n_streams, std::uint32_t block_tokens);

// Runs steps with 0 to `n_streams` decodes, at a context of 32 and of 512 positions, beside chunks of 64 to 256 tokens
// of a prompt of 1024, fits batch::StepCost to their times, and prints its coefficients and how far it is off.
void print_step_costs(StepRunner& runner, std::uint32_t n_streams);

}  // namespace coxswain::bench
