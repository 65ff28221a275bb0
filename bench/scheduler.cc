// coxswain-bench-scheduler: what the host pays for a step; kHelp says more.

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <string_view>
#include <vector>

#include "arguments.h"
#include "batch/engine_core.h"
#include "measures.h"
#include "trace.h"

namespace {

using namespace coxswain;  // NOLINT(google-build-using-namespace): a program, not a library

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-scheduler [SEQUENCES] [STEPS]
       coxswain-bench-scheduler --trace FILE [--from N] [--requests N] [--factor N] [--svg FILE]

What the host pays for a step: planning, committing and applying it, at 1, 16 and SEQUENCES
running sequences with as many waiting behind them, over a runner that computes nothing; at 32 and
512 running with 10,000 waiting, where in each step one request comes, one is admitted and one ends;
with nine long prompts at the head of the queue that do not fit; and the admission of a prompt that
the prefix cache holds. Times are of the CPU: what else runs on the machine does not count.

  SEQUENCES  the largest number of running sequences (256)
  STEPS      measured for each number (2000)

With --trace: the requests of a trace (CSV: arrival_s,input_tokens,output_tokens) through the engine
under each capacity policy, over simulated time (bench/step_costs.h), at 0.5 to 2 times the load that
saturates a cache without limit; the cache has a quarter of what is needed there. Goodput are requests
with their first token within 2 s and a mean gap of at most 100 ms.

  --from N      begin with the Nth request of the trace (1)
  --requests N  of the trace (2000)
  --machine M   whose steps were measured: amx or zen5 (amx)
  --speed N     of the simulated machine, in multiples of the one that was measured (8)
  --factor N    max_new_tokens of a request, in multiples of its real length (4)
  --svg FILE    where to draw the same figures

The figure to compare with is the step of a model: the goal is below 2 % of it.
)";

// Answers every row at once with the same token; a sequence ends with its max_new_tokens.
class NullRunner final : public StepRunner {
 public:
  explicit NullRunner(std::uint32_t n_blocks) {
    info_.epoch = 1;
    info_.block_tokens = 16;
    info_.capabilities = {true, true, true, true, true};
    info_.capabilities.moves = true;
    KvGroup group;
    group.n_blocks = n_blocks;
    info_.kv_groups = {group};
  }
  RunnerInfo info() const override { return info_; }
  Result<StepTicket> submit(StepPlan plan) override {
    for (const SequenceSpec& spec : plan.new_sequences) {
      left_.resize(static_cast<std::size_t>(spec.id) + 1);
      left_.back() = spec.stopping.max_new_tokens;
    }
    StepResult result;
    result.step = plan.step;
    result.epoch = plan.epoch;
    result.sequences.resize(plan.rows.size());
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      result.sequences[i].sequence = plan.rows[i].sequence;
      if (plan.rows[i].emit != Emit::kSample) continue;
      result.sequences[i].tokens.resize(1);
      if (--left_[static_cast<std::size_t>(plan.rows[i].sequence)] == 0)
        result.sequences[i].finish.emplace();
    }
    const StepTicket ticket{plan.step};
    results_.push_back(std::move(result));
    return ticket;
  }
  Result<StepResult> wait(StepTicket, TimePoint) override {
    StepResult out = std::move(results_.front());
    results_.pop_front();
    return out;
  }
  Status healthy() override { return {}; }

 private:
  RunnerInfo info_;
  std::deque<StepResult> results_;
  std::vector<std::uint32_t> left_;  // by sequence: new tokens to come
};

class NullSink final : public batch::TokenSink {
 public:
  void on_event(batch::TokenEvent) override {}
};

batch::GenerationRequest request(std::uint64_t id, std::uint32_t n_prompt, std::uint32_t n_new) {
  batch::GenerationRequest r;
  r.id = RequestId{id};
  for (std::uint32_t i = 0; i < n_prompt; ++i)
    r.prompt.push_back(static_cast<TokenId>(id * 31 + i));
  r.stopping.max_new_tokens = n_new;
  return r;
}

void turn(batch::EngineCore& core) {
  const TimePoint now = Clock::now();
  core.advance(now);
  while (core.submit_next(now)) {
  }
  core.apply_oldest(core.wait_oldest(), now);
}

// Decode of n sequences with 512 positions each, as many waiting behind them.
void bench_decode(std::uint32_t n, std::uint32_t n_steps) {
  constexpr std::uint32_t kPrompt = 512;
  const std::uint32_t n_blocks = n * (kPrompt + n_steps + 100) / 16 + n + 1;
  batch::EngineOptions options;
  options.batch_size_max = n;
  options.prefill_tokens_max = kPrompt * n;
  options.queue_requests_max = 2 * n;
  batch::EngineCore core(std::make_shared<NullRunner>(n_blocks), options, {1, 2}, {});
  const auto sink = std::make_shared<NullSink>();
  for (std::uint32_t i = 0; i < 2 * n; ++i)
    core.add(request(i, kPrompt, n_steps + 100), sink, Clock::now());
  for (int i = 0; i < 4; ++i) turn(core);
  const double begin = 1e6 * bench::thread_cpu_seconds();
  for (std::uint32_t i = 0; i < n_steps; ++i) turn(core);
  const double us = (1e6 * bench::thread_cpu_seconds() - begin) / n_steps;
  if (core.stats().generated_tokens < std::uint64_t{n} * n_steps)
    std::printf("not every sequence ran in every step\n");
  std::printf("decode    %4u sequences, %4u waiting: %8.1f us per step, %.3f us per row\n",
              n,
              n,
              us,
              us / n);
}

void print_percentiles(const char* what, std::vector<double>& us) {
  std::ranges::sort(us);
  std::printf("%s: p50 %7.1f us, p99 %7.1f us per step\n",
              what,
              us[us.size() / 2],
              us[us.size() * 99 / 100]);
}

// `n` sequences run and `n_queued` wait; in each step one request comes, one is admitted and one ends.
void bench_queue(std::uint32_t n, std::uint32_t n_queued, std::uint32_t n_steps) {
  constexpr std::uint32_t kPrompt = 256;
  batch::EngineOptions options;
  options.batch_size_max = n;
  options.prefill_tokens_max = kPrompt * n;
  options.queue_requests_max = n + n_queued;
  batch::EngineCore core(
      std::make_shared<NullRunner>(2 * n * (kPrompt + n) / 16), options, {1, 2}, {});
  const auto sink = std::make_shared<NullSink>();
  std::uint64_t id = 0;
  const auto add = [&] {
    ++id;  // the first ones end one after the other
    const auto n_new = static_cast<std::uint32_t>(std::min<std::uint64_t>(id, n));
    auto r = request(id, kPrompt, n_new);
    r.deadline = Clock::now() + std::chrono::hours(1);
    core.add(std::move(r), sink, Clock::now());
  };
  while (id < n + n_queued) add();
  for (std::uint32_t i = 0; i < 2 * n; ++i, add()) turn(core);
  const std::uint64_t n_finished = core.stats().finished;
  std::vector<double> us(n_steps);
  for (double& t : us) {
    const double begin = 1e6 * bench::thread_cpu_seconds();
    add();
    turn(core);
    t = 1e6 * bench::thread_cpu_seconds() - begin;
  }
  if (core.stats().finished - n_finished < n_steps * std::uint64_t{9} / 10 ||
      core.stats().queued < n_queued * 9 / 10)
    std::printf("%llu of %u ended, %u are waiting\n",
                static_cast<unsigned long long>(core.stats().finished - n_finished),
                n_steps,
                core.stats().queued);
  char what[80];
  std::snprintf(what, sizeof what, "one in, one out: %4u running, %5u waiting", n, n_queued);
  print_percentiles(what, us);
}

// 32 sequences decode; at the head of the queue are prompts of 32,768 tokens, all but the end of each in the prefix
// cache, that do not fit.
void bench_blocked(std::uint32_t n_steps) {
  constexpr std::uint32_t kLong = 32'768;
  constexpr std::uint32_t kRunning = 32;
  batch::EngineOptions options;
  options.prefill_tokens_max = kLong;
  options.batch_total_tokens_max = 3 * kLong;
  options.policy = CapacityPolicy::kMaxUtilization;  // lets all of the short ones in
  batch::EngineCore core(std::make_shared<NullRunner>(3 * kLong / 16), options, {1, 2}, {});
  const auto sink = std::make_shared<NullSink>();
  auto holder = request(1, kLong, n_steps + 1000);
  const auto prompt = holder.prompt;
  core.add(std::move(holder), sink, Clock::now());
  for (int i = 0; i < 4; ++i) turn(core);
  for (std::uint32_t i = 0; i < kRunning; ++i)
    core.add(request(100 + i, 256, n_steps + 1000), sink, Clock::now());
  for (int i = 0; i < 4; ++i) turn(core);
  for (std::uint64_t id = 10; id < 19; ++id) {
    auto r = request(id, 3 * kLong - 5000, 16);
    std::ranges::copy(prompt, r.prompt.begin());
    core.add(std::move(r), sink, Clock::now());
  }
  for (int i = 0; i < 4; ++i) turn(core);
  if (core.stats().queued != 9) std::printf("the long prompts are not blocked\n");
  std::vector<double> us(n_steps);
  for (double& t : us) {
    const double begin = 1e6 * bench::thread_cpu_seconds();
    turn(core);
    t = 1e6 * bench::thread_cpu_seconds() - begin;
  }
  print_percentiles("nine heads blocked, 2,048 cached blocks each: 33 running", us);
}

// A prompt of 4096 tokens of which all but the last block is in the prefix cache: admitted,
// computed and answered.
void bench_prefix_hit(std::uint32_t n_requests) {
  batch::EngineOptions options;
  batch::EngineCore core(std::make_shared<NullRunner>(2000), options, {1, 2}, {});
  const auto sink = std::make_shared<NullSink>();
  const auto prompt = request(7, 4096, 1).prompt;
  const auto serve = [&](std::uint64_t id) {
    auto r = request(id, 1, 2);
    r.prompt = prompt;
    core.add(std::move(r), sink, Clock::now());
    turn(core);
    core.cancel(RequestId{id});
    while (core.n_in_flight() > 0) core.apply_oldest(core.wait_oldest(), Clock::now());
  };
  serve(0);
  const double begin = 1e6 * bench::thread_cpu_seconds();
  for (std::uint32_t i = 1; i <= n_requests; ++i) serve(i);
  const double us = (1e6 * bench::thread_cpu_seconds() - begin) / n_requests;
  std::printf(
      "admission of 4096 cached tokens (255 blocks): %8.1f us per request, %.3f us per block\n",
      us,
      us / 255);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv, kHelp);
  const bench::TraceOptions trace{
      .path = arguments.text("trace"),
      .first_request = arguments.count("from", 1),
      .n_requests = arguments.count("requests", 2000),
      .length_factor = arguments.count("factor", 4),
      .costs = bench::costs_of(arguments.one_of("machine", {"amx", "zen5"}, "amx")),
      .speed = arguments.count("speed", 8),
      .svg_path = arguments.text("svg")};
  const std::uint32_t n = arguments.count_word("SEQUENCES", 256);
  const std::uint32_t n_steps = arguments.count_word("STEPS", 2000);
  arguments.finish();
  if (!trace.path.empty()) return bench::simulate_trace(trace) ? 0 : 1;
  for (const std::uint32_t sequences : {1U, 16U, n}) bench_decode(sequences, n_steps);
  for (const std::uint32_t sequences : {32U, 512U}) bench_queue(sequences, 10'000, n_steps);
  bench_blocked(n_steps);
  bench_prefix_hit(2000);
  std::printf("2 %% of a step of 20 ms: 400 us\n");
  return 0;
}
