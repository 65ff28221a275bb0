// Every order of events of a small fleet: ledger, hand-over and change of role, with lost, doubled and reordered
// messages, dying processes, drains and clients that go. The laws hold in every state, and the end can be reached from
// each of them.

#include <cstddef>
#include <cstdint>
#include <cstdio>
#include <string>
#include <unordered_map>
#include <utility>
#include <vector>

#include <gtest/gtest.h>

#include "fleet/state/testing/small_fleet.h"

namespace coxswain::fleet {
namespace {

using testing::SmallFleet;

struct Explored {
  std::size_t n_states = 0;
  std::size_t n_edges = 0;
  std::size_t n_finished = 0;
  std::size_t n_stuck = 0;  // states from which no end can be reached without a fault
  std::string broken = {};
};

// The states from which one of `ends` can be reached, over edges turned around.
std::size_t count_reaching(const std::vector<std::vector<std::uint32_t>>& into,
                           std::vector<std::uint32_t> open) {
  std::vector<bool> reaches(into.size());
  std::size_t n = 0;
  for (const std::uint32_t state : open) reaches[state] = true;
  while (!open.empty()) {
    const std::uint32_t state = open.back();
    open.pop_back();
    ++n;
    for (const std::uint32_t before : into[state]) {
      if (reaches[before]) continue;
      reaches[before] = true;
      open.push_back(before);
    }
  }
  return n;
}

Explored explore(const SmallFleet& start) {
  Explored out;
  std::unordered_map<std::string, std::uint32_t> ids;
  std::vector<std::vector<std::uint32_t>> into;  // by progress alone
  std::vector<std::uint32_t> ends;
  std::vector<std::pair<std::uint32_t, SmallFleet>> open;
  const auto meet = [&](SmallFleet&& fleet) {
    const auto [at, is_new] = ids.try_emplace(fleet.key(), static_cast<std::uint32_t>(ids.size()));
    if (is_new) {
      into.emplace_back();
      if (out.broken.empty()) out.broken = fleet.broken();
      if (fleet.finished()) ends.push_back(at->second);
      open.emplace_back(at->second, std::move(fleet));
    }
    ++out.n_edges;
    return at->second;
  };
  meet(SmallFleet(start));
  while (!open.empty() && out.broken.empty()) {
    const auto [id, fleet] = std::move(open.back());
    open.pop_back();
    for (SmallFleet& next : fleet.progress()) into[meet(std::move(next))].push_back(id);
    for (SmallFleet& next : fleet.faults()) meet(std::move(next));
  }
  out.n_states = ids.size();
  out.n_finished = ends.size();
  out.n_stuck = ids.size() - count_reaching(into, ends);
  return out;
}

void expect_lawful(const SmallFleet& start) {
  const Explored found = explore(start);
  std::printf("%zu states, %zu edges, %zu ends\n", found.n_states, found.n_edges, found.n_finished);
  EXPECT_EQ(found.broken, "");
  EXPECT_EQ(found.n_stuck, 0U);
  EXPECT_GT(found.n_finished, 0U);
}

TEST(Interleavings, OneRequestThreeReplicasTwoFaults) {
  expect_lawful(SmallFleet({Role::kPrefill, Role::kDecode, Role::kMixed}, 1, 2));
}

TEST(Interleavings, TwoRequestsThreeReplicasNoFault) {
  expect_lawful(SmallFleet({Role::kPrefill, Role::kDecode, Role::kMixed}, 2, 0));
}

TEST(Interleavings, TwoRequestsTwoReplicasOneFault) {
  expect_lawful(SmallFleet({Role::kPrefill, Role::kDecode}, 2, 1));
}

}  // namespace
}  // namespace coxswain::fleet
