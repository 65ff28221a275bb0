#pragma once
// PeerFetch: takes what a shard on another machine offers, straight from there.
//
// A connection to each machine is kept for the next time, until it fails.
//
// Thread rule: any thread; a call waits for the bytes.

#include <cstddef>
#include <cstdint>
#include <map>
#include <memory>
#include <string>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <grpcpp/channel.h>
#include <grpcpp/server_context.h>

#include "base/mutex.h"
#include "security/peer_files.h"

namespace coxswain::engine::v1 {
class OfferedBytes;
}  // namespace coxswain::engine::v1

namespace coxswain::rpc {

class PeerFetch {
 public:
  PeerFetch(security::PeerFiles files, std::size_t message_bytes_max)
      : files_(std::move(files)), message_bytes_max_(message_bytes_max) {}

  // As part of `call`: it ends when that one ends. Errors: kUnimplemented, with why they cannot be had from there.
  Result<std::string> fetch(const grpc::ServerContext& call,
                            const engine::v1::OfferedBytes& offered,
                            AttachmentKind kind,
                            std::uint64_t n_bytes);

 private:
  using ChannelPtr = std::shared_ptr<grpc::Channel>;
  Result<ChannelPtr> channel_to(const std::string& address);
  void forget(const std::string& address, const ChannelPtr& channel);

  const security::PeerFiles files_;
  const std::size_t message_bytes_max_;
  base::Mutex mu_;
  std::map<std::string, ChannelPtr> channels_ GUARDED_BY(mu_);
};

}  // namespace coxswain::rpc
