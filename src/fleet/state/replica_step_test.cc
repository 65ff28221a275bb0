#include "fleet/state/replica_step.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <map>
#include <set>
#include <span>
#include <string>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

using std::chrono::milliseconds;

constexpr ReplicaConfig kConfig{.layers = 3,
                                .pages_max = 4,
                                .prefill_slots = 2,
                                .ingress_slots = 1,
                                .warm_ttl = milliseconds(100),
                                .migrate_grace = milliseconds(50)};
constexpr std::uint64_t kLife = 5;
constexpr ReplicaLife kPeer{ReplicaId{9}, 1};
const TimePoint kEarly = TimePoint{} + milliseconds(10);
const TimePoint kDeadline = TimePoint{} + milliseconds(50);
const TimePoint kLate = TimePoint{} + milliseconds(1000);

// Every event, with each value that a transition looks at.
std::vector<Event> all_events() {
  std::vector<Event> out;
  for (const Role role : {Role::kNone, Role::kPrefill, Role::kDecode, Role::kMixed}) {
    for (const bool flag : {false, true}) {
      out.emplace_back(Load{role, {SourceTier::kPeer, kPeer}, flag});
      out.emplace_back(Joined{role, flag});
    }
    out.emplace_back(SetRole{role});
  }
  for (const auto verb : {ManualVerb::kTransToNewPrefill,
                          ManualVerb::kTransToOldPrefill,
                          ManualVerb::kTransToPrefill,
                          ManualVerb::kTransToDecode,
                          ManualVerb::kDeactivate}) {
    out.emplace_back(Manual{verb, {}, kPeer, kDeadline});
  }
  out.insert(out.end(),
             {AssistBegin{},
              AssistBegin{kPeer},
              AssistBegin{{ReplicaId{0}, kLife}},
              AssistEnd{},
              BeginDrain{kDeadline},
              CancelDrain{},
              Unload{},
              WorkAvailable{},
              HandoverBegan{},
              HandoverAborted{},
              PeerLost{kPeer},
              PeerLost{},
              Tick{},
              LeaseExpired{}});
  for (const std::uint64_t load : {0U, 1U, 2U}) {
    for (std::uint32_t n = 0; n <= kConfig.layers + 1; ++n) out.emplace_back(LayersReady{load, n});
    out.emplace_back(LoadFailed{load});
    out.emplace_back(SourceChosen{load, {SourceTier::kDisk, {}}});
  }
  for (const std::uint32_t n : {0U, 1U, 2U, 3U, ~0U}) {
    out.emplace_back(RelayGiven{n, 0});
    for (const std::uint32_t pages : {0U, 1U, 5U, ~0U}) {
      out.emplace_back(WorkTaken{n, pages});
      out.emplace_back(WorkTaken{n, pages, true});
      out.emplace_back(SequencesEnded{n, pages});
      out.emplace_back(PrefillEnded{n, 1, pages});
      out.emplace_back(PrefillEnded{1, n, pages});
    }
  }
  for (const std::uint32_t pages : {0U, 1U, 2U, 5U, ~0U}) {
    out.insert(out.end(),
               {HandoverEnded{pages},
                IngressAsked{kPeer, pages},
                IngressEnded{false, pages},
                IngressEnded{true, pages},
                ClientGone{WorkPlace::kPrefilling, pages},
                ClientGone{WorkPlace::kParked, pages},
                ClientGone{WorkPlace::kRunning, pages},
                RelayGiven{1, pages}});
    for (const bool flag : {false, true}) {
      out.emplace_back(RelayAnswered{flag, false, pages});
      out.emplace_back(RelayAnswered{flag, true, pages});
    }
  }
  out.insert(out.end(), {IngressHeld{false}, IngressHeld{true}, RelayAsked{kPeer}});
  return out;
}

// Calls `visit` with every combination of regions and small counts that check() allows.
template <class Visit>
void for_each_work(ReplicaState state, const Visit& visit) {
  for (std::uint32_t bits = 0; bits < 96; ++bits) {
    state.work = {.prefilling = bits % 3,
                  .parked = bits / 3 % 2,
                  .outbound = bits / 6 % 2,
                  .running = bits / 12 % 2};
    state.ingress.inbound = bits / 24 % 2;
    state.pages = bits / 48 % 2 * 3;
    if (check(state, kConfig).ok()) visit(state);
  }
}

template <class Visit>
void for_each_state(const Visit& visit) {
  for (std::uint32_t bits = 0; bits < 4 * 3 * 4 * 3 * 4 * 3 * 2 * 2 * 2; ++bits) {
    std::uint32_t rest = bits;
    const auto digit = [&rest](std::uint32_t base) {
      return std::exchange(rest, rest / base) % base;
    };
    ReplicaState state{.life = {ReplicaId{0}, kLife}};
    state.role = static_cast<Role>(digit(4));
    state.params = {
        .residency = static_cast<Residency>(digit(3)), .layers_ready = digit(4), .load = 1};
    if (state.params.residency == Residency::kLoading)
      state.params.source = {SourceTier::kPeer, kPeer};
    state.admission = static_cast<Admission>(digit(3));
    state.assist = static_cast<Assist>(digit(4));
    if (state.assist == Assist::kDonor) state.assisted = kPeer;
    state.drain.phase = static_cast<DrainPhase>(digit(3));
    if (state.drain.phase != DrainPhase::kNo) state.drain.deadline = kDeadline;
    state.ingress.open = digit(2) == 1;
    state.ingress.held = digit(2) == 1;
    state.lost = digit(2) == 1;
    for_each_work(state, visit);
  }
}

std::int64_t requests_of(const Work& work, std::uint32_t inbound) {
  return std::int64_t{work.prefilling} + work.parked + work.outbound + work.running + inbound;
}
std::int64_t requests_of(const ReplicaState& state) {
  return requests_of(state.work, state.ingress.inbound);
}

// How many requests an event that was applied brings; negative: takes away.
struct Brought {
  std::int64_t operator()(const WorkTaken& e) const { return e.n; }
  std::int64_t operator()(const PrefillEnded& e) const { return -std::int64_t{e.n_ended}; }
  std::int64_t operator()(const HandoverEnded&) const { return -1; }
  std::int64_t operator()(const IngressAsked&) const { return 1; }
  std::int64_t operator()(const IngressEnded& e) const { return e.committed ? 0 : -1; }
  std::int64_t operator()(const SequencesEnded& e) const { return -std::int64_t{e.n}; }
  std::int64_t operator()(const ClientGone&) const { return -1; }
  std::int64_t operator()(const RelayGiven& e) const { return e.n_layers > 0 ? 0 : -1; }
  std::int64_t operator()(const RelayAnswered& e) const { return e.has_task ? 1 : 0; }
  template <class Other>
  std::int64_t operator()(const Other&) const {
    return 0;
  }
};

std::int64_t returned_by(const std::vector<Action>& actions) {
  std::int64_t out = 0;
  for (const Action& action : actions) {
    if (const auto* back = std::get_if<ReturnWork>(&action))
      out += requests_of(back->work, back->inbound);
  }
  return out;
}

ReplicaState without_counts(ReplicaState state) {
  state.counts = {};
  return state;
}

// One pair of state and message: the promises that hold for all of them.
void expect_sound(const ReplicaState& state, const Message& message, TimePoint now) {
  const Transition out = step(state, message, now, kConfig);
  ASSERT_EQ(check(out.state, kConfig), Status());
  const Transition again = step(state, message, now, kConfig);
  ASSERT_EQ(again.state, out.state);
  ASSERT_EQ(again.actions.size(), out.actions.size());
  ASSERT_EQ(out.verdict == Verdict::kRefused, !out.reason.empty());
  if (out.verdict != Verdict::kDone) {
    ASSERT_EQ(without_counts(out.state), without_counts(state));
    const auto sum = [](const StepCounts& c) { return c.stale + c.ignored + c.refused; };
    ASSERT_EQ(sum(out.state.counts), sum(state.counts) + 1);
    // A request that is not taken goes back.
    const auto* taken = std::get_if<WorkTaken>(&message.event);
    if (taken != nullptr && out.verdict == Verdict::kRefused) {
      ASSERT_EQ(returned_by(out.actions), taken->n);
    }
    return;
  }
  // No request is lost: what was here and what came is here, has ended, or goes back to the queue.
  ASSERT_EQ(requests_of(out.state),
            requests_of(state) + std::visit(Brought{}, message.event) - returned_by(out.actions));
}

TEST(ReplicaStep, EveryStateHasAnAnswerToEveryEvent) {
  const std::vector<Event> events = all_events();
  std::size_t n_states = 0;
  std::set<std::size_t> kinds;
  for (const Event& event : events) kinds.insert(event.index());
  ASSERT_EQ(kinds.size(), std::variant_size_v<Event>);
  for_each_state([&](const ReplicaState& state) {
    ++n_states;
    for (const Event& event : events) {
      const bool joins = std::holds_alternative<Joined>(event);
      for (const TimePoint now : {kEarly, kLate}) {
        ASSERT_NO_FATAL_FAILURE(expect_sound(state, {joins ? kLife + 1 : kLife, event}, now))
            << name_of(blitz_name(state)) << ", event " << event.index();
      }
    }
  });
  RecordProperty("states", static_cast<int>(n_states));
  EXPECT_GT(n_states, 500U);
}

TEST(ReplicaStep, WhatAnotherLifeSaysIsStale) {
  const std::vector<Event> events = all_events();
  for_each_state([&](const ReplicaState& state) {
    for (const Event& event : events) {
      for (const std::uint64_t life : {kLife - 1, kLife, kLife + 1}) {
        const bool joins = std::holds_alternative<Joined>(event);
        if (joins ? life > kLife : life == kLife) continue;
        const Transition out = step(state, {life, event}, kLate, kConfig);
        ASSERT_EQ(out.verdict, Verdict::kStale);
        ASSERT_EQ(out.state.counts.stale, state.counts.stale + 1);
        ASSERT_TRUE(out.actions.empty());
      }
    }
  });
}

TEST(ReplicaStep, ADrainEndsAtItsSecondDeadlineWhateverItHolds) {
  std::size_t n = 0;
  for_each_state([&](const ReplicaState& state) {
    if (state.drain.phase == DrainPhase::kNo) return;
    ++n;
    const ReplicaState migrating = step(state, {kLife, Tick{}}, kDeadline, kConfig).state;
    const ReplicaState out =
        step(migrating, {kLife, Tick{}}, kDeadline + kConfig.migrate_grace, kConfig).state;
    EXPECT_EQ(blitz_name(out), BlitzName::kShuttingNull);
  });
  EXPECT_GT(n, 50U);
}

// Where events lead, early and late. The counts are cut where they leave the small model.
std::vector<ReplicaState> successors(const ReplicaState& state, std::span<const Event> events) {
  std::vector<ReplicaState> out;
  for (const Event& event : events) {
    const std::uint64_t joins = std::holds_alternative<Joined>(event) ? 1 : 0;
    for (const TimePoint now : {kEarly, kLate}) {
      Transition next = step(state, {state.life.incarnation + joins, event}, now, kConfig);
      next.state.counts = {};
      EXPECT_EQ(check(next.state, kConfig), Status());
      const bool small = next.state.life.incarnation <= 1 && next.state.params.load <= 1 &&
                         requests_of(next.state) <= 2;
      if (next.verdict == Verdict::kDone && small) out.push_back(next.state);
    }
  }
  return out;
}

// Breadth first from a place without a process.
TEST(ReplicaStep, ReachesEveryNameFromAnEmptyPlace) {
  const std::vector<Event> events = all_events();
  const auto key = [](const ReplicaState& s) {
    return std::array<std::uint64_t, 17>{static_cast<std::uint64_t>(s.role),
                                         static_cast<std::uint64_t>(s.params.residency),
                                         s.params.layers_ready,
                                         s.params.load,
                                         static_cast<std::uint64_t>(s.admission),
                                         static_cast<std::uint64_t>(s.assist),
                                         static_cast<std::uint64_t>(s.drain.phase),
                                         s.ingress.open ? 1U : 0U,
                                         s.ingress.held ? 1U : 0U,
                                         s.ingress.inbound,
                                         s.work.prefilling,
                                         s.work.parked,
                                         s.work.outbound,
                                         s.work.running,
                                         s.pages,
                                         s.lost ? 1U : 0U,
                                         s.life.incarnation};
  };
  std::set<BlitzName> names;
  std::vector<ReplicaState> open{ReplicaState{.life = {ReplicaId{0}, 0}}};
  std::set<std::array<std::uint64_t, 17>> seen{key(open[0])};
  while (!open.empty()) {
    const ReplicaState state = open.back();
    open.pop_back();
    names.insert(blitz_name(state));
    for (const ReplicaState& next : successors(state, events)) {
      if (seen.insert(key(next)).second) open.push_back(next);
    }
  }
  EXPECT_EQ(names.size(), 15U);
  RecordProperty("states", static_cast<int>(seen.size()));
}

struct Scenario {
  ReplicaState state{.life = {ReplicaId{0}, kLife}};
  TimePoint now = kEarly;
  std::vector<Action> actions = {};

  Verdict send(const Event& event) {
    const bool joins = std::holds_alternative<Joined>(event);
    Transition out = step(
        state, {joins ? state.life.incarnation + 1 : state.life.incarnation, event}, now, kConfig);
    state = out.state;
    actions = out.actions;
    return out.verdict;
  }
  template <class Wanted>
  const Wanted* wants() const {
    for (const Action& action : actions) {
      if (const auto* found = std::get_if<Wanted>(&action)) return found;
    }
    return nullptr;
  }
  std::string_view name() const { return name_of(blitz_name(state)); }
};

Scenario joined(Role role) {
  Scenario out;
  EXPECT_EQ(out.send(Joined{role, role != Role::kNone}), Verdict::kDone);
  return out;
}

TEST(ReplicaStep, LoadsLayerByLayerThenServes) {
  Scenario r = joined(Role::kNone);
  EXPECT_EQ(r.name(), "Inactive");
  EXPECT_EQ(r.send(Load{Role::kDecode, {}, true}), Verdict::kRefused);
  EXPECT_EQ(r.send(Load{Role::kDecode, {}, false}), Verdict::kDone);
  EXPECT_EQ(r.name(), "LoadingDecode");
  ASSERT_NE(r.wants<StartLoad>(), nullptr);
  EXPECT_EQ(r.send(LayersReady{1, 2}), Verdict::kDone);
  EXPECT_EQ(r.send(LayersReady{1, 1}), Verdict::kIgnored);  // reordered
  EXPECT_EQ(r.send(IngressAsked{kPeer, 1}), Verdict::kRefused);
  EXPECT_EQ(r.send(LayersReady{1, 3}), Verdict::kDone);
  EXPECT_EQ(r.name(), "Decode");
  EXPECT_EQ(r.send(IngressAsked{kPeer, 1}), Verdict::kDone);
  EXPECT_NE(r.wants<GrantIngress>(), nullptr);
}

TEST(ReplicaStep, ALiveTargetServesRelaysAndReleasesItsDonor) {
  Scenario r = joined(Role::kNone);
  EXPECT_EQ(r.send(Manual{.verb = ManualVerb::kTransToNewPrefill}), Verdict::kDone);
  EXPECT_EQ(r.name(), "NewPrefill");
  EXPECT_EQ(r.send(WorkTaken{3, 2}), Verdict::kDone);  // a target may hold more than its slots
  EXPECT_EQ(r.send(LayersReady{1, 1}), Verdict::kDone);
  EXPECT_EQ(r.wants<RunLayers>()->n_layers, 1U);
  EXPECT_EQ(r.send(RelayAsked{kPeer}), Verdict::kDone);
  EXPECT_TRUE(r.wants<AnswerRelay>()->has_task);
  EXPECT_EQ(r.send(RelayGiven{1, 0}), Verdict::kDone);
  EXPECT_EQ(r.state.work, (Work{.prefilling = 2, .outbound = 1}));
  EXPECT_EQ(r.send(LayersReady{1, 3}), Verdict::kDone);
  EXPECT_EQ(r.name(), "RefractoryPrefill");
  EXPECT_EQ(r.send(WorkAvailable{}), Verdict::kIgnored);
  EXPECT_EQ(r.send(PrefillEnded{1, 0, 0}), Verdict::kDone);
  EXPECT_EQ(r.send(RelayAsked{kPeer}), Verdict::kDone);
  EXPECT_FALSE(r.wants<AnswerRelay>()->has_task);  // the last one is the target's own
  EXPECT_NE(r.wants<ReleaseDonors>(), nullptr);
  EXPECT_EQ(r.name(), "Prefill");
}

TEST(ReplicaStep, ADonorTakesRelaysOnlyAndIsReleased) {
  Scenario r = joined(Role::kPrefill);
  EXPECT_EQ(r.send(Manual{.verb = ManualVerb::kTransToOldPrefill, .target = kPeer}),
            Verdict::kDone);
  EXPECT_EQ(r.name(), "OldPrefill");
  EXPECT_EQ(r.wants<AskRelay>()->target, kPeer);
  EXPECT_EQ(r.send(WorkTaken{1, 1}), Verdict::kRefused);
  EXPECT_EQ(returned_by(r.actions), 1);
  EXPECT_EQ(r.send(RelayAnswered{.has_task = true, .pages = 1}), Verdict::kDone);
  EXPECT_EQ(r.send(PrefillEnded{1, 0, 0}), Verdict::kDone);
  EXPECT_NE(r.wants<AskRelay>(), nullptr);
  EXPECT_NE(r.wants<OfferHandovers>(), nullptr);
  EXPECT_EQ(r.send(RelayAnswered{.released = true}), Verdict::kDone);
  EXPECT_EQ(r.name(), "Prefill");
}

TEST(ReplicaStep, ADonorOfALostTargetServesAgain) {
  Scenario r = joined(Role::kPrefill);
  EXPECT_EQ(r.send(AssistBegin{kPeer}), Verdict::kDone);
  EXPECT_EQ(r.send(PeerLost{kPeer}), Verdict::kDone);
  EXPECT_EQ(r.name(), "Prefill");
  EXPECT_NE(r.wants<PullWork>(), nullptr);
}

TEST(ReplicaStep, PrefillBecomesDecodeAndAdoptsWhatWaits) {
  Scenario r = joined(Role::kPrefill);
  EXPECT_EQ(r.send(WorkTaken{2, 3}), Verdict::kDone);
  EXPECT_EQ(r.send(PrefillEnded{1, 0, 0}), Verdict::kDone);
  EXPECT_EQ(r.send(Manual{.verb = ManualVerb::kTransToDecode}), Verdict::kDone);
  EXPECT_EQ(r.wants<AdoptHandovers>()->n, 1U);
  EXPECT_EQ(r.name(), "MutatingToDecode");
  EXPECT_EQ(r.send(PrefillEnded{1, 0, 0}), Verdict::kDone);
  EXPECT_EQ(r.name(), "Decode");
  EXPECT_EQ(r.state.work.running, 2U);
  EXPECT_EQ(r.send(SetRole{Role::kPrefill}), Verdict::kDone);
  EXPECT_EQ(r.name(), "AusPrefill");
  EXPECT_EQ(r.wants<MigrateOut>()->n, 2U);
  EXPECT_EQ(r.send(SequencesEnded{2, 3}), Verdict::kDone);
  EXPECT_EQ(r.name(), "Prefill");
}

TEST(ReplicaStep, DrainsMigratesAndStaysWarmForItsTime) {
  Scenario r = joined(Role::kDecode);
  EXPECT_EQ(r.send(IngressAsked{kPeer, 2}), Verdict::kDone);
  EXPECT_EQ(r.send(BeginDrain{kDeadline}), Verdict::kDone);
  EXPECT_EQ(r.name(), "ShuttingDecode");
  EXPECT_EQ(r.send(IngressEnded{true, 0}), Verdict::kDone);  // was on its way
  EXPECT_EQ(r.send(Tick{}), Verdict::kIgnored);
  r.now = kDeadline;
  EXPECT_EQ(r.send(Tick{}), Verdict::kDone);
  EXPECT_EQ(r.wants<MigrateOut>()->n, 1U);
  EXPECT_EQ(r.send(SequencesEnded{1, 2}), Verdict::kDone);
  EXPECT_EQ(r.name(), "ShuttingNull");
  const Scenario warm = r;
  EXPECT_EQ(r.send(SetRole{Role::kPrefill}), Verdict::kDone);
  EXPECT_EQ(r.name(), "Prefill");
  r = warm;
  r.now = kDeadline + kConfig.warm_ttl;
  EXPECT_EQ(r.send(Tick{}), Verdict::kDone);
  EXPECT_NE(r.wants<DropParams>(), nullptr);
  EXPECT_EQ(r.name(), "Inactive");
}

TEST(ReplicaStep, ADrainIsCalledOff) {
  Scenario r = joined(Role::kDecode);
  EXPECT_EQ(r.send(IngressAsked{kPeer, 2}), Verdict::kDone);
  EXPECT_EQ(r.send(BeginDrain{kDeadline}), Verdict::kDone);
  EXPECT_EQ(r.send(SetRole{Role::kPrefill}), Verdict::kRefused);
  EXPECT_EQ(r.send(CancelDrain{}), Verdict::kDone);
  EXPECT_EQ(r.name(), "Decode");
}

TEST(ReplicaStep, WhatGeneratesTakesWholeRequests) {
  Scenario decode = joined(Role::kDecode);
  EXPECT_EQ(decode.send(WorkTaken{1, 1}), Verdict::kRefused) << "nobody hands it over";
  EXPECT_EQ(decode.send(WorkTaken{1, 1, true}), Verdict::kDone);
  EXPECT_EQ(decode.send(PrefillEnded{1, 0, 0}), Verdict::kDone);
  EXPECT_EQ(decode.state.work, (Work{.running = 1}));
  EXPECT_EQ(decode.send(BeginDrain{kDeadline}), Verdict::kDone);
  EXPECT_EQ(decode.send(WorkTaken{1, 1, true}), Verdict::kRefused);
  EXPECT_EQ(joined(Role::kPrefill).send(WorkTaken{1, 1, true}), Verdict::kRefused);
}

TEST(ReplicaStep, ALostReplicaLosesWhatItHadAndTheNextLifeIsCold) {
  Scenario r = joined(Role::kMixed);
  EXPECT_EQ(r.name(), "Normal");
  EXPECT_EQ(r.send(WorkTaken{1, 1}), Verdict::kDone);
  const ReplicaLife first = r.state.life;
  EXPECT_EQ(r.send(LeaseExpired{}), Verdict::kDone);
  EXPECT_EQ(r.wants<EndLife>()->life, first);
  EXPECT_EQ(returned_by(r.actions), 1);
  EXPECT_EQ(r.send(Load{Role::kPrefill, {}, false}), Verdict::kRefused);
  EXPECT_EQ(r.send(Joined{}), Verdict::kDone);
  EXPECT_EQ(r.state.life.incarnation, first.incarnation + 1);
  EXPECT_EQ(step(r.state, {first.incarnation, PrefillEnded{1, 0, 0}}, r.now, kConfig).verdict,
            Verdict::kStale);
}

TEST(ReplicaStep, ALostSourceIsReplacedAndTheLayersStay) {
  Scenario r = joined(Role::kNone);
  EXPECT_EQ(r.send(Load{Role::kPrefill, {SourceTier::kPeer, kPeer}, false}), Verdict::kDone);
  EXPECT_EQ(r.send(LayersReady{1, 2}), Verdict::kDone);
  EXPECT_EQ(r.send(PeerLost{kPeer}), Verdict::kDone);
  EXPECT_EQ(r.wants<ResumeLoad>()->layers_ready, 2U);
  EXPECT_EQ(r.send(SourceChosen{1, {SourceTier::kHostMemory, {}}}), Verdict::kDone);
  EXPECT_EQ(r.send(LayersReady{1, 3}), Verdict::kDone);
  EXPECT_EQ(r.name(), "Prefill");
}

TEST(ReplicaStep, KvPressureHoldsTheIngress) {
  Scenario r = joined(Role::kDecode);
  EXPECT_EQ(r.send(IngressHeld{true}), Verdict::kDone);
  EXPECT_EQ(r.name(), "AusDecode");
  EXPECT_EQ(r.send(IngressAsked{kPeer, 1}), Verdict::kRefused);
  EXPECT_EQ(r.send(IngressHeld{false}), Verdict::kDone);
  EXPECT_EQ(r.send(IngressAsked{kPeer, 5}), Verdict::kRefused);  // pages
  EXPECT_EQ(r.send(IngressAsked{kPeer, 2}), Verdict::kDone);
  EXPECT_EQ(r.send(IngressAsked{kPeer, 2}), Verdict::kRefused);  // slots
}

// BlitzScale's table of manual commands, from every name.
TEST(ReplicaStep, ManualCommandsAreLegalFromTheStatesOfTheirTable) {
  const std::map<ManualVerb, std::set<BlitzName>> legal{
      {ManualVerb::kTransToNewPrefill, {BlitzName::kInactive}},
      {ManualVerb::kTransToOldPrefill, {BlitzName::kPrefill}},
      {ManualVerb::kTransToPrefill, {BlitzName::kInactive}},
      {ManualVerb::kTransToDecode, {BlitzName::kInactive, BlitzName::kPrefill}},
      {ManualVerb::kDeactivate, {BlitzName::kPrefill, BlitzName::kDecode}}};
  for_each_state([&](const ReplicaState& state) {
    for (const auto& [verb, from] : legal) {
      const Transition out =
          step(state, {kLife, Manual{verb, {}, kPeer, kDeadline}}, kEarly, kConfig);
      const bool is_legal = !state.lost && from.contains(blitz_name(state));
      ASSERT_EQ(out.verdict, is_legal ? Verdict::kDone : Verdict::kRefused)
          << name_of(verb) << " from " << name_of(blitz_name(state)) << ": " << out.reason;
    }
  });
}

TEST(ReplicaStep, TheBacklogOfATargetShrinks) {
  EXPECT_EQ(live_backlog_max(milliseconds(0)), 4U);
  EXPECT_EQ(live_backlog_max(milliseconds(200)), 3U);
  EXPECT_EQ(live_backlog_max(milliseconds(400)), 2U);
  EXPECT_EQ(live_backlog_max(milliseconds(5000)), 2U);
}

}  // namespace
}  // namespace coxswain::fleet
