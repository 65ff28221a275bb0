// coxswain-bench-scheduler: what the host pays for a step; kHelp says more.

#include <chrono>
#include <cstdio>
#include <deque>
#include <memory>
#include <string_view>

#include "arguments.h"
#include "batch/engine_core.h"

namespace {

using namespace coxswain;  // NOLINT(google-build-using-namespace): a program, not a library
using std::chrono::duration;

constexpr std::string_view kHelp =
    R"(usage: coxswain-bench-scheduler [SEQUENCES] [STEPS]

What the host pays for a step: planning, committing and applying it, at 1, 16 and SEQUENCES
running sequences with as many waiting behind them, over a runner that computes nothing; and the
admission of a prompt that the prefix cache holds.

  SEQUENCES  the largest number of running sequences (256)
  STEPS      measured for each number (2000)

The figure to compare with is the step of a model: the goal is below 2 % of it.
)";

// Answers every row at once with the same token.
class NullRunner final : public StepRunner {
 public:
  explicit NullRunner(std::uint32_t n_blocks) {
    info_.epoch = 1;
    info_.block_tokens = 16;
    info_.capabilities = {true, true, true, true, true};
    KvGroup group;
    group.n_blocks = n_blocks;
    info_.kv_groups = {group};
  }
  RunnerInfo info() const override { return info_; }
  Result<StepTicket> submit(StepPlan plan) override {
    StepResult result;
    result.step = plan.step;
    result.epoch = plan.epoch;
    result.sequences.resize(plan.rows.size());
    for (std::size_t i = 0; i < plan.rows.size(); ++i) {
      result.sequences[i].sequence = plan.rows[i].sequence;
      if (plan.rows[i].emit == Emit::kSample) result.sequences[i].tokens.resize(1);
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
  const auto begin = Clock::now();
  for (std::uint32_t i = 0; i < n_steps; ++i) turn(core);
  const double us = duration<double, std::micro>(Clock::now() - begin).count() / n_steps;
  if (core.stats().generated_tokens < std::uint64_t{n} * n_steps)
    std::printf("not every sequence ran in every step\n");
  std::printf("decode    %4u sequences, %4u waiting: %8.1f us per step, %.3f us per row\n",
              n,
              n,
              us,
              us / n);
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
  const auto begin = Clock::now();
  for (std::uint32_t i = 1; i <= n_requests; ++i) serve(i);
  const double us = duration<double, std::micro>(Clock::now() - begin).count() / n_requests;
  std::printf(
      "admission of 4096 cached tokens (255 blocks): %8.1f us per request, %.3f us per block\n",
      us,
      us / 255);
}

}  // namespace

int main(int argc, char** argv) {
  bench::Arguments arguments(argc, argv, kHelp);
  const std::uint32_t n = arguments.count_word("SEQUENCES", 256);
  const std::uint32_t n_steps = arguments.count_word("STEPS", 2000);
  arguments.finish();
  for (const std::uint32_t sequences : {1U, 16U, n}) bench_decode(sequences, n_steps);
  bench_prefix_hit(2000);
  std::printf("2 %% of a step of 20 ms: 400 us\n");
  return 0;
}
