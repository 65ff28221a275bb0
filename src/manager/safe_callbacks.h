#pragma once
// SafeCallbacks: a program's callbacks, whose exceptions end here. batch_manager.h says what each of them means.
//
// Thread rule: one thread calls; failures() from any thread.

#include <cstdint>
#include <exception>
#include <memory>
#include <span>
#include <string>
#include <string_view>
#include <unordered_set>
#include <utility>
#include <vector>

#include <coxswain/batch_manager.h>

#include "base/mutex.h"

namespace coxswain::manager {

class SafeCallbacks {
 public:
  explicit SafeCallbacks(BatchManagerCallbacks callbacks) : on_(std::move(callbacks)) {}

  std::vector<std::shared_ptr<InferenceRequest>> get_requests(std::int32_t max_new) {
    std::vector<std::shared_ptr<InferenceRequest>> out;
    contain("get_requests", [&] { out = on_.get_requests(max_new); });
    return out;
  }
  // Empty, or the exception's text.
  std::string send_response(std::uint64_t id,
                            std::span<const NamedTensor> outputs,
                            bool final,
                            const std::string& error) {
    return contain("send_response", [&] { on_.send_response(id, outputs, final, error); });
  }
  std::unordered_set<std::uint64_t> poll_stop_signals() {
    std::unordered_set<std::uint64_t> out;
    if (on_.poll_stop_signals) contain("poll_stop_signals", [&] { out = on_.poll_stop_signals(); });
    return out;
  }
  bool wants_stats() const { return static_cast<bool>(on_.return_stats); }
  void return_stats(const std::string& json) {
    contain("return_stats", [&] { on_.return_stats(json); });
  }

  void note_failure(std::string_view callback, std::string_view what) EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    ++failures_.count;
    failures_.last = std::string(callback) + ": " + std::string(what);
  }
  CallbackFailures failures() const EXCLUDES(mu_) {
    base::MutexLock lock(mu_);
    return failures_;
  }

 private:
  template <typename Call>
  std::string contain(std::string_view callback, const Call& call) {
    std::string what;
    try {
      call();
      return {};
    } catch (const std::exception& e) {
      what = e.what();
    } catch (...) {
      what = "an exception of an unknown type";
    }
    note_failure(callback, what);
    return what.empty() ? "an exception without a text" : what;
  }

  const BatchManagerCallbacks on_;
  mutable base::Mutex mu_;
  CallbackFailures failures_ GUARDED_BY(mu_);
};

}  // namespace coxswain::manager
