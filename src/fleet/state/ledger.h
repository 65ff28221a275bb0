#pragma once
// Ledger says who owns each request of a fleet: no request is lost, none ends twice, no token reaches a client twice.
//
//   Queue --> Prefill(r) --> Transfer(x: r -> d) --> Decode(d) --> Done
//     ^          |  '-- Decode(r): a mixed replica --^  |  |
//     |          |             back to the source <-----'  '-- Transfer: a drained replica hands its sequences on
//     '----------'--------- requeue, lose: what was computed is computed elsewhere
//
// A request has one owner at a time. Who moves it names the stage and version that it saw (compare and set), so of two
// movers one is refused. Done is final, once; it can be reached from every other stage.
//
// Tokens carry the index in the output of their request, over all its lives in replicas. The next index from the owner
// is for the client; a lower one is a repetition, a higher one an error of who sent it, and anything from a replica
// that does not own the request is stale. So a request that is computed again goes on where the client stands. During a
// transfer the owner is its source; that its destination speaks proves that it has begun, before anybody has said so.
//
// What is reserved for a request (pages, slots, credits) stands here with its replica and a deadline. A move gives back
// what belongs to replicas that have no part in the new stage, so no path can forget it; what is past its deadline is
// what expire() returns.
//
// Pure: no clock, no thread, no input or output. Thread rule: one owner. All look-ups are O(log n) in the requests that
// are known and what is reserved; lose(), expire(), reserved() and check() O(n).

#include <compare>
#include <cstdint>
#include <map>
#include <string_view>
#include <vector>

#include <coxswain/status.h>
#include <coxswain/types.h>

#include "fleet/state/ids.h"

namespace coxswain::fleet {

enum class Stage : std::uint8_t { kQueue, kPrefill, kTransfer, kDecode, kDone };
std::string_view name_of(Stage stage);

struct Owner {
  Stage stage = Stage::kQueue;
  ReplicaLife replica{};      // prefill, decode: who computes; transfer: the source
  ReplicaLife destination{};  // transfer only
  TransferId transfer{};      // transfer only

  static Owner prefill(ReplicaLife at) { return {Stage::kPrefill, at, {}, {}}; }
  static Owner transfer_of(TransferId id, ReplicaLife from, ReplicaLife to) {
    return {Stage::kTransfer, from, to, id};
  }
  static Owner decode(ReplicaLife at) { return {Stage::kDecode, at, {}, {}}; }

  bool involves(ReplicaLife life) const { return replica == life || destination == life; }
  friend bool operator==(const Owner&, const Owner&) = default;
};

enum class Outcome : std::uint8_t { kEnded, kCancelled, kFailed };

// What a mover has seen of a request.
struct Seen {
  Stage stage = Stage::kQueue;
  std::uint64_t version = 0;
  friend bool operator==(const Seen&, const Seen&) = default;
};

enum class Resource : std::uint8_t { kPages, kTransferSlots, kActivationSlots, kCredits };
struct ReservationId {
  RequestId request{};
  std::uint64_t number = 0;  // never used twice
  friend auto operator<=>(const ReservationId&, const ReservationId&) = default;
};

struct Reservation {
  RequestId request{};
  ReplicaLife at{};
  Resource resource = Resource::kPages;
  std::uint64_t amount = 0;  // > 0
  TimePoint deadline{};      // not later than this it is used, extended or given back
  friend bool operator==(const Reservation&, const Reservation&) = default;
};

// Why a request goes back to the queue. Only a fault of a replica uses one of its retries.
enum class Blame : std::uint8_t { kReplica, kNobody };

// What a move did.
struct Moved {
  RequestId request{};
  Seen now{};
  std::vector<Reservation> released = {};  // to be given back at their replicas
};

enum class TokenVerdict : std::uint8_t {
  kDeliver,    // the next one: to the client
  kRepeated,   // the client has it
  kStale,      // from a replica that does not own the request, or the request has ended
  kCommitted,  // from the destination of a transfer: it has begun; move to Decode, ask again
  kGap,        // tokens before it are missing: what its replica says cannot be used
};

class Ledger {
 public:
  struct Entry {
    Owner owner{};
    Stage source_stage = Stage::kPrefill;  // transfer: where the request came from
    std::uint64_t version = 1;
    std::uint64_t next_index = 0;  // of the output: so many tokens have been delivered
    std::uint32_t retries_used = 0;
    std::uint32_t retries_max = 0;
    TimePoint arrival{};                // kept when the request goes back to the queue
    Outcome outcome = Outcome::kEnded;  // done only

    Seen seen() const { return {owner.stage, version}; }
    friend bool operator==(const Entry&, const Entry&) = default;
  };
  struct Counters {
    std::uint64_t accepted = 0;
    std::uint64_t finished = 0;
    std::uint64_t forgotten = 0;
    std::uint64_t requeued = 0;
    std::uint64_t moves_refused = 0;  // lost compare-and-set, no such edge, a life that has ended
    std::uint64_t tokens_delivered = 0;
    std::uint64_t tokens_repeated = 0;
    std::uint64_t tokens_stale = 0;
    std::uint64_t token_gaps = 0;
    friend bool operator==(const Counters&, const Counters&) = default;
  };

  // Into the queue. Errors: kInvalidArgument if the id is known.
  Result<Seen> accept(RequestId request, TimePoint arrival, std::uint32_t retries_max);

  // One edge of the drawing towards Done. Errors, and nothing is changed: kNotFound; kFailedPrecondition if somebody
  // moved it since, if there is no such edge, or if a life has ended.
  Result<Moved> move(RequestId request, Seen seen, const Owner& to);
  // A transfer that failed while its source lives: back to where it came from. Errors as move.
  Result<Moved> abort_transfer(RequestId request, Seen seen);
  // Back to the queue from a replica; done with Outcome::kFailed where the retries are used up, as now.stage says.
  // Errors as move.
  Result<Moved> requeue(RequestId request, Seen seen, Blame blame);
  // The one final event. Errors as move; a request that is done stays as it is.
  Result<Moved> finish(RequestId request, Seen seen, Outcome outcome);
  // Drops a request that is done. Errors: kNotFound, kFailedPrecondition.
  Status forget(RequestId request);

  // The life has ended, and all before it in its place: their requests go back to the queue (retries as requeue) or to
  // the source of their transfer, and nothing from them counts any more. In order of request ids.
  std::vector<Moved> lose(ReplicaLife life);
  bool ended(ReplicaLife life) const;

  TokenVerdict token(RequestId request, ReplicaLife from, std::uint64_t index);

  // Errors: kInvalidArgument for an amount of 0, kNotFound, kFailedPrecondition if the request is queued or done or the
  // life has ended.
  Result<ReservationId> reserve(const Reservation& reservation);
  // Errors: kNotFound.
  Status extend(ReservationId id, TimePoint deadline);
  Result<Reservation> release(ReservationId id);
  // Takes out what is past its deadline. The requests stay where they are: what follows is the caller's choice.
  std::vector<Reservation> expire(TimePoint now);

  const Entry* find(RequestId request) const;
  const std::map<RequestId, Entry>& entries() const { return entries_; }
  const std::map<ReservationId, Reservation>& reservations() const { return reservations_; }
  std::uint64_t reserved(ReplicaLife at, Resource resource) const;
  const Counters& counters() const { return counters_; }

  // Nothing lost, nothing ended twice, every owner lives, everything reserved is for a request that a replica has.
  // Errors: kInternal, which names what is wrong. Tests call it after each step.
  Status check() const;

 private:
  Result<Entry*> expect(RequestId request, Seen seen);
  Status refuse(RequestId request, std::string_view why);
  Moved place(RequestId request, Entry& entry, const Owner& to);
  Moved to_queue(RequestId request, Entry& entry, Blame blame);
  Status check_reservations() const;

  std::map<RequestId, Entry> entries_;
  std::map<ReservationId, Reservation> reservations_;
  std::map<ReplicaId, std::uint64_t> ended_;  // the last incarnation that has ended
  std::uint64_t last_reservation_ = 0;
  Counters counters_;
};

}  // namespace coxswain::fleet
