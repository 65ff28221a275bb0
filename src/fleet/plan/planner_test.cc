#include "fleet/plan/planner.h"

#include <chrono>
#include <map>
#include <random>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

#include "fleet/state/replica_step.h"

namespace coxswain::fleet {
namespace {

using std::chrono::milliseconds;
using std::chrono::seconds;

const TimePoint kNow = TimePoint{} + std::chrono::hours(1);

ReplicaView replica(std::uint32_t id, Role role, std::uint32_t used = 0) {
  ReplicaView out{.life = {ReplicaId{id}, 1}, .machine = id, .role = role, .used_blocks = used};
  out.residency = Residency::kResident;
  return out;
}
ReplicaView cold(std::uint32_t id) {
  ReplicaView out = replica(id, Role::kNone);
  out.residency = Residency::kAbsent;
  return out;
}

Snapshot snapshot_of(std::vector<ReplicaView> replicas, std::uint64_t waiting = 0) {
  return {.now = kNow, .replicas = std::move(replicas), .waiting_tokens = waiting};
}

PlannerConfig config() {
  PlannerConfig out;
  out.decode_prescale = 0.0;
  return out;
}

std::map<Choice, int> choices(const Plan& made) {
  std::map<Choice, int> out;
  for (const Decision& decision : made.decisions) ++out[decision.choice];
  return out;
}

const Decision* first(const Plan& made, Choice choice) {
  for (const Decision& decision : made.decisions) {
    if (decision.choice == choice) return &decision;
  }
  return nullptr;
}

// BlitzScale's formulas, worked by hand. 13,000 tokens a second, bounds 0.15 and 0.4 s.
TEST(Needs, FollowTheFormulas) {
  Snapshot s = snapshot_of({replica(0, Role::kPrefill), replica(1, Role::kDecode, 4000)}, 20'000);
  PlanInputs in = needs_of(config(), s);
  EXPECT_EQ(in.prefill.min, 4U);   // ceil(20000 / 5200)
  EXPECT_EQ(in.prefill.max, 11U);  // ceil(20000 / 1950)
  EXPECT_EQ(in.prefill.delta, 7);  // the middle, 8, less 1
  EXPECT_EQ(in.decode.min, 1U);    // ceil(4000 / 6400)
  EXPECT_EQ(in.decode.max, 2U);    // ceil(4000 / 3600)
  EXPECT_EQ(in.decode.delta, 0);

  // KV of prompts has to move: 1,000 blocks of 64 tokens at 20,000 tokens a second in 2 s.
  s = snapshot_of({replica(0, Role::kPrefill, 1000), replica(1, Role::kDecode)});
  in = needs_of(config(), s);
  EXPECT_EQ(in.moving_tokens, 64'000.0);
  EXPECT_EQ(in.prefill.min, 2U);
  EXPECT_EQ(in.decode.min, 2U);

  // What a live target holds waits still.
  s.replicas[0].assist = Assist::kRefractory;
  in = needs_of(config(), s);
  EXPECT_EQ(in.waiting_tokens, 64'000.0);
  EXPECT_EQ(in.moving_tokens, 0.0);
  EXPECT_EQ(in.used_blocks, 0.0);
}

TEST(Needs, StayWithinTheBoundsOfTheRole) {
  const PlanInputs in = needs_of(config(), snapshot_of({replica(0, Role::kPrefill)}, 10'000'000));
  EXPECT_EQ(in.prefill.delta, 7);  // prefill_max 8
  EXPECT_EQ(in.decode.delta, 1);   // decode_min 1
}

// A load that would arrive when the queue is empty anyway is of no use.
TEST(Needs, LookAtTheTimeWhenALoadWouldArrive) {
  PlannerConfig c = config();
  Snapshot s = snapshot_of({replica(0, Role::kPrefill), replica(1, Role::kDecode)}, 13'000);
  EXPECT_GT(needs_of(c, s).prefill.delta, 0);
  c.parameter_bytes = 25e9;  // 2 s from a peer
  EXPECT_EQ(needs_of(c, s).tokens_at_arrival, 0.0);
  EXPECT_EQ(needs_of(c, s).prefill.delta, 0);
  s.arriving_tokens_per_s = 20'000;
  EXPECT_EQ(needs_of(c, s).tokens_at_arrival, 13'000.0 + 2 * 20'000 - 2 * 13'000);
  EXPECT_GT(needs_of(c, s).prefill.delta, 0);
  // Another one loads already, and will be there for the second half of that time.
  s.replicas.push_back(replica(2, Role::kPrefill));
  s.replicas[2].residency = Residency::kLoading;
  s.replicas[2].load_ends = kNow + seconds(1);
  EXPECT_EQ(needs_of(c, s).tokens_at_arrival, 13'000.0 + 2 * 20'000 - 3 * 13'000);
}

// The only decode replica sends already and the only prefill replica is a donor: the next load is passed on by the one
// that loads, and is there when that one is, or a transfer later.
TEST(Needs, ALoadComesFromOneThatLoads) {
  PlannerConfig c = config();
  c.parameter_bytes = 25e9;  // 2 s from a peer, 20 s from disk
  Snapshot s = snapshot_of({replica(0, Role::kPrefill), replica(1, Role::kDecode)});
  s.replicas[0].assist = Assist::kDonor;
  s.replicas[1].sends_params = true;
  EXPECT_EQ(needs_of(c, s).load_s, 20.0);
  s.replicas.push_back(replica(2, Role::kPrefill));
  s.replicas[2].residency = Residency::kLoading;
  s.replicas[2].load_ends = kNow + seconds(1);
  EXPECT_EQ(needs_of(c, s).load_s, 2.0);
  s.replicas[2].load_ends = kNow + seconds(7);
  EXPECT_EQ(needs_of(c, s).load_s, 7.0);
}

// Nothing waits, yet the replicas have to do more than 0.6 of what they can.
TEST(Needs, KeepRoomForTheRate) {
  PlannerConfig c = config();
  c.parameter_bytes = 25e9;
  Snapshot s = snapshot_of(
      {replica(0, Role::kPrefill), replica(1, Role::kPrefill), replica(2, Role::kDecode)});
  s.arriving_tokens_per_s = 15'000;
  PlanInputs in = needs_of(c, s);
  EXPECT_EQ(in.tokens_at_arrival, 0.0);
  EXPECT_EQ(in.prefill.min, 2U);  // ceil(15000 / 7800)
  EXPECT_EQ(in.prefill.delta, 0);
  s.arriving_tokens_per_s = 16'000;
  EXPECT_EQ(needs_of(c, s).prefill.delta, 1);
  s.arriving_tokens_per_s = 7'000;
  EXPECT_EQ(needs_of(c, s).prefill.delta, -1);
  s.arriving_tokens_per_s = 16'000;
  c.prefill_use_max = 0.0;
  EXPECT_EQ(needs_of(c, s).prefill.delta, -1);
  c.prefill_use_max = 0.6;
  c.mixed = true;  // what they compute of prompts depends on what they generate
  for (ReplicaView& each : s.replicas) each.role = Role::kMixed;
  EXPECT_EQ(needs_of(c, s).prefill.delta, -1);
}

TEST(Needs, HeedLatenciesAboveTheirTargets) {
  PlannerConfig c = config();
  c.target_ttft = milliseconds(300);
  c.target_itl = milliseconds(50);
  Snapshot s = snapshot_of({replica(0, Role::kPrefill), replica(1, Role::kDecode)});
  s.ttft = milliseconds(301);
  s.itl = milliseconds(20);
  EXPECT_EQ(needs_of(c, s).prefill.delta, 1);
  EXPECT_EQ(needs_of(c, s).decode.delta, 0);
  s.replicas.push_back(cold(2));
  s.replicas[2].role = Role::kPrefill;
  s.replicas[2].residency = Residency::kLoading;
  EXPECT_EQ(needs_of(c, s).prefill.delta, 0);  // it is on its way
}

TEST(Needs, DecodeGrowsWithTheQueueOfPrompts) {
  PlannerConfig c;
  const Snapshot s =
      snapshot_of({replica(0, Role::kPrefill), replica(1, Role::kDecode, 6000)}, 64'000);
  EXPECT_EQ(needs_of(c, s).decode.min, 2U);  // 6,000 blocks and 1,000 to come
  c.decode_prescale = 0.0;
  EXPECT_EQ(needs_of(c, s).decode.min, 1U);
}

TEST(Planner, GrowsByTheCheapestWay) {
  std::vector<ReplicaView> fleet{replica(0, Role::kPrefill),
                                 replica(1, Role::kDecode),
                                 replica(2, Role::kPrefill),
                                 replica(3, Role::kNone),
                                 cold(4),
                                 cold(5)};
  fleet[2].draining = true;
  PlannerConfig c = config();
  c.prefill_max = 4;
  const Plan made = plan(c, {}, snapshot_of(fleet, 100'000));
  EXPECT_EQ(choices(made)[Choice::kCancelDrain], 1);
  EXPECT_EQ(choices(made)[Choice::kReuseWarm], 1);
  EXPECT_EQ(choices(made)[Choice::kLoad], 1);
  EXPECT_EQ(choices(made)[Choice::kAssist], 1);
  const auto& load = std::get<Load>(first(made, Choice::kLoad)->command);
  EXPECT_TRUE(load.live);
  EXPECT_EQ(load.source.peer.replica, ReplicaId{1});  // the decode replica: no KV leaves it
}

TEST(Planner, LoadsInAChainWhoseTailIsLive) {
  PlannerConfig c = config();
  c.prefill_max = 4;
  c.chains_max = 1;
  const Plan made =
      plan(c,
           {},
           snapshot_of(
               {replica(0, Role::kPrefill), replica(1, Role::kDecode), cold(2), cold(3), cold(4)},
               100'000));
  int n_live = 0;
  std::set<ReplicaId> from;
  for (const Decision& decision : made.decisions) {
    const auto* load = std::get_if<Load>(&decision.command);
    if (load == nullptr) continue;
    n_live += load->live ? 1 : 0;
    EXPECT_EQ(load->role, Role::kPrefill);
    from.insert(load->source.peer.replica);
  }
  EXPECT_EQ(n_live, 1);
  EXPECT_EQ(from, (std::set{ReplicaId{1}, ReplicaId{2}, ReplicaId{3}}));
}

TEST(Planner, AChainGoesOnBehindOneThatLoads) {
  std::vector<ReplicaView> fleet{
      replica(0, Role::kPrefill), replica(1, Role::kDecode), replica(2, Role::kPrefill), cold(3)};
  fleet[0].assist = Assist::kDonor;
  fleet[1].sends_params = true;
  fleet[2].residency = Residency::kLoading;
  fleet[2].assist = Assist::kTarget;
  fleet[2].load_ends = kNow + seconds(1);
  const Plan made = plan(config(), {}, snapshot_of(fleet, 100'000));
  ASSERT_NE(first(made, Choice::kLoad), nullptr);
  const auto& load = std::get<Load>(first(made, Choice::kLoad)->command);
  EXPECT_EQ(load.source.tier, SourceTier::kPeer);
  EXPECT_EQ(load.source.peer.replica, ReplicaId{2});
}

TEST(Planner, ScalesFromZeroOverHostMemoryOrDisk) {
  PlannerConfig c = config();
  c.prefill_min = c.decode_min = 0;
  EXPECT_TRUE(plan(c, {}, snapshot_of({cold(0), cold(1)})).decisions.empty());
  Snapshot s = snapshot_of({cold(0), cold(1)}, 10);
  const Plan disk = plan(c, {}, s);
  EXPECT_EQ(choices(disk)[Choice::kLoad], 2);  // one of each role
  EXPECT_EQ(std::get<Load>(first(disk, Choice::kLoad)->command).source.tier, SourceTier::kPeer);
  std::set<SourceTier> tiers;
  for (const Decision& d : disk.decisions) tiers.insert(std::get<Load>(d.command).source.tier);
  EXPECT_TRUE(tiers.contains(SourceTier::kDisk));
  s.host_copies = {5};
  tiers.clear();
  for (const Decision& d : plan(c, {}, s).decisions)
    tiers.insert(std::get<Load>(d.command).source.tier);
  EXPECT_TRUE(tiers.contains(SourceTier::kHostMemory));
}

PlannerConfig mixed_from_zero() {
  PlannerConfig out = config();
  out.mixed = true;
  out.executor = Executor::kAllCache;
  out.prefill_min = out.decode_min = 0;
  return out;
}

TEST(Planner, GivesTheLastReplicaUpWhenNothingIsAskedFor) {
  PlannerConfig c = mixed_from_zero();
  Snapshot s = snapshot_of({replica(0, Role::kMixed), cold(1)});
  const Plan made = plan(c, {}, s);
  EXPECT_EQ(choices(made), (std::map<Choice, int>{{Choice::kDrain, 1}}));
  PlannerMemory memory;
  memory.prefill_up = kNow - c.down_cooldown + milliseconds(1);
  EXPECT_TRUE(plan(c, memory, s).decisions.empty()) << "it has just come";
  const auto stays = [&](const Snapshot& busy) { return plan(c, {}, busy).decisions.empty(); };
  Snapshot busy = s;
  busy.peak_blocks = 1;
  EXPECT_TRUE(stays(busy)) << "it had blocks within the window";
  busy = s;
  busy.peak_tokens_per_s = 1;
  EXPECT_TRUE(stays(busy)) << "a prompt came within the window";
  busy = s;
  busy.n_waiting = 1;
  EXPECT_TRUE(stays(busy));
  busy = s;
  busy.replicas[0].used_blocks = 1;
  EXPECT_TRUE(stays(busy));
  c.prefill_min = 1;
  EXPECT_TRUE(stays(s)) << "one stays";
}

TEST(Planner, GivesBothRolesUp) {
  PlannerConfig c = config();
  c.prefill_min = c.decode_min = 0;
  const auto all = snapshot_of({replica(0, Role::kPrefill), replica(1, Role::kDecode)});
  EXPECT_EQ(choices(plan(c, {}, all)), (std::map<Choice, int>{{Choice::kDrain, 2}}));
  c.decode_min = 1;
  const Plan made = plan(c, {}, all);
  ASSERT_EQ(made.decisions.size(), 1U);
  EXPECT_EQ(made.decisions[0].replica.replica, ReplicaId{0}) << "the other role's least is 1";
}

TEST(Planner, WhoeverWaitsAtZeroIsNotHeldUpByDamping) {
  PlannerConfig c = mixed_from_zero();
  c.up_cooldown = seconds(60);
  c.changes_max = 2;
  PlannerMemory memory;
  memory.prefill_up = memory.decode_up = kNow - seconds(1);
  memory.changes = {kNow - seconds(1), kNow - seconds(1)};
  Snapshot s = snapshot_of({cold(0), cold(1)});
  EXPECT_TRUE(plan(c, memory, s).decisions.empty()) << "nobody waits";
  s.n_waiting = 1;  // no prompt: its tokens are not counted
  const Plan one = plan(c, memory, s);
  EXPECT_EQ(choices(one), (std::map<Choice, int>{{Choice::kLoad, 1}}));
  EXPECT_EQ(one.inputs.n_waiting, 1U);
  s.waiting_tokens = 1'000'000;
  EXPECT_EQ(choices(plan(c, memory, s)), (std::map<Choice, int>{{Choice::kLoad, 1}}))
      << "the others are";
  s.replicas[0] = replica(0, Role::kMixed);
  EXPECT_TRUE(plan(c, memory, s).decisions.empty()) << "one serves";
  s.replicas[0].residency = Residency::kLoading;
  EXPECT_TRUE(plan(c, memory, s).decisions.empty()) << "one is on its way";
  s.replicas[0].residency = Residency::kResident;
  s.replicas[0].draining = true;
  EXPECT_EQ(choices(plan(c, memory, s)), (std::map<Choice, int>{{Choice::kCancelDrain, 1}}));
  s.replicas[0] = replica(0, Role::kNone);
  EXPECT_EQ(choices(plan(c, memory, s)), (std::map<Choice, int>{{Choice::kReuseWarm, 1}}));
  s.replicas[0].lost = true;
  EXPECT_EQ(choices(plan(c, memory, s)), (std::map<Choice, int>{{Choice::kLoad, 1}}));

  c.mixed = false;
  c.changes_max = 32;
  s.replicas = {cold(0), cold(1), cold(2)};
  std::set<Role> roles;
  for (const Decision& decision : plan(c, memory, s).decisions)
    roles.insert(std::get<Load>(decision.command).role);
  EXPECT_EQ(roles, (std::set{Role::kPrefill, Role::kDecode})) << "one of each";
}

TEST(Planner, ChangesRolesWhereOneHasTooManyAndTheOtherTooFew) {
  const Plan made = plan(config(),
                         {},
                         snapshot_of({replica(0, Role::kPrefill),
                                      replica(1, Role::kPrefill),
                                      replica(2, Role::kDecode, 7000)}));
  ASSERT_EQ(made.decisions.size(), 1U);
  EXPECT_EQ(made.decisions[0].choice, Choice::kMutate);
  EXPECT_EQ(std::get<SetRole>(made.decisions[0].command).role, Role::kDecode);

  const Plan back =
      plan(config(),
           {},
           snapshot_of(
               {replica(0, Role::kPrefill), replica(1, Role::kDecode), replica(2, Role::kDecode)},
               7'000));
  ASSERT_FALSE(back.decisions.empty());
  EXPECT_EQ(std::get<SetRole>(back.decisions[0].command).role, Role::kPrefill);
}

TEST(Planner, ADecodeReplicaIsMadeOfAPrefillReplicaThatIsReplacedLive) {
  PlannerConfig c = config();
  const Snapshot s = snapshot_of({replica(0, Role::kPrefill),
                                  replica(1, Role::kPrefill),
                                  replica(2, Role::kDecode, 7000),
                                  cold(3)},
                                 9'000);
  Plan made = plan(c, {}, s);
  EXPECT_EQ(choices(made)[Choice::kMutate], 1);
  const auto& load = std::get<Load>(first(made, Choice::kLoad)->command);
  EXPECT_EQ(load.role, Role::kPrefill);
  EXPECT_TRUE(load.live);
  c.live = false;
  made = plan(c, {}, s);
  EXPECT_EQ(choices(made)[Choice::kMutate], 0);
  EXPECT_EQ(std::get<Load>(first(made, Choice::kLoad)->command).role, Role::kDecode);
}

TEST(Planner, ShrinksOneByOneAfterItsCooldown) {
  const Snapshot s = snapshot_of({replica(0, Role::kPrefill, 5),
                                  replica(1, Role::kPrefill, 3),
                                  replica(2, Role::kPrefill, 9),
                                  replica(3, Role::kDecode)});
  PlannerConfig c = config();
  c.decode_max = 1;
  Plan made = plan(c, {}, s);
  ASSERT_EQ(made.decisions.size(), 1U);
  EXPECT_EQ(made.decisions[0].choice, Choice::kDrain);
  EXPECT_EQ(made.decisions[0].replica.replica, ReplicaId{1});
  EXPECT_EQ(std::get<BeginDrain>(made.decisions[0].command).deadline, kNow + c.drain_deadline);
  Snapshot later = s;
  later.now += milliseconds(1);
  EXPECT_TRUE(plan(c, made.memory, later).decisions.empty());
  later.now += c.down_cooldown;
  EXPECT_EQ(plan(c, made.memory, later).decisions.size(), 1U);
  later.peak_tokens_per_s = 2.5 * c.tokens_prefilled_per_s;  // two could not hold it
  EXPECT_TRUE(plan(c, made.memory, later).decisions.empty());
}

TEST(Planner, KeepsToItsLimits) {
  std::vector<ReplicaView> fleet{replica(0, Role::kPrefill), replica(1, Role::kDecode)};
  for (std::uint32_t i = 2; i < 10; ++i) fleet.push_back(cold(i));
  PlannerConfig c = config();
  c.loads_max = 3;
  EXPECT_EQ(choices(plan(c, {}, snapshot_of(fleet, 1'000'000)))[Choice::kLoad], 3);
  c.loads_max = 8;
  c.changes_max = 2;
  const Plan made = plan(c, {}, snapshot_of(fleet, 1'000'000));
  EXPECT_EQ(choices(made)[Choice::kLoad], 2);
  EXPECT_EQ(choices(plan(c, made.memory, snapshot_of(fleet, 1'000'000)))[Choice::kLoad], 0);
  Snapshot later = snapshot_of(fleet, 1'000'000);
  later.now += c.changes_window;
  EXPECT_EQ(choices(plan(c, made.memory, later))[Choice::kLoad], 2);
  c.up_cooldown = seconds(60);
  EXPECT_EQ(choices(plan(c, made.memory, later))[Choice::kLoad], 0);
}

TEST(Planner, AnOverloadedDecodeReplicaTakesNoMore) {
  std::vector<ReplicaView> fleet{replica(0, Role::kPrefill),
                                 replica(1, Role::kDecode, 6400),
                                 replica(2, Role::kDecode, 100),
                                 replica(3, Role::kDecode, 100)};
  Plan made = plan(config(), {}, snapshot_of(fleet));
  ASSERT_NE(first(made, Choice::kHoldIngress), nullptr);
  EXPECT_EQ(first(made, Choice::kHoldIngress)->replica.replica, ReplicaId{1});
  fleet[1].ingress_held = true;
  EXPECT_EQ(first(plan(config(), {}, snapshot_of(fleet)), Choice::kHoldIngress), nullptr);
  fleet[1].used_blocks = 200;
  EXPECT_NE(first(plan(config(), {}, snapshot_of(fleet)), Choice::kReleaseIngress), nullptr);
}

TEST(Planner, TheOtherExecutorsUseHostMemoryAndDisk) {
  std::vector<ReplicaView> fleet{
      replica(0, Role::kPrefill), replica(1, Role::kDecode), cold(2), cold(3)};
  Snapshot s = snapshot_of(fleet, 100'000);
  s.host_copies = {3};
  PlannerConfig c = config();
  c.prefill_max = 3;
  c.executor = Executor::kServerless;
  Plan made = plan(c, {}, s);
  std::map<ReplicaId, SourceTier> tiers;
  for (const Decision& d : made.decisions) {
    const auto& load = std::get<Load>(d.command);
    EXPECT_FALSE(load.live);
    tiers[d.replica.replica] = load.source.tier;
  }
  EXPECT_EQ(tiers,
            (std::map<ReplicaId, SourceTier>{{ReplicaId{2}, SourceTier::kDisk},
                                             {ReplicaId{3}, SourceTier::kHostMemory}}));
  c.executor = Executor::kAllCache;
  for (const Decision& d : plan(c, {}, snapshot_of(fleet, 100'000)).decisions) {
    EXPECT_EQ(std::get<Load>(d.command).source.tier, SourceTier::kHostMemory);
  }
  c.executor = Executor::kStatic;
  EXPECT_TRUE(plan(c, {}, snapshot_of(fleet, 100'000)).decisions.empty());
}

// A copy where nobody is to be started is of no use: there are no peers that could send it.
TEST(Needs, ALoadOfServerlessTakesWhatTheNextOneWill) {
  PlannerConfig c = config();
  c.executor = Executor::kServerless;
  c.parameter_bytes = 16e9;
  Snapshot s = snapshot_of({replica(0, Role::kPrefill), replica(1, Role::kDecode), cold(2)});
  EXPECT_EQ(needs_of(c, s).load_s, 12.8);
  s.host_copies = {0, 1};
  EXPECT_EQ(needs_of(c, s).load_s, 12.8);
  s.host_copies = {0, 1, 2};
  EXPECT_EQ(needs_of(c, s).load_s, 1.0);
}

TEST(Planner, AMixedFleetHasOneNeed) {
  PlannerConfig c = config();
  c.mixed = true;
  std::vector<ReplicaView> fleet{replica(0, Role::kMixed, 7000), cold(1), cold(2)};
  Plan made = plan(c, {}, snapshot_of(fleet));
  ASSERT_NE(first(made, Choice::kLoad), nullptr);
  EXPECT_EQ(std::get<Load>(first(made, Choice::kLoad)->command).role, Role::kMixed);
  fleet = {replica(0, Role::kMixed), replica(1, Role::kMixed)};
  EXPECT_EQ(choices(plan(c, {}, snapshot_of(fleet)))[Choice::kDrain], 1);
}

TEST(Planner, ADecisionSaysWhy) {
  const Plan made =
      plan(config(),
           {},
           snapshot_of({replica(0, Role::kPrefill), replica(1, Role::kDecode), cold(2)}, 20'000));
  const std::string text = text_of(*first(made, Choice::kLoad));
  EXPECT_EQ(
      text,
      "load replica=2 role=prefill source=peer peer=1 live=true waiting=0 waiting_tokens=20000 "
      "tokens_at_arrival=20000 used_blocks=0 moving_tokens=0 load_s=0 prefill=1/4..11 "
      "decode=1/1..1: "
      "more are needed and it is empty");
}

// Every decision, whatever the fleet looks like, is a command that its replica takes.
TEST(Planner, RandomFleetsTakeTheirCommands) {
  std::mt19937 draw(3);
  const ReplicaConfig of_replica{.layers = 2};
  std::size_t n_decisions = 0;
  for (int round = 0; round < 3'000; ++round) {
    std::vector<ReplicaState> states;
    Snapshot s{.now = kNow, .waiting_tokens = draw() % 60'000};
    for (std::uint32_t i = 0; i < 8; ++i) {
      ReplicaState state{.life = {ReplicaId{i}, 0}};
      const auto tell = [&](const Event& event) {
        const bool joins = std::holds_alternative<Joined>(event);
        state =
            step(state, {state.life.incarnation + (joins ? 1 : 0), event}, kNow, of_replica).state;
      };
      const Role role = static_cast<Role>(draw() % 3);
      tell(Joined{role, role != Role::kNone || draw() % 2 == 0});
      if (draw() % 6 == 0) tell(Load{Role::kPrefill, {}, draw() % 2 == 0});
      if (draw() % 2 == 0) tell(WorkTaken{1, static_cast<std::uint32_t>(1 + draw() % 4000)});
      if (draw() % 2 == 0)
        tell(IngressAsked{{ReplicaId{9}, 1}, static_cast<std::uint32_t>(1 + draw() % 7000)});
      if (draw() % 5 == 0) tell(BeginDrain{kNow + seconds(1)});
      if (draw() % 9 == 0) tell(LeaseExpired{});
      states.push_back(state);
      s.replicas.push_back(view_of(state, i / 2));
    }
    PlannerConfig c = config();
    c.executor = static_cast<Executor>(draw() % 4);
    c.live = draw() % 2 == 0;
    const Plan made = plan(c, {}, s);
    for (const Decision& d : made.decisions) {
      ReplicaState& state = states.at(static_cast<std::size_t>(d.replica.replica));
      const Transition out = step(state, {d.replica.incarnation, d.command}, kNow, of_replica);
      ASSERT_EQ(out.verdict, Verdict::kDone) << text_of(d) << "; " << out.reason;
      state = out.state;
      ++n_decisions;
    }
  }
  EXPECT_GT(n_decisions, 3'000U);
}

}  // namespace
}  // namespace coxswain::fleet
