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

// What they receive they pass on; a live target sends to its donor, too.
TEST(Sources, WhoLoadsIsOneIfNobodyElseIs) {
  std::vector<ReplicaView> fleet{serving(0, Role::kPrefill),
                                 serving(1, Role::kPrefill),
                                 serving(2, Role::kDecode),
                                 serving(3, Role::kPrefill)};
  for (const std::size_t i : {0U, 1U, 2U}) fleet[i].residency = Residency::kLoading;
  fleet[0].assist = Assist::kTarget;
  EXPECT_EQ(ids(rank_peers(fleet, {})), std::vector<std::uint32_t>{3});
  fleet[3].assist = Assist::kDonor;
  EXPECT_EQ(ids(rank_peers(fleet, {})), (std::vector<std::uint32_t>{1, 2}));
  fleet[1].sends_params = fleet[2].sends_params = true;
  EXPECT_EQ(ids(rank_peers(fleet, {})), std::vector<std::uint32_t>{0});
}

TEST(Sources, WhoAssistsSendsIsEmptyOrIsLostIsNone) {
  std::vector<ReplicaView> fleet(5, serving(0, Role::kDecode));
  fleet[0].residency = Residency::kAbsent;
  fleet[1].assist = Assist::kDonor;
  fleet[4].assist = Assist::kRefractory;
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
