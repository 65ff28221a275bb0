#pragma once
// ResponseStore: answers of /v1/responses that may be asked for again or gone on from, in memory.
//
// It holds at most so many bytes; where a new one finds no room, those go that were not used for the longest time. A
// response that is larger than all of it is not kept. Nothing outlives the router.
//
// A response has an owner, the name of the key that it was asked for with (empty: none is asked for). For all others it
// is not there.
//
// Thread rule: any thread.

#include <cstddef>
#include <list>
#include <memory>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>

#include "base/keyed_hash.h"
#include "base/mutex.h"

namespace coxswain::router {

struct StoredResponse {
  std::string document;           // JSON, as it was answered
  std::string items;              // JSON array: all input up to it, and its output
  std::size_t n_input_items = 0;  // of these, the first ones
  std::string owner = {};
};

class ResponseStore {
 public:
  explicit ResponseStore(std::size_t bytes_max) : bytes_max_(bytes_max) {}

  bool keeps() const { return bytes_max_ > 0; }
  // REQUIRES: the id is new.
  void put(const std::string& id, StoredResponse response);
  // Null: it was never there, is gone, or is somebody else's.
  std::shared_ptr<const StoredResponse> find(const std::string& id, std::string_view owner);
  bool erase(const std::string& id, std::string_view owner);

 private:
  struct Entry {
    std::string id;
    std::shared_ptr<const StoredResponse> response;
    std::size_t n_bytes = 0;
  };
  using Entries = std::list<Entry>;
  Entries::iterator find_entry(const std::string& id, std::string_view owner) REQUIRES(mu_);
  void drop(Entries::iterator entry) REQUIRES(mu_);

  const std::size_t bytes_max_;
  base::Mutex mu_;
  std::size_t n_bytes_ GUARDED_BY(mu_) = 0;
  std::list<Entry> entries_ GUARDED_BY(mu_);  // the one used last in front
  std::unordered_map<std::string, std::list<Entry>::iterator, base::KeyedHash> by_id_
      GUARDED_BY(mu_);
};

}  // namespace coxswain::router
