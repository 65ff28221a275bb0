#pragma once
// The id of the largest logit of each row.
//
// Thread rule: belongs to the compute thread.

#include <span>

#include <coxswain/types.h>

#include "kernels/exec_context.h"

namespace coxswain::runner {

// logits [ids.size(), width], of which the first n_ids of a row count.
void find_best_ids(kernels::ExecContext& exec,
                   std::span<const float> logits,
                   std::size_t width,
                   std::size_t n_ids,
                   std::span<TokenId> ids);

}  // namespace coxswain::runner
