#pragma once
// What a step of the simulated machine takes: fitted to what coxswain-bench-runner measured for the Llama-3.2-1B shape
// in int8 on 2 virtual CPUs with AMX (docs/kernels.md, "Whole model"): decodes of 1 stream 44.6 ms and of 16 streams
// 51.6 ms a step, a prompt of 512 tokens 463 ms and one of 2048 tokens 2.72 s. The context of a decode: one row over
// 2048 positions takes 0.18 ms in each of 16 layers (there, "Kernels alone"). What steps of all shapes say is
// printed by coxswain-bench-runner MODEL --quantize int8 --only fit, on a machine that does nothing else.

#include "batch/step_cost.h"

namespace coxswain::bench {

inline constexpr double kStepSeconds = 44.2e-3;
inline constexpr double kDecodeSeconds = 0.467e-3;
inline constexpr double kPromptTokenSeconds = 0.655e-3;
inline constexpr double kDecodeContextSeconds = 1.4e-6;    // for each position of each decode
inline constexpr double kPromptContextSeconds = 0.638e-6;  // for each position of each prompt token

inline double step_seconds(const batch::StepShape& s) {
  return kStepSeconds + kDecodeSeconds * s.n_decodes + kPromptTokenSeconds * s.n_prompt_tokens +
         kDecodeContextSeconds * static_cast<double>(s.decode_context) +
         kPromptContextSeconds * static_cast<double>(s.prompt_context);
}

}  // namespace coxswain::bench
