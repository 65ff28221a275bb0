#pragma once
// StepReport: what a runner's steps spent their time on.

#include <cstdint>
#include <string>
#include <vector>

#include <coxswain/step_runner.h>

#include "kernels/step_profile.h"

namespace coxswain::runner {

struct StepReport {
  std::uint64_t steps = 0;
  // Computed: tokens of prompts, and one for each sequence that decoded.
  std::uint64_t positions = 0;
  double total_s = 0.0;
  double sample_s = 0.0;  // choosing and decoding tokens
  // In any order; those that guess tokens are among them.
  std::vector<kernels::OperationTime> operations = {};

  void add(const StepReport& other);
  // The same, of time that went to neither kernels nor sampling.
  double rest_s() const;
  // One line, what took most first: shares, milliseconds a step; of linear layers bytes and multiply-adds a second.
  std::string text() const;
};

}  // namespace coxswain::runner
