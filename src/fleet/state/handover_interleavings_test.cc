// The engines' own machines of a hand-over (batch/handover_protocol.h) under the ledger and the transitions of
// replicas: every order of their messages, lost and doubled, with replicas that die, a change of role and a client
// that goes away.

#include <algorithm>
#include <array>
#include <chrono>
#include <compare>
#include <cstdint>
#include <cstdio>
#include <map>
#include <string>
#include <tuple>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "batch/handover_protocol.h"
#include "fleet/state/ledger.h"
#include "fleet/state/replica_step.h"

namespace coxswain::fleet {
namespace {

namespace protocol = batch::handover;

constexpr RequestId kRequest{0};
constexpr std::uint8_t kSource = 0;
constexpr std::uint8_t kDestination = 1;
constexpr std::uint64_t kTokens = 2;  // the first one came with the prompt
constexpr ReplicaConfig kConfig{.layers = 1, .pages_max = 4, .ingress_slots = 2};
const TimePoint kLater = TimePoint{} + std::chrono::hours(1);

enum class To : std::uint8_t {
  kTaker,
  kGiver,
  kMoverFromTaker,
  kMoverFromGiver,
  kClient,
  kProcess
};

struct Packet {
  To to = To::kClient;
  std::uint8_t transfer = 0;
  std::uint8_t run = 0;      // kClient, kProcess
  std::uint8_t replica = 0;  // kClient: who speaks; kProcess: who is to drop the run
  std::uint8_t life = 0;     // of that replica
  protocol::Message message{};
  auto operator<=>(const Packet&) const = default;
};

// What a process has of the request.
struct Has {
  bool blocks = false;
  bool decodes = false;
  std::uint8_t run = 0;
  auto operator<=>(const Has&) const = default;
};

struct Transfer {
  std::uint8_t id = 0;
  std::uint8_t run = 0;
  protocol::Mover mover{1};
  protocol::Giver giver{1, kLater};
  protocol::Taker taker{1, kLater};
  auto operator<=>(const Transfer&) const = default;
};

class Fleet {
 public:
  explicit Fleet(std::uint8_t n_faults) : faults_left_(n_faults) {
    const std::array roles{Role::kPrefill, Role::kDecode};
    for (std::uint8_t r = 0; r < 2; ++r) {
      replicas_[r].life.replica = ReplicaId{r};
      tell(r, Joined{roles[r], true});
    }
    (void)ledger_.accept(kRequest, {}, 8);
  }

  std::vector<Fleet> progress() const;
  std::vector<Fleet> faults() const;
  bool finished() const {
    return entry().owner.stage == Stage::kDone && net_.empty() && transfers_.empty() &&
           !has_[0].blocks && !has_[1].blocks;
  }
  std::string broken() const;

  // Counters and versions are no part of it.
  auto key() const {
    const Owner& o = entry().owner;
    std::array<std::uint64_t, 16> numbers{static_cast<std::uint64_t>(o.stage),
                                          static_cast<std::uint64_t>(o.replica.replica),
                                          o.replica.incarnation,
                                          o.destination.incarnation,
                                          static_cast<std::uint64_t>(o.transfer),
                                          entry().next_index,
                                          entry().retries_used,
                                          static_cast<std::uint64_t>(entry().outcome),
                                          replicas_[0].life.incarnation,
                                          replicas_[1].life.incarnation,
                                          static_cast<std::uint64_t>(replicas_[0].role),
                                          run_,
                                          last_transfer_,
                                          faults_left_,
                                          ends_,
                                          0};
    return std::tuple(numbers, has_, transfers_, net_);
  }

 private:
  const Ledger::Entry& entry() const { return *ledger_.find(kRequest); }
  ReplicaLife life(std::uint8_t r) const { return replicas_[r].life; }
  std::uint8_t life_number(std::uint8_t r) const {
    return static_cast<std::uint8_t>(life(r).incarnation);
  }
  void tell(std::uint8_t r, const Event& event);
  void send(const Packet& p) { net_.insert(std::upper_bound(net_.begin(), net_.end(), p), p); }
  Transfer* find(std::uint8_t id);
  void drop_at(std::uint8_t r, std::uint8_t run) {
    send({.to = To::kProcess, .run = run, .replica = r, .life = life_number(r)});
  }
  void send_all(const Transfer& t, const protocol::Mover::Sends& sends);
  void do_giver(Transfer& t, protocol::Actions actions);
  void do_taker(Transfer& t, protocol::Actions actions);
  void note_mover(std::uint8_t id);
  void commit();
  void leave();
  void end(Outcome outcome);
  void requeue();
  void back_at_source();
  void adopt();
  void lose(std::uint8_t r);
  bool dispatch();
  bool begin_transfer();
  bool decode(std::uint8_t r);
  bool ask(std::uint8_t r);
  bool resend(std::uint8_t id);
  bool time_out();
  void deliver(const Packet& p);
  void deliver_token(const Packet& p);

  std::uint8_t faults_left_;
  std::uint8_t run_ = 0;
  std::uint8_t last_transfer_ = 0;
  std::uint8_t ends_ = 0;
  Ledger ledger_;
  std::array<ReplicaState, 2> replicas_{};
  std::array<Has, 2> has_{};
  std::vector<Transfer> transfers_;
  std::vector<Packet> net_;
};

void Fleet::tell(std::uint8_t r, const Event& event) {
  const bool joins = std::holds_alternative<Joined>(event);
  const Transition out =
      step(replicas_[r], {life(r).incarnation + (joins ? 1 : 0), event}, {}, kConfig);
  replicas_[r] = out.state;
  for (const Action& action : out.actions) {
    if (std::holds_alternative<EndLife>(action)) lose(r);
    if (std::holds_alternative<AdoptHandovers>(action)) adopt();
  }
}

Transfer* Fleet::find(std::uint8_t id) {
  for (Transfer& t : transfers_) {
    if (t.id == id) return &t;
  }
  return nullptr;
}

void Fleet::send_all(const Transfer& t, const protocol::Mover::Sends& sends) {
  for (const protocol::Mover::Send& each : sends) {
    // The bytes pass at once.
    const bool bytes = each.to == protocol::Mover::To::kTransport;
    const To to = each.to == protocol::Mover::To::kTaker ? To::kTaker : To::kGiver;
    if (!bytes) send({.to = to, .transfer = t.id, .message = each.message});
    if (!bytes) continue;
    Transfer* own = find(t.id);
    send_all(*own, own->mover.passed(each.message.piece, 7));
  }
}

void Fleet::do_giver(Transfer& t, protocol::Actions actions) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const protocol::Action action = actions[i];
    protocol::Actions more;
    switch (action.kind) {
      case protocol::Action::Kind::kCopy:
        more = t.giver.copied(action.piece, 5);
        break;
      case protocol::Action::Kind::kClose:
        if (has_[kSource].run == t.run) has_[kSource] = {};
        break;
      case protocol::Action::Kind::kReply:
        send({.to = To::kMoverFromGiver, .transfer = t.id, .message = action.reply});
        break;
      case protocol::Action::Kind::kReserve:
      case protocol::Action::Kind::kForget:
      case protocol::Action::Kind::kBegin:
        break;
    }
    actions.insert(actions.end(), more.begin(), more.end());
  }
}

void Fleet::do_taker(Transfer& t, protocol::Actions actions) {
  for (std::size_t i = 0; i < actions.size(); ++i) {
    const protocol::Action action = actions[i];
    protocol::Actions more;
    switch (action.kind) {
      case protocol::Action::Kind::kReserve:
        more = t.taker.reserved(true, 0);
        break;
      case protocol::Action::Kind::kCopy:
        more = t.taker.copied(action.piece, true);
        break;
      case protocol::Action::Kind::kBegin:
        has_[kDestination] = {.blocks = true, .decodes = true, .run = t.run};
        more = t.taker.begun(true);
        break;
      case protocol::Action::Kind::kReply:
        send({.to = To::kMoverFromTaker, .transfer = t.id, .message = action.reply});
        break;
      case protocol::Action::Kind::kForget:
      case protocol::Action::Kind::kClose:
        break;
    }
    actions.insert(actions.end(), more.begin(), more.end());
  }
}

void Fleet::commit() {
  (void)ledger_.move(kRequest, entry().seen(), Owner::decode(entry().owner.destination));
  tell(kSource, HandoverEnded{1});
  tell(kDestination, IngressEnded{.committed = true});
}

// What the mover has come to, as far as the ledger does not know it.
void Fleet::note_mover(std::uint8_t id) {
  const Transfer* t = find(id);
  const Owner owner = entry().owner;
  const bool is_it = owner.stage == Stage::kTransfer && owner.transfer == TransferId{id};
  if (t->mover.begun()) {
    if (is_it) {
      commit();
    } else if (!(owner == Owner::decode(life(kDestination)) && t->run == run_)) {
      drop_at(kDestination, t->run);
    }
  }
  if (t->mover.phase() == protocol::Mover::Phase::kFailed && is_it) {
    (void)ledger_.abort_transfer(kRequest, entry().seen());
    tell(kDestination, IngressEnded{false, 1});
    back_at_source();
  }
  if (find(id)->mover.done()) {
    std::erase_if(transfers_, [id](const Transfer& each) { return each.id == id; });
  }
}

void Fleet::back_at_source() {
  tell(kSource, HandoverAborted{});
  if (replicas_[kSource].decodes()) adopt();
}

void Fleet::adopt() {
  (void)ledger_.move(kRequest, entry().seen(), Owner::decode(life(kSource)));
  if (has_[kSource].blocks) has_[kSource].decodes = true;
}

void Fleet::leave() {
  const Owner owner = entry().owner;
  if (owner.stage == Stage::kQueue || owner.stage == Stage::kDone) return;
  if (owner.stage == Stage::kPrefill) tell(kSource, ClientGone{WorkPlace::kParked, 1});
  if (owner.stage == Stage::kDecode) {
    tell(static_cast<std::uint8_t>(owner.replica.replica), SequencesEnded{1, 1});
  }
  if (owner.stage == Stage::kTransfer) {
    tell(kSource, HandoverEnded{1});
    tell(kDestination, IngressEnded{false, 1});
    Transfer* t = find(static_cast<std::uint8_t>(owner.transfer));
    send_all(*t, t->mover.abort());
  }
  drop_at(static_cast<std::uint8_t>(owner.replica.replica), run_);
}

void Fleet::end(Outcome outcome) {
  leave();
  if (ledger_.finish(kRequest, entry().seen(), outcome).ok()) ++ends_;
}

void Fleet::requeue() {
  leave();
  (void)ledger_.requeue(kRequest, entry().seen(), Blame::kReplica);
}

// The process of a replica is gone with what it held. Movers are told; what they say later finds the request elsewhere.
void Fleet::lose(std::uint8_t r) {
  const Owner before = entry().owner;
  const auto moved = ledger_.lose(life(r));
  has_[r] = {};
  for (std::size_t i = transfers_.size(); i-- > 0;) {
    Transfer& t = transfers_[i];
    const std::uint8_t id = t.id;
    send_all(t, r == kSource ? t.mover.lost_giver() : t.mover.lost_taker());
    if (r == kSource && before.stage == Stage::kTransfer)
      send_all(*find(id), find(id)->mover.abort());
    if (find(id)->mover.done()) {
      if (find(id)->mover.begun()) drop_at(kDestination, find(id)->run);
      std::erase_if(transfers_, [id](const Transfer& each) { return each.id == id; });
    }
  }
  if (moved.empty() || before.stage != Stage::kTransfer) return;
  if (moved[0].now.stage == Stage::kPrefill) {
    back_at_source();
  } else {
    tell(kDestination, IngressEnded{false, 1});
  }
}

// The prompt is computed at once; its first token counts when the client has none.
bool Fleet::dispatch() {
  if (entry().owner.stage != Stage::kQueue || has_[kSource].blocks || !transfers_.empty())
    return false;
  const std::uint32_t before = replicas_[kSource].work.prefilling;
  tell(kSource, WorkTaken{1, 1});
  if (replicas_[kSource].work.prefilling == before) return false;
  (void)ledger_.move(kRequest, entry().seen(), Owner::prefill(life(kSource)));
  has_[kSource] = {.blocks = true, .run = ++run_};
  if (entry().next_index == 0) (void)ledger_.token(kRequest, life(kSource), 0);
  tell(kSource, PrefillEnded{.n_kept = 1});
  if (replicas_[kSource].decodes()) adopt();
  return true;
}

bool Fleet::begin_transfer() {
  if (entry().owner.stage != Stage::kPrefill || !transfers_.empty()) return false;
  if (!has_[kSource].blocks) {  // its lease has ended: the source says so
    requeue();
    return true;
  }
  const std::uint32_t before = replicas_[kDestination].ingress.inbound;
  tell(kDestination, IngressAsked{life(kSource), 1});
  if (replicas_[kDestination].ingress.inbound == before) return false;
  const Owner to =
      Owner::transfer_of(TransferId{++last_transfer_}, life(kSource), life(kDestination));
  (void)ledger_.move(kRequest, entry().seen(), to);
  tell(kSource, HandoverBegan{});
  transfers_.push_back({.id = last_transfer_, .run = run_});
  send_all(transfers_.back(), transfers_.back().mover.start());
  return true;
}

// The last token.
bool Fleet::decode(std::uint8_t r) {
  if (!has_[r].decodes) return false;
  send({.to = To::kClient, .run = has_[r].run, .replica = r, .life = life_number(r)});
  has_[r] = {};
  return true;
}

// A process that holds blocks for nobody and hears nothing drops them; one that is to decode is told so.
bool Fleet::ask(std::uint8_t r) {
  if (!has_[r].blocks || !net_.empty() || !transfers_.empty()) return false;
  const Owner& owner = entry().owner;
  if (has_[r].run == run_ && owner.involves(life(r))) return false;
  has_[r] = {};
  return true;
}

bool Fleet::resend(std::uint8_t id) {
  const bool waits =
      std::none_of(net_.begin(), net_.end(), [id](const Packet& p) { return p.transfer == id; });
  const std::size_t before = net_.size();
  if (waits) send_all(*find(id), find(id)->mover.resend());
  return net_.size() > before;
}

bool Fleet::time_out() {
  if (!net_.empty() || !transfers_.empty() || entry().owner.stage != Stage::kDecode) return false;
  const auto at = static_cast<std::size_t>(entry().owner.replica.replica);
  if (has_.at(at).blocks && has_.at(at).run == run_) return false;
  requeue();
  return true;
}

void Fleet::deliver_token(const Packet& p) {
  const ReplicaLife from{ReplicaId{p.replica}, p.life};
  TokenVerdict verdict = ledger_.token(kRequest, from, kTokens - 1);
  if (verdict == TokenVerdict::kCommitted) {
    commit();
    verdict = ledger_.token(kRequest, from, kTokens - 1);
  }
  if (verdict == TokenVerdict::kDeliver) end(Outcome::kEnded);
}

void Fleet::deliver(const Packet& p) {
  if (p.to == To::kClient) return deliver_token(p);
  if (p.to == To::kProcess) {
    if (life_number(p.replica) == p.life && has_[p.replica].run <= p.run) has_[p.replica] = {};
    return;
  }
  Transfer* t = find(p.transfer);
  if (t == nullptr) return;
  if (p.to == To::kTaker) return do_taker(*t, t->taker.take(p.message, {}));
  if (p.to == To::kGiver) return do_giver(*t, t->giver.take(p.message, {}));
  send_all(*t,
           p.to == To::kMoverFromTaker ? t->mover.from_taker(p.message)
                                       : t->mover.from_giver(p.message));
  note_mover(p.transfer);
}

std::vector<Fleet> Fleet::progress() const {
  std::vector<Fleet> out;
  const auto attempt = [&](const auto& change) {
    Fleet next = *this;
    if (change(next)) out.push_back(std::move(next));
  };
  for (std::size_t i = 0; i < net_.size(); ++i) {
    if (i > 0 && net_[i] == net_[i - 1]) continue;
    attempt([&](Fleet& n) {
      n.net_.erase(n.net_.begin() + static_cast<std::ptrdiff_t>(i));
      n.deliver(net_[i]);
      return true;
    });
  }
  attempt([](Fleet& n) { return n.dispatch(); });
  attempt([](Fleet& n) { return n.begin_transfer(); });
  attempt([](Fleet& n) { return n.time_out(); });
  for (const std::uint8_t r : {kSource, kDestination}) {
    attempt([r](Fleet& n) { return n.decode(r); });
    attempt([r](Fleet& n) { return n.ask(r); });
  }
  for (const Transfer& t : transfers_) attempt([&](Fleet& n) { return n.resend(t.id); });
  return out;
}

std::vector<Fleet> Fleet::faults() const {
  std::vector<Fleet> out;
  if (faults_left_ == 0) return out;
  const auto fault = [&](const auto& change) {
    out.push_back(*this);
    --out.back().faults_left_;
    change(out.back());
  };
  for (std::size_t i = 0; i < net_.size(); ++i) {
    fault([&](Fleet& n) { n.net_.erase(n.net_.begin() + static_cast<std::ptrdiff_t>(i)); });
    fault([&](Fleet& n) { n.send(net_[i]); });
  }
  for (const std::uint8_t r : {kSource, kDestination}) {
    fault([r](Fleet& n) {
      const Role role = n.replicas_[r].role;
      n.tell(r, LeaseExpired{});
      n.tell(r, Joined{role, true});
    });
  }
  fault([](Fleet& n) { n.tell(kSource, SetRole{Role::kMixed}); });
  if (entry().owner.stage != Stage::kDone) fault([](Fleet& n) { n.end(Outcome::kCancelled); });
  for (const Transfer& t : transfers_) {
    fault([&](Fleet& n) { n.send_all(*n.find(t.id), n.find(t.id)->mover.abort()); });
    fault([&](Fleet& n) { n.do_giver(*n.find(t.id), n.find(t.id)->giver.end()); });
    fault([&](Fleet& n) { n.do_taker(*n.find(t.id), n.find(t.id)->taker.end()); });
  }
  return out;
}

std::string Fleet::broken() const {
  if (Status status = ledger_.check(); !status.ok()) return status.message();
  const Owner& owner = entry().owner;
  if (ends_ != (owner.stage == Stage::kDone ? 1 : 0)) return "ended not exactly once";
  if (entry().next_index > kTokens) return "tokens too many";
  if (owner.stage == Stage::kDone && entry().outcome == Outcome::kEnded &&
      entry().next_index != kTokens) {
    return "tokens are missing";
  }
  for (std::uint8_t r = 0; r < 2; ++r) {
    const ReplicaState& state = replicas_[r];
    if (Status status = check(state, kConfig); !status.ok()) return status.message();
    Work owed;
    const bool mine = owner.replica == life(r);
    owed.parked = mine && owner.stage == Stage::kPrefill ? 1 : 0;
    owed.outbound = mine && owner.stage == Stage::kTransfer ? 1 : 0;
    owed.running = mine && owner.stage == Stage::kDecode ? 1 : 0;
    const bool into = owner.stage == Stage::kTransfer && owner.destination == life(r);
    if (!(state.work == owed) || state.ingress.inbound != (into ? 1U : 0U)) {
      return "the counts of replica " + std::to_string(r) + " are not those of the ledger";
    }
    if (state.counts.pages_reconciled != 0) return "pages were accounted for nobody";
  }
  return {};
}

TEST(HandoverInterleavings, TheEnginesMachinesUnderTheLedger) {
  std::map<decltype(Fleet(0).key()), std::uint32_t> ids;
  std::vector<std::vector<std::uint32_t>> into;
  std::vector<std::pair<std::uint32_t, Fleet>> open;
  std::vector<std::uint32_t> ends;
  std::string broken;
  const auto meet = [&](Fleet&& fleet) {
    const auto [at, is_new] = ids.try_emplace(fleet.key(), static_cast<std::uint32_t>(ids.size()));
    if (!is_new) return at->second;
    into.emplace_back();
    if (broken.empty()) broken = fleet.broken();
    if (fleet.finished()) ends.push_back(at->second);
    open.emplace_back(at->second, std::move(fleet));
    return at->second;
  };
  meet(Fleet(1));
  while (!open.empty() && broken.empty()) {
    const auto [id, fleet] = std::move(open.back());
    open.pop_back();
    for (Fleet& next : fleet.progress()) into[meet(std::move(next))].push_back(id);
    for (Fleet& next : fleet.faults()) meet(std::move(next));
  }
  EXPECT_EQ(broken, "");
  const std::size_t n_ends = ends.size();
  std::vector<bool> reaches(ids.size());
  for (const std::uint32_t at : ends) reaches[at] = true;
  std::size_t n_reaching = ends.size();
  while (!ends.empty()) {
    const std::uint32_t at = ends.back();
    ends.pop_back();
    for (const std::uint32_t before : into[at]) {
      if (reaches[before]) continue;
      reaches[before] = true;
      ++n_reaching;
      ends.push_back(before);
    }
  }
  std::printf("%zu states, %zu ends\n", ids.size(), n_ends);
  EXPECT_GT(n_ends, 0U);
  EXPECT_EQ(n_reaching, ids.size());
}

}  // namespace
}  // namespace coxswain::fleet
