// coxswain-bench-runner MODEL_DIR [BATCH] [STEPS] [THREADS]: decode steps through the whole
// LocalRunner.
//
// Prints where the time of a step goes. "rest" is what the runner itself costs: checking the plan,
// building the batch, waking threads and handing the result over; it does not grow with the model.

#include <algorithm>
#include <chrono>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <string>
#include <vector>

#include "runner/local_runner.h"

namespace coxswain {
namespace {

using BenchClock = std::chrono::steady_clock;

constexpr std::uint32_t kPromptTokens = 32;
constexpr std::uint32_t kBlockTokens = 16;

struct Arguments {
  std::string model_dir;
  std::uint32_t batch = 1;
  std::uint32_t steps = 64;
  std::size_t threads = 0;
};

BlockTableChange block_of(std::uint32_t sequence,
                          std::uint32_t index,
                          std::uint32_t blocks_each,
                          std::uint32_t group) {
  return {.kv_group = group, .first_index = index, .blocks = {1 + sequence * blocks_each + index}};
}

StepPlan first_plan(const RunnerInfo& info, const Arguments& args, std::uint32_t blocks_each) {
  StepPlan plan{.step = 0, .epoch = info.epoch};
  for (std::uint32_t s = 0; s < args.batch; ++s) {
    SequenceSpec spec{.id = SequenceId{s + 1},
                      .prompt = std::vector<TokenId>(kPromptTokens, static_cast<TokenId>(5 + s))};
    spec.stopping = {.max_new_tokens = args.steps + 1, .ignore_eos = true};
    Row row{.sequence = spec.id,
            .n_tokens = kPromptTokens,
            .tokens = spec.prompt,
            .emit = Emit::kSample};
    for (std::uint32_t g = 0; g < info.kv_groups.size(); ++g) {
      for (std::uint32_t b = 0; b < blocks_each; ++b)
        row.table_changes.push_back(block_of(s, b, blocks_each, g));
    }
    plan.new_sequences.push_back(std::move(spec));
    plan.rows.push_back(std::move(row));
  }
  return plan;
}

StepPlan decode_plan(const RunnerInfo& info, const Arguments& args, std::uint32_t step) {
  StepPlan plan{.step = step, .epoch = info.epoch};
  for (std::uint32_t s = 0; s < args.batch; ++s) {
    plan.rows.push_back({.sequence = SequenceId{s + 1},
                         .first_position = kPromptTokens + step - 1,
                         .n_tokens = 1,
                         .from_previous_step = true,
                         .emit = Emit::kSample});
  }
  return plan;
}

double us(std::chrono::nanoseconds time, std::uint32_t steps) {
  return static_cast<double>(time.count()) / 1e3 / steps;
}

int run(const Arguments& args) {
  const std::uint32_t blocks_each = (kPromptTokens + args.steps) / kBlockTokens + 1;
  runner::RunnerOptions options;
  options.model_dir = args.model_dir;
  options.without_text = true;
  options.n_threads = args.threads;
  options.block_tokens = kBlockTokens;
  options.kv_blocks = 1 + args.batch * blocks_each;
  options.max_total_tokens = kPromptTokens + args.steps + 1;
  options.max_batch_size = args.batch;
  auto runner = runner::LocalRunner::create(options);
  if (!runner.ok()) {
    std::fprintf(stderr, "%s\n", runner.status().message().c_str());
    return 1;
  }
  const RunnerInfo info = (*runner)->info();
  if (!(*runner)->run(first_plan(info, args, blocks_each)).ok()) return 1;

  StepTimings sum;
  std::vector<double> rests;  // us of each step
  const auto begin = BenchClock::now();
  auto last = begin;
  auto ticket = (*runner)->submit(decode_plan(info, args, 1));
  for (std::uint32_t step = 1; step <= args.steps; ++step) {
    const auto current = ticket;
    if (step < args.steps) ticket = (*runner)->submit(decode_plan(info, args, step + 1));
    if (!current.ok()) return 1;
    const auto result = (*runner)->wait(*current);
    if (!result.ok()) return 1;
    for (const SequenceResult& sequence : result->sequences) {
      if (!sequence.status.ok()) return 1;
    }
    sum.forward += result->timings.forward;
    sum.sample += result->timings.sample;
    const auto now = BenchClock::now();
    rests.push_back(us(now - last - result->timings.forward - result->timings.sample, 1));
    last = now;
  }
  const auto wall = std::chrono::duration_cast<std::chrono::nanoseconds>(BenchClock::now() - begin);
  std::sort(rests.begin(), rests.end());
  std::printf(
      "%s, %s, %zu threads, batch %u: step %.0f us, forward %.0f, sample %.0f; rest %.1f us "
      "(median)\n",
      info.kernel_set_id.c_str(),
      info.dtype.c_str(),
      (*runner)->n_threads(),
      args.batch,
      us(wall, args.steps),
      us(sum.forward, args.steps),
      us(sum.sample, args.steps),
      rests[rests.size() / 2]);
  return 0;
}

}  // namespace
}  // namespace coxswain

int main(int argc, char** argv) {
  if (argc < 2) {
    std::fputs("usage: coxswain-bench-runner MODEL_DIR [BATCH] [STEPS] [THREADS]\n", stderr);
    return 2;
  }
  const auto number = [&](int index, unsigned long otherwise) {
    return argc > index ? std::max(1UL, std::strtoul(argv[index], nullptr, 10)) : otherwise;
  };
  coxswain::Arguments args;
  args.model_dir = argv[1];
  args.batch = static_cast<std::uint32_t>(number(2, 1));
  args.steps = static_cast<std::uint32_t>(number(3, 64));
  args.threads = argc > 4 ? number(4, 1) : 0;
  return coxswain::run(args);
}
