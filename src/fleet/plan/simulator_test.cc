#include "fleet/plan/simulator.h"

#include <random>
#include <vector>

#include <gtest/gtest.h>

namespace coxswain::fleet {
namespace {

// A quiet beginning, a burst, a quiet end.
std::vector<SimRequest> burst() {
  std::mt19937 draw(4);
  std::vector<SimRequest> out;
  double at = 0.0;
  while (at < 30.0) {
    const bool busy = at > 8.0 && at < 16.0;
    at += (busy ? 0.01 : 0.2) * (0.5 + static_cast<double>(draw() % 1000) / 1000.0);
    out.push_back({.arrival_s = at,
                   .input_tokens = 500 + static_cast<std::uint32_t>(draw() % 1500),
                   .output_tokens = 1 + static_cast<std::uint32_t>(draw() % 60)});
  }
  return out;
}

SimOptions options(Executor executor, std::uint32_t n_prefill = 1, std::uint32_t n_decode = 1) {
  SimOptions out;
  out.planner.executor = executor;
  out.planner.parameter_bytes = 16e9;
  out.planner.prefill_backlog_s = {0.5, 0.7};
  out.planner.migration_s = {0.4, 0.8};
  out.planner.tokens_transferred_per_s = 96'000;
  out.planner.prefill_max = 12;
  out.n_prefill = n_prefill;
  out.n_decode = n_decode;
  out.ttft_limit_s = 0.5;
  return out;
}

TEST(FleetSimulator, EveryRequestEndsAndNothingIsLeft) {
  const std::vector<SimRequest> requests = burst();
  for (const auto executor :
       {Executor::kBlitz, Executor::kServerless, Executor::kAllCache, Executor::kStatic}) {
    const SimResult result = simulate(options(executor), requests);
    EXPECT_EQ(result.n_finished, requests.size()) << name_of(executor);
    EXPECT_EQ(result.n_left, 0U) << name_of(executor);
    EXPECT_EQ(result.n_refused, 0U) << name_of(executor);
    EXPECT_EQ(result.n_loads == 0, executor == Executor::kStatic) << name_of(executor);
  }
}

TEST(FleetSimulator, TheSameInputGivesTheSameFigures) {
  const std::vector<SimRequest> requests = burst();
  const SimResult a = simulate(options(Executor::kBlitz), requests);
  const SimResult b = simulate(options(Executor::kBlitz), requests);
  EXPECT_EQ(a.ttft_mean_s, b.ttft_mean_s);
  EXPECT_EQ(a.replica_hours, b.replica_hours);
}

// One request alone: its prompt at the rate of a replica.
TEST(FleetSimulator, AnUndisturbedRequestTakesItsOwnTime) {
  const std::vector<SimRequest> one{{.arrival_s = 1.0, .input_tokens = 1300, .output_tokens = 11}};
  const SimResult result = simulate(options(Executor::kStatic), one);
  EXPECT_NEAR(result.ttft_mean_s, 0.1, 1e-6);
  EXPECT_NEAR(result.handover_p95_s, 1300.0 / 96'000, 1e-6);
  EXPECT_EQ(result.attained, 1.0);
}

TEST(FleetSimulator, AFleetThatGrowsIsBetterThanASmallOneAndCheaperThanALargeOne) {
  const std::vector<SimRequest> requests = burst();
  const SimResult full = simulate(options(Executor::kStatic, 11, 5), requests);
  const SimResult few = simulate(options(Executor::kStatic), requests);
  EXPECT_EQ(full.attained, 1.0);
  for (const auto executor : {Executor::kBlitz, Executor::kServerless, Executor::kAllCache}) {
    const SimResult grows = simulate(options(executor), requests);
    EXPECT_LT(grows.ttft_p95_s, few.ttft_p95_s) << name_of(executor);
    EXPECT_LT(grows.replica_hours, full.replica_hours) << name_of(executor);
  }
}

// The donor computes the prompts of both in less time, so live loading is not slower than waiting.
TEST(FleetSimulator, LiveLoadingHelpsWhileItLasts) {
  const std::vector<SimRequest> requests = burst();
  SimOptions slow = options(Executor::kBlitz);
  slow.planner.peer_bytes_per_s = 4e9;
  const SimResult live = simulate(slow, requests);
  slow.planner.live = false;
  EXPECT_LT(live.ttft_mean_s, simulate(slow, requests).ttft_mean_s);
}

}  // namespace
}  // namespace coxswain::fleet
