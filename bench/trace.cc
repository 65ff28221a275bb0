#include "trace.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <fstream>
#include <memory>
#include <optional>
#include <string_view>
#include <utility>
#include <vector>

#include <coxswain/capacity_policy.h>

#include "batch/engine_core.h"
#include "batch/testing/timed_runner.h"
#include "step_costs.h"
#include "trace_plot.h"

namespace coxswain::bench {
namespace {

constexpr std::uint32_t kBatchMax = 256;
constexpr std::uint32_t kPrefillMax = 256;  // as the launcher's default
constexpr double kFirstTokenSeconds = 2;
constexpr double kGapSeconds = 0.1;
constexpr double kCacheShare = 0.25;
constexpr std::array kLoads{0.5, 0.75, 1.0, 1.5, 2.0};
constexpr std::array<std::pair<CapacityPolicy, const char*>, 4> kPolicies{
    {{CapacityPolicy::kAdaptive, "adaptive"},
     {CapacityPolicy::kMaxUtilization, "max-utilization"},
     {CapacityPolicy::kGuaranteedNoEvict, "guaranteed-no-evict"},
     {CapacityPolicy::kStaticBatch, "static-batch"}}};

struct TraceRequest {
  double arrival_s = 0;
  std::uint32_t n_prompt = 0;
  std::uint32_t n_output = 0;
};
using Trace = std::vector<TraceRequest>;

double seconds(Clock::duration d) {
  return std::chrono::duration<double>(d).count();
}

Clock::duration duration(double s) {
  return std::chrono::duration_cast<Clock::duration>(std::chrono::duration<double>(s));
}

Trace read_trace(const TraceOptions& options) {
  Trace out;
  std::ifstream in(options.path);
  std::string line;
  // The names, and the requests that are left out.
  for (std::uint32_t i = 0; i < options.first_request; ++i) std::getline(in, line);
  while (out.size() < options.n_requests && std::getline(in, line)) {
    TraceRequest r;
    if (std::sscanf(line.c_str(), "%lf,%u,%u", &r.arrival_s, &r.n_prompt, &r.n_output) != 3)
      return {};
    if (r.n_prompt > 0 && r.n_output > 0) out.push_back(r);
  }
  return out;
}

// What a client sees of its request.
class Client final : public batch::TokenSink {
 public:
  explicit Client(const TimePoint& now) : now_(now) {}
  void on_event(batch::TokenEvent event) override {
    if (event.tokens.empty()) return;
    if (n_tokens_ == 0) first_ = now_;
    last_ = now_;
    n_tokens_ += event.tokens.size();
  }
  bool served_well(TimePoint arrival) const {
    if (n_tokens_ == 0 || seconds(first_ - arrival) > kFirstTokenSeconds) return false;
    return n_tokens_ == 1 ||
           seconds(last_ - first_) <= kGapSeconds * static_cast<double>(n_tokens_ - 1);
  }
  double first_token_seconds(TimePoint arrival) const { return seconds(first_ - arrival); }
  std::size_t n_tokens() const { return n_tokens_; }

 private:
  const TimePoint& now_;
  TimePoint first_{};
  TimePoint last_{};
  std::size_t n_tokens_ = 0;
};

struct Setting {
  CapacityPolicy policy = CapacityPolicy::kMaxUtilization;
  std::uint32_t n_blocks = 0;
  double requests_per_s = 0;  // 0 = all at once
  std::uint32_t length_factor = 1;
  StepCosts costs = kStepCosts.front();
  std::uint32_t speed = 1;
};

struct Outcome {
  double tokens_per_s = 0;
  double requests_per_s = 0;
  double goodput = 0;  // requests served well, a second
  std::uint64_t pauses = 0;
  std::uint32_t blocks_peak = 0;
  double first_token_p50 = 0;  // seconds
  double first_token_p99 = 0;
};

// One run of a trace through an engine.
class Simulation {
 public:
  Simulation(const Trace& trace, const Setting& setting) : trace_(trace), setting_(setting) {
    auto runner = std::make_shared<batch::testing::TimedRunner>(
        setting.n_blocks,
        now_,
        [costs = setting.costs, speed = setting.speed](const batch::StepShape& shape) {
          return duration(step_seconds(costs, shape) / speed);
        },
        [&trace](const SequenceSpec& spec) {
          return trace[static_cast<std::size_t>(spec.prompt[0])].n_output -
                 static_cast<std::uint32_t>(spec.produced.size());
        });
    batch::EngineOptions options;
    options.policy = setting.policy;
    options.batch_size_max = kBatchMax;
    options.prefill_tokens_max = kPrefillMax;
    core_ = std::make_unique<batch::EngineCore>(
        std::move(runner), options, base::HashKey{1, 2}, batch::EngineCore::Hooks{});
    const double span = trace.back().arrival_s - trace.front().arrival_s;
    const double rate = static_cast<double>(trace.size()) / std::max(span, 1e-9);
    for (const TraceRequest& r : trace) {
      const double at = setting.requests_per_s > 0 ? (r.arrival_s - trace.front().arrival_s) *
                                                         rate / setting.requests_per_s
                                                   : 0;
      arrivals_.push_back(now_ + duration(at));
      clients_.push_back(std::make_shared<Client>(now_));
    }
  }

  Outcome run() {
    const TimePoint begin = now_;
    Outcome out;
    while (next_ < trace_.size() || core_->n_sequences() > 0) {
      turn();
      const batch::EngineStats stats = core_->stats();
      out.blocks_peak = std::max(out.blocks_peak, stats.blocks_leased + stats.blocks_retiring);
    }
    const double took = seconds(now_ - begin);
    std::size_t n_tokens = 0;
    std::size_t n_well = 0;
    std::vector<double> first_tokens;
    for (std::size_t i = 0; i < trace_.size(); ++i) {
      n_tokens += clients_[i]->n_tokens();
      n_well += clients_[i]->served_well(arrivals_[i]) ? 1 : 0;
      first_tokens.push_back(clients_[i]->first_token_seconds(arrivals_[i]));
    }
    std::ranges::sort(first_tokens);
    out.first_token_p50 = first_tokens[first_tokens.size() / 2];
    out.first_token_p99 = first_tokens[first_tokens.size() * 99 / 100];
    out.tokens_per_s = static_cast<double>(n_tokens) / took;
    out.requests_per_s = static_cast<double>(trace_.size()) / took;
    out.goodput = static_cast<double>(n_well) / took;
    out.pauses = core_->stats().pauses;
    return out;
  }

 private:
  void turn() {
    for (; next_ < trace_.size() && arrivals_[next_] <= now_; ++next_) add(next_);
    core_->advance(now_);
    while (core_->submit_next(now_)) {
    }
    const TimePoint until = next_ < trace_.size() ? arrivals_[next_] : TimePoint::max();
    if (core_->n_in_flight() == 0) {
      now_ = std::max(now_, until == TimePoint::max() ? now_ : until);
      return;
    }
    auto result = core_->wait_oldest(until);
    if (!core_->still_runs(result)) core_->apply_oldest(std::move(result), now_);
  }

  // Prompts have nothing in common: their first block begins with their number.
  void add(std::size_t index) {
    const TraceRequest& r = trace_[index];
    batch::GenerationRequest request;
    request.id = RequestId{index + 1};
    request.prompt.assign(r.n_prompt, 1);
    request.prompt[0] = static_cast<TokenId>(index);
    request.stopping.max_new_tokens = r.n_output * setting_.length_factor;
    core_->add(std::move(request), clients_[index], arrivals_[index]);
  }

  const Trace& trace_;
  const Setting setting_;
  TimePoint now_{std::chrono::hours(1)};
  std::unique_ptr<batch::EngineCore> core_;
  std::vector<TimePoint> arrivals_;
  std::vector<std::shared_ptr<Client>> clients_;
  std::size_t next_ = 0;
};

// Blocks that hold all requests of the trace at their real lengths, and never fewer than any one asks for.
std::uint32_t blocks_for_all(const Trace& trace) {
  std::uint32_t out = 0;
  for (const TraceRequest& r : trace) out += (r.n_prompt + r.n_output) / 16 + 1;
  return out;
}

std::uint32_t largest_request(const Trace& trace, std::uint32_t factor) {
  std::uint32_t out = 0;
  for (const TraceRequest& r : trace)
    out = std::max(out, (r.n_prompt + factor * r.n_output) / 16 + 1);
  return out;
}

}  // namespace

bool simulate_trace(const TraceOptions& options) {
  const Trace trace = read_trace(options);
  if (trace.size() < 2) {
    std::fprintf(
        stderr, "%s: no trace of arrival_s,input_tokens,output_tokens\n", options.path.c_str());
    return false;
  }
  const std::uint32_t everything = blocks_for_all(trace);
  const Outcome full =
      Simulation(trace, {.n_blocks = everything, .costs = options.costs, .speed = options.speed})
          .run();
  const Outcome peak = Simulation(trace,
                                  {.n_blocks = everything,
                                   .requests_per_s = full.requests_per_s,
                                   .costs = options.costs,
                                   .speed = options.speed})
                           .run();
  const std::uint32_t least = largest_request(trace, options.length_factor);
  const std::uint32_t n_blocks =
      std::max(least, static_cast<std::uint32_t>(kCacheShare * peak.blocks_peak));
  std::printf("%s: %zu requests, max_new_tokens %u x the real length\n",
              options.path.c_str(),
              trace.size(),
              options.length_factor);
  std::printf(
      "saturation %.2f requests/s; peak need there %u blocks of 16 tokens; cache %u blocks%s\n\n",
      full.requests_per_s,
      peak.blocks_peak,
      n_blocks,
      n_blocks == least ? " (the largest request)" : "");
  std::printf(
      "| load | policy | tokens/s | goodput, requests/s | first token p50, p99, s | pauses |\n"
      "|---|---|---|---|---|---|\n");
  TracePlot plot(options.path);
  for (const auto& [policy, name] : kPolicies) plot.add_line(name);
  const auto simulate = [&](CapacityPolicy policy, double load) {
    return Simulation(trace,
                      {.policy = policy,
                       .n_blocks = n_blocks,
                       .requests_per_s = load * full.requests_per_s,
                       .length_factor = options.length_factor,
                       .costs = options.costs,
                       .speed = options.speed})
        .run();
  };
  const auto print = [](const char* load, const char* name, const Outcome& o) {
    std::printf("| %s | %s | %.0f | %.3f | %.1f, %.1f | %llu |\n",
                load,
                name,
                o.tokens_per_s,
                o.goodput,
                o.first_token_p50,
                o.first_token_p99,
                static_cast<unsigned long long>(o.pauses));
  };
  for (const double load : kLoads) {
    char text[16];
    std::snprintf(text, sizeof text, "%.2f", load);
    for (std::size_t p = 0; p < kPolicies.size(); ++p) {
      const Outcome o = simulate(kPolicies[p].first, load);
      print(text, kPolicies[p].second, o);
      plot.add_point(p, {.load = load, .tokens_per_s = o.tokens_per_s, .goodput = o.goodput});
    }
  }
  for (const auto& [policy, name] : kPolicies) print("all at once", name, simulate(policy, 0));
  return options.svg_path.empty() || plot.write(options.svg_path);
}

}  // namespace coxswain::bench
