#pragma once
// RunningCalls finds calls by the ids that their clients know, to cancel them, and lists them.
//
// Thread rule: any thread.

#include <algorithm>
#include <cstddef>
#include <iterator>
#include <memory>
#include <optional>
#include <string>
#include <string_view>
#include <unordered_map>
#include <utility>
#include <vector>

#include "base/keyed_hash.h"
#include "base/mutex.h"
#include "router/call.h"

namespace coxswain::router {

class RunningCalls {
 public:
  void add(const std::string& id, std::weak_ptr<Call> call) {
    if (id.empty()) return;
    base::MutexLock lock(mu_);
    if (calls_.size() >= n_calls_max_) {  // ended ones among them
      std::erase_if(calls_, [](const auto& entry) { return entry.second.expired(); });
      n_calls_max_ = std::max(kCallsMin, 2 * calls_.size());
    }
    calls_.emplace(id, std::move(call));
  }

  // Clients choose ids as they like, so several calls may have one. `owner`: the name of a key, whose calls alone are
  // looked at; none: all are. False: none has the id.
  bool cancel(const std::string& id, std::optional<std::string_view> owner) {
    std::vector<std::shared_ptr<Call>> found;
    {
      base::MutexLock lock(mu_);
      auto [entry, end] = calls_.equal_range(id);
      while (entry != end) {
        auto call = entry->second.lock();
        const bool is_it = call && (!owner || call->key_name() == *owner);
        if (is_it) found.push_back(std::move(call));
        entry = is_it ? calls_.erase(entry) : std::next(entry);
      }
    }
    for (const auto& call : found) call->cancel();
    return !found.empty();
  }

  // Each once, those that have just ended among them, in no order.
  std::vector<std::shared_ptr<const Call>> all() const {
    std::vector<std::shared_ptr<const Call>> out;
    {
      base::MutexLock lock(mu_);
      for (const auto& [id, call] : calls_)
        if (auto open = call.lock()) out.push_back(std::move(open));
    }
    std::ranges::sort(out);
    const auto [first, last] = std::ranges::unique(out);
    out.erase(first, last);
    return out;
  }

 private:
  static constexpr std::size_t kCallsMin = 128;

  mutable base::Mutex mu_;
  std::unordered_multimap<std::string, std::weak_ptr<Call>, base::KeyedHash> calls_ GUARDED_BY(mu_);
  std::size_t n_calls_max_ GUARDED_BY(mu_) = kCallsMin;
};

}  // namespace coxswain::router
