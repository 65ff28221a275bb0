#pragma once
// Splits a linear call over threads, problems, row chunks, panels and blocks of k, for the
// LinearKernels of any CPU set.
//
// Law 1: a task owns whole outputs; within a task each output is added up in ascending k. Blocks of k only park the
// accumulators in memory.
//
// Thread rule: one caller at a time for each context; tasks run on its pool's threads.

#include "kernels/cpu/ops.h"
#include "kernels/exec_context.h"
#include "kernels/linear_args.h"

namespace coxswain::kernels {

void run_linear(ExecContext& exec, const LinearCall& call, const VectorOps& ops);

}  // namespace coxswain::kernels
