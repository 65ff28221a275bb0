#pragma once
// RunningCalls finds calls by the ids that their clients know, to cancel them, and lists them.
//
// Thread rule: any thread.

#include <algorithm>
#include <cstddef>
#include <memory>
#include <string>
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

  // Clients choose ids as they like, so several calls may have one. False: none has.
  bool cancel(const std::string& id) {
    std::vector<std::shared_ptr<Call>> found;
    {
      base::MutexLock lock(mu_);
      const auto [begin, end] = calls_.equal_range(id);
      for (auto entry = begin; entry != end; ++entry) {
        if (auto call = entry->second.lock()) found.push_back(std::move(call));
      }
      calls_.erase(begin, end);
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
