#pragma once
// StockShardClient: the StepRunner of a router over stock shards (generate.v3), as the router of
// text-generation-inference drives them.
//
// It has none of the capabilities: prompts are computed whole, all sequences move in lockstep,
// blocks are given for the longest output at once, and the next token needs the result of the last.
// Prompts go as text; a prompt whose tokens no text stands for fails alone. Law 1 is the shard's
// business and not promised.
//
// A plan becomes calls: FilterBatch or ClearCache for what is dropped, then Prefill with a batch of
// the new sequences or Decode with all batches, which thereby become one. A failed call fails the
// sequences that it was about. Connecting warms the shard up; that may take minutes.
//
// Thread rule: as StepRunner. wait() does the work, or where it may not take so long a thread that it starts.

#include <atomic>
#include <cstdint>
#include <future>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/text_codec.h>

#include "rpc/stock/link.h"
#include "rpc/stock/messages.h"

namespace coxswain::rpc {

struct StockClientOptions {
  ClientOptions link;
  StockTimeouts timeouts;
  WarmupLimits limits;
  std::uint32_t vocab_size = 0;  // of the tokenizer: the protocol does not tell
};

class StockShardClient final : public StepRunner {
 public:
  // `codec`: the tokenizer of the model that the shard serves. Errors: kUnavailable if a shard does
  // not answer; kUnimplemented for one that pads its batches; kInternal with the shard's words if
  // it cannot warm up.
  static Result<std::unique_ptr<StockShardClient>> connect(const std::string& path,
                                                           const StockClientOptions& options,
                                                           std::shared_ptr<const TextCodec> codec);

  // Cancels the call that runs.
  ~StockShardClient() override;
  StockShardClient(const StockShardClient&) = delete;
  StockShardClient& operator=(const StockShardClient&) = delete;

  RunnerInfo info() const override { return info_; }
  Result<StepTicket> submit(StepPlan plan) override;
  // The calls are made from here on; they go on where the wait ends at `until`.
  Result<StepResult> wait(StepTicket ticket, TimePoint until = TimePoint::max()) override;
  // A stock shard answers nothing while it computes, so that is taken as good health.
  Status healthy() override;

 private:
  struct Batch {
    std::uint64_t id = 0;
    std::vector<SequenceId> sequences;  // finished ones stay until they are dropped
  };
  struct Sequence {
    SequenceSpec spec;
    std::uint32_t n_produced = 0;
    bool finished = false;
  };

  StockShardClient(std::unique_ptr<StockLink> link,
                   std::shared_ptr<const TextCodec> codec,
                   RunnerInfo info);
  Result<StepResult> make_calls();
  Result<StepResult> run(const StepPlan& plan);
  Status forget(const std::vector<SequenceId>& ids);
  Status shrink(const Batch& batch, const std::vector<SequenceId>& kept);
  Result<StepResult> prefill(const StepPlan& plan);
  Result<StepResult> decode(const StepPlan& plan);
  template <typename Response>
  StepResult collect(const StepPlan& plan, const std::vector<Response>& responses);
  bool is_everyone(const StepPlan& plan) const;
  void lose_batches();

  std::unique_ptr<StockLink> link_;
  std::shared_ptr<const TextCodec> codec_;
  const RunnerInfo info_;
  std::optional<StepTicket> ticket_;         // in flight
  std::optional<StepPlan> submitted_;        // its plan, until the calls are made
  std::future<Result<StepResult>> running_;  // the calls, once a wait had an end
  // Of whoever makes the calls:
  std::map<SequenceId, Sequence> sequences_;
  std::vector<Batch> batches_;
  std::vector<SequenceId> abandoned_;  // failed here, while the shard goes on with them
  std::uint64_t next_batch_ = 1;
  std::atomic<std::uint64_t> n_calls_{0};  // odd while a plan is with the shards
  std::atomic<bool> is_lost_{false};
};

}  // namespace coxswain::rpc
