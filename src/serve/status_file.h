#pragma once
// StatusFile: how a process that the launcher started says that it serves, and what it found out
// while it started.
//
// The launcher names a path in the environment variable COXSWAIN_STATUS_FILE. The child writes one
// JSON object there, to a temporary name first, as the last thing before it serves; its appearance
// is the sign of readiness. Without the variable nothing happens.
//
// Thread rule: one thread.

#include <cstddef>
#include <string>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::serve {

inline constexpr const char* kStatusFileVariable = "COXSWAIN_STATUS_FILE";

inline constexpr std::size_t kStatusBytesMax = 64 << 10;

// Of the shard of a replica, in the launcher's private folder.
std::string shard_status_file(const std::string& run_folder, std::size_t replica);

// Errors: kUnavailable naming the path.
Status write_status_file(const json::Object& facts);

}  // namespace coxswain::serve
