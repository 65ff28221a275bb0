#pragma once
// ShardLink: the connections to one shard. The only client code that sees gRPC.
//
// Two of gRPC to a place: a Unix socket, or another machine ("tcp://host:port", peer_channel.h). One carries Info
// and, where the shard is on another machine, the Steps stream, the other the Health calls, so that a health call never
// waits behind a large plan. On this machine the stream has a socket of its own (step_socket.h). A link never
// reconnects: when the stream is lost the link is finished, for the shard behind a new connection may be another
// process with another epoch.
//
// Thread rule: open_stream(), send() and receive() belong to one thread; healthy() may be called by any thread.

#include <chrono>
#include <cstddef>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>

#include "rpc/shared_bytes.h"
#include "security/peer_files.h"

namespace coxswain::engine::v1 {
class StepsRequest;
class StepsResponse;
}  // namespace coxswain::engine::v1

namespace coxswain::rpc {

struct ClientOptions {
  std::chrono::milliseconds connect_timeout{5'000};
  std::chrono::milliseconds call_timeout{3'000};  // Info, ServiceDiscovery, Health
  std::chrono::milliseconds heartbeat_limit{
      3'000};  // without a result for so long, Health must answer
  std::chrono::milliseconds attach_timeout{60'000};  // an attachment's way, all of it
  std::size_t message_bytes_max = std::size_t{64} << 20;
  security::PeerFiles peer_files = {};  // for shards on other machines
  // The connection to a shard has ended, whether or not somebody waits for an answer. Called from a thread of the link,
  // which it may not destroy; it may come late, twice, or beside a call that says the same.
  std::function<void()> on_lost = {};
};

class ShardLink {
 public:
  // Errors: kUnavailable if nobody answers, or not with a certificate of the fleet; kFailedPrecondition if the socket
  // belongs to another user, or a file of the certificate cannot be read.
  static Result<std::unique_ptr<ShardLink>> connect(const std::string& path,
                                                    const ClientOptions& options);
  ~ShardLink();
  ShardLink(const ShardLink&) = delete;
  ShardLink& operator=(const ShardLink&) = delete;

  // Socket paths of all shards of this replica, by rank. Errors: kUnavailable.
  Result<std::vector<std::string>> discover();
  // Errors: kUnimplemented if the peer is a stock shard; kUnavailable.
  Result<RunnerInfo> info();

  // Errors: kUnavailable.
  Status open_stream();
  // Hands the message to the transport; waits only while the message before is still on its way.
  // Errors: kResourceExhausted if the message is larger than the limit (nothing is sent); kUnavailable.
  Status send(const engine::v1::StepsRequest& message);
  // Blocks until the next answer, or `until`. It is the link's, until the next call. Errors: kDeadlineExceeded at
  // `until`; kUnavailable: the stream is lost, or the shard did not answer Health either.
  Result<const engine::v1::StepsResponse*> receive(TimePoint until = TimePoint::max());

  Status healthy();

  // In parts, over the connection of the Health calls, so that no plan waits behind them. `stream`: drawn by the
  // caller, sent with its first plan; the shard forgets the attachments of a stream when it ends. From any thread.
  // kUnavailable at `until`, or after attach_timeout; the same of take().
  Result<TakenBy> attach(const SharedAttachment& attachment,
                         std::uint64_t epoch,
                         std::uint64_t stream,
                         TimePoint until = TimePoint::max());
  Status detach(std::uint64_t id, std::uint64_t epoch);
  // kUnavailable at `until`, or after attach_timeout; from any thread, as the next.
  Status export_blocks(const BlockTransfer& transfer,
                       std::uint64_t epoch,
                       std::uint64_t stream,
                       TimePoint until);
  // kShare: where it can be, the attachment stays there and is shared; kOffer: it stays for whoever has the ticket.
  enum class TakeHow : std::uint8_t { kBytes, kShare, kOffer };
  Result<SharedAttachment> take(std::uint64_t id,
                                std::uint64_t epoch,
                                TakeHow how,
                                TimePoint until = TimePoint::max());

  // "host:port"; empty behind a Unix socket.
  const std::string& address() const;

 private:
  struct Impl;
  explicit ShardLink(std::unique_ptr<Impl> impl);
  std::unique_ptr<Impl> impl_;
};

}  // namespace coxswain::rpc
