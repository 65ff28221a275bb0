#pragma once
// BatchRuns: times whole batches on a StepRunner, with nothing between it and the runner that would cost time.
//
// A run is one step that computes the prompts of b equal sequences and yields the first token of each, then a step for
// every further token until all have ended. Blocks are handed out anew for each run and no prefix is looked up, so no
// run finds anything of another. No step is submitted ahead of a result, as TGI's benchmark does it.
//
// Thread rule: one thread, that of the runner.

#include <chrono>
#include <cstdint>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

namespace coxswain::measure {

struct BatchSpec {
  std::uint32_t n_sequences = 1;
  std::vector<TokenId> prompt = {};
  std::uint32_t decode_length = 2;  // new tokens of each sequence
  SamplingParams sampling = {};
};

// From handing a step to the runner until its result is there.
struct BatchTimes {
  std::chrono::nanoseconds prefill{};
  std::chrono::nanoseconds decode{};  // of all steps together
  std::uint32_t n_decode_steps = 0;   // decode_length - 1, or less where the runner guesses
};

class BatchRuns {
 public:
  explicit BatchRuns(StepRunner& runner) : runner_(runner), info_(runner.info()) {}

  // Whether the runner has room for such a batch. Windows save no blocks. Errors: kInvalidArgument, with the limit.
  Status check_room(std::uint32_t n_sequences,
                    std::uint64_t sequence_length,
                    std::uint64_t decode_length) const;

  // REQUIRES: check_room(). Errors: of the runner or of the first sequence that failed; kInternal if a sequence ends
  // too early or too late.
  Result<BatchTimes> run(const BatchSpec& spec);

 private:
  struct Sequence {
    SequenceId id{};
    std::uint32_t next_position = 0;
    std::uint32_t n_produced = 0;
    bool finished = false;
  };

  std::uint64_t blocks_of_sequence(std::uint64_t sequence_length,
                                   std::uint64_t decode_length) const;
  StepPlan prefill_plan(const BatchSpec& spec);
  StepPlan decode_plan(std::vector<SequenceId> dropped);
  Result<std::chrono::nanoseconds> time(StepPlan plan, std::uint32_t decode_length);
  Status apply(const StepResult& result, std::uint32_t decode_length);

  StepRunner& runner_;
  const RunnerInfo info_;
  std::uint64_t next_step_ = 1;
  std::uint64_t next_sequence_ = 1;
  std::vector<Sequence> sequences_;  // of the run
};

}  // namespace coxswain::measure
