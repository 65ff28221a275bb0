#pragma once
// Cuts attention and cache writes into tasks: a few rows of one sequence and the query heads of one KV head, or of
// several where rows are few and sequences many. A task owns its outputs.
//
// Thread rule: one caller at a time for each context; tasks run on its threads.

#include "kernels/cpu/ops.h"
#include "kernels/kernel_table.h"

namespace coxswain::kernels {

void run_attention(ExecContext& exec, const AttentionArgs& args, const VectorOps& ops);
void run_kv_write(ExecContext& exec, const KvWriteArgs& args, const VectorOps& ops);

}  // namespace coxswain::kernels
