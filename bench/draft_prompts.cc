#include "draft_prompts.h"

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <span>
#include <utility>
#include <vector>

#include "base/numbers.h"
#include "grammar/compiler.h"
#include "json/json.h"
#include "measures.h"
#include "request/draft_room.h"
#include "require.h"

namespace coxswain::bench {
namespace {

constexpr std::uint32_t kTokensMax = 512;  // prompt and answer
constexpr std::uint32_t kNewMax = 160;

using Ids = std::vector<TokenId>;

std::vector<Ids> read_prompts(const std::string& path) {
  const json::Value file = require(json::parse_file(path, std::size_t{64} << 20));
  const json::Value* entries = file.find("entries");
  if (entries == nullptr || !entries->is_array()) die(invalid_argument(path + " has no `entries`"));
  std::vector<Ids> out;
  for (const json::Value& entry : entries->as_array()) {
    const json::Value* prompt = entry.find("prompt_ids");
    if (prompt == nullptr || !prompt->is_array())
      die(invalid_argument(path + ": an entry without `prompt_ids`"));
    Ids& ids = out.emplace_back();
    for (const json::Value& id : prompt->as_array())
      ids.push_back(static_cast<TokenId>(id.to_double().value_or(0)));
    if (ids.size() + kNewMax > kTokensMax) out.pop_back();
  }
  return out;
}

struct Run {
  std::vector<Ids> answers;
  std::size_t n_tokens = 0;  // decoded: the first of each answer is the prompt's
  std::uint32_t n_steps = 0;
  double wall_s = 0;
  double cpu_s = 0;
};

class PromptBench {
 public:
  explicit PromptBench(runner::LocalRunner& runner, CompiledGrammar grammar)
      : runner_(runner), info_(runner.info()), grammar_(std::move(grammar)) {}

  // Answers these together.
  void run(std::span<const Ids> prompts, std::uint32_t n_draft_max, Run& out) {
    const std::size_t first = out.answers.size();
    out.answers.resize(first + prompts.size());
    answers_ = std::span(out.answers).subspan(first);
    ended_.assign(prompts.size(), false);
    StepPlan plan{.epoch = info_.epoch};
    for (std::size_t s = 0; s < prompts.size(); ++s) add(plan, s, prompts[s]);
    take(require(runner_.run(std::move(plan))));
    const auto begin = std::chrono::steady_clock::now();
    const double cpu = process_cpu_seconds();
    StepTicket next = require(runner_.submit(decode_plan(n_draft_max)));
    while (std::ranges::find(ended_, false) != ended_.end()) {
      const StepTicket current = next;
      next = require(runner_.submit(decode_plan(n_draft_max)));
      take(require(runner_.wait(current)));
      ++out.n_steps;
    }
    out.wall_s += std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    out.cpu_s += process_cpu_seconds() - cpu;
    take(require(runner_.wait(next)));
    StepPlan last{.epoch = info_.epoch};
    for (std::size_t s = 0; s < prompts.size(); ++s) last.dropped.push_back(SequenceId{1 + s});
    take(require(runner_.run(std::move(last))));
    for (const Ids& answer : answers_) out.n_tokens += answer.size() - 1;
  }

 private:
  void add(StepPlan& plan, std::size_t s, const Ids& prompt) const {
    SequenceSpec spec{.id = SequenceId{1 + s}, .prompt = prompt};
    spec.rope_length = kTokensMax;
    spec.stopping = {.max_new_tokens = kNewMax};
    spec.sampling.grammar = grammar_;
    Row row{.sequence = spec.id,
            .n_tokens = static_cast<std::uint32_t>(prompt.size()),
            .emit = Emit::kSample};
    const std::uint32_t each = base::ceil_div(kTokensMax, info_.block_tokens);
    for (std::uint32_t g = 0; g < info_.kv_groups.size(); ++g) {
      BlockTableChange& table = row.table_changes.emplace_back(BlockTableChange{.kv_group = g});
      for (std::uint32_t b = 0; b < each; ++b)
        table.blocks.push_back(1 + static_cast<std::uint32_t>(s) * each + b);
    }
    plan.new_sequences.push_back(std::move(spec));
    plan.rows.push_back(std::move(row));
  }

  StepPlan decode_plan(std::uint32_t n_draft_max) const {
    StepPlan plan{.epoch = info_.epoch};
    for (std::size_t s = 0; s < ended_.size(); ++s) {
      if (ended_[s]) continue;
      plan.rows.push_back({.sequence = SequenceId{1 + s},
                           .n_tokens = 1,
                           .continues = true,
                           .n_draft_max = n_draft_max,
                           .emit = Emit::kSample});
    }
    return plan;
  }

  void take(const StepResult& step) {
    for (const SequenceResult& sequence : step.sequences) {
      if (!sequence.status.ok()) die(sequence.status);
      const auto s = static_cast<std::size_t>(sequence.sequence) - 1;
      for (const OutputToken& token : sequence.tokens) answers_[s].push_back(token.id);
      if (sequence.finish) ended_[s] = true;
    }
  }

  runner::LocalRunner& runner_;
  const RunnerInfo info_;
  const CompiledGrammar grammar_;
  std::span<Ids> answers_;
  std::vector<bool> ended_;
};

struct Gains {
  std::uint32_t n_streams = 0;
  std::uint32_t n_rounds = 0;
  std::uint32_t n_draft_max = 0;
  CompiledGrammar grammar = {};
};

// Whole batches.
void print_gains(runner::LocalRunner& runner, std::vector<Ids> prompts, const Gains& of) {
  for (std::size_t i = 0; prompts.size() % of.n_streams != 0; ++i) prompts.push_back(prompts[i]);
  PromptBench bench(runner, of.grammar);
  std::vector<double> wall;
  std::vector<double> cpu;
  Run last;
  const auto before = runner.state().drafts;
  for (std::uint32_t round = 0; round < of.n_rounds; ++round) {
    Run off;
    Run on;
    for (std::size_t at = 0; at < prompts.size(); at += of.n_streams) {
      const auto batch = std::span(prompts).subspan(at, of.n_streams);
      bench.run(batch, 0, off);
      bench.run(batch, of.n_draft_max, on);
    }
    if (on.answers != off.answers) die(internal_error("drafts have changed a token"));
    wall.push_back(off.wall_s / on.wall_s);
    cpu.push_back(off.cpu_s / on.cpu_s);
    last = std::move(on);
  }
  const auto after = runner.state().drafts;
  const auto computed = static_cast<double>(after.computed - before.computed);
  std::printf(
      "%u streams, %zu prompts: %5.2f x none (%5.2f x by CPU time), %.2f tokens a step and stream, "
      "%.2f of %.0f guesses right\n",
      of.n_streams,
      prompts.size(),
      median(wall),
      median(cpu),
      static_cast<double>(last.n_tokens) / last.n_steps / of.n_streams,
      static_cast<double>(after.accepted - before.accepted) / std::max(computed, 1.0),
      computed / of.n_rounds);
}

}  // namespace

std::uint32_t prompt_blocks(std::uint32_t n_streams, std::uint32_t block_tokens) {
  return n_streams * base::ceil_div(kTokensMax, block_tokens) + 1;
}

void print_prompt_gains(runner::LocalRunner& runner,
                        const std::string& path,
                        std::uint32_t n_streams,
                        std::uint32_t n_rounds) {
  print_gains(runner,
              read_prompts(path),
              {.n_streams = n_streams,
               .n_rounds = n_rounds,
               .n_draft_max = runner.info().capabilities.draft_tokens_max});
}

void print_forced_gains(runner::LocalRunner& runner,
                        std::uint32_t n_streams,
                        std::uint32_t n_rounds) {
  constexpr const char* kSchema = R"({"type": "object", "properties": {
    "customer_identifier": {"type": "integer", "minimum": 1, "maximum": 9999},
    "shipping_address_city": {"type": "string", "maxLength": 8},
    "payment_has_been_received": {"type": "boolean"},
    "preferred_delivery_method": {"enum": ["standard delivery", "express delivery", "collected in the shop"]},
    "remaining_account_balance": {"type": "integer", "minimum": 0, "maximum": 999}},
    "required": ["customer_identifier", "shipping_address_city", "payment_has_been_received",
                 "preferred_delivery_method", "remaining_account_balance"]})";
  std::vector<Ids> prompts;
  for (std::uint32_t s = 0; s < n_streams; ++s) {
    const std::string text = "Write the order of customer " + std::to_string(s + 1) + " as JSON.";
    prompts.push_back(require(runner.codec()->encode(text, true)));
  }
  std::printf("forced text: ");
  print_gains(runner,
              std::move(prompts),
              {.n_streams = n_streams,
               .n_rounds = n_rounds,
               .n_draft_max = request::kForcedTokensMax,
               .grammar = require(grammar::compile_source({.text = kSchema}))});
}

}  // namespace coxswain::bench
