#pragma once
// ShardedClient: the StepRunner of a router, over the Engine stream to every shard of one replica.
//
// Each plan goes to all shards; the answer is that of rank 0 once all have answered. Shards start one by one and have
// an epoch each: plans and results of this client carry one of the replica, which changes with any of theirs
// (replica_info.h). A client serves one life of the replica: after kUnavailable every call fails in the same way, and
// the engine is given a new client (Engine::replace_runner).
//
// Thread rule: as StepRunner.

#include <atomic>
#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/early_results.h>
#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "rpc/shard_link.h"

namespace coxswain::rpc {

class MessageRoom;

class ShardedClient : public StepRunner, public EarlyResultsSource {
 public:
  // Connects to the shard at `path` and to those that it names. `path` may begin with "unix://". At "tcp://host:port"
  // there is one shard.
  // Errors: kUnavailable if a shard does not answer or is ill (trying later can help);
  // kUnimplemented if it is a stock shard; kFailedPrecondition if the socket belongs to another
  // user or the shards do not fit together, with the first thing in which they differ.
  static Result<std::unique_ptr<ShardedClient>> connect(const std::string& path,
                                                        const ClientOptions& options);
  ~ShardedClient() override;

  RunnerInfo info() const override { return info_; }
  Result<StepTicket> submit(StepPlan plan) override;
  Result<StepResult> wait(StepTicket ticket, TimePoint until = TimePoint::max()) override;
  // Where there is one shard.
  void tell_early(EarlyResults* to) override { early_ = to; }
  Status healthy() override;
  // To all shards; the first failure wins, and is undone at the others.
  Status attach(Attachment attachment) override;
  Status detach(std::uint64_t id) override;
  // Of all shards; the first failure wins, and is undone at the others.
  Status export_blocks(const BlockTransfer& transfer, TimePoint until = TimePoint::max()) override;
  // Of rank 0; the others forget theirs.
  Result<Attachment> take(std::uint64_t id) override;
  Result<Attachment> take_until(std::uint64_t id, TimePoint until);
  // As take(), but where it can be the bytes stay with the shard, in shared memory, until detach() or take(); take()
  // where there are several shards. Errors: those of take().
  Result<SharedAttachment> share(std::uint64_t id, TimePoint until = TimePoint::max());
  // As take(), but the bytes stay with the shard for another one that brings the ticket, until detach() or take().
  // REQUIRES: address() is not empty. Errors: those of take().
  Result<SharedAttachment> offer(std::uint64_t id, TimePoint until = TimePoint::max());
  // "host:port"; empty behind a Unix socket.
  const std::string& address() const { return links_.front()->address(); }
  // Errors: those of attach(); kUnimplemented if a shard cannot get at what is shared or offered.
  Result<TakenBy> attach_shared(const SharedAttachment& attachment,
                                TimePoint until = TimePoint::max());

 private:
  ShardedClient(std::vector<std::unique_ptr<ShardLink>> links,
                std::vector<std::uint64_t> epochs,
                RunnerInfo info);

  void undo(std::uint64_t attachment, std::size_t rank, const Status& why);
  // Answers of all shards to the oldest plan; the first failure wins.
  Result<StepResult> collect(std::uint64_t step);
  // Until answers_ has one of every link. What comes ahead of them is told.
  Status receive_all(StepTicket ticket, TimePoint until);
  Status tell(StepTicket ticket, const engine::v1::StepsResponse& answer);

  std::vector<std::unique_ptr<ShardLink>> links_;  // by rank
  const std::vector<std::uint64_t> epochs_;        // by rank
  const RunnerInfo info_;                          // of the replica
  const std::uint64_t stream_;                     // names the attachments of this client
  const std::unique_ptr<MessageRoom> room_;        // of plans
  // To the oldest plan, by rank; each is its link's.
  std::vector<const engine::v1::StepsResponse*> answers_;
  std::deque<std::uint64_t> in_flight_;  // steps, at most plans_in_flight_max
  std::atomic<bool> is_broken_{false};   // a shard broke the protocol
  EarlyResults* early_ = nullptr;
};

}  // namespace coxswain::rpc
