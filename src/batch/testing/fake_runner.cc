#include "batch/testing/fake_runner.h"

#include <algorithm>
#include <chrono>
#include <iterator>
#include <limits>
#include <utility>

#include "batch/testing/fake_tokens.h"

namespace coxswain::batch::testing {

FakeRunner::FakeRunner(FakeRunnerOptions options) : options_(std::move(options)) {
  for (const std::uint32_t n : options_.n_blocks)
    slots_.emplace_back(std::size_t{n} * options_.block_tokens);
}

RunnerInfo FakeRunner::info() const {
  RunnerInfo info = options_.about;
  info.epoch = options_.epoch;
  info.vocab_size = options_.vocab_size;
  info.block_tokens = options_.block_tokens;
  info.rope_switch_length = options_.rope_switch_length;
  info.rope_length_is_exact = options_.rope_length_is_exact;
  info.capabilities = options_.capabilities;
  const auto n_groups = static_cast<std::uint32_t>(options_.n_blocks.size());
  info.kv_groups.clear();
  for (std::uint32_t g = 0; g < n_groups; ++g) {
    KvGroup group;
    for (std::uint32_t layer = g; layer < std::max(info.n_layers, n_groups); layer += n_groups)
      group.layers.push_back(layer);
    group.kind = options_.windows[g] > 0 ? KvGroup::Kind::kWindow : KvGroup::Kind::kFull;
    group.window = options_.windows[g];
    group.sink_tokens = options_.windows[g] > 0 ? options_.sink_tokens : 0;
    group.dtype = "fake";
    group.n_kv_heads = group.k_dim = group.v_dim = 1;
    group.bytes_per_block = options_.block_tokens * sizeof(Slot);
    group.n_blocks = options_.n_blocks[g];
    info.kv_groups.push_back(std::move(group));
  }
  return info;
}

Status FakeRunner::healthy() {
  on_health();
  base::MutexLock lock(mu_);
  return health_;
}

void FakeRunner::hold() {
  base::MutexLock lock(mu_);
  held_ = true;
}

void FakeRunner::release() {
  base::MutexLock lock(mu_);
  held_ = false;
  changed_.notify_all();
}

void FakeRunner::restart() {
  base::MutexLock lock(mu_);
  late_.reset();
  sequences_.clear();
  failed_.clear();
  jobs_.clear();
  for (std::vector<Slot>& slots : slots_) slots.assign(slots.size(), Slot{});
  changed_.notify_all();
}

void FakeRunner::set_health(Status status) {
  base::MutexLock lock(mu_);
  health_ = std::move(status);
}

void FakeRunner::refuse_attachments(Status status) {
  base::MutexLock lock(mu_);
  attachment_refusal_ = std::move(status);
}

void FakeRunner::refuse_next(Status status) {
  base::MutexLock lock(mu_);
  next_refusal_ = std::move(status);
}

void FakeRunner::fail_next(Status status) {
  base::MutexLock lock(mu_);
  next_failure_ = std::move(status);
}

void FakeRunner::fail_next_transfer(Status status) {
  base::MutexLock lock(mu_);
  next_transfer_failure_ = std::move(status);
}

void FakeRunner::fail_sequences_starting_with(TokenId token) {
  base::MutexLock lock(mu_);
  failing_start_ = token;
}

std::vector<std::string> FakeRunner::violations() const {
  base::MutexLock lock(mu_);
  return violations_;
}

std::set<SequenceId> FakeRunner::live() const {
  base::MutexLock lock(mu_);
  std::set<SequenceId> out;
  for (const auto& [id, state] : sequences_) out.insert(id);
  return out;
}

std::uint64_t FakeRunner::n_submitted() const {
  base::MutexLock lock(mu_);
  return n_submitted_;
}

std::uint64_t FakeRunner::n_steps() const {
  base::MutexLock lock(mu_);
  return n_steps_;
}

void FakeRunner::wait_for_submitted(std::uint64_t n) const {
  base::MutexLock lock(mu_);
  changed_.wait(lock, [&]() REQUIRES(mu_) { return n_submitted_ >= n; });
}

void FakeRunner::wait_for_live(std::size_t n) const {
  base::MutexLock lock(mu_);
  changed_.wait(lock, [&]() REQUIRES(mu_) { return sequences_.size() == n; });
}

std::vector<StepPlan> FakeRunner::take_plans() {
  base::MutexLock lock(mu_);
  return std::exchange(plans_, {});
}

std::vector<StepPlan> FakeRunner::plans() const {
  base::MutexLock lock(mu_);
  return plans_;
}

void FakeRunner::keep_plans() {
  base::MutexLock lock(mu_);
  keep_plans_ = true;
}

void FakeRunner::violate(std::string what) {
  if (violations_.size() < 20) violations_.push_back(std::move(what));
}

void FakeRunner::take_new_and_dropped(const StepPlan& plan, Job& job) {
  for (const SequenceId id : plan.dropped) {
    job.dropped.push_back(sequences_.extract(id));
    if (job.dropped.back().empty() && options_.checks_scheduling && failed_.erase(id) == 0)
      violate("an unknown sequence is dropped");
  }
  for (const SequenceSpec& spec : plan.new_sequences) {
    State state;
    state.spec = spec;
    state.identity = identity_of(options_, spec);
    state.tables.resize(options_.n_blocks.size());
    state.tokens = spec.prompt;
    state.tokens.insert(state.tokens.end(), spec.produced.begin(), spec.produced.end());
    if (!sequences_.insert_or_assign(spec.id, std::move(state)).second)
      violate("a sequence is introduced twice");
  }
}

void FakeRunner::change_tables(const Row& row, State& state) {
  for (const BlockTableChange& change : row.table_changes) {
    if (change.kv_group >= state.tables.size()) {
      violate("a table change of an unknown group");
      continue;
    }
    auto& table = state.tables[change.kv_group];
    if (change.first_index > table.size()) violate("a table change leaves a hole");
    table.resize(change.first_index);
    table.insert(table.end(), change.blocks.begin(), change.blocks.end());
  }
}

Result<StepTicket> FakeRunner::submit(StepPlan plan) {
  if (Status status = submit_failure(plan.step); !status.ok()) return status;
  base::MutexLock lock(mu_);
  if (jobs_.size() >= (options_.capabilities.look_ahead ? 2U : 1U))
    violate("too many plans in flight");
  if (plan.epoch != options_.epoch) violate("a plan of another epoch");
  check_fields(plan);
  if (!next_refusal_.ok()) {
    for (const SequenceSpec& spec : plan.new_sequences) failed_.insert(spec.id);
    return std::exchange(next_refusal_, Status());
  }
  Job job;
  take_new_and_dropped(plan, job);
  apply_edits(plan);
  std::set<SequenceId> seen;
  for (const Row& row : plan.rows) {
    const auto it = sequences_.find(row.sequence);
    if (it == sequences_.end()) {
      violate("a row of an unknown sequence");
      job.tables.emplace_back();
      continue;
    }
    State& state = it->second;
    change_tables(row, state);
    if (!seen.insert(row.sequence).second) violate("two rows of one sequence");
    check_row(row, state, plan);
    if (row.emit == Emit::kSample) state.submitted_sample_in_step = plan.step;
    job.tables.push_back(state.tables);
  }
  if (keep_plans_) plans_.push_back(plan);
  const StepTicket ticket{plan.step};
  job.plan = std::move(plan);
  if (clock_ != nullptr)
    job.ends_at = last_ends_at_ = std::max(*clock_, last_ends_at_) + step_time(job.plan);
  jobs_.push_back(std::move(job));
  ++n_submitted_;
  changed_.notify_all();
  return ticket;
}

Status FakeRunner::failure_of(const StepPlan& plan) {
  const bool transfers = !plan.imports.empty() || !plan.exports.empty();
  if (transfers && !next_transfer_failure_.ok())
    return std::exchange(next_transfer_failure_, Status());
  return next_failure_.ok() ? step_failure(plan.step) : std::exchange(next_failure_, Status());
}

Status FakeRunner::failure_of(std::uint64_t step, const SequenceSpec& spec) {
  if (failing_start_ && spec.prompt.front() == *failing_start_)
    return {Code::kInternal, ErrorKind::kGeneration, "told to fail"};
  return row_failure(step, spec);
}

SequenceResult FakeRunner::run_row(const Job& job, std::size_t index) {
  const Row& row = job.plan.rows[index];
  SequenceResult out;
  out.sequence = row.sequence;
  const auto it = sequences_.find(row.sequence);
  if (it == sequences_.end() || job.tables[index].empty()) {
    out.status = Status(Code::kNotFound, "the sequence is not known");
    return out;
  }
  State& state = it->second;
  if (out.status = failure_of(job.plan.step, state.spec); !out.status.ok()) {
    failed_.insert(row.sequence);
    sequences_.erase(it);
    return out;
  }
  const Tables& tables = job.tables[index];
  const auto n_known = static_cast<std::uint32_t>(state.tokens.size());
  if (row.continues && row.first_position > state.computed) {  // the step before has failed
    out.status = internal_error("a row continues too far on");
    sequences_.erase(it);
    return out;
  }
  if (state.finished) return out;  // planned ahead, before its end was known
  const std::uint32_t first = row.continues ? state.computed : row.first_position;
  const std::uint32_t n_tokens =
      row.continues ? std::min(n_known - first, row.n_tokens + row.n_draft_max) : row.n_tokens;
  if (first + n_tokens > n_known) {
    violate("positions behind the end of the sequence");
    out.status = internal_error("positions behind the end of the sequence");
    sequences_.erase(it);
    return out;
  }
  for (std::uint32_t position = first; position < first + n_tokens; ++position) {
    const TokenId token = state.tokens[position];
    if (!row.tokens.empty() && row.tokens[position - first] != token)
      violate("a token that is not the sequence's");
    if (row.prompt_logprobs && position < state.spec.prompt.size()) {
      const float logprob =
          position == 0
              ? std::numeric_limits<float>::quiet_NaN()
              : prompt_logprob(position == first ? state.context : read(tables, position), token);
      out.prompt.push_back({.id = token, .logprob = logprob, .text = text_of(options_, token)});
    }
    write_position(state, tables, position);
  }
  state.computed = out.next_position = first + n_tokens;
  if (row.prompt_logprobs) state.context = read(tables, state.computed);
  if (row.emit == Emit::kCandidates) list_candidates(row, state, tables, out);
  if (row.emit != Emit::kSample) return out;
  if (state.computed == n_known) {
    sample_row(row.n_tokens + row.n_draft_max - n_tokens, state, tables, out);
  } else if (!row.continues) {
    violate("a sample before the end of the context");
  }
  return out;
}

void FakeRunner::list_candidates(const Row& row,
                                 const State& state,
                                 const Tables& tables,
                                 SequenceResult& out) {
  if (state.computed != state.tokens.size()) return violate("candidates before the end");
  out.candidates = candidates_of(options_, read(tables, state.computed), row.n_candidates);
}

// Yields up to 1 + room tokens.
void FakeRunner::sample_row(std::uint32_t room,
                            State& state,
                            const Tables& tables,
                            SequenceResult& out) {
  const std::uint32_t first_new = state.computed;
  out.n_drafts = room;
  while (true) {
    const auto end = static_cast<std::uint32_t>(state.tokens.size());
    const std::uint64_t context = read(tables, end);
    out.tokens.push_back(sample_token(state, tables, out));
    if (state.finished || options_.drafts_in_vain || out.tokens.size() > room ||
        mix(context, 1) % 3 == 0)
      break;
    write_position(state, tables, end);
  }
  const auto last = static_cast<std::uint32_t>(state.tokens.size()) - 1;
  const bool forced = options_.forces_tokens && mix(last, 7) % 2 == 0;
  state.computed = out.next_position = forced ? std::min(first_new + room / 2, last) : last;
  if (forced) forget_keys(state, tables);
}

// The token behind all that is known.
OutputToken FakeRunner::sample_token(State& state, const Tables& tables, SequenceResult& out) {
  const std::size_t n_prompt = state.spec.prompt.size();
  const auto end = static_cast<std::uint32_t>(state.tokens.size());
  const SamplingParams& sampling = state.spec.sampling;
  const Sampled s =
      sample(options_, read(tables, end), sampling, end - static_cast<std::uint32_t>(n_prompt));
  OutputToken token;
  token.id = s.token;
  token.logprob = s.logprob;
  token.text = text_of(options_, s.token);
  for (std::uint32_t i = 0; i < sampling.n_top_tokens; ++i) {
    const TokenId id = options_.first_sampled + static_cast<TokenId>(i);
    token.alternatives.push_back({.id = id,
                                  .logprob = -static_cast<float>(i),
                                  .special = false,
                                  .text = text_of(options_, id)});
  }
  state.tokens.push_back(s.token);
  out.finish =
      finish_of(options_, state.spec.stopping, std::span(state.tokens).subspan(n_prompt), s);
  state.finished = out.finish.has_value();
  return token;
}

Result<StepResult> FakeRunner::wait(StepTicket ticket, TimePoint until) {
  on_step(ticket.step);
  if (late_) return *std::exchange(late_, std::nullopt);
  std::optional<Result<StepResult>> out;
  {
    base::MutexLock lock(mu_);
    const auto is_free = [&]() REQUIRES(mu_) { return !held_; };
    if (until == TimePoint::max()) {
      changed_.wait(lock, is_free);
    } else if (!changed_.wait_until(lock, until, is_free)) {
      return not_yet(ticket);
    }
    if (jobs_.empty() || jobs_.front().plan.step != ticket.step) {
      violate("a ticket is waited for out of order");
      return internal_error("no such step");
    }
    if (clock_ != nullptr) {
      const bool ends = jobs_.front().ends_at <= until;
      *clock_ = std::max(*clock_, ends ? jobs_.front().ends_at : until);
      if (!ends) return not_yet(ticket);
    }
    out.emplace(compute_oldest());
  }
  if (!out->ok() || !options_.tells_early || early_ == nullptr || !tell(out->value()))
    return *std::move(out);
  late_ = std::move(*out).value();
  return not_yet(ticket);
}

bool FakeRunner::tell(const StepResult& result) {
  constexpr std::uint64_t kCycle = 4;  // of steps: told and late, told, and two not told
  const std::uint64_t place = result.step % kCycle;
  if (place > 1) return false;
  std::vector<SequenceResult> rows;
  std::ranges::copy_if(result.sequences, std::back_inserter(rows), [](const SequenceResult& row) {
    return !row.tokens.empty();
  });
  early_->on_early({result.step}, std::move(rows), clock_ != nullptr ? *clock_ : Clock::now());
  return place == 0;
}

Result<StepResult> FakeRunner::compute_oldest() {
  Job job = std::move(jobs_.front());
  jobs_.pop_front();
  if (Status status = failure_of(job.plan); !status.ok()) {
    for (auto& node : job.dropped) sequences_.insert(std::move(node));
    return status;
  }
  StepResult out;
  out.step = job.plan.step;
  out.epoch = options_.epoch;
  for (const BlockMove& move : job.plan.moves) move_block(move);
  for (const BlockTransfer& transfer : job.plan.imports) {
    if (Status status = import_blocks(transfer); !status.ok()) return status;
  }
  for (std::size_t i = 0; i < job.plan.rows.size(); ++i) out.sequences.push_back(run_row(job, i));
  for (const BlockTransfer& transfer : job.plan.exports) make_attachment(transfer);
  out.timings = {.forward = std::chrono::nanoseconds(3),
                 .sample = std::chrono::nanoseconds(4),
                 .total = std::chrono::nanoseconds(8)};
  ++n_steps_;
  changed_.notify_all();
  return out;
}

}  // namespace coxswain::batch::testing
