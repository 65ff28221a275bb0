#pragma once
// SmallFleet is a fleet of at most three replicas and two requests with all that can go wrong, small enough to try
// every order of events. The coordinator uses the real Ledger and the real transitions of replicas; the processes are
// models, and so is the hand-over between them: PREPARE (room at the destination), TRANSFER (one chunk), COMMIT (by the
// destination, to the coordinator), RELEASE (of the source), CANCEL (of anybody, at any phase). Whoever holds something
// and hears nothing asks.
//
// Messages are a set: any of them may come next, be lost or come twice. A fault is one lost or doubled message, one
// process that dies, one change of role, one drain, one timer that fires too early or one client that goes. Each run
// has a budget of them.
//
// Thread rule: values.

#include <array>
#include <cstdint>
#include <string>
#include <vector>

#include "fleet/state/ledger.h"
#include "fleet/state/replica_step.h"

namespace coxswain::fleet::testing {

inline constexpr std::size_t kReplicasMax = 3;
inline constexpr std::uint8_t kTokens = 2;  // of each answer: the first by the prompt's replica

// What a process has of a request.
enum class Hold : std::uint8_t { kNothing, kComputing, kReady, kReceiving, kReceived, kDecoding };
struct Held {
  Hold hold = Hold::kNothing;
  // Counts the dispatches of the request; a CANCEL of another run means nothing.
  std::uint8_t run = 0;
  std::uint8_t transfer = 0;  // receiving and received
  std::uint8_t next = 0;      // index of the token that it computes next
  auto operator<=>(const Held&) const = default;
};

enum class Kind : std::uint8_t { kPrepare, kGrant, kChunk, kCommit, kStart, kCancel, kToken };
struct Packet {
  Kind kind = Kind::kToken;
  std::uint8_t request = 0;
  std::uint8_t run = 0;
  std::uint8_t transfer = 0;
  // Of a token; of PREPARE, GRANT and TRANSFER the next one at the destination.
  std::uint8_t index = 0;
  // Replicas; of the coordinator's own packets `from` is the other side of the transfer.
  std::uint8_t from = 0;
  std::uint8_t to = 0;
  // Incarnations: of the receiver, or of who tells the coordinator; and of the other side of a transfer.
  std::uint8_t life = 0;
  std::uint8_t other_life = 0;
  auto operator<=>(const Packet&) const = default;
};

class SmallFleet {
 public:
  // REQUIRES: at most kReplicasMax roles, at most two requests.
  SmallFleet(const std::vector<Role>& roles, std::uint8_t n_requests, std::uint8_t n_faults);

  // Every state that can come next: those of the system's own accord, and those of a fault.
  std::vector<SmallFleet> progress() const;
  std::vector<SmallFleet> faults() const;

  // All requests have ended, nothing is held, reserved or on its way.
  bool finished() const;
  // The laws. Empty if they hold.
  std::string broken() const;
  // Two fleets of the same key behave alike.
  std::string key() const;

 private:
  using Life = ReplicaLife;
  Life life(std::uint8_t r) const { return replicas_[r].life; }
  const Ledger::Entry& entry(std::uint8_t q) const { return *ledger_.find(RequestId{q}); }
  bool may_become(std::uint8_t r, Role role) const;
  bool hears(std::uint8_t q) const;  // a packet of the request is on its way
  bool fits(const Packet& p) const;  // the life that it is meant for is there

  void tell(std::uint8_t r, const Event& event);
  void send(Packet packet);
  void cancel_at(Life at, std::uint8_t q, TransferId transfer = {});
  void leave(std::uint8_t q);
  void requeue(std::uint8_t q, Blame blame);
  void end(std::uint8_t q, Outcome outcome);
  void adopt(std::uint8_t q);
  void back_at_source(std::uint8_t q);
  void abort_transfer(std::uint8_t q);
  void lose(std::uint8_t r);
  void return_all(std::uint8_t r);

  bool dispatch(std::uint8_t q, std::uint8_t r);
  bool begin_transfer(std::uint8_t q, std::uint8_t to);
  bool compute(std::uint8_t q, std::uint8_t r);
  bool ask(std::uint8_t q, std::uint8_t r);
  bool time_out(std::uint8_t q);
  void deliver(const Packet& p);
  void deliver_token(const Packet& p);
  void deliver_commit(const Packet& p);
  void crash(std::uint8_t r);

  std::uint8_t n_replicas_;
  std::uint8_t n_requests_;
  std::uint8_t faults_left_;
  std::uint8_t last_transfer_ = 0;
  TimePoint now_{};
  Ledger ledger_;
  std::array<ReplicaState, kReplicasMax> replicas_{};
  std::array<std::array<Held, 2>, kReplicasMax> held_{};
  std::array<bool, 2> ready_{};        // the coordinator knows that the prompt is computed
  std::array<std::uint8_t, 2> run_{};  // the current one
  std::array<std::uint8_t, 2> ends_{};
  std::vector<Packet> net_;  // sorted
};

}  // namespace coxswain::fleet::testing
