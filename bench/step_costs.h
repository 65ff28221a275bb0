#pragma once
// What a step of the simulated machine takes, for the Llama-3.2-1B shape in int8 on 2 cores.

#include <algorithm>
#include <array>
#include <string_view>

#include "batch/step_cost.h"

namespace coxswain::bench {

// Seconds: of a step, and what each of these adds to it.
struct StepCosts {
  std::string_view machine;
  double step;
  double decode;
  double prompt_token;
  double decode_context;  // a position of a decode
  double prompt_context;  // a position of a prompt token
};

inline constexpr std::array kStepCosts{
    // Decodes of 1 stream 44.6 ms and of 16 streams 51.6 ms a step, a prompt of 512 tokens 463 ms and one of 2048
    // tokens 2.72 s (docs/kernels.md, "Whole model"); a decode over 2048 positions takes 0.18 ms in each of 16 layers.
    StepCosts{"amx", 44.2e-3, 467e-6, 655e-6, 1.4e-6, 0.638e-6},
    // AVX-512 with VNNI, Zen 5: coxswain-bench-runner MODEL --quantize int8 --only fit --batch 64, which is off by 4 %
    // (median of 248 steps).
    StepCosts{"zen5", 14.9e-3, 1340e-6, 1010e-6, 1.31e-6, 0.305e-6},
};

// REQUIRES: a machine of the table.
inline const StepCosts& costs_of(std::string_view machine) {
  return *std::ranges::find(kStepCosts, machine, &StepCosts::machine);
}

inline double step_seconds(const StepCosts& costs, const batch::StepShape& s) {
  return costs.step + costs.decode * s.n_decodes + costs.prompt_token * s.n_prompt_tokens +
         costs.decode_context * static_cast<double>(s.decode_context) +
         costs.prompt_context * static_cast<double>(s.prompt_context);
}

}  // namespace coxswain::bench
