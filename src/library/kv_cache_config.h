#pragma once
// What the overloads of apply() of KvCacheConfig share.
//
// Thread rule: pure functions.

#include <coxswain/kv_cache_config.h>
#include <coxswain/status.h>

namespace coxswain::library {

// Errors: as apply().
Status check(const KvCacheConfig& config);
bool partial_reuse(const KvCacheConfig& config);

}  // namespace coxswain::library
