#pragma once
// What a capacity policy means to the scheduler, in one place: it asks these values and never which policy it is.
//
// Thread rule: a value.

#include <coxswain/capacity_policy.h>
#include <coxswain/step_runner.h>

namespace coxswain::batch {

struct CapacityRules {
  // Admission reserves the whole answer, not the known context alone, and nobody is paused for room.
  bool reserves_answers = false;
  // Admission looks at what all that run are expected to hold in the steps to come (length_forecast.h).
  bool foresees_lengths = false;
  // A waiting request lets shorter prompts pass, for half of the overtakes that it may suffer.
  bool prefers_short_prompts = false;
  // Nobody joins a batch of which one has been given its second token's row; prompts are computed before that.
  bool closes_batches = false;
  // Who needs a block, or the prompt of a sibling, that is just being computed waits a step and shares it.
  bool waits_for_equal_blocks = true;
};

inline CapacityRules capacity_rules(CapacityPolicy policy, const Capabilities& capabilities) {
  CapacityRules out;
  // Where blocks cannot be taken later, or sequences cannot leave a batch, there is no other way.
  out.reserves_answers = !capabilities.grows_blocks || !capabilities.selects_rows;
  switch (policy) {
    case CapacityPolicy::kMaxUtilization:
      break;
    case CapacityPolicy::kAdaptive:
      out.foresees_lengths = !out.reserves_answers;
      out.prefers_short_prompts = out.foresees_lengths && capabilities.plans_chunks;
      break;
    case CapacityPolicy::kGuaranteedNoEvict:
      out.reserves_answers = true;
      break;
    case CapacityPolicy::kStaticBatch:
      out.reserves_answers = true;
      out.closes_batches = true;
      out.waits_for_equal_blocks = false;
      break;
  }
  return out;
}

}  // namespace coxswain::batch
