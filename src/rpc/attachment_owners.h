#pragma once
// Which stream an attachment goes with: those that a router brought or had made and did not take leave with it.
//
// Thread rule: any thread.

#include <cstdint>
#include <unordered_map>
#include <vector>

#include "base/mutex.h"

namespace coxswain::rpc {

class AttachmentOwners {
 public:
  void add(std::uint64_t id, std::uint64_t stream) {
    base::MutexLock lock(mu_);
    stream_of_[id] = stream;
  }
  void remove(std::uint64_t id) {
    base::MutexLock lock(mu_);
    stream_of_.erase(id);
  }
  bool has(std::uint64_t id) {
    base::MutexLock lock(mu_);
    return stream_of_.contains(id);
  }
  std::vector<std::uint64_t> remove_stream(std::uint64_t stream) {
    base::MutexLock lock(mu_);
    std::vector<std::uint64_t> out;
    std::erase_if(stream_of_, [&](const auto& entry) {
      if (entry.second != stream) return false;
      out.push_back(entry.first);
      return true;
    });
    return out;
  }

 private:
  base::Mutex mu_;
  std::unordered_map<std::uint64_t, std::uint64_t> stream_of_ GUARDED_BY(mu_);
};

}  // namespace coxswain::rpc
