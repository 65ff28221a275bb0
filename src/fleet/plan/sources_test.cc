#include "fleet/plan/sources.h"

#include <chrono>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

ReplicaView serving(std::uint32_t id, Role role, std::uint32_t used = 0) {
  return {.life = {ReplicaId{id}, 1},
          .machine = id,
          .role = role,
          .residency = Residency::kResident,
          .used_blocks = used};
}

std::vector<std::uint32_t> ids(const std::vector<ReplicaLife>& lives) {
  std::vector<std::uint32_t> out;
  out.reserve(lives.size());
  for (const ReplicaLife life : lives) out.push_back(static_cast<std::uint32_t>(life.replica));
  return out;
}

TEST(Sources, WhoeverSendsNoKvComesFirst) {
  std::vector<ReplicaView> fleet{serving(0, Role::kPrefill),
                                 serving(1, Role::kMixed),
                                 serving(2, Role::kDecode, 50),
                                 serving(3, Role::kDecode, 10),
                                 serving(4, Role::kDecode, 99),
                                 serving(5, Role::kNone)};
  fleet[4].draining = true;
  EXPECT_EQ(ids(rank_peers(fleet, {})), (std::vector<std::uint32_t>{5, 4, 3, 2, 1}));
  EXPECT_EQ(ids(rank_peers(fleet, {.avoid_interference = false})).front(), 0U);
  EXPECT_EQ(ids(rank_peers({fleet.data(), 1}, {})), std::vector<std::uint32_t>{0});
}

TEST(Sources, WhoLoadsAssistsSendsOrIsLostIsNone) {
  std::vector<ReplicaView> fleet(4, serving(0, Role::kDecode));
  fleet[0].residency = Residency::kLoading;
  fleet[1].assist = Assist::kDonor;
  fleet[2].sends_params = true;
  fleet[3].lost = true;
  EXPECT_TRUE(rank_peers(fleet, {}).empty());
}

TEST(Sources, FallsBackFromPeersToHostMemoryToDisk) {
  const std::vector<ReplicaView> fleet{serving(0, Role::kDecode)};
  const auto ranked = rank_sources(fleet, 7, {.host_copies = {3}});
  ASSERT_EQ(ranked.size(), 3U);
  EXPECT_EQ(ranked[0].tier, SourceTier::kPeer);
  EXPECT_EQ(next_source(ranked, ranked[0])->tier, SourceTier::kHostMemory);
  EXPECT_EQ(next_source(ranked, ranked[1])->tier, SourceTier::kDisk);
  EXPECT_EQ(next_source(ranked, ranked[2]), std::nullopt);
  const auto alone = rank_sources(fleet, 7, {.peers = false, .host_copies = {3}});
  ASSERT_EQ(alone.size(), 1U);
  EXPECT_EQ(alone[0].tier, SourceTier::kDisk);
  EXPECT_EQ(rank_sources(fleet, 3, {.peers = false, .host_copies = {3}})[0].tier,
            SourceTier::kHostMemory);
}

TEST(Sources, ALoaderKeepsToItsRate) {
  using std::chrono::milliseconds;
  const LoadRate rate{.bytes_per_s = 1000.0, .burst_bytes = 100.0};
  TimePoint now{};
  LoadBudget budget = full_budget(rate, now);
  EXPECT_EQ(take_bytes(budget, rate, 100.0, now), milliseconds(0));
  EXPECT_EQ(take_bytes(budget, rate, 50.0, now), milliseconds(50));
  now += milliseconds(50);
  EXPECT_EQ(take_bytes(budget, rate, 0.0, now), milliseconds(0));
  now += milliseconds(10'000);
  // No more than the burst is saved.
  EXPECT_EQ(take_bytes(budget, rate, 200.0, now), milliseconds(100));
  EXPECT_EQ(take_bytes(budget, {}, 1e12, now), milliseconds(0));
}

}  // namespace
}  // namespace coxswain::fleet
