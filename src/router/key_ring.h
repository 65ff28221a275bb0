#pragma once
// KeyRing: the keys that open the routes, what each may do, and what was asked with each.
//
// A key is looked for by a hash that outsiders cannot compute and then compared in a time that depends on what was
// given alone. The keys of the file may be replaced while requests run: counts go on for a name that stays, and a
// request that was let in goes on whatever becomes of its key.
//
// A rate is a bucket of requests_per_minute requests that fills evenly: a key that was quiet may use all of it at once.
//
// Thread rule: any thread.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "base/mutex.h"
#include "http/server.h"
#include "security/api_keys.h"

namespace coxswain::router {

using security::ApiKey;

// How much more may come with a key.
struct KeyRoom {
  std::uint64_t limit = 0;
  std::uint64_t remaining = 0;
  std::optional<std::chrono::nanoseconds> full_in;  // of a rate: until `remaining` is `limit` again
};

struct KeyCounts {
  std::uint64_t running = 0;
  std::uint64_t accepted = 0;
  std::uint64_t refused = 0;  // because of a limit of the key
};

// What was asked with one key.
class KeyMeter {
 public:
  // One more request, if `limits` allow. Errors: kResourceExhausted, ErrorKind::kOverloaded, that say which limit;
  // `retry_in` is then when it may come again, as far as that is known.
  Status enter(const ApiKey& limits, TimePoint now, std::chrono::nanoseconds& retry_in);
  void leave();
  // Of the rate, if there is one, otherwise of the requests at a time; empty without limits.
  std::optional<KeyRoom> room(const ApiKey& limits, TimePoint now) const;
  KeyCounts counts() const;

 private:
  mutable base::Mutex mu_;
  KeyCounts counts_ GUARDED_BY(mu_);
  TimePoint full_at_ GUARDED_BY(mu_){};  // the bucket of the rate
};

struct HeldKey {
  ApiKey spec;
  std::shared_ptr<KeyMeter> meter;
};
using HeldKeyPtr = std::shared_ptr<const HeldKey>;

class KeyRing {
 public:
  // `api_key`: that of --api-key, named `api-key`, without limits; empty if there is none.
  explicit KeyRing(std::string api_key = {});

  // Those of the file of --api-keys-path, from now on. Errors: those of read_api_keys(); the old ones then stay.
  Status read(const std::string& path);
  Status replace(std::vector<ApiKey> keys);

  // Whose key the request carries, as `Authorization: Bearer KEY` or in the headers of Anthropic's and Azure's clients;
  // null if nobody's.
  HeldKeyPtr find(const http::Request& request) const;
  std::vector<HeldKeyPtr> all() const;  // in order of the file, that of --api-key first

 private:
  using Table = std::unordered_multimap<std::size_t, HeldKeyPtr>;
  HeldKeyPtr find_key(std::string_view given) const;

  const HeldKeyPtr own_;
  mutable base::Mutex mu_;
  std::vector<HeldKeyPtr> keys_ GUARDED_BY(mu_);  // of the file
  Table by_hash_ GUARDED_BY(mu_);                 // all
};

// The cache salt of a request: of what its key has and of what it asks for, each of which may be none. No two pairs
// have the same one.
std::string salt_of(const ApiKey& key, const std::string& asked);

// Names, limits and counts, for whoever operates the server: {"keys":[...]}.
json::Value key_document(const KeyRing& ring);

}  // namespace coxswain::router
