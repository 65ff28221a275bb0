#include "fleet/state/ledger.h"

#include <algorithm>
#include <iterator>
#include <string>
#include <utility>

namespace coxswain::fleet {
namespace {

std::string text_of(RequestId request) {
  return "request " + std::to_string(static_cast<std::uint64_t>(request));
}

// Which stages a request may go to on its way to Done; the replicas are compared apart.
bool is_edge(Stage from, Stage to) {
  switch (from) {
    case Stage::kQueue:
      return to == Stage::kPrefill;
    case Stage::kPrefill:
    case Stage::kDecode:
      return to == Stage::kTransfer || (from == Stage::kPrefill && to == Stage::kDecode);
    case Stage::kTransfer:
      return to == Stage::kDecode;
    case Stage::kDone:
      return false;
  }
  return false;
}

// Whether the replicas of `to` go on from those of `from`: nobody gets a request whose blocks are elsewhere.
bool continues(const Owner& from, const Owner& to) {
  if ((to.stage == Stage::kTransfer) != (to.destination != ReplicaLife{})) return false;
  if (from.stage == Stage::kQueue) return true;
  if (to.stage == Stage::kTransfer) {
    return to.replica == from.replica && to.destination != to.replica;
  }
  return to.replica == (from.stage == Stage::kTransfer ? from.destination : from.replica);
}

}  // namespace

std::string_view name_of(Stage stage) {
  switch (stage) {
    case Stage::kQueue:
      return "queue";
    case Stage::kPrefill:
      return "prefill";
    case Stage::kTransfer:
      return "transfer";
    case Stage::kDecode:
      return "decode";
    case Stage::kDone:
      return "done";
  }
  return "unknown";
}

Result<Seen> Ledger::accept(RequestId request, TimePoint arrival, std::uint32_t retries_max) {
  const auto [at, is_new] = entries_.try_emplace(request);
  if (!is_new)
    return Status(Code::kInvalidArgument, text_of(request) + " is in the ledger already");
  at->second.arrival = arrival;
  at->second.retries_max = retries_max;
  ++counters_.accepted;
  return at->second.seen();
}

Status Ledger::refuse(RequestId request, std::string_view why) {
  ++counters_.moves_refused;
  return {Code::kFailedPrecondition, text_of(request) + ": " + std::string(why)};
}

Result<Ledger::Entry*> Ledger::expect(RequestId request, Seen seen) {
  const auto at = entries_.find(request);
  if (at == entries_.end()) {
    ++counters_.moves_refused;
    return Status(Code::kNotFound, text_of(request) + " is not in the ledger");
  }
  if (at->second.seen() != seen) return refuse(request, "somebody moved it since");
  return &at->second;
}

Moved Ledger::place(RequestId request, Entry& entry, const Owner& to) {
  if (to.stage == Stage::kTransfer) entry.source_stage = entry.owner.stage;
  entry.owner = to;
  ++entry.version;
  Moved out{.request = request, .now = entry.seen()};
  auto at = reservations_.lower_bound({request, 0});
  while (at != reservations_.end() && at->first.request == request) {
    const bool gone = !to.involves(at->second.at);
    if (gone) out.released.push_back(at->second);
    at = gone ? reservations_.erase(at) : std::next(at);
  }
  return out;
}

Result<Moved> Ledger::move(RequestId request, Seen seen, const Owner& to) {
  auto entry = expect(request, seen);
  if (!entry.ok()) return entry.status();
  const Owner from = entry.value()->owner;
  if (!is_edge(from.stage, to.stage) || !continues(from, to)) {
    return refuse(request,
                  "no such edge from " + std::string(name_of(from.stage)) + " to " +
                      std::string(name_of(to.stage)));
  }
  if (ended(to.replica) || (to.stage == Stage::kTransfer && ended(to.destination))) {
    return refuse(request, "that life of the replica has ended");
  }
  return place(request, *entry.value(), to);
}

Result<Moved> Ledger::abort_transfer(RequestId request, Seen seen) {
  auto entry = expect(request, seen);
  if (!entry.ok()) return entry.status();
  if (seen.stage != Stage::kTransfer) return refuse(request, "it is in no transfer");
  Owner back{.stage = entry.value()->source_stage, .replica = entry.value()->owner.replica};
  return place(request, *entry.value(), back);
}

Moved Ledger::to_queue(RequestId request, Entry& entry, Blame blame) {
  ++counters_.requeued;
  if (blame == Blame::kReplica) {
    if (entry.retries_used == entry.retries_max) {
      entry.outcome = Outcome::kFailed;
      ++counters_.finished;
      return place(request, entry, {.stage = Stage::kDone});
    }
    ++entry.retries_used;
  }
  return place(request, entry, {});
}

Result<Moved> Ledger::requeue(RequestId request, Seen seen, Blame blame) {
  auto entry = expect(request, seen);
  if (!entry.ok()) return entry.status();
  if (seen.stage == Stage::kQueue || seen.stage == Stage::kDone) {
    return refuse(request, "no replica has it");
  }
  return to_queue(request, *entry.value(), blame);
}

Result<Moved> Ledger::finish(RequestId request, Seen seen, Outcome outcome) {
  auto entry = expect(request, seen);
  if (!entry.ok()) return entry.status();
  if (seen.stage == Stage::kDone) return refuse(request, "it has ended");
  entry.value()->outcome = outcome;
  ++counters_.finished;
  return place(request, *entry.value(), {.stage = Stage::kDone});
}

Status Ledger::forget(RequestId request) {
  const auto at = entries_.find(request);
  if (at == entries_.end()) return {Code::kNotFound, text_of(request) + " is not in the ledger"};
  if (at->second.owner.stage != Stage::kDone) return refuse(request, "it has not ended");
  entries_.erase(at);
  ++counters_.forgotten;
  return {};
}

bool Ledger::ended(ReplicaLife life) const {
  const auto at = ended_.find(life.replica);
  return life.incarnation == 0 || (at != ended_.end() && life.incarnation <= at->second);
}

std::vector<Moved> Ledger::lose(ReplicaLife life) {
  std::uint64_t& last = ended_[life.replica];
  last = std::max(last, life.incarnation);
  std::vector<Moved> out;
  for (auto& [request, entry] : entries_) {
    const Owner& owner = entry.owner;
    if (owner.stage == Stage::kQueue || owner.stage == Stage::kDone) continue;
    if (ended(owner.replica)) {
      out.push_back(to_queue(request, entry, Blame::kReplica));
    } else if (owner.stage == Stage::kTransfer && ended(owner.destination)) {
      out.push_back(place(request, entry, {.stage = entry.source_stage, .replica = owner.replica}));
    }
  }
  // Credits for a later stage stand at replicas that have no part in the present one.
  std::erase_if(reservations_, [this](const auto& held) { return ended(held.second.at); });
  return out;
}

TokenVerdict Ledger::token(RequestId request, ReplicaLife from, std::uint64_t index) {
  const auto at = entries_.find(request);
  const bool known = at != entries_.end();
  if (known && at->second.owner.stage == Stage::kTransfer && at->second.owner.destination == from) {
    return TokenVerdict::kCommitted;
  }
  if (!known || at->second.owner.stage == Stage::kQueue || at->second.owner.stage == Stage::kDone ||
      at->second.owner.replica != from) {
    ++counters_.tokens_stale;
    return TokenVerdict::kStale;
  }
  Entry& entry = at->second;
  if (index < entry.next_index) {
    ++counters_.tokens_repeated;
    return TokenVerdict::kRepeated;
  }
  if (index > entry.next_index) {
    ++counters_.token_gaps;
    return TokenVerdict::kGap;
  }
  ++entry.next_index;
  ++counters_.tokens_delivered;
  return TokenVerdict::kDeliver;
}

Result<ReservationId> Ledger::reserve(const Reservation& reservation) {
  if (reservation.amount == 0) {
    return Status(Code::kInvalidArgument, "amount must be above 0, given 0");
  }
  const Entry* entry = find(reservation.request);
  if (entry == nullptr) {
    return Status(Code::kNotFound, text_of(reservation.request) + " is not in the ledger");
  }
  if (entry->owner.stage == Stage::kQueue || entry->owner.stage == Stage::kDone) {
    return refuse(reservation.request, "nothing is reserved for a request that no replica has");
  }
  if (ended(reservation.at)) {
    return refuse(reservation.request, "that life of the replica has ended");
  }
  const ReservationId id{reservation.request, ++last_reservation_};
  reservations_.emplace(id, reservation);
  return id;
}

Status Ledger::extend(ReservationId id, TimePoint deadline) {
  const auto at = reservations_.find(id);
  if (at == reservations_.end()) return {Code::kNotFound, "the reservation is gone"};
  at->second.deadline = deadline;
  return {};
}

Result<Reservation> Ledger::release(ReservationId id) {
  const auto at = reservations_.find(id);
  if (at == reservations_.end()) return Status(Code::kNotFound, "the reservation is gone");
  Reservation out = at->second;
  reservations_.erase(at);
  return out;
}

std::vector<Reservation> Ledger::expire(TimePoint now) {
  std::vector<Reservation> out;
  for (auto at = reservations_.begin(); at != reservations_.end();) {
    const bool late = at->second.deadline < now;
    if (late) out.push_back(at->second);
    at = late ? reservations_.erase(at) : std::next(at);
  }
  return out;
}

const Ledger::Entry* Ledger::find(RequestId request) const {
  const auto at = entries_.find(request);
  return at == entries_.end() ? nullptr : &at->second;
}

std::uint64_t Ledger::reserved(ReplicaLife at, Resource resource) const {
  std::uint64_t sum = 0;
  for (const auto& [id, held] : reservations_) {
    if (held.at == at && held.resource == resource) sum += held.amount;
  }
  return sum;
}

Status Ledger::check() const {
  const auto broken = [](std::string what) { return Status(Code::kInternal, std::move(what)); };
  std::uint64_t n_done = 0;
  std::uint64_t n_tokens = 0;
  for (const auto& [request, entry] : entries_) {
    const Owner& owner = entry.owner;
    const bool placed = owner.stage != Stage::kQueue && owner.stage != Stage::kDone;
    if (placed != (owner.replica != ReplicaLife{})) {
      return broken(text_of(request) + ": stage and replica disagree");
    }
    if ((owner.stage == Stage::kTransfer) != (owner.destination != ReplicaLife{})) {
      return broken(text_of(request) + ": a destination without a transfer, or none in one");
    }
    if (placed &&
        (ended(owner.replica) || (owner.stage == Stage::kTransfer && ended(owner.destination)))) {
      return broken(text_of(request) + ": its owner has ended");
    }
    if (entry.retries_used > entry.retries_max) {
      return broken(text_of(request) + ": more retries than it has");
    }
    n_done += owner.stage == Stage::kDone ? 1 : 0;
    n_tokens += entry.next_index;
  }
  if (counters_.accepted != entries_.size() + counters_.forgotten) {
    return broken("requests are lost: " + std::to_string(counters_.accepted) + " accepted");
  }
  if (counters_.finished != n_done + counters_.forgotten) {
    return broken("a request ended twice or never: " + std::to_string(counters_.finished));
  }
  if (counters_.tokens_delivered < n_tokens) return broken("a token was delivered uncounted");
  return check_reservations();
}

Status Ledger::check_reservations() const {
  for (const auto& [id, held] : reservations_) {
    const Entry* entry = find(held.request);
    if (held.amount == 0 || entry == nullptr || entry->owner.stage == Stage::kQueue ||
        entry->owner.stage == Stage::kDone || ended(held.at)) {
      return {Code::kInternal, text_of(held.request) + ": something is reserved for nobody"};
    }
  }
  return {};
}

}  // namespace coxswain::fleet
