#pragma once
// PacedRunner: a runner whose results come when a machine with given costs would have them, and not before. A step of
// some layers takes their share of what a step of all layers would.
//
// Thread rule: as StepRunner; submit() also while another thread is within wait().

#include <cstdint>
#include <deque>
#include <optional>
#include <utility>

#include <coxswain/step_runner.h>

#include "base/mutex.h"
#include "step_costs.h"

namespace coxswain::bench {

class PacedRunner final : public StepRunner {
 public:
  PacedRunner(StepRunner& inner, const StepCosts& costs)
      : inner_(inner), costs_(costs), n_layers_(inner.info().n_layers) {}

  RunnerInfo info() const override { return inner_.info(); }
  Result<StepTicket> submit(StepPlan plan) override;
  Result<StepResult> wait(StepTicket ticket, TimePoint until) override;
  Status healthy() override { return inner_.healthy(); }
  Status attach(Attachment attachment) override { return inner_.attach(std::move(attachment)); }
  Status detach(std::uint64_t id) override { return inner_.detach(id); }
  Status export_blocks(const BlockTransfer& transfer, TimePoint until) override {
    return inner_.export_blocks(transfer, until);
  }
  Result<Attachment> take(std::uint64_t id) override { return inner_.take(id); }

 private:
  struct Due {
    TimePoint at{};
    Clock::duration takes{};
  };

  Due next_due() const;

  StepRunner& inner_;
  const StepCosts costs_;
  const std::uint32_t n_layers_;
  mutable base::Mutex mu_;
  std::deque<Due> due_ GUARDED_BY(mu_);  // of the plans in flight
  TimePoint last_due_ GUARDED_BY(mu_){};
  std::optional<StepResult> held_;  // computed before its time; of who waits
};

// Sleeps until a start that began at `started` takes what `rule` says: STAMP,WARM,COLD,TTL, see
// coxswain-bench-paced-server. Null: at once.
void wait_for_start(TimePoint started, const char* rule);

}  // namespace coxswain::bench
