#pragma once
// TimedSink: keeps the tokens of a request and when each came.
//
// Ends the program with a message where the request fails. Thread rule: events come from the engine thread; the rest
// may be called from any.

#include <cstdint>
#include <utility>
#include <vector>

#include "base/mutex.h"
#include "batch/engine.h"
#include "require.h"

namespace coxswain::bench {

class TimedSink final : public batch::TokenSink {
 public:
  void on_event(batch::TokenEvent event) override {
    base::MutexLock lock(mu_);
    for (const OutputToken& token : event.tokens) {
      ids_.push_back(token.id);
      came_at_.push_back(Clock::now());
    }
    if (event.final) last_ = std::move(event);
    news_.notify_all();
  }
  batch::TokenEvent wait() {
    base::MutexLock lock(mu_);
    news_.wait(lock, [&]() REQUIRES(mu_) { return last_.final; });
    if (!last_.status.ok()) die(last_.status);
    return last_;
  }
  // Until there are so many tokens; when the last of these came. REQUIRES: the request yields as many.
  TimePoint wait_tokens(std::size_t n) {
    base::MutexLock lock(mu_);
    news_.wait(lock, [&]() REQUIRES(mu_) { return ids_.size() >= n || last_.final; });
    if (ids_.size() < n) die(last_.status);
    return came_at_[n - 1];
  }
  std::vector<TokenId> ids() const {
    base::MutexLock lock(mu_);
    return ids_;
  }
  TimePoint first_at() const {
    base::MutexLock lock(mu_);
    return came_at_.front();
  }
  // Of the first token that came behind `time`.
  TimePoint first_behind(TimePoint time) const {
    base::MutexLock lock(mu_);
    for (const TimePoint at : came_at_) {
      if (at > time) return at;
    }
    return TimePoint::max();
  }

 private:
  mutable base::Mutex mu_;
  base::CondVar news_;
  std::vector<TokenId> ids_ GUARDED_BY(mu_);
  std::vector<TimePoint> came_at_ GUARDED_BY(mu_);
  batch::TokenEvent last_ GUARDED_BY(mu_);
};

}  // namespace coxswain::bench
