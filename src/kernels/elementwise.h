#pragma once
// Splits element-wise kernels over rows, where the work is worth waking a thread.

#include "kernels/cpu/ops.h"
#include "kernels/kernel_table.h"

namespace coxswain::kernels {

void run_rms_norm(ThreadPool& pool, const NormArgs& args, const VectorOps& ops);
void run_layer_norm(ThreadPool& pool, const NormArgs& args, const VectorOps& ops);
void run_rope(ThreadPool& pool, const RopeArgs& args, const VectorOps& ops);
void run_activation(ThreadPool& pool, const ActivationArgs& args, const VectorOps& ops);
void run_add(ThreadPool& pool, const AddArgs& args, const VectorOps& ops);

}  // namespace coxswain::kernels
