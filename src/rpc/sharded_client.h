#pragma once
// ShardedClient: the StepRunner of a router, over the Engine stream to every shard of one replica.
//
// Each plan goes to all shards; the answer is that of rank 0 once all have answered. A client
// serves one life of the replica: after kUnavailable every call fails in the same way, and the
// engine is given a new client (Engine::replace_runner).
//
// Thread rule: as StepRunner.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "rpc/shard_link.h"

namespace coxswain::rpc {

class ShardedClient : public StepRunner {
 public:
  // Connects to the shard at `path` and to those that it names. `path` may begin with "unix://".
  // Errors: kUnavailable if a shard does not answer or is ill (trying later can help);
  // kUnimplemented if it is a stock shard; kFailedPrecondition if the socket belongs to another
  // user or the shards do not serve one model.
  static Result<std::unique_ptr<ShardedClient>> connect(const std::string& path,
                                                        const ClientOptions& options);
  ~ShardedClient() override;

  RunnerInfo info() const override { return info_; }
  Result<StepTicket> submit(StepPlan plan) override;
  Result<StepResult> wait(StepTicket ticket) override;
  Status healthy() override;

 private:
  ShardedClient(std::vector<std::unique_ptr<ShardLink>> links, RunnerInfo info);

  // Answers of all shards to the oldest plan; the first failure wins.
  Result<StepResult> collect(std::uint64_t step);

  std::vector<std::unique_ptr<ShardLink>> links_;  // by rank
  RunnerInfo info_;                                // of rank 0
  std::deque<std::uint64_t> in_flight_;            // steps, at most two
  std::atomic<bool> is_broken_{false};             // a shard broke the protocol
};

}  // namespace coxswain::rpc
