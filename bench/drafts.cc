#include "drafts.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cstdio>
#include <memory>
#include <random>
#include <string>
#include <string_view>
#include <vector>

#include "base/numbers.h"
#include "measures.h"
#include "require.h"

namespace coxswain::bench {
namespace {

constexpr std::uint32_t kPrompt = 32;
constexpr std::uint32_t kNew = 96;

using Ids = std::vector<TokenId>;

enum class Kind : std::uint8_t { kOff, kGiven, kSomeRight, kNoneRight, kLookUp, kCopied };
constexpr const char* kCopy = "copy";
constexpr std::array<std::string_view, 6> kNames{
    "no drafts", "given", "70 of 100 right", "none right", "look-up alone", "prompt copied"};

// Makes every answer a copy of the prompt, again and again.
class Copy final : public LogitsProcessor {
 public:
  Status process(const LogitsInput& input, std::span<float> logits) override {
    logits[static_cast<std::size_t>(input.prompt[input.output.size() % input.prompt.size()])] =
        1e6F;
    return {};
  }
};

struct Run {
  std::vector<Ids> outputs;
  std::uint32_t n_steps = 0;
  double wall_s = 0;
  double cpu_s = 0;
};

class DraftBench {
 public:
  DraftBench(runner::LocalRunner& runner, std::uint32_t n_streams)
      : runner_(runner), info_(runner.info()), n_(n_streams) {}

  Run run(Kind kind, std::uint32_t round, const std::vector<Ids>& answers) {
    StepPlan first{.step = 1, .epoch = info_.epoch};
    for (std::uint32_t s = 0; s < n_; ++s) add(first, s, kind, round, answers);
    Run out{.outputs = std::vector<Ids>(n_)};
    take(require(runner_.run(std::move(first))), out);
    const auto begin = std::chrono::steady_clock::now();
    const double cpu = process_cpu_seconds();
    StepTicket next = require(runner_.submit(decode_plan(kind)));
    while (true) {
      const StepTicket current = next;
      next = require(runner_.submit(decode_plan(kind)));
      take(require(runner_.wait(current)), out);
      ++out.n_steps;
      if (std::ranges::all_of(out.outputs, [](const Ids& ids) { return ids.size() == kNew; }))
        break;
    }
    out.wall_s = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    out.cpu_s = process_cpu_seconds() - cpu;
    take(require(runner_.wait(next)), out);
    StepPlan last{.step = 1, .epoch = info_.epoch};
    for (std::uint32_t s = 0; s < n_; ++s) last.dropped.push_back(SequenceId{1 + s});
    take(require(runner_.run(std::move(last))), out);
    return out;
  }

 private:
  void add(StepPlan& plan,
           std::uint32_t s,
           Kind kind,
           std::uint32_t round,
           const std::vector<Ids>& answers) {
    SequenceSpec spec{.id = SequenceId{1 + s}};
    std::mt19937 random(s + 1000 * round);
    std::uniform_int_distribution<TokenId> any(0, static_cast<TokenId>(info_.vocab_size) - 1);
    for (std::uint32_t i = 0; i < kPrompt; ++i) spec.prompt.push_back(any(random));
    // Sampled: greedy answers of small models repeat themselves, which look-up would find.
    spec.sampling.do_sample = true;
    spec.sampling.seed = s;
    spec.stopping = {.max_new_tokens = kNew, .ignore_eos = true};
    if (kind == Kind::kGiven || kind == Kind::kSomeRight || kind == Kind::kNoneRight) {
      std::bernoulli_distribution right(kind == Kind::kGiven       ? 1.0
                                        : kind == Kind::kSomeRight ? 0.7
                                                                   : 0.0);
      for (const TokenId token : answers[s])
        spec.draft.push_back(right(random) ? token : any(random));
    }
    if (kind == Kind::kCopied) spec.sampling.logits_processor = kCopy;
    Row row{.sequence = spec.id, .n_tokens = kPrompt, .emit = Emit::kSample};
    const std::uint32_t each = base::ceil_div(kPrompt + kNew, info_.block_tokens);
    for (std::uint32_t g = 0; g < info_.kv_groups.size(); ++g) {
      BlockTableChange& table = row.table_changes.emplace_back(BlockTableChange{.kv_group = g});
      for (std::uint32_t b = 0; b < each; ++b) table.blocks.push_back(1 + s * each + b);
    }
    plan.new_sequences.push_back(std::move(spec));
    plan.rows.push_back(std::move(row));
  }

  StepPlan decode_plan(Kind kind) const {
    StepPlan plan{.step = 1, .epoch = info_.epoch};
    for (std::uint32_t s = 0; s < n_; ++s) {
      plan.rows.push_back(
          {.sequence = SequenceId{1 + s},
           .first_position = kPrompt,
           .n_tokens = 1,
           .continues = true,
           .n_draft_max = kind == Kind::kOff ? 0 : info_.capabilities.draft_tokens_max,
           .emit = Emit::kSample});
    }
    return plan;
  }

  static void take(const StepResult& step, Run& run) {
    for (std::size_t s = 0; s < step.sequences.size(); ++s) {
      if (!step.sequences[s].status.ok()) die(step.sequences[s].status);
      for (const OutputToken& token : step.sequences[s].tokens) run.outputs[s].push_back(token.id);
    }
  }

  runner::LocalRunner& runner_;
  const RunnerInfo info_;
  const std::uint32_t n_;
};

}  // namespace

runner::LogitsProcessors draft_processors() {
  return {{kCopy, std::make_shared<Copy>()}};
}

std::uint32_t draft_blocks(std::uint32_t n_streams, std::uint32_t block_tokens) {
  return n_streams * base::ceil_div(kPrompt + kNew, block_tokens) + 1;
}

void print_draft_gains(runner::LocalRunner& runner,
                       std::uint32_t n_streams,
                       std::uint32_t n_rounds) {
  DraftBench bench(runner, n_streams);
  std::array<std::vector<double>, kNames.size()> wall;
  std::array<std::vector<double>, kNames.size()> cpu;
  std::array<double, kNames.size()> steps{};
  for (std::uint32_t round = 0; round < n_rounds; ++round) {
    Run off = bench.run(Kind::kOff, round, {});
    for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
      const Run run = bench.run(static_cast<Kind>(kind), round, off.outputs);
      if (run.outputs != off.outputs && static_cast<Kind>(kind) != Kind::kCopied)
        die(internal_error("drafts have changed a token"));
      wall[kind].push_back(run.wall_s);
      cpu[kind].push_back(run.cpu_s);
      steps[kind] += run.n_steps;
    }
  }
  for (std::size_t kind = 0; kind < kNames.size(); ++kind) {
    std::vector<double> gains;
    std::vector<double> cpu_gains;
    for (std::size_t round = 0; round < n_rounds; ++round) {
      gains.push_back(wall[0][round] / wall[kind][round]);
      cpu_gains.push_back(cpu[0][round] / cpu[kind][round]);
    }
    std::printf(
        "%u streams, %-16s %7.0f tok/s, %5.2f x none (%5.2f x by CPU time), %.2f tokens a step\n",
        n_streams,
        std::string(kNames[kind]).c_str(),
        n_streams * (kNew - 1) / median(wall[kind]),
        median(gains),
        median(cpu_gains),
        (kNew - 1) * n_rounds / steps[kind]);
  }
}

}  // namespace coxswain::bench
