#include "rpc/sharded_client.h"

#include <algorithm>
#include <optional>
#include <utility>

#include <proto/engine_v1.pb.h>

#include "base/random.h"
#include "rpc/convert.h"
#include "rpc/message_room.h"
#include "rpc/replica_info.h"
#include "rpc/unix_socket.h"

namespace coxswain::rpc {

namespace {

// What the message says. Empty if it is not an answer to `step` from the shard of `epoch`: such a peer cannot be
// followed any further.
std::optional<Result<StepResult>> outcome_of(const pb::StepsResponse& response,
                                             std::uint64_t step,
                                             std::uint64_t epoch) {
  if (response.has_failure()) {
    const Status status = from_proto(response.failure().status());
    if (response.failure().step() != step || status.ok()) return std::nullopt;
    return status;
  }
  if (!response.has_result() || response.result().step() != step ||
      response.result().epoch() != epoch) {
    return std::nullopt;
  }
  auto result = from_proto(response.result());
  if (!result.ok()) return std::nullopt;
  return result;
}

Status broken() {
  return {
      Code::kUnavailable, ErrorKind::kUnavailable, "a shard sent an answer that no plan asked for"};
}

}  // namespace

ShardedClient::ShardedClient(std::vector<std::unique_ptr<ShardLink>> links,
                             std::vector<std::uint64_t> epochs,
                             RunnerInfo info)
    : links_(std::move(links)),
      epochs_(std::move(epochs)),
      info_(std::move(info)),
      stream_(base::random_u64()),
      room_(std::make_unique<MessageRoom>()) {}
ShardedClient::~ShardedClient() = default;

Result<std::unique_ptr<ShardedClient>> ShardedClient::connect(const std::string& path,
                                                              const ClientOptions& options) {
  const std::string master_path = path_of_url(path);
  COXSWAIN_ASSIGN_OR_RETURN(auto master, ShardLink::connect(master_path, options));
  std::vector<std::string> paths{master_path};
  // What the sockets of another machine are called is of no use here.
  if (master->address().empty()) {
    COXSWAIN_ASSIGN_OR_RETURN(paths, master->discover());
  }
  std::vector<std::unique_ptr<ShardLink>> links;
  std::vector<RunnerInfo> infos;
  std::vector<std::uint64_t> epochs;
  for (const std::string& shard_path : paths) {
    if (shard_path == master_path && master) {
      links.push_back(std::move(master));
    } else {
      COXSWAIN_ASSIGN_OR_RETURN(auto link, ShardLink::connect(shard_path, options));
      links.push_back(std::move(link));
    }
    COXSWAIN_ASSIGN_OR_RETURN(RunnerInfo info, links.back()->info());
    epochs.push_back(info.epoch);
    infos.push_back(std::move(info));
    // A shard whose step hangs answers all calls, and never gives its runner to a new stream.
    COXSWAIN_RETURN_IF_ERROR(links.back()->healthy());
  }
  COXSWAIN_ASSIGN_OR_RETURN(RunnerInfo info, replica_info(infos));
  for (const auto& link : links) COXSWAIN_RETURN_IF_ERROR(link->open_stream());
  return std::unique_ptr<ShardedClient>(
      new ShardedClient(std::move(links), std::move(epochs), std::move(info)));
}

Result<StepTicket> ShardedClient::submit(StepPlan plan) {
  if (is_broken_) return broken();
  const std::size_t limit =
      info_.capabilities.look_ahead ? info_.capabilities.plans_in_flight_max : 1;
  if (in_flight_.size() >= limit) return internal_error("too many plans in flight");
  if (plan.epoch != info_.epoch) {
    return Status(Code::kUnavailable,
                  ErrorKind::kUnavailable,
                  "epoch " + std::to_string(plan.epoch) + " is over, this replica is in " +
                      std::to_string(info_.epoch));
  }
  auto& message = room_->make<pb::StepsRequest>();
  to_proto(plan, *message.mutable_plan());
  message.set_stream(stream_);
  message.set_early(early_ != nullptr && links_.size() == 1);
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    message.mutable_plan()->set_epoch(epochs_[rank]);
    COXSWAIN_RETURN_IF_ERROR(links_[rank]->send(message));
  }
  in_flight_.push_back(plan.step);
  return StepTicket{plan.step};
}

Result<StepResult> ShardedClient::wait(StepTicket ticket, TimePoint until) {
  if (in_flight_.empty() || in_flight_.front() != ticket.step) {
    return internal_error("step " + std::to_string(ticket.step) + " is not the oldest in flight");
  }
  if (Status status = receive_all(ticket, until); status.code() == Code::kDeadlineExceeded) {
    return not_yet(ticket);  // the answers that are there are kept
  } else if (!status.ok()) {
    in_flight_.pop_front();
    return status;
  }
  in_flight_.pop_front();
  return collect(ticket.step);
}

Status ShardedClient::receive_all(StepTicket ticket, TimePoint until) {
  while (answers_.size() < links_.size()) {
    COXSWAIN_ASSIGN_OR_RETURN(const pb::StepsResponse* answer,
                              links_[answers_.size()]->receive(until));
    if (answer->has_early()) {
      COXSWAIN_RETURN_IF_ERROR(tell(ticket, *answer));
    } else {
      answers_.push_back(answer);
    }
  }
  return {};
}

Status ShardedClient::tell(StepTicket ticket, const pb::StepsResponse& answer) {
  auto result = from_proto(answer.early());
  const bool was_asked_for = early_ != nullptr && links_.size() == 1;
  if (!was_asked_for || !result.ok() || result->step != ticket.step ||
      result->epoch != epochs_.front()) {
    is_broken_ = true;
    return broken();
  }
  early_->on_early(ticket, std::move(result->sequences), Clock::now());
  return {};
}

Result<StepResult> ShardedClient::collect(std::uint64_t step) {
  std::optional<StepResult> first;
  Status failure;
  const auto answers = std::exchange(answers_, {});
  for (std::size_t rank = 0; rank < answers.size(); ++rank) {
    auto outcome = outcome_of(*answers[rank], step, epochs_[rank]);
    if (!outcome) {
      is_broken_ = true;
      return broken();
    }
    if (!outcome->ok()) {
      if (failure.ok()) failure = outcome->status();
    } else if (!first) {
      first = std::move(*outcome).value();
    }
  }
  if (!failure.ok()) return failure;
  first->epoch = info_.epoch;
  return std::move(*first);
}

Status ShardedClient::healthy() {
  if (is_broken_) return broken();
  for (const auto& link : links_) COXSWAIN_RETURN_IF_ERROR(link->healthy());
  return {};
}

Status ShardedClient::attach(Attachment attachment) {
  return attach_shared({.attachment = std::move(attachment)}).status();
}

Result<TakenBy> ShardedClient::attach_shared(const SharedAttachment& attachment, TimePoint until) {
  TakenBy by = TakenBy::kMessages;
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    const auto attached = links_[rank]->attach(attachment, epochs_[rank], stream_, until);
    if (attached.ok()) {
      by = *attached;
      continue;
    }
    undo(attachment.attachment.id, rank, attached.status());
    return attached.status();
  }
  return by;
}

// What `rank` has refused, or not answered: without an answer it may have come, or come yet. The shard learns that the
// call is over before it hears this.
void ShardedClient::undo(std::uint64_t attachment, std::size_t rank, const Status& why) {
  const std::size_t n_told = why.code() == Code::kUnavailable ? rank + 1 : rank;
  for (std::size_t i = 0; i < n_told; ++i) (void)links_[i]->detach(attachment, epochs_[i]);
}

Status ShardedClient::detach(std::uint64_t id) {
  Status failure;
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    Status status = links_[rank]->detach(id, epochs_[rank]);
    if (failure.ok()) failure = std::move(status);
  }
  return failure;
}

Status ShardedClient::export_blocks(const BlockTransfer& transfer, TimePoint until) {
  for (std::size_t rank = 0; rank < links_.size(); ++rank) {
    Status status = links_[rank]->export_blocks(transfer, epochs_[rank], stream_, until);
    if (status.ok()) continue;
    undo(transfer.attachment, rank, status);
    return status;
  }
  return {};
}

Result<Attachment> ShardedClient::take(std::uint64_t id) {
  return take_until(id, TimePoint::max());
}

Result<Attachment> ShardedClient::take_until(std::uint64_t id, TimePoint until) {
  COXSWAIN_ASSIGN_OR_RETURN(
      SharedAttachment out,
      links_.front()->take(id, epochs_.front(), ShardLink::TakeHow::kBytes, until));
  for (std::size_t rank = 1; rank < links_.size(); ++rank)
    (void)links_[rank]->detach(id, epochs_[rank]);
  return std::move(out.attachment);
}

Result<SharedAttachment> ShardedClient::share(std::uint64_t id, TimePoint until) {
  if (links_.size() == 1)
    return links_.front()->take(id, epochs_.front(), ShardLink::TakeHow::kShare, until);
  COXSWAIN_ASSIGN_OR_RETURN(Attachment whole, take_until(id, until));
  return SharedAttachment{.attachment = std::move(whole)};
}

Result<SharedAttachment> ShardedClient::offer(std::uint64_t id, TimePoint until) {
  return links_.front()->take(id, epochs_.front(), ShardLink::TakeHow::kOffer, until);
}

}  // namespace coxswain::rpc
