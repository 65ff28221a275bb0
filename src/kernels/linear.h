#pragma once
// Splits a linear layer over threads, row chunks, panels and blocks of k, for the LinearKernel of
// any set.
//
// Law 1: a task owns whole outputs; within a task each output is added up in ascending k. Blocks of
// k only park the accumulators in memory.
//
// Thread rule: one caller at a time for each pool; tasks run on the pool's threads.

#include <cstddef>

#include "kernels/cpu/ops.h"
#include "kernels/kernel_table.h"

namespace coxswain::kernels {

void run_linear(ThreadPool& pool, const LinearArgs& args, const LinearKernel& kernel);

}  // namespace coxswain::kernels
