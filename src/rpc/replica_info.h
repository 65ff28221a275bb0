#pragma once
// What a replica of several shards says about itself: the facts that all of them share, and the limits that all of
// them can keep.
//
// Thread rule: pure functions.

#include <cstdint>
#include <span>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

namespace coxswain::rpc {

// By rank; at least one. Rank 0 speaks for all, but for:
//   epoch                              of one shard its own; of several a number that changes with any of theirs
//   n_blocks of each KV group, limits  the least
// Errors: kFailedPrecondition with the rank and the first line in which it differs from rank 0: version, weights as
// computed with, widths, or anything of KvLayout.
Result<RunnerInfo> replica_info(std::span<const RunnerInfo> shards);

}  // namespace coxswain::rpc
