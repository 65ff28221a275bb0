#pragma once
// UcxCarrier: bytes that one shard offers, straight to the shard that brings the ticket, by UCX: RDMA where there is
// any, otherwise TCP. Nothing is encrypted, so it listens, connects and accepts only on networks that an option names.
// Tickets come over the connections of the fleet (peer_channel.h), both ends of which have shown a certificate.
//
//   taker -- Ask: a number of its own, id, ticket --> source   active message
//   taker <-- Answer: that number, kind, the bytes -- source   active message; UCX chooses eager or rendezvous
//
// libucp is opened at the start of a carrier, so a program that was built with it needs none until then.
//
// Thread rule: any thread. One thread of its own has the UCX worker and sleeps while nothing moves.

#include <cstdint>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/step_runner.h>
#include <coxswain/types.h>

#include "rpc/ip_network.h"

namespace coxswain::rpc {

struct UcxOptions {
  std::vector<IpNetwork> networks = {};
  // What is offered for a ticket, which is then used up; null: nothing is. Called by the carrier's thread.
  std::function<std::shared_ptr<const Attachment>(std::uint64_t id, std::string_view ticket)>
      redeem = {};
};

struct UcxTake {
  std::string address = {};  // of the source
  std::uint64_t id = 0;      // there
  std::string ticket = {};
  AttachmentKind kind = AttachmentKind::kBlocks;
  std::uint64_t n_bytes = 0;
};

class UcxCarrier {
 public:
  // Every take that still waits fails.
  virtual ~UcxCarrier() = default;

  // Where others take from, "host:port".
  virtual const std::string& address() const = 0;
  // Whether a source there may be asked: it lies in the networks, and nothing has failed there lately.
  virtual bool reaches(const std::string& address) = 0;
  // Waits for the bytes, until `until` at the latest; what comes later is dropped. Errors: kNotFound if the source has
  // nothing for this ticket, or other than was said; kDeadlineExceeded and kUnavailable, after which it is left alone
  // for a while.
  virtual Result<std::string> take(const UcxTake& what, TimePoint until) = 0;
  // Every take that waits fails with kCancelled, at once, as do those that come later. Others may still take from here.
  virtual void stop_takes() = 0;
};

// Errors: kUnimplemented if this build has no UCX; kFailedPrecondition if this machine has no libucp or no address in
// the networks, or UCX cannot listen there.
Result<std::unique_ptr<UcxCarrier>> start_ucx(UcxOptions options);

// False: start_ucx() says kUnimplemented.
bool has_ucx();

}  // namespace coxswain::rpc
