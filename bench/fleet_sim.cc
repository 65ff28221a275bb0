// coxswain-bench-fleet-sim: a trace through a simulated fleet (fleet/plan/simulator.h) under each executor, with costs
// as given. No model runs; docs/fleet-control.md says what is real and what is a model.

#include <algorithm>
#include <charconv>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <fstream>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "arguments.h"
#include "fleet/plan/simulator.h"

namespace coxswain {
namespace {

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-fleet-sim TRACE [--replicas N] [--from S] [--seconds S] [--seed N]

TRACE is CSV: arrival_s,input_tokens,output_tokens. Its requests of --seconds (300) from the second --from (1) on keep
their times, but each becomes so many, with lengths drawn from the cut, that their prompts are half of what five eighths
of --replicas (16) can compute. Costs are those that BlitzScale's experiments give for Llama-3-8B: 15,000 prompt tokens/s
and 16 GB of parameters a replica; peers 12.5, host memory 16, disk 1.25 GB/s; its bounds.

Prints for each executor the share of requests whose first token comes within 5 times the time of a lone request,
times to the first token, replica-hours (with parameters, or loading) and loads.
)";

using fleet::Executor;
using fleet::SimOptions;
using fleet::SimRequest;
using fleet::SimResult;

struct Cut {
  std::string path;
  std::uint32_t from_s = 0;
  std::uint32_t seconds = 300;
};

// Rows of the cut, from its beginning on; empty if the file cannot be read.
std::vector<SimRequest> read_trace(const Cut& cut) {
  std::vector<SimRequest> out;
  std::ifstream in(cut.path);
  std::string line;
  std::getline(in, line);
  while (std::getline(in, line)) {
    SimRequest request;
    const char* end = line.data() + line.size();
    auto at = std::from_chars(line.data(), end, request.arrival_s).ptr;
    if (at < end) at = std::from_chars(at + 1, end, request.input_tokens).ptr;
    if (at < end) std::from_chars(at + 1, end, request.output_tokens);
    request.arrival_s -= cut.from_s;
    const bool inside = request.arrival_s >= 0.0 && request.arrival_s < cut.seconds;
    if (inside && request.input_tokens > 0 && request.output_tokens > 0) out.push_back(request);
  }
  return out;
}

double mean_input(const std::vector<SimRequest>& requests) {
  double sum = 0.0;
  for (const SimRequest& request : requests) sum += request.input_tokens;
  return sum / static_cast<double>(requests.size());
}

// As many requests as give `tokens_per_s`, with the same shape over time: copies between a request and its next one.
std::vector<SimRequest> scaled(const std::vector<SimRequest>& trace,
                               double tokens_per_s,
                               std::uint32_t seconds,
                               std::uint32_t seed) {
  std::mt19937 draw(seed);
  const double wanted = tokens_per_s * seconds / mean_input(trace);
  const double copies = wanted / static_cast<double>(trace.size());
  std::vector<SimRequest> out;
  double owed = 0.0;
  for (std::size_t i = 0; i < trace.size(); ++i) {
    const double next = i + 1 < trace.size() ? trace[i + 1].arrival_s : trace[i].arrival_s;
    for (owed += copies; owed >= 1.0; owed -= 1.0) {
      SimRequest request = trace[draw() % trace.size()];
      const double part = static_cast<double>(draw() % 1'000'000) / 1e6;
      request.arrival_s = trace[i].arrival_s + part * (next - trace[i].arrival_s);
      out.push_back(request);
    }
  }
  std::stable_sort(out.begin(), out.end(), [](const SimRequest& a, const SimRequest& b) {
    return a.arrival_s < b.arrival_s;
  });
  return out;
}

SimOptions costs(std::uint32_t n_replicas, double mean_tokens) {
  SimOptions out;
  out.n_replicas = n_replicas;
  out.planner.tokens_prefilled_per_s = 15'000;
  out.planner.tokens_transferred_per_s = 96'000;
  out.planner.blocks_per_replica = 30'000;
  out.planner.parameter_bytes = 16e9;
  out.planner.prefill_backlog_s = {0.5, 0.7};
  out.planner.decode_occupancy = {0.75, 0.95};
  out.planner.migration_s = {0.4, 0.8};
  out.planner.prefill_max = out.planner.decode_max = n_replicas;
  out.planner.loads_max = n_replicas;
  out.planner.changes_max = n_replicas * 8;
  out.warm_ttl = std::chrono::milliseconds(333);
  out.ttft_limit_s = 5.0 * mean_tokens / out.planner.tokens_prefilled_per_s;
  return out;
}

void print(std::string_view name, const SimResult& r) {
  std::printf("%-12s %7.2f %% %9.0f %9.0f %9.0f %11.0f %10.2f %7zu %7zu\n",
              std::string(name).c_str(),
              100.0 * r.attained,
              1e3 * r.ttft_mean_s,
              1e3 * r.ttft_p50_s,
              1e3 * r.ttft_p95_s,
              1e3 * r.handover_p95_s,
              r.replica_hours,
              r.n_loads,
              r.n_role_changes);
}

int run(const Cut& cut, std::uint32_t n_replicas, std::uint32_t seed) {
  const std::vector<SimRequest> trace = read_trace(cut);
  if (trace.empty()) {
    std::fprintf(stderr, "%s: no requests in this cut\n", cut.path.c_str());
    return 1;
  }
  SimOptions options = costs(n_replicas, mean_input(trace));
  const std::uint32_t n_prefill = std::max(1U, n_replicas * 5 / 8);
  const std::uint32_t n_decode = n_replicas - n_prefill;
  const double tokens_per_s = 0.5 * n_prefill * options.planner.tokens_prefilled_per_s;
  const std::vector<SimRequest> requests = scaled(trace, tokens_per_s, cut.seconds, seed);
  std::printf(
      "simulated: %u replicas, %zu requests in %u s, mean prompt %.0f tokens, limit of the first "
      "token %.0f ms\n\n",
      n_replicas,
      requests.size(),
      cut.seconds,
      mean_input(requests),
      1e3 * options.ttft_limit_s);
  std::printf("%-12s %9s %9s %9s %9s %11s %10s %7s %7s\n",
              "executor",
              "within",
              "mean ms",
              "p50 ms",
              "p95 ms",
              "handover ms",
              "rep.-hours",
              "loads",
              "roles");
  const auto arm = [&](std::string_view name, Executor executor, double part) {
    options.planner.executor = executor;
    options.n_prefill = std::max(1U, static_cast<std::uint32_t>(n_prefill * part));
    options.n_decode = std::max(1U, static_cast<std::uint32_t>(n_decode * part));
    print(name, fleet::simulate(options, requests));
  };
  arm("blitz", Executor::kBlitz, 0.5);
  arm("serverless", Executor::kServerless, 0.5);
  arm("allcache", Executor::kAllCache, 0.5);
  arm("static full", Executor::kStatic, 1.0);
  arm("static half", Executor::kStatic, 0.5);
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  coxswain::bench::Arguments arguments(argc, argv, coxswain::kHelp);
  coxswain::Cut cut;
  const std::uint32_t n_replicas = arguments.count("replicas", 16);
  cut.from_s = arguments.count("from", 1) - 1;
  cut.seconds = arguments.count("seconds", cut.seconds);
  const std::uint32_t seed = arguments.count("seed", 1);
  cut.path = arguments.required_word("TRACE");
  arguments.finish();
  return coxswain::run(cut, n_replicas, seed);
}
