#pragma once
// FakeRunner: a StepRunner without a model that notices every mistake of the accounting above it.
//
// It keeps, for each block slot, which (position, token, identity) was written there, as a real
// runner keeps keys and values. The next token is a hash over what the block table yields for all
// positions so far (those inside the window, for window groups); so a wrong block, a stale prefix,
// a missing row or a block given to two sequences changes the tokens. expected_output() computes
// the same from the request alone, without blocks: what the request must produce, whatever else
// runs.
//
// It also refuses plans that break a rule of step_runner.h, writes to blocks that a step in flight
// still names included.
//
// Thread rule: as StepRunner; violations() after the engine is gone or idle.

#include <cstdint>
#include <deque>
#include <functional>
#include <map>
#include <span>
#include <string>
#include <vector>

#include <coxswain/step_runner.h>

#include "batch/engine.h"

namespace coxswain::batch::testing {

struct FakeRunnerOptions {
  std::uint64_t epoch = 1;
  std::uint32_t block_tokens = 4;
  std::vector<std::uint32_t> n_blocks{65};  // per group, block 0 counted
  std::vector<std::uint32_t> windows{0};    // per group, 0 = all positions
  Capabilities capabilities{true, true, true, true, true};
  std::uint32_t vocab_size = 50;
  std::uint32_t eos_every = 0;  // about one token in eos_every ends a sequence; 0 = none
  std::uint32_t rope_switch_length = 0;
  bool rope_length_is_exact = false;
  bool check_plans = true;  // off for benchmarks
};

struct ExpectedOutput {
  std::vector<TokenId> tokens;
  std::vector<float> logprobs;
  std::vector<float> prompt_logprobs;  // [n_prompt], the first is NaN
  FinishReason reason = FinishReason::kLength;
};

ExpectedOutput expected_output(const FakeRunnerOptions& options, const GenerationRequest& request);

class FakeRunner final : public StepRunner {
 public:
  explicit FakeRunner(FakeRunnerOptions options);

  RunnerInfo info() const override;
  Result<StepTicket> submit(StepPlan plan) override;
  Result<StepResult> wait(StepTicket ticket) override;
  Status healthy() override { return {}; }

  // Called at the start of wait(), on the engine's thread, with the step's number.
  std::function<void(std::uint64_t step)> on_step = [](std::uint64_t) {};
  // The status of a whole step; not ok replaces its result.
  std::function<Status(std::uint64_t step)> step_failure = [](std::uint64_t) { return Status(); };
  // The status of one row's sequence.
  std::function<Status(std::uint64_t step, const SequenceSpec& spec)> row_failure =
      [](std::uint64_t, const SequenceSpec&) { return Status(); };

  const std::vector<std::string>& violations() const { return violations_; }
  std::size_t n_sequences() const { return sequences_.size(); }
  const std::vector<StepPlan>& plans() const { return plans_; }  // empty unless keep_plans()
  void keep_plans() { keep_plans_ = true; }

 private:
  struct Slot {
    std::uint32_t position = 0xFFFFFFFFU;
    TokenId token = -1;
    std::uint64_t identity = 0;
  };
  struct State {
    SequenceSpec spec;
    std::uint64_t identity = 0;
    std::vector<std::vector<BlockId>> tables;  // per group, as of the last submitted plan
    TokenId last_sampled = -1;
    std::uint64_t submitted_sample_in_step = 0;
    std::uint32_t n_output = 0;
    bool finished = false;
  };
  struct Job {
    StepPlan plan;
    std::vector<std::vector<std::vector<BlockId>>> tables;  // per row, per group
  };

  void take_new_and_dropped(const StepPlan& plan);
  void check_row(const Row& row, const State& state, const StepPlan& plan);
  void check_writes(const Row& row, const State& state);
  void violate(std::string what);
  SequenceResult run_row(const Job& job, std::size_t index);
  std::uint64_t read(const State& state,
                     const std::vector<std::vector<BlockId>>& tables,
                     std::uint32_t end) const;
  std::uint32_t block_of(std::uint32_t position) const { return position / options_.block_tokens; }

  const FakeRunnerOptions options_;
  std::map<std::uint64_t, State> sequences_;
  std::vector<std::vector<Slot>> slots_;  // per group
  std::deque<Job> jobs_;
  std::vector<std::string> violations_;
  std::vector<StepPlan> plans_;
  bool keep_plans_ = false;
};

}  // namespace coxswain::batch::testing
