#include "batch/testing/fake_runner.h"

#include <algorithm>
#include <limits>
#include <string_view>

namespace coxswain::batch::testing {
namespace {

// splitmix64's finaliser over a running sum.
std::uint64_t mix(std::uint64_t h, std::uint64_t value) {
  h += value + 0x9e3779b97f4a7c15U;
  h = (h ^ (h >> 30U)) * 0xbf58476d1ce4e5b9U;
  h = (h ^ (h >> 27U)) * 0x94d049bb133111ebU;
  return h ^ (h >> 31U);
}

std::uint64_t hash_text(std::string_view text) {
  std::uint64_t h = text.size();
  for (const char c : text) h = mix(h, static_cast<unsigned char>(c));
  return h;
}

std::uint64_t identity_of(const FakeRunnerOptions& o, const SequenceSpec& spec) {
  std::uint64_t variant = 0;
  if (o.rope_switch_length > 0 && spec.rope_length > o.rope_switch_length) {
    variant = o.rope_length_is_exact ? spec.rope_length : 1;
  }
  return mix(mix(hash_text(spec.adapter), hash_text(spec.cache_salt)), variant);
}

std::uint64_t cell(std::uint32_t position, TokenId token, std::uint64_t identity) {
  return mix(mix(position, static_cast<std::uint64_t>(token)), identity);
}

// First position that a token at `position` sees in a group.
std::uint32_t window_begin(std::uint32_t window, std::uint32_t position) {
  return window == 0 || position < window ? 0 : position - window + 1;
}

struct Sampled {
  TokenId token = 0;
  float logprob = 0;
  bool eos = false;
};

Sampled sample(const FakeRunnerOptions& o,
               std::uint64_t context,
               const SamplingParams& sampling,
               std::uint32_t n_output) {
  const std::uint64_t h = sampling.do_sample ? mix(mix(context, sampling.seed), n_output) : context;
  return {.token = static_cast<TokenId>(h % o.vocab_size),
          .logprob = -static_cast<float>((h >> 20U) & 0xFFFFU) / 4096.0F,
          .eos = o.eos_every > 0 && (h >> 40U) % o.eos_every == 0};
}

float prompt_logprob(std::uint64_t context, TokenId token) {
  return -static_cast<float>(mix(context, static_cast<std::uint64_t>(token)) & 0xFFFFU) / 4096.0F;
}

}  // namespace

ExpectedOutput expected_output(const FakeRunnerOptions& o, const GenerationRequest& request) {
  const SequenceSpec spec{.id = {},
                          .prompt = {},
                          .produced = {},
                          .sampling = request.sampling,
                          .stopping = request.stopping,
                          .rope_length = static_cast<std::uint32_t>(request.prompt.size()) +
                                         request.stopping.max_new_tokens,
                          .adapter = request.adapter,
                          .cache_salt = request.cache_salt};
  const std::uint64_t identity = identity_of(o, spec);
  std::vector<TokenId> tokens = request.prompt;
  const auto context = [&](std::uint32_t end) {  // hash of what the token at end - 1 sees
    std::uint64_t h = 0;
    for (const std::uint32_t window : o.windows) {
      for (std::uint32_t p = window_begin(window, end - 1); p < end; ++p)
        h = mix(h, cell(p, tokens[p], identity));
    }
    return h;
  };
  ExpectedOutput out;
  out.prompt_logprobs.push_back(std::numeric_limits<float>::quiet_NaN());
  for (std::uint32_t p = 1; p < request.prompt.size(); ++p) {
    out.prompt_logprobs.push_back(prompt_logprob(context(p), tokens[p]));
  }
  for (std::uint32_t n = 0; n < request.stopping.max_new_tokens; ++n) {
    const Sampled s =
        sample(o, context(static_cast<std::uint32_t>(tokens.size())), request.sampling, n);
    out.tokens.push_back(s.token);
    out.logprobs.push_back(s.logprob);
    tokens.push_back(s.token);
    if (s.eos && !request.stopping.ignore_eos) {
      out.reason = FinishReason::kEosToken;
      break;
    }
  }
  return out;
}

FakeRunner::FakeRunner(FakeRunnerOptions options) : options_(std::move(options)) {
  for (const std::uint32_t n : options_.n_blocks)
    slots_.emplace_back(std::size_t{n} * options_.block_tokens);
}

RunnerInfo FakeRunner::info() const {
  RunnerInfo info;
  info.engine_version = "fake";
  info.epoch = options_.epoch;
  info.kernel_set_id = "fake";
  info.vocab_size = options_.vocab_size;
  info.block_tokens = options_.block_tokens;
  info.rope_switch_length = options_.rope_switch_length;
  info.rope_length_is_exact = options_.rope_length_is_exact;
  info.capabilities = options_.capabilities;
  for (std::size_t g = 0; g < options_.n_blocks.size(); ++g) {
    KvGroup group;
    group.layers = {static_cast<std::uint32_t>(g)};
    group.kind = options_.windows[g] > 0 ? KvGroup::Kind::kWindow : KvGroup::Kind::kFull;
    group.window = options_.windows[g];
    group.n_blocks = options_.n_blocks[g];
    info.kv_groups.push_back(group);
  }
  return info;
}

void FakeRunner::violate(std::string what) {
  if (violations_.size() < 20) violations_.push_back(std::move(what));
}

void FakeRunner::take_new_and_dropped(const StepPlan& plan) {
  for (const SequenceId id : plan.dropped) {
    if (sequences_.erase(static_cast<std::uint64_t>(id)) == 0)
      violate("an unknown sequence is dropped");
  }
  for (const SequenceSpec& spec : plan.new_sequences) {
    State state;
    state.spec = spec;
    state.identity = identity_of(options_, spec);
    state.tables.resize(options_.n_blocks.size());
    state.n_output = static_cast<std::uint32_t>(spec.produced.size());
    if (!sequences_.emplace(static_cast<std::uint64_t>(spec.id), std::move(state)).second) {
      violate("a sequence is introduced twice");
    }
  }
}

Result<StepTicket> FakeRunner::submit(StepPlan plan) {
  if (jobs_.size() >= (options_.capabilities.look_ahead ? 2U : 1U))
    violate("too many plans in flight");
  if (plan.epoch != options_.epoch) violate("a plan of another epoch");
  take_new_and_dropped(plan);
  Job job;
  std::vector<SequenceId> seen;
  for (const Row& row : plan.rows) {
    const auto it = sequences_.find(static_cast<std::uint64_t>(row.sequence));
    if (it == sequences_.end()) {
      violate("a row of an unknown sequence");
      job.tables.emplace_back();
      continue;
    }
    State& state = it->second;
    for (const BlockTableChange& change : row.table_changes) {
      auto& table = state.tables[change.kv_group];
      if (change.first_index > table.size()) violate("a table change leaves a hole");
      table.resize(change.first_index);
      table.insert(table.end(), change.blocks.begin(), change.blocks.end());
    }
    if (options_.check_plans) {
      if (std::ranges::count(seen, row.sequence) > 0) violate("two rows of one sequence");
      seen.push_back(row.sequence);
      check_row(row, state, plan);
    }
    if (row.emit == Emit::kSample) state.submitted_sample_in_step = plan.step;
    job.tables.push_back(state.tables);
  }
  if (keep_plans_) plans_.push_back(plan);
  const StepTicket ticket{plan.step};
  job.plan = std::move(plan);
  jobs_.push_back(std::move(job));
  return ticket;
}

void FakeRunner::check_row(const Row& row, const State& state, const StepPlan& plan) {
  const Capabilities& can = options_.capabilities;
  if (row.n_tokens == 0) violate("an empty row");
  if (row.from_previous_step) {
    if (!can.look_ahead || row.n_tokens != 1 || state.submitted_sample_in_step + 1 != plan.step) {
      violate("a row takes a token that the step before does not sample");
    }
  } else if (row.tokens.size() != row.n_tokens) {
    violate("a row has another number of tokens than it says");
  }
  const bool whole_prompt = row.first_position + row.n_tokens >= state.spec.prompt.size();
  if (!can.plans_chunks && !whole_prompt) violate("a chunk of a prompt");
  if (row.emit == Emit::kNone && (row.first_position + row.n_tokens) % options_.block_tokens != 0) {
    violate("a chunk that does not end at a block");
  }
  const std::uint32_t end = row.first_position + row.n_tokens;
  for (std::size_t g = 0; g < state.tables.size(); ++g) {
    const auto& table = state.tables[g];
    if (table.size() < block_of(end - 1) + 1) return violate("a block table is too short");
    if (!can.grows_blocks &&
        table.size() * options_.block_tokens <
            state.spec.prompt.size() + state.spec.stopping.max_new_tokens - 1) {
      violate("a table that must not grow is too short");
    }
    for (std::uint32_t b = block_of(window_begin(options_.windows[g], row.first_position));
         b < table.size();
         ++b) {
      if (table[b] == 0 || table[b] >= options_.n_blocks[g])
        violate("a block id that is not leased to anybody");
    }
  }
  check_writes(row, state);
}

// A block that this row writes may stand in no table of another sequence in a step in flight.
void FakeRunner::check_writes(const Row& row, const State& state) {
  const auto named_by_another = [&](std::size_t g, BlockId block) {
    for (const Job& job : jobs_) {
      for (std::size_t r = 0; r < job.tables.size(); ++r) {
        if (job.plan.rows[r].sequence == row.sequence || job.tables[r].empty()) continue;
        if (std::ranges::count(job.tables[r][g], block) > 0) return true;
      }
    }
    return false;
  };
  const std::uint32_t last = block_of(row.first_position + row.n_tokens - 1);
  for (std::size_t g = 0; g < state.tables.size(); ++g) {
    for (std::uint32_t b = block_of(row.first_position); b <= last; ++b) {
      if (named_by_another(g, state.tables[g][b])) {
        violate("a block is written that a step in flight names for another sequence");
      }
    }
  }
}

std::uint64_t FakeRunner::read(const State&,
                               const std::vector<std::vector<BlockId>>& tables,
                               std::uint32_t end) const {
  std::uint64_t h = 0;
  for (std::size_t g = 0; g < tables.size(); ++g) {
    for (std::uint32_t p = window_begin(options_.windows[g], end - 1); p < end; ++p) {
      const BlockId block = tables[g][block_of(p)];
      const std::size_t index =
          std::size_t{block} * options_.block_tokens + p % options_.block_tokens;
      const Slot slot = block < options_.n_blocks[g] ? slots_[g][index] : Slot{};
      h = mix(h, cell(slot.position, slot.token, slot.identity));
    }
  }
  return h;
}

SequenceResult FakeRunner::run_row(const Job& job, std::size_t index) {
  const Row& row = job.plan.rows[index];
  SequenceResult out;
  out.sequence = row.sequence;
  const auto it = sequences_.find(static_cast<std::uint64_t>(row.sequence));
  if (it == sequences_.end() || job.tables[index].empty()) {
    out.status = Status(Code::kNotFound, "the sequence is not known");
    return out;
  }
  State& state = it->second;
  if (out.status = row_failure(job.plan.step, state.spec); !out.status.ok()) {
    sequences_.erase(it);
    return out;
  }
  const auto& tables = job.tables[index];
  for (std::uint32_t i = 0; i < row.n_tokens; ++i) {
    const std::uint32_t position = row.first_position + i;
    const TokenId token = row.from_previous_step ? state.last_sampled : row.tokens[i];
    if (row.prompt_logprobs && position < state.spec.prompt.size()) {
      const float logprob = position == 0 ? std::numeric_limits<float>::quiet_NaN()
                                          : prompt_logprob(read(state, tables, position), token);
      out.prompt.push_back({.id = token, .logprob = logprob, .text = {}});
    }
    for (std::size_t g = 0; g < tables.size(); ++g) {
      const BlockId block = tables[g][block_of(position)];
      slots_[g][std::size_t{block} * options_.block_tokens + position % options_.block_tokens] = {
          position, token, state.identity};
    }
  }
  if (row.emit != Emit::kSample) return out;
  const std::uint32_t end = row.first_position + row.n_tokens;
  state.n_output = end - static_cast<std::uint32_t>(state.spec.prompt.size());
  const Sampled s = sample(options_, read(state, tables, end), state.spec.sampling, state.n_output);
  ++state.n_output;
  state.last_sampled = s.token;
  OutputToken token;
  token.id = s.token;
  token.logprob = s.logprob;
  out.tokens.push_back(std::move(token));
  if (s.eos && !state.spec.stopping.ignore_eos) {
    out.finish = SequenceFinish{.reason = FinishReason::kEosToken, .generated_text = {}};
  } else if (state.n_output >= state.spec.stopping.max_new_tokens) {
    out.finish = SequenceFinish{.reason = FinishReason::kLength, .generated_text = {}};
  }
  return out;
}

Result<StepResult> FakeRunner::wait(StepTicket ticket) {
  on_step(ticket.step);
  if (jobs_.empty() || jobs_.front().plan.step != ticket.step) {
    violate("a ticket is waited for out of order");
    return internal_error("no such step");
  }
  const Job job = std::move(jobs_.front());
  jobs_.pop_front();
  if (Status status = step_failure(ticket.step); !status.ok()) return status;
  StepResult out;
  out.step = job.plan.step;
  out.epoch = options_.epoch;
  for (std::size_t i = 0; i < job.plan.rows.size(); ++i) out.sequences.push_back(run_row(job, i));
  return out;
}

}  // namespace coxswain::batch::testing
