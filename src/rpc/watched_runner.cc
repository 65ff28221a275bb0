#include "rpc/watched_runner.h"

#include <algorithm>
#include <string>

namespace coxswain::rpc {

// Plans run one after the other and are waited for in their order, so the time of a wait is at most
// that of its step.
Result<StepResult> WatchedRunner::wait(StepTicket ticket, TimePoint until) {
  if (waiting_since_ == kNobodyWaits) waiting_since_ = now_().time_since_epoch().count();
  auto result = inner_.wait(ticket, until);
  if (result.status().code() != Code::kDeadlineExceeded) waiting_since_ = kNobodyWaits;
  return result;
}

Status WatchedRunner::healthy() {
  COXSWAIN_RETURN_IF_ERROR(inner_.healthy());
  const TimePoint::rep since = waiting_since_;
  if (since == kNobodyWaits || step_time_max_.count() == 0) return {};
  // Whoever asks does so in short intervals, so the end of a load is seen soon enough.
  if (is_loading_ && is_loading_()) {
    loaded_at_ = now_().time_since_epoch().count();
    return {};
  }
  const TimePoint begin(TimePoint::duration(std::max(since, loaded_at_.load())));
  const auto waited = now_() - begin;
  if (waited <= step_time_max_) return {};
  return {Code::kUnavailable,
          ErrorKind::kHealthcheck,
          "a step has run for " + std::to_string(waited / std::chrono::milliseconds(1)) +
              " ms; the limit is " + std::to_string(step_time_max_.count()) + " ms"};
}

}  // namespace coxswain::rpc
