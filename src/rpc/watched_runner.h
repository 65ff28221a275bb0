#pragma once
// WatchedRunner: a StepRunner that is ill while one step takes longer than a limit.
//
// A thread that computes may hang (a deadlock, a loop without end) in a process that still answers
// every other call. healthy() says so, and whoever asks ends the process: a step cannot be taken
// back. It is well again if the step ends after all.
//
// Thread rule: as StepRunner.

#include <atomic>
#include <chrono>
#include <functional>
#include <limits>
#include <utility>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

namespace coxswain::rpc {

class WatchedRunner final : public StepRunner {
 public:
  using Now = std::function<TimePoint()>;

  // `inner` must outlive this object. `step_time_max`: 0 is no limit. Steps have no limit while `is_loading`, and begin
  // anew after it; empty: never.
  WatchedRunner(StepRunner& inner,
                std::chrono::milliseconds step_time_max,
                Now now = Clock::now,
                std::function<bool()> is_loading = {})
      : inner_(inner),
        step_time_max_(step_time_max),
        now_(std::move(now)),
        is_loading_(std::move(is_loading)) {}

  RunnerInfo info() const override { return inner_.info(); }
  Result<StepTicket> submit(StepPlan plan) override { return inner_.submit(std::move(plan)); }
  Result<StepResult> wait(StepTicket ticket, TimePoint until = TimePoint::max()) override;
  Status attach(Attachment attachment) override { return inner_.attach(std::move(attachment)); }
  Status detach(std::uint64_t id) override { return inner_.detach(id); }
  Status export_blocks(const BlockTransfer& transfer, TimePoint until) override {
    return inner_.export_blocks(transfer, until);
  }
  Result<Attachment> take(std::uint64_t id) override { return inner_.take(id); }
  // Errors: those of the inner runner; kUnavailable with the time and the limit of a late step.
  Status healthy() override;

 private:
  static constexpr TimePoint::rep kNobodyWaits = std::numeric_limits<TimePoint::rep>::min();

  StepRunner& inner_;
  const std::chrono::milliseconds step_time_max_;
  const Now now_;
  const std::function<bool()> is_loading_;
  std::atomic<TimePoint::rep> loaded_at_{std::numeric_limits<TimePoint::rep>::min()};
  std::atomic<TimePoint::rep> waiting_since_{kNobodyWaits};
};

}  // namespace coxswain::rpc
