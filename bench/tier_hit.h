#pragma once
// What the tier behind the KV cache spares: the time to the first token of a prompt that is computed, found in the
// cache, in memory behind it and in files; and what a pause costs, where its blocks are lost and where they are kept.
//
// Files are read from the memory of the operating system, which has just written them: a disk adds its own time.

#include <cstdint>

#include "runner/local_runner.h"

namespace coxswain::bench {

// Prints medians over n_rounds, for prompts of n_tokens. `options` says which model; cache and limits are set here.
// Ends the program with 1 where the tokens of two ways differ.
void print_tier_hits(runner::RunnerOptions options, std::uint32_t n_tokens, std::uint32_t n_rounds);

}  // namespace coxswain::bench
