#pragma once
// Splits element-wise kernels over rows, where the work is worth waking a thread.
//
// Thread rule: one caller at a time for each context; tasks run on its threads.

#include "kernels/cpu/ops.h"
#include "kernels/kernel_table.h"

namespace coxswain::kernels {

void run_rms_norm(ExecContext& exec, const NormArgs& args, const VectorOps& ops);
void run_layer_norm(ExecContext& exec, const NormArgs& args, const VectorOps& ops);
void run_rope(ExecContext& exec, const RopeArgs& args, const VectorOps& ops);
void run_activation(ExecContext& exec, const ActivationArgs& args, const VectorOps& ops);
void run_clamped_swiglu(ExecContext& exec, const ClampedSwigluArgs& args, const VectorOps& ops);
void run_add(ExecContext& exec, const AddArgs& args, const VectorOps& ops);
void run_gated_add(ExecContext& exec, const GatedAddArgs& args, const VectorOps& ops);
void run_clip(ExecContext& exec, const ClipArgs& args, const VectorOps& ops);
void run_soft_cap(ExecContext& exec, const SoftCapArgs& args, const VectorOps& ops);
void run_rope_angles(ExecContext& exec, const RopeAnglesArgs& args, const VectorOps& ops);

}  // namespace coxswain::kernels
