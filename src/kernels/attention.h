#pragma once
// Cuts attention and cache writes into tasks: a few rows of one sequence and the query heads of one
// KV head. A task owns its outputs.
//
// Thread rule: one caller at a time for each pool; tasks run on the pool's threads.

#include "kernels/cpu/ops.h"
#include "kernels/kernel_table.h"

namespace coxswain::kernels {

void run_attention(ThreadPool& pool, const AttentionArgs& args, const VectorOps& ops);
void run_kv_write(ThreadPool& pool, const KvWriteArgs& args, const VectorOps& ops);

}  // namespace coxswain::kernels
