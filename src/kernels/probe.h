#pragma once
// What a kernel table computes, bit for bit, as a short id.
//
// Two processes may only share what a cache holds, or go on with each other's requests, if their kernels give the same
// bits. A set's name does not say that: CPUs of different makers may differ inside one instruction (vdpbf16ps), and so
// may compilers and revisions that forgot to raise the number. So every entry runs once over fixed inputs.
//
// Thread rule: as the table's entries.

#include <string>

#include "kernels/kernel_table.h"

namespace coxswain::kernels {

// Eight hexadecimal digits of a hash over the outputs of every entry; the same for any number of threads. Takes 2 ms on
// vector sets, 5 on the scalar one. Errors: kResourceExhausted.
Result<std::string> numeric_id(const KernelTable& table, ExecContext& exec);

// The set's id and its numeric id, "amx-2.0123abcd": RunnerInfo::kernel_set_id.
Result<std::string> kernel_set_id(const KernelTable& table);

}  // namespace coxswain::kernels
