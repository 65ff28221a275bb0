#include "fleet/snapshot.h"

#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

using namespace std::chrono_literals;

constexpr TimePoint kNow{1h};

ReplicaStatus busy() {
  ReplicaStatus out{.role = Role::kDecode, .incarnation = 3, .n_stays = 2};
  out.stats.blocks_leased = 17;
  return out;
}

TEST(Snapshot, AReplicaThatServes) {
  const ReplicaView view = view_of(4, busy(), {}, kNow);
  EXPECT_EQ(view.life, (ReplicaLife{.replica = ReplicaId{4}, .incarnation = 3}));
  EXPECT_EQ(view.role, Role::kDecode);
  EXPECT_EQ(view.residency, Residency::kResident);
  EXPECT_EQ(view.used_blocks, 17U);
  EXPECT_FALSE(view.lost || view.draining);
  EXPECT_TRUE(view_of(4, busy(), {.up = false}, kNow).lost);
}

TEST(Snapshot, ADrainedReplicaIsWarmWhenItIsEmpty) {
  ReplicaStatus replica = busy();
  replica.drain.phase = DrainPhase::kWaiting;
  EXPECT_TRUE(view_of(0, replica, {}, kNow).draining);
  EXPECT_FALSE(view_of(0, replica, {}, kNow).is_warm());
  for (std::size_t* left : {&replica.n_stays, &replica.n_arriving, &replica.n_leaving}) {
    replica.n_stays = replica.n_arriving = replica.n_leaving = 0;
    *left = 1;
    EXPECT_FALSE(is_warm(replica));
  }
  replica.n_leaving = 0;
  const ReplicaView view = view_of(0, replica, {}, kNow);
  EXPECT_TRUE(view.is_warm());
  EXPECT_EQ(view.former_role, Role::kDecode);
}

TEST(Snapshot, AHealthProbeUsesNoBlocks) {
  FleetStatus status;
  status.replicas = {busy(), busy()};
  status.replicas[1].n_stays = 0;
  EXPECT_EQ(used_blocks(status), 17U);
  EXPECT_EQ(view_of(1, status.replicas[1], {}, kNow).used_blocks, 0U);
}

TEST(Snapshot, AReplicaWithoutAProcessIsColdAndOneThatEndsIsLost) {
  const ReplicaPlace absent{.presence = Presence::kAbsent, .up = false};
  EXPECT_TRUE(view_of(0, busy(), absent, kNow).is_cold());
  ReplicaPlace blocked = absent;
  blocked.blocked_until = kNow + 1s;
  EXPECT_FALSE(view_of(0, busy(), blocked, kNow).is_cold());
  EXPECT_TRUE(view_of(0, busy(), blocked, kNow + 1s).is_cold());
  EXPECT_TRUE(view_of(0, busy(), {.presence = Presence::kEnding}, kNow).lost);
  const ReplicaView loads =
      view_of(0,
              busy(),
              {.presence = Presence::kStarting, .role = Role::kPrefill, .start_ends = kNow + 2s},
              kNow);
  EXPECT_EQ(loads.residency, Residency::kLoading);
  EXPECT_EQ(loads.role, Role::kPrefill);
  EXPECT_EQ(loads.load_ends, kNow + 2s);
  EXPECT_EQ(loads.used_blocks, 0U);
}

TEST(Snapshot, WhatIsMeasuredTakesThePlaceOfDefaults) {
  FleetStatus status;
  status.replicas = {busy(), busy()};
  status.replicas[1].stats.blocks_total = 90;
  const FleetLoad load{.prompt_token_s = 0.5, .transfer_token_s = 0.25};
  const PlannerConfig given;
  const PlannerConfig all = measured(given, {.start_s = 3}, status, load);
  EXPECT_EQ(all.tokens_prefilled_per_s, 2.0);
  EXPECT_EQ(all.tokens_transferred_per_s, 4.0);
  EXPECT_EQ(all.blocks_per_replica, 90U);
  EXPECT_EQ(all.parameter_bytes / all.host_bytes_per_s, 3.0);
  const PlannerConfig none = measured(given, {.prefill = false, .transfer = false}, status, load);
  EXPECT_EQ(none.tokens_prefilled_per_s, given.tokens_prefilled_per_s);
  EXPECT_EQ(none.tokens_transferred_per_s, given.tokens_transferred_per_s);
  EXPECT_EQ(measured(given, {}, {}, {}).tokens_prefilled_per_s, given.tokens_prefilled_per_s);
}

TEST(Snapshot, TheWhole) {
  FleetStatus status;
  status.replicas = {busy(), busy()};
  status.n_waiting = 4;
  LoadHistory history(10s, 50ms);
  history.add({.at = kNow - 1s});
  history.add({.at = kNow, .arrived_tokens = 50, .used_blocks = used_blocks(status)});
  const std::vector<ReplicaPlace> places(2);
  const Snapshot out = snapshot_of(
      kNow, status, {.waiting_tokens = 9, .latencies = {.ttft = 5ms, .itl = 2ms}}, history, places);
  EXPECT_EQ(out.now, kNow);
  EXPECT_EQ(out.replicas.size(), 2U);
  EXPECT_EQ(out.waiting_tokens, 9U);
  EXPECT_EQ(out.n_waiting, 4U);
  EXPECT_EQ(out.arriving_tokens_per_s, 50.0);
  EXPECT_EQ(out.peak_tokens_per_s, 50.0);
  EXPECT_EQ(out.peak_blocks, 34U);
  EXPECT_EQ(out.ttft, 5ms);
  EXPECT_EQ(out.itl, 2ms);
}

}  // namespace
}  // namespace coxswain::fleet
