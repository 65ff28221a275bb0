#pragma once
// Streams: sequences that decode together in a runner, driven with plain plans, for coxswain-bench-runner.

#include <chrono>
#include <cstdint>
#include <string>
#include <utility>
#include <vector>

#include <coxswain/step_runner.h>

#include "require.h"
#include "runner/local_runner.h"

namespace coxswain::bench {

using BenchClock = std::chrono::steady_clock;

inline constexpr std::uint32_t kBlockTokens = 16;

inline double seconds(std::chrono::nanoseconds time) {
  return std::chrono::duration<double>(time).count();
}

// `n` of them; each has its own `blocks_each` blocks from `first_block` on. Whatever fails ends the program.
//
// Thread rule: one thread.
class Streams {
 public:
  Streams(runner::LocalRunner& runner,
          std::uint64_t first_id,
          std::uint32_t n,
          std::uint32_t first_block,
          std::uint32_t blocks_each)
      : runner_(runner),
        info_(runner.info()),
        first_id_(first_id),
        n_(n),
        first_block_(first_block),
        blocks_each_(blocks_each) {}

  // The prompts, and one token of each. Returns the seconds that took. `sampling`: of each stream; none: greedy.
  double start(std::uint32_t n_prompt, const std::vector<SamplingParams>& sampling = {}) {
    StepPlan plan = start_plan(n_prompt, sampling);
    const auto begin = BenchClock::now();
    check(runner_.run(std::move(plan)));
    return seconds(BenchClock::now() - begin);
  }

  // Prompts of `n_positions` and one token of each: the first stream computes its own, `chunk` at a time, and the
  // others copy what the cache has of it. REQUIRES: n_positions > chunk, a multiple of it.
  void fill(std::uint32_t n_positions, std::uint32_t chunk) {
    StepPlan others = start_plan(n_positions, {});
    StepPlan first{.step = 1, .epoch = info_.epoch};
    first.new_sequences.push_back(others.new_sequences.front());
    first.rows.push_back(others.rows.front());
    const std::vector<TokenId> prompt = first.rows.front().tokens;
    for (std::uint32_t at = 0; at < n_positions; at += chunk) {
      Row& row = first.rows.front();
      row.first_position = at;
      row.n_tokens = chunk;
      row.tokens.assign(prompt.begin() + at, prompt.begin() + at + chunk);
      row.emit = at + chunk == n_positions ? Emit::kSample : Emit::kNone;
      check(runner_.run(first));
      first.new_sequences.clear();
      row.table_changes.clear();
    }
    others.new_sequences.erase(others.new_sequences.begin());
    others.rows.erase(others.rows.begin());
    for (SequenceSpec& spec : others.new_sequences) spec.prompt = prompt;
    for (Row& row : others.rows) {
      row.first_position = n_positions - 1;
      row.n_tokens = 1;
      row.tokens = {prompt.back()};
    }
    for (std::uint32_t g = 0; g < info_.kv_groups.size(); ++g) {
      for (std::uint32_t i = blocks_each_; i < n_ * blocks_each_; ++i)
        others.moves.push_back({g, {0, first_block_ + i % blocks_each_}, {0, first_block_ + i}});
    }
    if (n_ > 1) check(runner_.run(std::move(others)));
  }

  // The same as start() beside a token of each of `others`.
  double start_beside(std::uint32_t n_prompt, Streams& others) {
    StepPlan plan = start_plan(n_prompt, {});
    for (Row& row : others.decode_plan().rows) plan.rows.push_back(std::move(row));
    const auto begin = BenchClock::now();
    check(runner_.run(std::move(plan)));
    return seconds(BenchClock::now() - begin);
  }

  struct Burst {
    double step_s = 0;
    double sample_s = 0;
    double rest_s = 0;  // checking the plan, building the batch, handing the result over
  };
  // Per step, the next plan always submitted before the result is there.
  Burst decode(std::uint32_t n_steps) {
    Burst sum;
    const auto begin = BenchClock::now();
    StepTicket next = require(runner_.submit(decode_plan()));
    for (std::uint32_t i = 0; i < n_steps; ++i) {
      const StepTicket current = next;
      if (i + 1 < n_steps) next = require(runner_.submit(decode_plan()));
      const StepTimings timings = check(runner_.wait(current));
      sum.sample_s += seconds(timings.sample);
      sum.rest_s -= seconds(timings.forward + timings.sample);
    }
    sum.step_s = seconds(BenchClock::now() - begin);
    sum.rest_s += sum.step_s;
    return {sum.step_s / n_steps, sum.sample_s / n_steps, sum.rest_s / n_steps};
  }

  void drop() {
    StepPlan plan{.step = 1, .epoch = info_.epoch};
    for (std::uint32_t s = 0; s < n_; ++s) plan.dropped.push_back(SequenceId{first_id_ + s});
    check(runner_.run(std::move(plan)));
  }

 private:
  StepPlan start_plan(std::uint32_t n_prompt, const std::vector<SamplingParams>& sampling) {
    length_ = n_prompt;
    StepPlan plan{.step = 1, .epoch = info_.epoch};
    for (std::uint32_t s = 0; s < n_; ++s) {
      SequenceSpec spec{.id = SequenceId{first_id_ + s}};
      for (std::uint32_t i = 0; i < n_prompt; ++i)
        spec.prompt.push_back(static_cast<TokenId>((i * 7919 + s * 104729 + 5) % info_.vocab_size));
      spec.stopping = {.max_new_tokens = blocks_each_ * kBlockTokens - n_prompt,
                       .ignore_eos = true};
      if (!sampling.empty()) spec.sampling = sampling.at(s);
      Row row{
          .sequence = spec.id, .n_tokens = n_prompt, .tokens = spec.prompt, .emit = Emit::kSample};
      for (std::uint32_t g = 0; g < info_.kv_groups.size(); ++g) {
        BlockTableChange table{.kv_group = g};
        for (std::uint32_t b = 0; b < blocks_each_; ++b)
          table.blocks.push_back(first_block_ + s * blocks_each_ + b);
        row.table_changes.push_back(std::move(table));
      }
      plan.new_sequences.push_back(std::move(spec));
      plan.rows.push_back(std::move(row));
    }
    return plan;
  }

  StepPlan decode_plan() {
    StepPlan plan{.step = 1, .epoch = info_.epoch};
    for (std::uint32_t s = 0; s < n_; ++s) {
      plan.rows.push_back({.sequence = SequenceId{first_id_ + s},
                           .first_position = length_,
                           .n_tokens = 1,
                           .continues = true,
                           .emit = Emit::kSample});
    }
    ++length_;
    return plan;
  }

  static StepTimings check(Result<StepResult> result) {
    const StepResult step = require(std::move(result));
    for (const SequenceResult& sequence : step.sequences) {
      if (!sequence.status.ok()) die(sequence.status);
      if (sequence.finish) die(internal_error("a stream has ended before the last round"));
    }
    return step.timings;
  }

  runner::LocalRunner& runner_;
  const RunnerInfo info_;
  const std::uint64_t first_id_;
  const std::uint32_t n_;
  const std::uint32_t first_block_;
  const std::uint32_t blocks_each_;
  std::uint32_t length_ = 0;
};

}  // namespace coxswain::bench
