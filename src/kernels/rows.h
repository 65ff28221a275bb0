#pragma once
// Rows that come and go as wholes: look-ups in tables, the choice of experts, gathering rows by expert and
// adding their outputs up.
//
// Thread rule: one caller at a time for each context; tasks run on its threads.

#include "kernels/cpu/ops.h"
#include "kernels/kernel_table.h"

namespace coxswain::kernels {

void run_look_up(ExecContext& exec, const LookUpArgs& args, const VectorOps& ops);
void run_look_up_packed(ExecContext& exec, const LookUpPackedArgs& args, const VectorOps& ops);
void run_choose_experts(ExecContext& exec, const ChooseExpertsArgs& args, const VectorOps& ops);
void run_group_rows(ExecContext& exec, const GroupRowsArgs& args);
void run_gather(ExecContext& exec, const GatherArgs& args);
void run_combine(ExecContext& exec, const CombineArgs& args, const VectorOps& ops);

}  // namespace coxswain::kernels
