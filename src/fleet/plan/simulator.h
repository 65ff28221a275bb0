#pragma once
// A fleet in simulated time: the real planner and the real transitions of replicas over the requests of a trace, with
// what steps, loads and transfers cost as numbers. 1,000 replicas and more; for comparing executors and constants.
//
// What is a model: a prompt takes its tokens at a rate; a token of a decode replica takes a base time and one for each
// sequence beside it, as they are when the sequence begins; parameters arrive at an even rate; a donor beside a target
// that has k of L layers computes prompts in max(L - k, L / 2) / L of their time (each runs its part of every prompt).
//
// Pure: the same input gives the same figures. Thread rule: none.

#include <chrono>
#include <cstdint>
#include <span>
#include <vector>

#include "fleet/plan/planner.h"

namespace coxswain::fleet {

struct SimRequest {
  double arrival_s = 0.0;  // rising
  std::uint32_t input_tokens = 0;
  std::uint32_t output_tokens = 0;
};

struct SimOptions {
  PlannerConfig planner{};
  std::uint32_t n_replicas = 16;
  std::uint32_t n_prefill = 1;  // that serve at the beginning
  std::uint32_t n_decode = 1;
  std::uint32_t replicas_per_machine = 8;
  std::uint32_t layers = 32;
  std::uint32_t batch_tokens = 4096;  // of prompts that are computed together
  double token_s = 0.02;              // of a decode replica
  double token_s_per_sequence = 0.0001;
  double ttft_limit_s = 0.0;  // what counts as attained
  std::chrono::milliseconds plan_interval{100};
  std::chrono::milliseconds warm_ttl{1'500};
};

struct SimResult {
  std::size_t n_finished = 0;
  double attained = 0.0;  // of all requests: first token within the limit
  double ttft_mean_s = 0.0;
  double ttft_p50_s = 0.0;
  double ttft_p95_s = 0.0;
  double handover_p95_s = 0.0;  // from the first token to the beginning of decoding
  double replica_hours = 0.0;   // with parameters, or while they load
  std::size_t n_loads = 0;
  std::size_t n_role_changes = 0;
  std::size_t n_refused = 0;  // commands that a replica did not take
  std::uint32_t n_left = 0;   // requests and pages that replicas still account for at the end; 0
};

// REQUIRES: n_prefill + n_decode <= n_replicas; every request fits into the blocks of a replica.
SimResult simulate(const SimOptions& options, std::span<const SimRequest> requests);

}  // namespace coxswain::fleet
