#pragma once
// The file of --api-keys-path: who may ask, and how much each of them may.
//
//   [{"name": "alice", "key": "sk-...", "requests_per_minute": 60, "concurrent_requests": 8, "cache_salt": "team-1"}]
//
// `name` and `key` are required. No name and no key stands twice, and nothing else may stand there.
//
// Thread rule: values and pure functions.

#include <cstddef>
#include <cstdint>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>

#include "json/json.h"

namespace coxswain::security {

struct ApiKey {
  std::string name{};  // for logs and people; never secret
  std::string key{};
  std::optional<std::uint64_t> requests_per_minute{};
  std::optional<std::uint64_t> concurrent_requests{};
  std::string cache_salt{};  // empty: prefixes are shared with all other keys without one
};

inline constexpr std::size_t kApiKeysBytesMax = std::size_t{16} << 20;  // of the file

// Errors: kInvalidArgument that names the member (`[1].key`), never a key.
Result<std::vector<ApiKey>> parse_api_keys(const json::Value& document);

// The name that the key of --api-key has.
inline constexpr const char* kOwnKeyName = "api-key";
// Errors: kInvalidArgument for a key that has the name or the key of `own`, that of --api-key.
Status check_beside(const std::vector<ApiKey>& keys, const ApiKey& own);

// Those of a file. `own`: that of --api-key; null: there is none. Errors: those of json::parse_file(), and those above
// with the path.
Result<std::vector<ApiKey>> read_api_keys(const std::string& path, const ApiKey* own);

}  // namespace coxswain::security
