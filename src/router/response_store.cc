#include "router/response_store.h"

namespace coxswain::router {
namespace {

constexpr std::size_t kEntryBytes = 512;  // beside the texts

}  // namespace

void ResponseStore::drop(std::list<Entry>::iterator entry) {
  n_bytes_ -= entry->n_bytes;
  by_id_.erase(entry->id);
  entries_.erase(entry);
}

void ResponseStore::put(const std::string& id, StoredResponse response) {
  const std::size_t n_bytes = kEntryBytes + response.document.size() + response.items.size();
  if (n_bytes > bytes_max_) return;
  auto kept = std::make_shared<const StoredResponse>(std::move(response));
  base::MutexLock lock(mu_);
  while (n_bytes_ + n_bytes > bytes_max_) drop(std::prev(entries_.end()));
  entries_.push_front({id, std::move(kept), n_bytes});
  by_id_[id] = entries_.begin();
  n_bytes_ += n_bytes;
}

ResponseStore::Entries::iterator ResponseStore::find_entry(const std::string& id,
                                                           std::string_view owner) {
  const auto found = by_id_.find(id);
  const bool is_there = found != by_id_.end() && found->second->response->owner == owner;
  return is_there ? found->second : entries_.end();
}

std::shared_ptr<const StoredResponse> ResponseStore::find(const std::string& id,
                                                          std::string_view owner) {
  base::MutexLock lock(mu_);
  const auto entry = find_entry(id, owner);
  if (entry == entries_.end()) return nullptr;
  entries_.splice(entries_.begin(), entries_, entry);
  return entry->response;
}

bool ResponseStore::erase(const std::string& id, std::string_view owner) {
  base::MutexLock lock(mu_);
  const auto entry = find_entry(id, owner);
  if (entry == entries_.end()) return false;
  drop(entry);
  return true;
}

}  // namespace coxswain::router
