#pragma once
// What a runner and its cache take: how the cache is divided, what a cached block stands for, which requests fit.
// EngineCore::admissible() is defined beside them.
//
// Thread rule: pure functions.

#include <cstdint>
#include <span>
#include <string>
#include <string_view>

#include <coxswain/step_runner.h>

#include "base/keyed_hash.h"
#include "batch/engine.h"
#include "kvcache/kv_cache.h"

namespace coxswain::batch {

// The pools of `info` as the engine leases them: block 0 is not leased, batch_total_tokens_max is an upper bound.
kvcache::KvCacheOptions cache_options(const RunnerInfo& info,
                                      const EngineOptions& options,
                                      const base::HashKey& key);

// Everything besides the tokens that decides what a cached block holds. `rope_length`: as in SequenceSpec.
std::string cache_identity(const RunnerInfo& info,
                           const GenerationRequest& request,
                           std::uint32_t rope_length);

// Positions of a table beyond those of prompt and output: for guesses of a runner whose tables do not grow.
inline std::uint32_t spare_positions(const RunnerInfo& info) {
  return info.capabilities.grows_blocks ? 0 : info.capabilities.draft_tokens_max;
}

// Of tokens in cached blocks and of what `identity` says: two engines that agree on it mean the same blocks.
std::uint64_t prefix_digest(std::string_view identity, std::span<const TokenId> tokens);

}  // namespace coxswain::batch
