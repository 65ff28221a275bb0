#pragma once
// TimedRunner: a StepRunner that computes nothing and takes simulated time: each step, one after the other, so long as
// a function of its shape says. wait() moves the clock to the end of its step or to `until`, whichever comes first.
//
// A sequence ends after as many tokens as a function of its spec says, or with its max_new_tokens.
//
// Thread rule: one thread.

#include <algorithm>
#include <cstdint>
#include <deque>
#include <functional>
#include <unordered_map>
#include <utility>

#include <coxswain/step_runner.h>

#include "batch/step_cost.h"

namespace coxswain::batch::testing {

class TimedRunner final : public StepRunner {
 public:
  using StepTime = std::function<Clock::duration(const StepShape&)>;
  using Length = std::function<std::uint32_t(const SequenceSpec&)>;

  TimedRunner(std::uint32_t n_blocks, TimePoint& clock, StepTime step_time, Length length)
      : clock_(clock), step_time_(std::move(step_time)), length_(std::move(length)) {
    info_.epoch = 1;
    info_.block_tokens = 16;
    info_.capabilities = {true, true, true, true, true};
    KvGroup group;
    group.n_blocks = n_blocks + 1;
    info_.kv_groups = {group};
  }

  RunnerInfo info() const override { return info_; }

  Result<StepTicket> submit(StepPlan plan) override {
    for (const SequenceId id : plan.dropped) left_.erase(static_cast<std::uint64_t>(id));
    for (const SequenceSpec& spec : plan.new_sequences)
      left_[static_cast<std::uint64_t>(spec.id)] =
          std::min(length_(spec),
                   spec.stopping.max_new_tokens - static_cast<std::uint32_t>(spec.produced.size()));
    Job job;
    job.result.step = plan.step;
    job.result.epoch = plan.epoch;
    StepShape shape;
    for (const Row& row : plan.rows) {
      job.result.sequences.push_back(run(row));
      const std::uint64_t n = row.n_tokens;
      const std::uint64_t context = n * row.first_position + n * (n + 1) / 2;
      if (n == 1) {
        ++shape.n_decodes;
        shape.decode_context += context;
      } else {
        shape.n_prompt_tokens += row.n_tokens;
        shape.prompt_context += context;
      }
    }
    free_at_ = std::max(free_at_, clock_);
    if (!plan.rows.empty()) free_at_ += step_time_(shape);
    job.ends_at = free_at_;
    jobs_.push_back(std::move(job));
    return StepTicket{plan.step};
  }

  Result<StepResult> wait(StepTicket, TimePoint until) override {
    const TimePoint end = jobs_.front().ends_at;
    clock_ = std::max(clock_, std::min(end, until));
    if (end > until) return Status(Code::kDeadlineExceeded, "the step still runs");
    StepResult out = std::move(jobs_.front().result);
    jobs_.pop_front();
    return out;
  }

  Status healthy() override { return {}; }

 private:
  struct Job {
    StepResult result;
    TimePoint ends_at;
  };

  SequenceResult run(const Row& row) {
    SequenceResult out;
    out.sequence = row.sequence;
    if (row.emit != Emit::kSample) return out;
    out.tokens.resize(1);
    std::uint32_t& left = left_[static_cast<std::uint64_t>(row.sequence)];
    if (left > 0 && --left == 0) out.finish.emplace();
    return out;
  }

  RunnerInfo info_;
  TimePoint& clock_;
  const StepTime step_time_;
  const Length length_;
  TimePoint free_at_{};
  std::deque<Job> jobs_;
  std::unordered_map<std::uint64_t, std::uint32_t> left_;  // by sequence: tokens to come
};

}  // namespace coxswain::batch::testing
