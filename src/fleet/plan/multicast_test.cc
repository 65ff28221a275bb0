#include "fleet/plan/multicast.h"

#include <algorithm>
#include <map>
#include <set>
#include <string>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

constexpr double kBytes = 270e6;
constexpr double kPiece = 1 << 20;

ReplicaLife life(std::uint32_t i) {
  return {ReplicaId{i}, 1};
}

std::vector<MulticastNode> nodes(std::uint32_t first, std::uint32_t n) {
  std::vector<MulticastNode> out;
  for (std::uint32_t i = 0; i < n; ++i)
    out.push_back({.life = life(first + i), .machine = first + i, .bytes_per_s = 1e8});
  return out;
}

struct Timed {
  MulticastPlan plan;
  double seconds = 0;
};

Timed timed(std::uint32_t n_sources, std::uint32_t n_receivers, const MulticastOptions& options) {
  auto plan = plan_multicast(nodes(0, n_sources), nodes(100, n_receivers), options);
  EXPECT_TRUE(plan.ok()) << plan.status().message();
  std::vector<MulticastNode> all = nodes(0, n_sources);
  for (const MulticastNode& node : nodes(100, n_receivers)) all.push_back(node);
  const double seconds = multicast_seconds(plan.value(), all, kBytes, kPiece);
  return {plan.value(), seconds};
}

// Every receiver gets every lane exactly once, and whoever sends has received before, or is a source.
void expect_delivers(const MulticastPlan& plan,
                     std::uint32_t n_sources,
                     std::uint32_t n_receivers) {
  for (std::uint32_t lane = 0; lane < plan.lanes; ++lane) {
    std::set<ReplicaLife> have;
    for (std::uint32_t i = 0; i < n_sources; ++i) have.insert(life(i));
    for (const MulticastEdge& edge : plan.edges) {
      if (edge.lane != lane) continue;
      EXPECT_TRUE(have.contains(edge.from));
      EXPECT_TRUE(have.insert(edge.to).second);
    }
    EXPECT_EQ(have.size(), n_sources + n_receivers);
  }
}

TEST(Multicast, AChainTakesAboutOneTransferHoweverManyReceive) {
  const double one = timed(1, 1, {}).seconds;
  for (std::uint32_t n = 1; n <= 5; ++n) {
    EXPECT_LE(timed(1, n, {}).seconds, 1.15 * one);
    EXPECT_GE(timed(1, n, {.shape = MulticastShape::kStar}).seconds, 0.8 * n * one);
    EXPECT_GE(timed(1, 5, {.shape = MulticastShape::kTree}).seconds, 1.9 * one);
  }
}

TEST(Multicast, LanesShareTheBytesWhereMachinesHaveAReceiverForEach) {
  const double one = timed(1, 3, {}).seconds;
  for (std::uint32_t k = 2; k <= 4; ++k) {
    const Timed apart = timed(k, 4, {.lanes = k});
    expect_delivers(apart.plan, k, 4);
    EXPECT_LE(apart.seconds, 1.2 * one);

    std::vector<MulticastNode> all = nodes(0, k);
    std::vector<MulticastNode> receivers = nodes(100, 3 * k);
    for (std::uint32_t i = 0; i < 3 * k; ++i) receivers[i].machine = 1 + i / k;
    all.insert(all.end(), receivers.begin(), receivers.end());
    const auto together = plan_multicast(nodes(0, k), receivers, {.lanes = k});
    ASSERT_TRUE(together.ok());
    expect_delivers(together.value(), k, 3 * k);
    EXPECT_LE(multicast_seconds(together.value(), all, kBytes, kPiece), 1.2 / k * one);
  }
}

TEST(Multicast, EveryShapeDelivers) {
  for (const auto shape : {MulticastShape::kChain, MulticastShape::kTree, MulticastShape::kStar}) {
    for (std::uint32_t n_sources = 1; n_sources <= 3; ++n_sources) {
      for (std::uint32_t n_receivers = 1; n_receivers <= 9; ++n_receivers) {
        const Timed made = timed(n_sources, n_receivers, {.shape = shape});
        expect_delivers(made.plan, n_sources, n_receivers);
        EXPECT_FALSE(made.plan.tails.empty());
      }
    }
  }
}

TEST(Multicast, EveryChainHasATailThatForwardsNothing) {
  const MulticastPlan plan = timed(2, 6, {}).plan;
  ASSERT_EQ(plan.tails.size(), 2U);
  for (const ReplicaLife tail : plan.tails) {
    EXPECT_TRUE(std::none_of(plan.edges.begin(), plan.edges.end(), [&](const MulticastEdge& edge) {
      return edge.from == tail;
    }));
  }
}

TEST(Multicast, SlowReceiversComeLastAndMachinesStayTogether) {
  std::vector<MulticastNode> receivers = nodes(100, 4);
  receivers[0].bytes_per_s = 1e6;
  receivers[0].machine = 1;
  receivers[1].machine = 2;
  receivers[2].machine = 3;
  receivers[3].machine = 2;
  const auto plan = plan_multicast(nodes(0, 1), receivers, {});
  ASSERT_TRUE(plan.ok());
  std::vector<ReplicaLife> order;
  for (const MulticastEdge& edge : plan.value().edges) order.push_back(edge.to);
  EXPECT_EQ(order, (std::vector{life(101), life(103), life(102), life(100)}));
}

TEST(Multicast, RefusesWhatCannotBe) {
  EXPECT_EQ(plan_multicast({}, nodes(1, 1), {}).status().code(), Code::kInvalidArgument);
  EXPECT_EQ(plan_multicast(nodes(0, 1), nodes(1, 1), {.lanes = 2}).status().code(),
            Code::kFailedPrecondition);
  EXPECT_EQ(plan_multicast(nodes(0, 1), nodes(1, 1), {.chains_max = 0}).status().code(),
            Code::kInvalidArgument);
}

// Whoever is lost, the others still get everything, from where they stopped.
TEST(Multicast, ALostMemberIsTakenOutAndItsReceiversGoOn) {
  for (const auto shape : {MulticastShape::kChain, MulticastShape::kTree}) {
    for (std::uint32_t lost = 100; lost < 107; ++lost) {
      MulticastPlan plan = timed(1, 7, {.shape = shape}).plan;
      std::vector<MulticastProgress> progress;
      for (std::uint32_t i = 0; i < 7; ++i) progress.push_back({life(100 + i), 0, 20 - i});
      const auto repair = take_out(plan, life(lost), nodes(0, 1), progress);
      ASSERT_TRUE(repair.ok());
      EXPECT_TRUE(repair.value().orphans.empty());
      for (const Reattachment& each : repair.value().reattached) {
        EXPECT_EQ(each.first_section,
                  20 - (static_cast<std::uint32_t>(each.edge.to.replica) - 100));
      }
      std::set<ReplicaLife> have{life(0)};
      for (const MulticastEdge& edge : plan.edges) {
        EXPECT_TRUE(have.contains(edge.from));
        EXPECT_TRUE(have.insert(edge.to).second);
      }
      EXPECT_EQ(have.size(), 7U);
      EXPECT_FALSE(have.contains(life(lost)));
    }
  }
}

TEST(Multicast, ALostSourceIsReplacedOrLeavesOneOrphan) {
  MulticastPlan plan = timed(1, 3, {.shape = MulticastShape::kStar}).plan;
  const std::vector<MulticastProgress> progress{
      {life(100), 0, 3}, {life(101), 0, 9}, {life(102), 0, 5}};
  MulticastPlan other = plan;
  const auto replaced = take_out(other, life(0), nodes(0, 2), progress);
  ASSERT_TRUE(replaced.ok());
  EXPECT_TRUE(replaced.value().orphans.empty());
  EXPECT_EQ(replaced.value().reattached.size(), 3U);

  const auto alone = take_out(plan, life(0), nodes(0, 1), progress);
  ASSERT_EQ(alone.value().orphans.size(), 1U);
  EXPECT_EQ(alone.value().orphans[0].edge.to, life(101));  // the furthest ahead serves the others
  EXPECT_EQ(alone.value().orphans[0].first_section, 9U);
  EXPECT_EQ(alone.value().reattached.size(), 2U);
  EXPECT_EQ(take_out(plan, life(0), {}, progress).status().code(), Code::kNotFound);
}

}  // namespace
}  // namespace coxswain::fleet
