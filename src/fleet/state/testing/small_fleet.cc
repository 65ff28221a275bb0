#include "fleet/state/testing/small_fleet.h"

#include <algorithm>
#include <chrono>
#include <optional>
#include <utility>

namespace coxswain::fleet::testing {
namespace {

constexpr ReplicaConfig kConfig{.layers = 1,
                                .pages_max = 8,
                                .prefill_slots = 2,
                                .ingress_slots = 2,
                                .warm_ttl = std::chrono::hours(1),
                                .migrate_grace = std::chrono::milliseconds(1)};
constexpr std::uint32_t kRetries = 4;

std::uint8_t index_of(ReplicaLife life) {
  return static_cast<std::uint8_t>(life.replica);
}
std::uint8_t life_of(ReplicaLife life) {
  return static_cast<std::uint8_t>(life.incarnation);
}

}  // namespace

SmallFleet::SmallFleet(const std::vector<Role>& roles,
                       std::uint8_t n_requests,
                       std::uint8_t n_faults)
    : n_replicas_(static_cast<std::uint8_t>(roles.size())),
      n_requests_(n_requests),
      faults_left_(n_faults) {
  for (std::uint8_t r = 0; r < n_replicas_; ++r) {
    replicas_[r].life.replica = ReplicaId{r};
    tell(r, Joined{roles[r], true});
  }
  for (std::uint8_t q = 0; q < n_requests_; ++q) (void)ledger_.accept(RequestId{q}, {}, kRetries);
}

bool SmallFleet::hears(std::uint8_t q) const {
  return std::any_of(net_.begin(), net_.end(), [q](const Packet& p) { return p.request == q; });
}

// Whoever changes roles leaves somebody for prompts and somebody to decode.
bool SmallFleet::may_become(std::uint8_t r, Role role) const {
  bool prompts = role != Role::kDecode;
  bool decodes = role != Role::kPrefill;
  for (std::uint8_t other = 0; other < n_replicas_; ++other) {
    if (other == r) continue;
    prompts = prompts || replicas_[other].takes_prompts();
    decodes = decodes || replicas_[other].decodes();
  }
  return role != replicas_[r].role && prompts && decodes;
}

bool SmallFleet::fits(const Packet& p) const {
  const bool to_coordinator = p.kind == Kind::kCommit || p.kind == Kind::kToken;
  const Life meant = life(to_coordinator ? p.from : p.to);
  return to_coordinator || (!replicas_[p.to].lost && meant.incarnation == p.life);
}

void SmallFleet::send(Packet packet) {
  net_.insert(std::upper_bound(net_.begin(), net_.end(), packet), packet);
}

void SmallFleet::tell(std::uint8_t r, const Event& event) {
  const bool joins = std::holds_alternative<Joined>(event);
  Transition out =
      step(replicas_[r], {life(r).incarnation + (joins ? 1 : 0), event}, now_, kConfig);
  replicas_[r] = out.state;
  for (const Action& action : out.actions) {
    if (std::holds_alternative<EndLife>(action)) lose(r);
    if (std::holds_alternative<ReturnWork>(action)) return_all(r);
    if (!std::holds_alternative<AdoptHandovers>(action)) continue;
    for (std::uint8_t q = 0; q < n_requests_; ++q) {
      if (entry(q).owner == Owner::prefill(life(r)) && ready_[q]) adopt(q);
    }
  }
}

void SmallFleet::cancel_at(Life at, std::uint8_t q, TransferId transfer) {
  if (ledger_.ended(at)) return;
  send({.kind = Kind::kCancel,
        .request = q,
        .run = run_[q],
        .transfer = static_cast<std::uint8_t>(transfer),
        .to = index_of(at),
        .life = life_of(at)});
}

// The coordinator's counts of a request whose owner is about to change to none.
void SmallFleet::leave(std::uint8_t q) {
  const Owner owner = entry(q).owner;
  const std::uint8_t at = index_of(owner.replica);
  switch (owner.stage) {
    case Stage::kPrefill:
      tell(at, ClientGone{ready_[q] ? WorkPlace::kParked : WorkPlace::kPrefilling, 1});
      break;
    case Stage::kTransfer:
      tell(at, HandoverEnded{1});
      tell(index_of(owner.destination), IngressEnded{false, 1});
      cancel_at(owner.destination, q, owner.transfer);
      break;
    case Stage::kDecode:
      tell(at, SequencesEnded{1, 1});
      break;
    case Stage::kQueue:
    case Stage::kDone:
      return;
  }
  cancel_at(owner.replica, q);
}

void SmallFleet::requeue(std::uint8_t q, Blame blame) {
  leave(q);
  const auto moved = ledger_.requeue(RequestId{q}, entry(q).seen(), blame);
  if (moved.ok() && moved.value().now.stage == Stage::kDone) ++ends_[q];
  ready_[q] = false;
}

void SmallFleet::end(std::uint8_t q, Outcome outcome) {
  leave(q);
  if (ledger_.finish(RequestId{q}, entry(q).seen(), outcome).ok()) ++ends_[q];
  ready_[q] = false;
}

// The replica decodes what it has computed itself.
void SmallFleet::adopt(std::uint8_t q) {
  const Life at = entry(q).owner.replica;
  (void)ledger_.move(RequestId{q}, entry(q).seen(), Owner::decode(at));
  send({.kind = Kind::kStart,
        .request = q,
        .run = run_[q],
        .to = index_of(at),
        .life = life_of(at)});
}

void SmallFleet::back_at_source(std::uint8_t q) {
  const std::uint8_t source = index_of(entry(q).owner.replica);
  tell(source, HandoverAborted{});
  if (replicas_[source].decodes()) adopt(q);
}

void SmallFleet::abort_transfer(std::uint8_t q) {
  const Owner owner = entry(q).owner;
  tell(index_of(owner.destination), IngressEnded{false, 1});
  cancel_at(owner.destination, q, owner.transfer);
  (void)ledger_.abort_transfer(RequestId{q}, entry(q).seen());
  back_at_source(q);
}

void SmallFleet::lose(std::uint8_t r) {
  std::array<Owner, 2> before{};
  for (std::uint8_t q = 0; q < n_requests_; ++q) before[q] = entry(q).owner;
  for (const Moved& moved : ledger_.lose(life(r))) {
    const auto q = static_cast<std::uint8_t>(moved.request);
    if (moved.now.stage == Stage::kDone) ++ends_[q];
    if (moved.now.stage == Stage::kPrefill) {
      back_at_source(q);
      continue;
    }
    ready_[q] = false;
    if (before[q].stage == Stage::kTransfer) {  // the destination lives
      tell(index_of(before[q].destination), IngressEnded{false, 1});
      cancel_at(before[q].destination, q, before[q].transfer);
    }
  }
}

// A drain that ran out of time: the replica has dropped its counts already.
void SmallFleet::return_all(std::uint8_t r) {
  for (std::uint8_t q = 0; q < n_requests_; ++q) {
    const Owner owner = entry(q).owner;
    if (!owner.involves(life(r))) continue;
    if (owner.stage == Stage::kTransfer && owner.destination == life(r)) {
      cancel_at(owner.destination, q, owner.transfer);
      (void)ledger_.abort_transfer(RequestId{q}, entry(q).seen());
      back_at_source(q);
      continue;
    }
    if (owner.stage == Stage::kTransfer) {
      tell(index_of(owner.destination), IngressEnded{false, 1});
      cancel_at(owner.destination, q, owner.transfer);
    }
    cancel_at(owner.replica, q);
    (void)ledger_.requeue(RequestId{q}, entry(q).seen(), Blame::kNobody);
    ready_[q] = false;
  }
}

bool SmallFleet::dispatch(std::uint8_t q, std::uint8_t r) {
  if (entry(q).owner.stage != Stage::kQueue || held_[r][q].hold != Hold::kNothing) return false;
  const std::uint32_t before = replicas_[r].work.prefilling;
  tell(r, WorkTaken{1, 1});
  if (replicas_[r].work.prefilling == before) return false;
  if (!ledger_.move(RequestId{q}, entry(q).seen(), Owner::prefill(life(r))).ok()) return false;
  held_[r][q] = {.hold = Hold::kComputing,
                 .run = ++run_[q],
                 .next = static_cast<std::uint8_t>(entry(q).next_index)};
  return true;
}

bool SmallFleet::begin_transfer(std::uint8_t q, std::uint8_t to) {
  const Owner owner = entry(q).owner;
  if (owner.stage != Stage::kPrefill || !ready_[q] || index_of(owner.replica) == to) return false;
  const std::uint32_t before = replicas_[to].ingress.inbound;
  tell(to, IngressAsked{owner.replica, 1});
  if (replicas_[to].ingress.inbound == before) return false;
  const Owner next = Owner::transfer_of(TransferId{++last_transfer_}, owner.replica, life(to));
  if (!ledger_.move(RequestId{q}, entry(q).seen(), next).ok()) return false;
  (void)ledger_.reserve({.request = RequestId{q}, .at = life(to), .amount = 1});
  tell(index_of(owner.replica), HandoverBegan{});
  send({.kind = Kind::kPrepare,
        .request = q,
        .run = run_[q],
        .transfer = last_transfer_,
        .index = static_cast<std::uint8_t>(entry(q).next_index),
        .from = index_of(owner.replica),
        .to = to,
        .life = life_of(life(to)),
        .other_life = life_of(owner.replica)});
  return true;
}

// A process does its next piece of work.
bool SmallFleet::compute(std::uint8_t q, std::uint8_t r) {
  Held& held = held_[r][q];
  if (held.hold != Hold::kComputing && held.hold != Hold::kDecoding) return false;
  send({.kind = Kind::kToken,
        .request = q,
        .run = held.run,
        .index = held.next,
        .from = r,
        .life = life_of(life(r))});
  const bool last = ++held.next >= kTokens;
  if (held.hold == Hold::kComputing) held.hold = Hold::kReady;
  if (last) held = {};
  return true;
}

// A process that holds something and hears nothing; the coordinator answers by the ledger.
bool SmallFleet::ask(std::uint8_t q, std::uint8_t r) {
  const Held held = held_[r][q];
  if (held.hold == Hold::kNothing || hears(q)) return false;
  const Owner owner = entry(q).owner;
  const bool mine = owner.involves(life(r)) && held.run == run_[q];
  const bool this_transfer =
      owner.stage == Stage::kTransfer && static_cast<std::uint8_t>(owner.transfer) == held.transfer;
  Packet out{
      .request = q, .run = held.run, .transfer = held.transfer, .to = r, .life = life_of(life(r))};
  const bool past = held.hold == Hold::kReceiving ||
                    (held.hold == Hold::kReceived && owner.stage == Stage::kTransfer);
  if (!mine || (owner.stage == Stage::kDecode && owner.replica != life(r)) ||
      (past && !this_transfer)) {
    out.kind = Kind::kCancel;
  } else if (held.hold == Hold::kReceived) {
    out = {.kind = Kind::kCommit,
           .request = q,
           .run = held.run,
           .transfer = held.transfer,
           .from = r,
           .life = life_of(life(r))};
  } else if (held.hold == Hold::kReceiving && this_transfer) {
    out.kind = Kind::kPrepare;
    out.index = held.next;
    out.from = index_of(owner.replica);
    out.other_life = life_of(owner.replica);
  } else if (held.hold == Hold::kReady && owner.stage == Stage::kDecode) {
    out.kind = Kind::kStart;
  } else {
    return false;  // it waits for its turn
  }
  send(out);
  return true;
}

// The coordinator waits for something that cannot come any more.
bool SmallFleet::time_out(std::uint8_t q) {
  const Owner owner = entry(q).owner;
  if (hears(q)) return false;
  if (owner.stage == Stage::kTransfer) {
    if (held_[index_of(owner.destination)][q].hold != Hold::kNothing) return false;
    abort_transfer(q);
    return true;
  }
  if (owner.stage != Stage::kPrefill && owner.stage != Stage::kDecode) return false;
  const Held& held = held_[index_of(owner.replica)][q];
  const bool gone = held.run != run_[q] || held.hold == Hold::kNothing;
  const bool unheard = owner.stage == Stage::kPrefill && !ready_[q] && held.hold == Hold::kReady;
  if (!gone && !unheard) return false;
  requeue(q, Blame::kReplica);
  return true;
}

void SmallFleet::deliver_token(const Packet& p) {
  const std::uint8_t q = p.request;
  const Life from{ReplicaId{p.from}, p.life};
  switch (ledger_.token(RequestId{q}, from, p.index)) {
    case TokenVerdict::kRepeated:
    case TokenVerdict::kCommitted:  // the coordinator says here when a destination may begin
      return;
    case TokenVerdict::kStale:
      send({.kind = Kind::kCancel, .request = q, .run = p.run, .to = p.from, .life = p.life});
      return;
    case TokenVerdict::kGap:
      requeue(q, Blame::kReplica);
      return;
    case TokenVerdict::kDeliver:
      break;
  }
  const Owner owner = entry(q).owner;
  if (p.index + 1 == kTokens) {
    end(q, Outcome::kEnded);
    return;
  }
  if (owner.stage != Stage::kPrefill || ready_[q]) return;
  tell(p.from, PrefillEnded{.n_kept = 1});
  ready_[q] = true;
  if (replicas_[p.from].decodes()) adopt(q);
}

void SmallFleet::deliver_commit(const Packet& p) {
  const std::uint8_t q = p.request;
  const Life from{ReplicaId{p.from}, p.life};
  const Owner owner = entry(q).owner;
  const bool is_it = owner.stage == Stage::kTransfer && owner.destination == from &&
                     owner.transfer == TransferId{p.transfer};
  if (is_it) {
    const Life source = owner.replica;
    (void)ledger_.move(RequestId{q}, entry(q).seen(), Owner::decode(from));
    tell(index_of(source), HandoverEnded{1});
    tell(p.from, IngressEnded{.committed = true});
    cancel_at(source, q);  // RELEASE
  }
  if (is_it || (entry(q).owner == Owner::decode(from) && p.run == run_[q])) {
    send({.kind = Kind::kStart, .request = q, .run = p.run, .to = p.from, .life = p.life});
  } else {
    send({.kind = Kind::kCancel,
          .request = q,
          .run = p.run,
          .transfer = p.transfer,
          .to = p.from,
          .life = p.life});
  }
}

void SmallFleet::deliver(const Packet& p) {
  if (!fits(p)) return;
  if (p.kind == Kind::kToken) return deliver_token(p);
  if (p.kind == Kind::kCommit) return deliver_commit(p);
  Held& held = held_[p.to][p.request];
  Packet answer = p;
  std::swap(answer.from, answer.to);
  std::swap(answer.life, answer.other_life);
  switch (p.kind) {
    case Kind::kPrepare:
      if (held.hold == Hold::kNothing ||
          (held.hold == Hold::kReceiving && held.transfer < p.transfer)) {
        held = {.hold = Hold::kReceiving, .run = p.run, .transfer = p.transfer, .next = p.index};
      }
      if (held.hold != Hold::kReceiving || held.transfer != p.transfer) return;
      answer.kind = Kind::kGrant;
      return send(answer);
    case Kind::kGrant:
      if (held.hold != Hold::kReady || held.run != p.run) return;
      answer.kind = Kind::kChunk;
      return send(answer);
    case Kind::kChunk:
      if (held.hold == Hold::kReceiving && held.transfer == p.transfer) held.hold = Hold::kReceived;
      if (held.hold != Hold::kReceived || held.transfer != p.transfer) return;
      answer = {.kind = Kind::kCommit,
                .request = p.request,
                .run = p.run,
                .transfer = p.transfer,
                .from = p.to,
                .life = p.life};
      return send(answer);
    case Kind::kStart:
      if (held.run != p.run) return;
      if (held.hold == Hold::kReady || held.hold == Hold::kReceived) {
        held.hold = Hold::kDecoding;
        held.transfer = 0;
      }
      return;
    case Kind::kCancel:
      // An abort names its transfer: late, it must not end the next one between the same two.
      if (p.transfer == 0 ? held.run <= p.run : held.transfer == p.transfer) held = {};
      return;
    case Kind::kCommit:
    case Kind::kToken:
      return;
  }
}

void SmallFleet::crash(std::uint8_t r) {
  const Role role = replicas_[r].role;
  held_[r] = {};
  tell(r, LeaseExpired{});
  tell(r, Joined{role, true});
}

std::vector<SmallFleet> SmallFleet::progress() const {
  std::vector<SmallFleet> out;
  const auto attempt = [&](auto&& change) {
    SmallFleet next = *this;
    if (change(next)) out.push_back(std::move(next));
  };
  for (std::size_t i = 0; i < net_.size(); ++i) {
    if (i > 0 && net_[i] == net_[i - 1]) continue;
    attempt([&](SmallFleet& next) {
      next.net_.erase(next.net_.begin() + static_cast<std::ptrdiff_t>(i));
      next.deliver(net_[i]);
      return true;
    });
  }
  for (std::uint8_t q = 0; q < n_requests_; ++q) {
    attempt([&](SmallFleet& next) { return next.time_out(q); });
    for (std::uint8_t r = 0; r < n_replicas_; ++r) {
      attempt([&](SmallFleet& next) { return next.dispatch(q, r); });
      attempt([&](SmallFleet& next) { return next.begin_transfer(q, r); });
      attempt([&](SmallFleet& next) { return next.compute(q, r); });
      attempt([&](SmallFleet& next) { return next.ask(q, r); });
    }
  }
  return out;
}

std::vector<SmallFleet> SmallFleet::faults() const {
  std::vector<SmallFleet> out;
  if (faults_left_ == 0) return out;
  const auto fault = [&](auto&& change) {
    SmallFleet next = *this;
    --next.faults_left_;
    change(next);
    out.push_back(std::move(next));
  };
  for (std::size_t i = 0; i < net_.size(); ++i) {
    if (i > 0 && net_[i] == net_[i - 1]) continue;
    fault([&](SmallFleet& n) { n.net_.erase(n.net_.begin() + static_cast<std::ptrdiff_t>(i)); });
    fault([&](SmallFleet& n) { n.send(net_[i]); });
  }
  for (std::uint8_t r = 0; r < n_replicas_; ++r) {
    fault([&](SmallFleet& n) { n.crash(r); });
    for (const Role role : {Role::kPrefill, Role::kDecode, Role::kMixed}) {
      if (may_become(r, role)) fault([&](SmallFleet& n) { n.tell(r, SetRole{role}); });
    }
    // Both deadlines of a drain at once, then it serves again as what it was.
    fault([&](SmallFleet& n) {
      const Role role = n.replicas_[r].role;
      n.tell(r, BeginDrain{n.now_});
      n.tell(r, Tick{});
      n.now_ += kConfig.migrate_grace;
      n.tell(r, Tick{});
      n.tell(r, SetRole{role});
      n.now_ -= kConfig.migrate_grace;
    });
  }
  for (std::uint8_t q = 0; q < n_requests_; ++q) {
    const Stage stage = entry(q).owner.stage;
    if (stage == Stage::kTransfer) fault([&](SmallFleet& n) { n.abort_transfer(q); });
    if (stage == Stage::kPrefill || stage == Stage::kDecode) {
      fault([&](SmallFleet& n) { n.requeue(q, Blame::kReplica); });
    }
    if (stage == Stage::kDone) continue;
    fault([&](SmallFleet& n) { n.end(q, Outcome::kCancelled); });
  }
  return out;
}

bool SmallFleet::finished() const {
  for (std::uint8_t q = 0; q < n_requests_; ++q) {
    if (entry(q).owner.stage != Stage::kDone) return false;
    for (std::uint8_t r = 0; r < n_replicas_; ++r) {
      if (held_[r][q].hold != Hold::kNothing) return false;
    }
  }
  return net_.empty();
}

std::string SmallFleet::broken() const {
  if (Status status = ledger_.check(); !status.ok()) return status.message();
  for (std::uint8_t q = 0; q < n_requests_; ++q) {
    const Ledger::Entry& e = entry(q);
    const bool done = e.owner.stage == Stage::kDone;
    if (ends_[q] != (done ? 1 : 0)) return "a request ended not exactly once";
    if (done && e.outcome == Outcome::kEnded && e.next_index != kTokens)
      return "tokens are missing";
    if (e.next_index > kTokens) return "tokens too many";
    if (done && e.outcome == Outcome::kFailed) return "the retries did not suffice";
  }
  for (std::uint8_t r = 0; r < n_replicas_; ++r) {
    if (Status status = check(replicas_[r], kConfig); !status.ok()) return status.message();
    Work owed;
    std::uint32_t inbound = 0;
    for (std::uint8_t q = 0; q < n_requests_; ++q) {
      const Owner& owner = entry(q).owner;
      inbound += owner.stage == Stage::kTransfer && owner.destination == life(r) ? 1 : 0;
      if (owner.replica != life(r)) continue;
      owed.prefilling += owner.stage == Stage::kPrefill && !ready_[q] ? 1 : 0;
      owed.parked += owner.stage == Stage::kPrefill && ready_[q] ? 1 : 0;
      owed.outbound += owner.stage == Stage::kTransfer ? 1 : 0;
      owed.running += owner.stage == Stage::kDecode ? 1 : 0;
    }
    const ReplicaState& state = replicas_[r];
    if (!(state.work == owed) || state.ingress.inbound != inbound) {
      return "the counts of a replica are not those of the ledger";
    }
    if (state.counts.pages_reconciled != 0) return "pages were accounted for nobody";
  }
  if (finished() && !ledger_.reservations().empty()) return "something is still reserved";
  return {};
}

std::string SmallFleet::key() const {
  std::string out;
  const auto put = [&](auto value) { out.push_back(static_cast<char>(value)); };
  put(faults_left_);
  put(last_transfer_);
  for (std::uint8_t q = 0; q < n_requests_; ++q) {
    const Ledger::Entry& e = entry(q);
    for (const Life at : {e.owner.replica, e.owner.destination}) {
      put(at.replica);
      put(at.incarnation);
    }
    put(e.owner.stage);
    put(e.owner.transfer);
    put(e.next_index);
    put(e.retries_used);
    put(e.outcome);
    put(ready_[q]);
    put(run_[q]);
    for (std::uint8_t r = 0; r < n_replicas_; ++r) {
      const Held& h = held_[r][q];
      for (const std::uint8_t value :
           {static_cast<std::uint8_t>(h.hold), h.run, h.transfer, h.next}) {
        put(value);
      }
    }
  }
  for (const ReplicaState& state : replicas_) {
    if (state.lost) break;
    put(state.life.incarnation);
    put(state.role);
    put(state.admission);
  }
  for (const Packet& p : net_) {
    for (const std::uint8_t value : {static_cast<std::uint8_t>(p.kind),
                                     p.request,
                                     p.run,
                                     p.transfer,
                                     p.index,
                                     p.from,
                                     p.to,
                                     p.life,
                                     p.other_life}) {
      put(value);
    }
  }
  return out;
}

}  // namespace coxswain::fleet::testing
