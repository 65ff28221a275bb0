#pragma once
// AbsentRunner: what an engine has whose replica has no process yet. It says what another replica says of the model,
// and can be reached by nobody.
//
// Thread rule: as StepRunner.

#include <utility>

#include <coxswain/step_runner.h>

namespace coxswain::serve {

class AbsentRunner final : public StepRunner {
 public:
  explicit AbsentRunner(RunnerInfo info) : info_(std::move(info)) {}

  RunnerInfo info() const override { return info_; }
  Result<StepTicket> submit(StepPlan) override { return absent(); }
  Result<StepResult> wait(StepTicket, TimePoint) override { return absent(); }
  Status healthy() override { return absent(); }

 private:
  static Status absent() { return {Code::kUnavailable, "the replica has no process"}; }

  const RunnerInfo info_;
};

}  // namespace coxswain::serve
