#pragma once
// Splits element-wise kernels over rows, where the work is worth waking a thread.
//
// Thread rule: one caller at a time for each pool; tasks run on the pool's threads.

#include "kernels/cpu/ops.h"
#include "kernels/kernel_table.h"

namespace coxswain::kernels {

void run_rms_norm(ThreadPool& pool, const NormArgs& args, const VectorOps& ops);
void run_layer_norm(ThreadPool& pool, const NormArgs& args, const VectorOps& ops);
void run_rope(ThreadPool& pool, const RopeArgs& args, const VectorOps& ops);
void run_activation(ThreadPool& pool, const ActivationArgs& args, const VectorOps& ops);
void run_add(ThreadPool& pool, const AddArgs& args, const VectorOps& ops);

}  // namespace coxswain::kernels
