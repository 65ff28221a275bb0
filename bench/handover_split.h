#pragma once
// What it costs to divide the layers of a prompt between two engines (--layers of coxswain-bench-handover).
//
// Thread rule: one thread.

#include <cstdint>
#include <memory>

#include <coxswain/block_transport.h>

#include "batch/engine.h"

namespace coxswain::bench {

struct SplitRun {
  batch::Engine& first;   // computes layers [0, n_layers) of each prompt
  batch::Engine& second;  // computes the others, or all
  std::uint32_t n_layers = 1;
  std::uint32_t n_tokens = 0;
  std::uint32_t n_rounds = 0;
};

// Prints its figures; ends the program with 1 if tokens of both ways differ.
void run_split(const SplitRun& run, std::unique_ptr<BlockTransport> by);

}  // namespace coxswain::bench
