#pragma once
// HandoverService: a request whose prompt one engine has computed goes on in another one, with its KV blocks.
//
//     source.submit(request with context_only) -> first token, and TokenEvent::parked
//     HandoverService::start({parked, source, destination, request with progress, sink})
//       blocks pass (handover_protocol.h); the destination decodes behind them: its events go to `sink`
//
// Whatever goes wrong on the way, the destination computes the prompt again and yields the same tokens: blocks are
// never more than a short cut, and a request is submitted to the destination exactly once. Whole blocks move; the
// positions of the last one, if it is a part, are computed in the destination's first step, with the first token.
//
// Of a prompt in several chunks, what is computed can pass before the first token is there:
//
//     request.on_blocks_ahead -> HandoverService::start({parked, source, destination, request, ahead})
//       the blocks lie in the destination's cache as those of any prompt do, and the hand-over finds them there
//
// Every block that is leased for a transfer has a deadline on its side, so that nobody waits for a side that is gone.
// Bytes have one, too: a transport that does not come back keeps no request.
//
// Thread rule: any thread. One thread of its own, which sleeps while nothing moves, calls `done`. Others wait for
// bytes, so that no hand-over waits for those of another one (carriers.h).

#include <chrono>
#include <cstdint>
#include <functional>
#include <memory>
#include <string>

#include <coxswain/block_transport.h>
#include <coxswain/status.h>
#include <coxswain/types.h>

#include "batch/engine.h"

namespace coxswain::batch {

struct HandoverOptions {
  // From start() to the commit; then the destination computes the prompt itself. What passes ahead waits for chunks and
  // has until its lease ends.
  std::chrono::milliseconds timeout{10'000};
  // The bytes of one piece, within that: of a divided prompt, which has as long as its lease, a peer that hangs would
  // take all of it. Then the transfer is given up, and what still comes is forgotten.
  std::chrono::milliseconds passage_timeout{10'000};
  // Requests on their way at once; more are computed again at once.
  std::uint32_t transfers_max = 64;
};

struct HandoverJob {
  // Both live until `done` has been called. They may be the same one: nothing moves then. A source
  // that is gone is null.
  Engine* from = nullptr;
  Engine* to = nullptr;
  std::shared_ptr<const ParkedContext> parked = {};
  // As it was submitted to `from`, with the id that it has at `to`, without context_only, with the first token (and
  // what it had before) in `progress`.
  GenerationRequest request;
  std::shared_ptr<TokenSink> sink = {};
  // No request goes on, and there is no sink: blocks pass, or not. `from` and `to` are not the same.
  bool ahead = false;
};

struct HandoverResult {
  // Of Engine::submit() at the destination: ok: `sink` gets exactly one final event; else it got none, and what is
  // parked stays so until its deadline, for another try. kCancelled after cancel(): that is given back, too. Of what
  // passes ahead: ok if it is there; what is parked is given back in any case.
  Status status;
  bool moved = false;          // else the destination computes the prompt again,
  Status why_not;              // because of this
  std::uint32_t n_pieces = 0;  // that moved: what the destination had already did not
  std::uint64_t n_bytes = 0;
  std::chrono::nanoseconds duration{};
};

// What passes ahead is counted in n_bytes, n_bytes_ahead and n_running alone.
struct HandoverStats {
  std::uint64_t n_moved = 0;
  std::uint64_t n_recomputed = 0;
  std::uint64_t n_failed = 0;  // neither: cancelled, or refused by the destination
  std::uint64_t n_bytes = 0;
  std::uint64_t n_bytes_ahead = 0;  // of these, before the first token was there
  std::uint32_t n_running = 0;
  std::string transport = {};  // BlockTransport::name()
};

class HandoverService {
 public:
  using Done = std::function<void(HandoverResult)>;

  // Without a transport bytes pass through this process (RouterTransport).
  explicit HandoverService(HandoverOptions options = {},
                           std::unique_ptr<BlockTransport> transport = {});
  // What is under way is cancelled, unless it has begun; `done` of each has been called then.
  ~HandoverService();
  HandoverService(const HandoverService&) = delete;
  HandoverService& operator=(const HandoverService&) = delete;

  // `done` is called once, on the service's thread, and must not block. The number is for cancel().
  std::uint64_t start(HandoverJob job, Done done);
  // Unknown numbers, and what has begun at its destination, are left alone: cancel it there.
  void cancel(std::uint64_t transfer);
  // It is given up then, unless it has begun.
  void limit(std::uint64_t transfer, TimePoint until);

  HandoverStats stats() const;

 private:
  class Impl;
  std::shared_ptr<Impl> impl_;
};

// The blocks are given back without a hand-over: nobody goes on. Any thread; done soon.
void release_parked(Engine& engine, const ParkedContext& parked);

}  // namespace coxswain::batch
