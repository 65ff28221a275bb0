#pragma once
// Names of a FileStore's folders and files (file_store.h).
//
// Thread rule: pure functions.

#include <cstdint>
#include <string>
#include <string_view>

#include "batch/block_tier.h"
#include "kvspill/tier_index.h"

namespace coxswain::kvspill {

inline constexpr std::string_view kLockName = "lock";
inline constexpr std::string_view kSecretName = "secret";

// Of blocks with this description.
std::string folder_name(std::string_view description);
bool is_folder_name(std::string_view name);

std::string block_name(const batch::BlockKey& key, const TierIndex::Entry& entry);
// What block_name() was made of, without sizes; false for any other name.
bool parse_block_name(std::string_view name, batch::BlockKey& key, TierIndex::Entry& entry);

}  // namespace coxswain::kvspill
