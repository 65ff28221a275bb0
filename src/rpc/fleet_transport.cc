#include "rpc/fleet_transport.h"

#include <optional>

#include "rpc/sharded_client.h"

namespace coxswain::rpc {

std::string_view FleetTransport::name() const {
  if (!remote_) return memory_.name();
  switch (last_.load()) {
    case Way::kTcp:
      return "tcp";
    case Way::kUcx:
      return "ucx";
    case Way::kRouter:
      break;
  }
  return "router";
}

bool FleetTransport::rests(const Pair& pair) {
  base::MutexLock lock(mu_);
  const auto found = failed_.find(pair);
  if (found == failed_.end()) return false;
  if (Clock::now() - found->second < kPairPause) return true;
  failed_.erase(found);
  return false;
}

Result<std::uint64_t> FleetTransport::pass(const BlockPassage& passage) {
  auto* const from = dynamic_cast<ShardedClient*>(passage.from);
  auto* const to = dynamic_cast<ShardedClient*>(passage.to);
  if (from == nullptr || to == nullptr) return pass_by_router(passage);
  if (from->address().empty() && to->address().empty()) return memory_.pass(passage);
  // A shard of this machine listens for no other one.
  if (from->address().empty() || rests({from->address(), to->address()}))
    return pass_by_router(passage);
  return pass_directly(*from, *to, passage);
}

Result<std::uint64_t> FleetTransport::pass_by_router(const BlockPassage& passage) {
  last_ = Way::kRouter;
  return pass_through_here(passage);
}

Result<std::uint64_t> FleetTransport::pass_directly(ShardedClient& from,
                                                    ShardedClient& to,
                                                    const BlockPassage& passage) {
  COXSWAIN_ASSIGN_OR_RETURN(SharedAttachment offered, from.offer(passage.made, passage.until));
  offered.attachment.id = passage.as;
  const bool stays_there = offered.offer.has_value();
  const std::uint64_t n_bytes =
      stays_there ? offered.offer->n_bytes : offered.attachment.bytes.size();
  const auto attached = to.attach_shared(offered, passage.until);
  const Status status = attached.status();
  if (stays_there && status.code() == Code::kUnimplemented) {
    log_.warn_limited("rpc.transport",
                      std::chrono::minutes(1),
                      "blocks pass through the router",
                      {{"reason", status.message()}});
    {
      base::MutexLock lock(mu_);
      failed_[{from.address(), to.address()}] = Clock::now();
    }
    return pass_by_router(passage);
  }
  if (stays_there) static_cast<void>(from.detach(passage.made));
  if (!status.ok()) return status;
  last_ = !stays_there ? Way::kRouter : *attached == TakenBy::kUcx ? Way::kUcx : Way::kTcp;
  return n_bytes;
}

}  // namespace coxswain::rpc
