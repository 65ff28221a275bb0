#include "rpc/peer_fetch.h"

#include <utility>

#include <grpcpp/grpcpp.h>
#include <proto/engine_v1.grpc.pb.h>

#include "rpc/convert.h"
#include "rpc/peer_channel.h"

namespace coxswain::rpc {

namespace {

// Machines of a fleet; one more and all are connected to anew.
constexpr std::size_t kChannelsMax = 64;

Status cannot(const std::string& address, const std::string& why) {
  return {Code::kUnimplemented, "blocks cannot be taken from " + address + ": " + why};
}

}  // namespace

Result<PeerFetch::ChannelPtr> PeerFetch::channel_to(const std::string& address) {
  if (files_.empty()) return cannot(address, "this shard has no certificate of the fleet");
  base::MutexLock lock(mu_);
  if (const auto found = channels_.find(address); found != channels_.end()) return found->second;
  auto channel = open_peer_channel(address, files_, message_bytes_max_);
  if (!channel.ok()) return cannot(address, channel.status().message());
  if (channels_.size() >= kChannelsMax) channels_.clear();
  channels_[address] = channel.value();
  return channel;
}

void PeerFetch::forget(const std::string& address, const ChannelPtr& channel) {
  base::MutexLock lock(mu_);
  const auto found = channels_.find(address);
  if (found != channels_.end() && found->second == channel) channels_.erase(found);
}

Result<std::string> PeerFetch::fetch(const grpc::ServerContext& call,
                                     const pb::OfferedBytes& offered,
                                     AttachmentKind kind,
                                     std::uint64_t n_bytes) {
  COXSWAIN_ASSIGN_OR_RETURN(const ChannelPtr channel, channel_to(offered.address()));
  pb::TakeRequest request;
  request.set_epoch(offered.epoch());
  request.set_id(offered.id());
  request.set_ticket(offered.ticket());
  const auto context = grpc::ClientContext::FromServerContext(call);
  const auto reader = pb::Engine::NewStub(channel)->Take(context.get(), request);
  std::string out;
  std::string wrong;
  pb::TakeResponse message;
  bool first = true;
  while (wrong.empty() && reader->Read(&message)) {
    if (first) {
      first = false;
      if (message.has_status()) {
        wrong = from_proto(message.status()).message();
      } else if (message.n_bytes() != n_bytes ||
                 message.kind() != static_cast<pb::AttachmentKind>(kind)) {
        wrong = "they are others than was said";
      }
      if (wrong.empty()) out.reserve(n_bytes);
    }
    if (message.part().size() > n_bytes - out.size()) wrong = "there are more than was said";
    if (wrong.empty()) out += message.part();
  }
  if (!wrong.empty()) context->TryCancel();
  const grpc::Status status = reader->Finish();
  if (!wrong.empty()) return cannot(offered.address(), wrong);
  if (!status.ok()) {
    forget(offered.address(), channel);
    return cannot(offered.address(), status.error_message());
  }
  if (out.size() != n_bytes) return cannot(offered.address(), "they are cut off");
  return out;
}

}  // namespace coxswain::rpc
