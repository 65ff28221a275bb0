// coxswain-bench-rpc: what it costs to hand a step to another process; kHelp says more.

#include <array>
#include <chrono>
#include <cstdio>
#include <deque>
#include <string>
#include <string_view>
#include <thread>
#include <unistd.h>
#include <vector>

#include <benchmark/benchmark.h>
#include <coxswain/step_runner.h>
#include <sys/socket.h>

#include "served_runner.h"

namespace coxswain {
namespace {

constexpr std::uint32_t kBlocks = 4096;
// What a decode step of 64 rows takes at least with 1B parameters in bfloat16 on two cores (coxswain-bench-runner).
constexpr std::int64_t kRowsOfStep = 64;
constexpr double kStepMicroseconds = 150'000;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-rpc [options of the benchmark library, see below]

What it costs to hand a step to another process: one plan there and its result back, over the
Engine stream, with 0 to 256 rows, beside a few bytes sent there and back over a bare Unix socket.
Lockstep: with look-ahead this time lies behind the step before.

Prints the library's table: wall and CPU time of one step in microseconds, and at 64 rows the share of
a decode step of 150 ms, which a model of 1B parameters in bfloat16 takes at least on two cores. The
goal is 2 %.

)";

// Answers every row with one token at once.
class InstantRunner final : public StepRunner {
 public:
  RunnerInfo info() const override {
    RunnerInfo info;
    info.engine_version = "bench";
    info.epoch = 1;
    info.vocab_size = 32'000;
    info.n_layers = 1;
    info.kv_groups = {{.layers = {0},
                       .kind = KvGroup::Kind::kFull,
                       .window = 0,
                       .bytes_per_block = 1,
                       .n_blocks = kBlocks}};
    info.capabilities = {.plans_chunks = true,
                         .selects_rows = true,
                         .grows_blocks = true,
                         .takes_ids = true,
                         .look_ahead = true};
    return info;
  }
  Result<StepTicket> submit(StepPlan plan) override {
    const StepTicket ticket{plan.step};
    plans_.push_back(std::move(plan));
    return ticket;
  }
  Result<StepResult> wait(StepTicket, TimePoint) override {
    StepResult result;
    result.step = plans_.front().step;
    result.epoch = 1;
    for (const Row& row : plans_.front().rows) {
      SequenceResult& sequence = result.sequences.emplace_back();
      sequence.sequence = row.sequence;
      sequence.tokens.push_back(
          {.id = 17, .logprob = -1.0F, .special = false, .text = " token", .alternatives = {}});
    }
    plans_.pop_front();
    return result;
  }
  Status healthy() override { return {}; }

 private:
  std::deque<StepPlan> plans_;
};

void engine_stream(benchmark::State& state) {
  InstantRunner runner;
  const bench::ServedRunner served(runner);
  StepPlan plan;
  plan.epoch = 1;
  for (std::int64_t i = 0; i < state.range(0); ++i) {
    Row& row = plan.rows.emplace_back();
    row.sequence = SequenceId{static_cast<std::uint64_t>(i + 1)};
    row.first_position = 1000;
    row.n_tokens = 1;
    row.continues = true;
    row.emit = Emit::kSample;
  }
  const TimePoint begin = Clock::now();
  for (auto _ : state) {
    ++plan.step;
    auto result = served.client()->run(plan);
    if (!result.ok()) {
      state.SkipWithError(result.status().message().c_str());
      return;
    }
    benchmark::DoNotOptimize(result);
  }
  std::string label = "rows per step: " + std::to_string(state.range(0));
  if (state.range(0) == kRowsOfStep) {
    const std::chrono::duration<double, std::micro> elapsed = Clock::now() - begin;
    const double share = elapsed.count() / static_cast<double>(state.iterations());
    std::array<char, 64> text{};
    std::snprintf(text.data(), text.size(), ", %.2f %% of 150 ms", 100 * share / kStepMicroseconds);
    label += text.data();
  }
  state.SetLabel(label);
}
BENCHMARK(engine_stream)
    ->Arg(0)
    ->Arg(1)
    ->Arg(16)
    ->Arg(64)
    ->Arg(256)
    ->Unit(benchmark::kMicrosecond)
    ->UseRealTime();

// The limit: two threads that wake each other through a socket.
void bare_socket(benchmark::State& state) {
  std::array<int, 2> pair{};
  if (::socketpair(AF_UNIX, SOCK_STREAM, 0, pair.data()) != 0) {
    state.SkipWithError("no socket pair");
    return;
  }
  std::thread echo([fd = pair[1]] {
    std::array<char, 64> buffer{};
    for (;;) {
      const ssize_t n = ::read(fd, buffer.data(), buffer.size());
      if (n <= 0 || ::write(fd, buffer.data(), static_cast<std::size_t>(n)) != n) return;
    }
  });
  std::array<char, 64> buffer{};
  for (auto _ : state) {
    if (::write(pair[0], buffer.data(), buffer.size()) < 0 ||
        ::read(pair[0], buffer.data(), buffer.size()) <= 0) {
      state.SkipWithError("the socket failed");
      break;
    }
  }
  ::close(pair[0]);
  echo.join();
  ::close(pair[1]);
}
BENCHMARK(bare_socket)->Unit(benchmark::kMicrosecond)->UseRealTime();

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  static char help[] = "--help";
  for (int i = 1; i < argc; ++i) {
    if (std::string_view(argv[i]) == "-h") argv[i] = help;  // the library knows the long form only
  }
  benchmark::Initialize(&argc, argv, [] {
    std::fwrite(coxswain::kHelp.data(), 1, coxswain::kHelp.size(), stdout);
    benchmark::PrintDefaultHelp();
  });
  if (benchmark::ReportUnrecognizedArguments(argc, argv)) return 2;
  benchmark::RunSpecifiedBenchmarks();
  return 0;
}
