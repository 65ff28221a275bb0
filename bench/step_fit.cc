#include "step_fit.h"

#include <algorithm>
#include <array>
#include <chrono>
#include <cmath>
#include <cstdio>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "batch/step_cost.h"
#include "require.h"

namespace coxswain::bench {
namespace {

constexpr std::uint32_t kPrompt = 1024;
constexpr std::array kChunks{256U, 128U, 64U};
constexpr std::array kContexts{32U, 512U};
constexpr std::uint32_t kDecodesAlone = 8;
constexpr std::uint32_t kSteps = 128;  // of one set of streams, at least

struct Measured {
  batch::StepShape shape;
  double seconds = 0;
};

std::uint32_t blocks_of(std::uint32_t n_tokens, std::uint32_t block_tokens) {
  return base::ceil_div(n_tokens, block_tokens);
}

class StepFit {
 public:
  explicit StepFit(StepRunner& runner) : runner_(runner), info_(runner.info()) {}

  // The first step of each kind warms up and is not kept.
  void measure(std::uint32_t n_streams, std::uint32_t context) {
    decodes_.clear();
    length_ = context;
    std::uint32_t first_block = 1 + blocks_of(kPrompt + 1, info_.block_tokens);
    for (std::uint32_t i = 0; i < n_streams; ++i) {
      const std::uint32_t n_blocks = blocks_of(context + kSteps, info_.block_tokens);
      decodes_.push_back(begin(context, first_block, n_blocks));
      first_block += n_blocks;
    }
    for (std::uint32_t i = 0; n_streams > 0 && i <= kDecodesAlone; ++i) {
      const Measured m = step({});
      if (i > 0) measured_.push_back(m);
    }
    for (const std::uint32_t chunk : kChunks) prompt_in(chunk);
    drop(decodes_);
  }

  const std::vector<Measured>& measured() const { return measured_; }

 private:
  void prompt_in(std::uint32_t chunk) {
    Pending prompt = make(kPrompt, 1, blocks_of(kPrompt + 1, info_.block_tokens));
    for (std::uint32_t at = 0; at < kPrompt; at += chunk) {
      prompt.row.first_position = at;
      prompt.row.n_tokens = chunk;
      prompt.row.emit = at + chunk == kPrompt ? Emit::kSample : Emit::kNone;
      const Measured m = step({prompt});
      if (at > 0) measured_.push_back(m);
      prompt.specs.clear();
      prompt.row.table_changes.clear();
    }
    drop({prompt.row.sequence});
  }

  struct Pending {
    std::vector<SequenceSpec> specs;
    Row row;
  };

  Pending make(std::uint32_t n_prompt, std::uint32_t first_block, std::uint32_t n_blocks) {
    SequenceSpec spec{.id = SequenceId{++last_id_}};
    for (std::uint32_t i = 0; i < n_prompt; ++i)
      spec.prompt.push_back(
          static_cast<TokenId>((i * 7919 + last_id_ * 104729 + 5) % info_.vocab_size));
    spec.stopping = {.max_new_tokens = kSteps, .ignore_eos = true};
    Row row{.sequence = spec.id, .n_tokens = n_prompt, .emit = Emit::kSample};
    for (std::uint32_t g = 0; g < info_.kv_groups.size(); ++g) {
      BlockTableChange table{.kv_group = g};
      for (std::uint32_t b = 0; b < n_blocks; ++b) table.blocks.push_back(first_block + b);
      row.table_changes.push_back(std::move(table));
    }
    return {{std::move(spec)}, std::move(row)};
  }

  SequenceId begin(std::uint32_t n_prompt, std::uint32_t first_block, std::uint32_t n_blocks) {
    Pending one = make(n_prompt, first_block, n_blocks);
    const SequenceId id = one.row.sequence;
    StepPlan plan{.step = 1, .epoch = info_.epoch};
    plan.new_sequences = std::move(one.specs);
    plan.rows.push_back(std::move(one.row));
    run(std::move(plan));
    return id;
  }

  // A token of every stream, and `prompts`.
  Measured step(std::vector<Pending> prompts) {
    Measured out;
    StepPlan plan{.step = 1, .epoch = info_.epoch};
    for (const SequenceId id : decodes_) {
      plan.rows.push_back({.sequence = id,
                           .first_position = length_,
                           .n_tokens = 1,
                           .continues = true,
                           .emit = Emit::kSample});
      ++out.shape.n_decodes;
      out.shape.decode_context += length_ + 1;
    }
    ++length_;
    for (Pending& p : prompts) {
      const std::uint64_t n = p.row.n_tokens;
      out.shape.n_prompt_tokens += p.row.n_tokens;
      out.shape.prompt_context += n * p.row.first_position + n * (n + 1) / 2;
      for (SequenceSpec& spec : p.specs) plan.new_sequences.push_back(std::move(spec));
      plan.rows.push_back(std::move(p.row));
    }
    out.seconds = run(std::move(plan));
    return out;
  }

  double run(StepPlan plan) {
    const TimePoint begin = Clock::now();
    const StepResult result = require(runner_.run(std::move(plan)));
    for (const SequenceResult& s : result.sequences) {
      if (!s.status.ok()) die(s.status);
    }
    return std::chrono::duration<double>(Clock::now() - begin).count();
  }

  void drop(const std::vector<SequenceId>& ids) {
    StepPlan plan{.step = 1, .epoch = info_.epoch};
    plan.dropped = ids;
    run(std::move(plan));
  }

  StepRunner& runner_;
  const RunnerInfo info_;
  std::vector<SequenceId> decodes_;
  std::uint32_t length_ = 0;  // of each of these
  std::uint64_t last_id_ = 0;
  std::vector<Measured> measured_;
};

}  // namespace

std::uint32_t step_fit_blocks(std::uint32_t n_streams, std::uint32_t block_tokens) {
  return blocks_of(kPrompt + 1, block_tokens) +
         n_streams * blocks_of(kContexts.back() + kSteps, block_tokens) + 1;
}

void print_step_costs(StepRunner& runner, std::uint32_t n_streams) {
  StepFit fit(runner);
  for (const std::uint32_t context : kContexts) {
    for (const std::uint32_t n : {0U, 1U, n_streams / 2, n_streams}) fit.measure(n, context);
  }
  batch::StepCost cost;
  for (int pass = 0; pass < 4; ++pass) {  // it forgets, and begins far off
    for (const Measured& m : fit.measured()) cost.observe(m.shape, m.seconds, 0);
  }
  std::vector<double> errors;
  for (const Measured& m : fit.measured())
    errors.push_back(std::abs(cost.predict(m.shape) / m.seconds - 1));
  std::ranges::sort(errors);
  const double step = cost.predict({});
  std::printf("%zu steps; the fit is off by %.0f %% (median), %.0f %% (90th of 100)\n",
              errors.size(),
              100 * errors[errors.size() / 2],
              100 * errors[errors.size() * 9 / 10]);
  // The model is linear: a large number of each says what one takes.
  const auto us = [&](const batch::StepShape& shape, double n) {
    return (cost.predict(shape) - step) / n * 1e6;
  };
  std::printf("StepCosts{NAME, %.1fe-3, %.0fe-6, %.0fe-6, %.3ge-6, %.3ge-6}\n",
              step * 1e3,
              us({.n_decodes = 1000}, 1000),
              us({.n_prompt_tokens = 1000}, 1000),
              us({.decode_context = 1'000'000}, 1e6),
              us({.prompt_context = 1'000'000}, 1e6));
}

}  // namespace coxswain::bench
