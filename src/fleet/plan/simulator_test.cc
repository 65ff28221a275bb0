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
  out.times = {.step = 0.005, .decode = 0.0001, .prompt_token = 1.0 / 13'000};
  out.rules.step_prompt_tokens = 4096;
  out.n_prefill = n_prefill;
  out.n_decode = n_decode;
  out.ttft_limit_s = 0.5;
  return out;
}

TEST(FleetSimulator, EveryRequestEndsAndNothingIsLeft) {
  const std::vector<SimRequest> requests = burst();
  for (const auto executor :
       {Executor::kBlitz, Executor::kServerless, Executor::kAllCache, Executor::kStatic}) {
    SimOptions mixed = options(executor);
    mixed.planner.mixed = true;
    mixed.n_decode = 0;
    const SimResult alike = simulate(mixed, requests);
    EXPECT_EQ(alike.n_finished, requests.size()) << name_of(executor);
    EXPECT_EQ(alike.n_left, 0U) << name_of(executor);
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
  EXPECT_EQ(a.ttft_p95_s, b.ttft_p95_s);
  EXPECT_EQ(a.gap_p95_s, b.gap_p95_s);
  EXPECT_EQ(a.duration_s, b.duration_s);
  EXPECT_EQ(a.replica_hours, b.replica_hours);
}

// One request alone: its prompt at the rate of a replica.
TEST(FleetSimulator, AnUndisturbedRequestTakesItsOwnTime) {
  const std::vector<SimRequest> one{{.arrival_s = 1.0, .input_tokens = 1280, .output_tokens = 11}};
  SimOptions alone = options(Executor::kStatic);
  alone.times = {.step = 0.01, .decode = 0.005, .prompt_token = 1e-4};
  alone.rules.step_prompt_tokens = 256;
  const SimResult apart = simulate(alone, one);
  EXPECT_NEAR(apart.ttft_mean_s, 5 * 0.01 + 0.128, 1e-6);
  EXPECT_NEAR(apart.handover_p95_s, 1280.0 / 96'000, 1e-6);
  EXPECT_NEAR(apart.gap_p50_s, 0.015, 0.015 * 0.01);
  EXPECT_EQ(apart.attained, 1.0);
  EXPECT_NEAR(apart.duration_s, 1.0 + 0.178 + 1280.0 / 96'000 + 10 * 0.015, 1e-6);
  alone.planner.mixed = true;
  alone.n_decode = 0;
  const SimResult together = simulate(alone, one);
  EXPECT_NEAR(together.duration_s, 1.0 + 0.178 + 10 * 0.015, 1e-6);
}

// A source that sends keys and values besides needs longer, and so do these.
TEST(FleetSimulator, ABusySourceLoadsMoreSlowly) {
  SimOptions busy = options(Executor::kBlitz, 2, 4);
  busy.planner.prefill_min = 2;
  busy.planner.decode_min = 4;
  busy.planner.peer_bytes_per_s = 4e9;
  busy.planner.live = false;
  busy.planner.tokens_transferred_per_s = 20'000;
  const std::vector<SimRequest> requests = burst();
  const SimResult quiet = simulate(busy, requests);
  busy.planner.avoid_interference = false;
  const SimResult result = simulate(busy, requests);
  ASSERT_GT(quiet.n_loads, 0U);
  EXPECT_GT(result.load_mean_s, quiet.load_mean_s);
}

TEST(FleetSimulator, OneAfterTheOtherLoadsMoreSlowlyThanAChain) {
  SimOptions chain = options(Executor::kBlitz);
  chain.planner.live = false;
  const std::vector<SimRequest> requests = burst();
  const SimResult a = simulate(chain, requests);
  chain.multicast = false;
  const SimResult b = simulate(chain, requests);
  EXPECT_GT(b.load_mean_s, a.load_mean_s);
}

TEST(FleetSimulator, SamplesAddUp) {
  const std::vector<SimRequest> requests = burst();
  SimOptions sampled = options(Executor::kBlitz);
  sampled.sample_s = 1.0;
  const SimResult result = simulate(sampled, requests);
  std::uint64_t n = 0;
  std::uint64_t n_attained = 0;
  double replica_s = 0.0;
  for (const SimSample& sample : result.samples) {
    n += sample.n_arrived;
    n_attained += sample.n_attained;
    replica_s += sample.replicas;
  }
  EXPECT_EQ(n, requests.size());
  EXPECT_NEAR(static_cast<double>(n_attained) / static_cast<double>(n), result.attained, 1e-9);
  EXPECT_NEAR(replica_s / 3600.0, result.replica_hours, 1e-9);
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

// Two bursts with a pause in which what they brought goes; each replica has a machine of its own.
std::vector<SimRequest> burst_twice(double pause_s) {
  std::vector<SimRequest> out = burst();
  std::vector<SimRequest> again = out;
  const double later = out.back().arrival_s + pause_s;
  for (SimRequest& request : again) request.arrival_s += later;
  out.insert(out.end(), again.begin(), again.end());
  return out;
}

TEST(FleetSimulator, ACopyInHostMemoryOutlivesItsUse) {
  const std::vector<SimRequest> requests = burst_twice(20.0);
  SimOptions kept = options(Executor::kServerless);
  kept.replicas_per_machine = 1;
  kept.host_cache_ttl = std::chrono::seconds(60);
  SimOptions gone = kept;
  gone.host_cache_ttl = std::chrono::seconds(5);
  const SimResult with = simulate(kept, requests);
  const SimResult without = simulate(gone, requests);
  // From disk 12.8 s, from host memory 1: all of the first burst come from disk, as nobody else's copy is of use.
  EXPECT_NEAR(without.load_mean_s, 12.8, 0.1);
  EXPECT_LT(with.load_mean_s, 10.0);
  EXPECT_LT(with.ttft_mean_s, without.ttft_mean_s);
}

// Of a burst that one replica for prompts cannot hold the other one computes what it has time for.
TEST(FleetSimulator, PromptsGoWhereLessIsLost) {
  const std::vector<SimRequest> requests = burst();
  const SimResult apart = simulate(options(Executor::kStatic), requests);
  SimOptions decides = options(Executor::kStatic);
  decides.disaggregation = Disaggregation::kAuto;
  const SimResult result = simulate(decides, requests);
  EXPECT_EQ(result.n_finished, requests.size());
  EXPECT_EQ(result.n_left, 0U);
  EXPECT_EQ(result.n_refused, 0U);
  EXPECT_LT(result.ttft_mean_s, 0.6 * apart.ttft_mean_s);
  EXPECT_GT(result.gap_p95_s, apart.gap_p95_s) << "for which those who generate there wait";
  decides.planner.executor = Executor::kBlitz;
  const SimResult grows = simulate(decides, requests);
  EXPECT_EQ(grows.n_finished, requests.size());
  EXPECT_EQ(grows.n_left, 0U);
  EXPECT_LT(grows.ttft_mean_s, simulate(options(Executor::kBlitz), requests).ttft_mean_s);
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
