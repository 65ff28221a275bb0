#pragma once
// A fleet in simulated time: the real planner, what it is told of the load, and the real transitions of replicas over
// the requests of a trace, with what steps, loads and transfers take as numbers. 1,000 replicas and more; for comparing
// executors and constants. docs/fleet.md says how it compares with fleets that run.
//
// What is a model: a step takes what StepTimes say (sim_engine.h); parameters arrive at an even rate; a donor beside a
// target that has k of L layers computes prompts in max(L - k, L / 2) / L of their time (each runs its part of every
// prompt). A request goes to the replica with the fewest sequences of those in whose engine little waits, and it keeps
// the KV blocks of its whole length from the beginning. Keys and values that leave a replica while it sends parameters
// share its link evenly with them: both take longer.
//
// Pure: the same input gives the same figures. Thread rule: none.

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "fleet/plan/disaggregation.h"
#include "fleet/plan/planner.h"
#include "fleet/plan/sim_engine.h"

namespace coxswain::fleet {

struct SimRequest {
  double arrival_s = 0.0;  // rising
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
};

struct SimOptions {
  PlannerConfig planner{};  // mixed: n_prefill replicas do both, n_decode is 0
  StepTimes times{};
  EngineRules rules{};
  std::uint32_t n_replicas = 16;
  std::uint32_t n_prefill = 1;  // that serve at the beginning
  std::uint32_t n_decode = 1;
  std::uint32_t replicas_per_machine = 8;
  std::uint32_t layers = 32;
  // False: a source of several gives to one after the other, instead of each to the next one.
  bool multicast = true;
  // Where a prompt is computed, with replicas for prompts alone (disaggregation.h).
  Disaggregation disaggregation = Disaggregation::kStatic;
  double request_s = 0.0;  // what is added to each first token: HTTP, validation, sockets
  // What counts as attained; 0 = whatever.
  double ttft_limit_s = 0.0;
  double gap_limit_s = 0.0;  // the mean of a request
  std::chrono::milliseconds plan_interval{100};
  std::chrono::milliseconds window{10'000};  // of the load that the planner is told of
  std::chrono::milliseconds warm_ttl{1'500};
  // Of `serverless`: how long a copy in a machine's host memory outlives its last use there.
  std::chrono::milliseconds host_cache_ttl{30'000};
  double sample_s = 0.0;  // one of SimResult::samples for each; 0 = none
};

// An interval of the run.
struct SimSample {
  double replicas = 0.0;  // with parameters, or while they load
  std::uint64_t n_arrived = 0;
  std::uint64_t n_attained = 0;  // of these
  double ttft_mean_s = 0.0;      // of these
};

struct SimResult {
  std::size_t n_finished = 0;
  double attained = 0.0;  // of all requests: first token, and gaps, within the limits
  double ttft_mean_s = 0.0;
  double ttft_p50_s = 0.0;
  double ttft_p95_s = 0.0;
  double gap_p50_s = 0.0;  // between two tokens of a sequence, within 1 %
  double gap_p95_s = 0.0;
  // From the first token to the beginning of decoding elsewhere.
  double handover_p95_s = 0.0;
  double duration_s = 0.0;     // to the last token
  double replica_hours = 0.0;  // with parameters, or while they load
  double load_mean_s = 0.0;
  std::size_t n_loads = 0;
  std::size_t n_role_changes = 0;
  std::size_t n_refused = 0;  // commands that a replica did not take
  std::uint32_t n_left = 0;   // requests and pages that replicas still account for at the end; 0
  std::vector<SimSample> samples = {};
};

// REQUIRES: n_prefill + n_decode <= n_replicas; every request fits into the blocks of a replica.
SimResult simulate(const SimOptions& options, std::span<const SimRequest> requests);

}  // namespace coxswain::fleet
