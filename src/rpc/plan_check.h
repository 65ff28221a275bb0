#pragma once
// check_plan: does a plan from another process stay inside the model and the KV pools of this runner?
//
// It is the memory-safety half of the rules of step_runner.h that needs no history: groups, blocks and layer ranges;
// and it refuses by name what the runner's capabilities leave out. Whether a sequence is known, its table long enough
// and the ids of its prompt in the vocabulary is for the runner to say.
//
// Thread rule: a pure function.

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

namespace coxswain::rpc {

// Errors: kInternal (the caller's own bug), naming the row, the value and the limit.
Status check_plan(const StepPlan& plan, const RunnerInfo& info);
// Of StepRunner::export_blocks(). Errors: likewise.
Status check_export(const BlockTransfer& transfer, const RunnerInfo& info);

}  // namespace coxswain::rpc
