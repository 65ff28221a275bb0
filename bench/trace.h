#pragma once
// coxswain-bench-scheduler --trace FILE: the requests of a trace through the engine under each capacity policy, over
// simulated time. The scheduler, the KV accounting and the engine are the real ones; steps take what a
// machine of step_costs.h takes for them.
//
// Thread rule: one thread.

#include <cstdint>
#include <string>

#include "step_costs.h"

namespace coxswain::bench {

struct TraceOptions {
  std::string path;                 // CSV: arrival_s,input_tokens,output_tokens
  std::uint32_t first_request = 1;  // counted from 1
  std::uint32_t n_requests = 0;     // from there
  std::uint32_t length_factor = 4;  // max_new_tokens of a request, in its real lengths
  StepCosts costs = kStepCosts.front();
  std::uint32_t speed = 1;  // of the simulated machine, in multiples of one with these costs
  std::string svg_path;     // empty: no plot
};

// Prints the table. False if the trace cannot be read.
bool simulate_trace(const TraceOptions& options);

}  // namespace coxswain::bench
