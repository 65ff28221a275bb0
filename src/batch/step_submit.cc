// EngineCore, first half of a step: a Decision becomes a StepPlan and is handed to the runner.

#include <algorithm>
#include <cassert>
#include <utility>

#include "base/numbers.h"
#include "batch/engine_core.h"
#include "batch/plan_size.h"

namespace coxswain::batch {

bool EngineCore::can_submit() const {
  // More than two gain nothing: the host prepares one step while another runs.
  const std::size_t depth =
      info_.capabilities.look_ahead ? std::min(2U, info_.capabilities.plans_in_flight_max) : 1;
  // Behind a chunk that was planned ahead, blocks of the one before it would leave a chunk later, and a prompt that
  // comes meanwhile would wait for one more; who waits for blocks that come in would begin a whole step later.
  const bool blocks_pass = !steps_.empty() && steps_.back().blocks_pass;
  return runner_up_ && steps_.size() < (blocks_pass ? 1 : depth);
}

std::uint32_t EngineCore::batch_size_max() const {
  return std::min(options_.batch_size_max, dynamic_batch_.batch_size_max(cache_tokens_));
}

const Decision& EngineCore::decide() {
  const std::uint32_t batch_size = batch_size_max();
  std::uint32_t prompt_tokens = dynamic_batch_.tokens_max(batch_size);
  if (prompt_tokens != DynamicBatch::kNoLimit)  // decodes count, too
    prompt_tokens -= std::min(prompt_tokens, static_cast<std::uint32_t>(running_.size()));
  const std::uint32_t block = cache_->block_tokens();
  prompt_tokens =
      std::min(std::max(prompt_tokens, block), base::round_up(options_.prefill_tokens_max, block));
  const std::uint32_t in_time = prompt_tokens_in_time(prompt_tokens);
  return scheduler_.plan({.cache = cache_.get(),
                          .capabilities = info_.capabilities,
                          .running = running_,
                          .waiting = &waiting_,
                          .forecast = &forecast_,
                          .waiting_tokens = waiting_tokens_,
                          .decode_is_due = decode_is_due_,
                          .prompt_tokens_max = in_time,
                          .divides_blocks = in_time < prompt_tokens,
                          .batch_size_max = batch_size,
                          .on_loan = blocks_on_loan(),
                          .adapter_pages = info_.adapter_pages,
                          .steps_in_flight = !steps_.empty() || !transfers_->empty()});
}

// Per group; nothing is on loan where it is empty.
std::span<const std::uint32_t> EngineCore::blocks_on_loan() {
  on_loan_.clear();
  if (tier_ == nullptr || !tier_->has_loans()) return {};
  for (std::size_t g = 0; g < cache_->n_groups(); ++g) on_loan_.push_back(tier_->on_loan(g));
  return on_loan_;
}

// What the latency target leaves to prompts beside the decodes, of `n_max`; everything where nobody decodes.
std::uint32_t EngineCore::prompt_tokens_in_time(std::uint32_t n_max) const {
  if (options_.target_itl.count() == 0 || !info_.capabilities.plans_chunks) return n_max;
  StepShape decodes;
  std::uint32_t position = 0;  // of the first prompt that runs
  for (const Sequence* s : running_) {
    if (s->stalled || !s->wants_row()) continue;
    if (s->decoding()) {
      ++decodes.n_decodes;
      decodes.decode_context += s->planned + 1;
    } else if (position == 0) {
      position = s->planned;
    }
  }
  if (decodes.n_decodes == 0) return n_max;
  const double seconds = std::chrono::duration<double>(options_.target_itl).count();
  return step_cost_.prompt_tokens_within(seconds, decodes, position, cache_->block_tokens(), n_max);
}

void EngineCore::note_shape(Step& step) const {
  if (!learns_costs()) return;
  for (const StepRow& row : step.rows) {
    const std::uint64_t n = row.n_tokens;
    const std::uint64_t context = n * row.first_position + n * (n + 1) / 2;
    (row.prefill ? step.shape.prompt_context : step.shape.decode_context) += context;
    if (row.prefill) {
      step.shape.n_prompt_tokens += row.n_tokens;
    } else {
      ++step.shape.n_decodes;
    }
  }
  step.expected_seconds = step_cost_.expect(step.shape);
  if (options_.target_itl.count() == 0 || step.shape.n_decodes == 0 ||
      step.shape.n_prompt_tokens == 0 ||
      step.shape.n_prompt_tokens > StepCost::least_of(cache_->block_tokens()))
    return;
  const double expected = step_cost_.expect_at_most(step.shape);
  if (expected > std::chrono::duration<double>(options_.target_itl).count())
    step.floor_seconds = expected;
}

bool EngineCore::submit_next(TimePoint now) {
  if (!can_submit()) return false;
  const Turn turn = std::exchange(turn_, Turn::kTransfer);
  if (turn == Turn::kTransfer && submit_transfer(now)) return true;
  if (turn != Turn::kRows && submit_layers(now)) return true;
  if (tier_ != nullptr) ask_tier();
  StepPlan plan;
  plan.step = last_step_ + 1;
  plan.epoch = info_.epoch;
  Step step;
  step.submitted_at = now;
  step.rows = std::exchange(spare_rows_, {});
  while (fill(plan, step, now) == Filled::kPlanAgain) {
  }
  // With nothing else to do the runner is still told what it may forget, once.
  if (plan.rows.empty() && (!tells_drops_ || !steps_.empty())) {
    spare_rows_ = std::move(step.rows);
    return submit_transfer(now) || submit_layers(now);
  }
  take_dropped(plan, step);
  tell_kv_events();
  send(std::move(plan), std::move(step));
  return true;
}

// Those that may be admitted next wait for what the tier has of their prompts.
void EngineCore::ask_tier() {
  constexpr int kAskedMax = 4;
  if (running_.size() >= options_.batch_size_max) return;
  std::vector<Sequence*> asks;
  int n = 0;
  for (const auto& [rank, s] : waiting_.in_order()) {
    if (++n > kAskedMax) break;
    if (s->state == SequenceState::kWaiting && !std::exchange(s->tier_asked, true))
      asks.push_back(s);
  }
  for (Sequence* s : asks) s->onboarding = tier_->onboard(*s);
}

// Those that go on after a pause ask when there is room for them. True if any is not admitted yet, but waits for what
// the tier has of it.
bool EngineCore::ask_tier_for(const Decision& decision) {
  bool any = false;
  for (const PlannedRow& row : decision.rows) {
    Sequence& s = *row.sequence;
    if (!row.admitted || s.state != SequenceState::kPaused || std::exchange(s.tier_asked, true))
      continue;
    s.onboarding = tier_->onboard(s);
    any |= s.onboarding;
  }
  return any;
}

// A plan of its own: one that fails takes no row with it.
bool EngineCore::submit_transfer(TimePoint now) {
  if (!transfers_->has_work()) return false;
  StepPlan plan;
  plan.step = last_step_ + 1;
  plan.epoch = info_.epoch;
  transfers_->fill(plan);
  Step step;
  step.submitted_at = now;
  step.blocks_pass = !plan.imports.empty();
  turn_ = Turn::kLayers;
  send(std::move(plan), std::move(step));
  if (steps_.back().refused.ok()) steps_.back().counted_on = transfers_->submitted();
  return true;
}

// Likewise.
bool EngineCore::submit_layers(TimePoint now) {
  if (!layer_steps_.has_work()) return false;
  StepPlan plan;
  plan.step = last_step_ + 1;
  plan.epoch = info_.epoch;
  if (!layer_steps_.fill(plan, *transfers_, SequenceId{next_sequence_})) return false;
  Step step;
  step.submitted_at = now;
  step.dropped = plan.dropped;
  if (!plan.rows.empty()) step.layer_row = SequenceId{next_sequence_++};
  turn_ = Turn::kRows;
  send(std::move(plan), std::move(step));
  if (steps_.back().refused.ok()) steps_.back().counted_on = layer_steps_.submitted();
  return true;
}

// The step keeps them: a runner that refuses or fails it may have forgotten nobody.
void EngineCore::take_dropped(StepPlan& plan, Step& step) {
  const auto n = static_cast<std::ptrdiff_t>(std::min(dropped_.size(), kPlanDroppedMax));
  step.dropped.assign(dropped_.begin(), dropped_.begin() + n);
  dropped_.erase(dropped_.begin(), dropped_.begin() + n);
  tells_drops_ = !dropped_.empty();
  plan.dropped = step.dropped;
}

EngineCore::Filled EngineCore::fill(StepPlan& plan, Step& step, TimePoint now) {
  const Decision& decision = decide();
  if (tier_ != nullptr && ask_tier_for(decision)) return Filled::kPlanAgain;
  commit_pauses(decision, now);
  if (decision.impossible != nullptr) {
    fail(*decision.impossible,
         {Code::kResourceExhausted,
          ErrorKind::kGeneration,
          "the request does not fit into the KV cache although nothing else runs"});
    finish_call();
    return Filled::kPlanAgain;
  }
  commit_admissions(decision, step, now);
  plan.rows.reserve(decision.rows.size());
  step.rows.reserve(decision.rows.size());
  for (const PlannedRow& row : decision.rows) build_row(row, plan, step);
  count_plan(decision, step);
  note_shape(step);
  if (!info_.capabilities.plans_chunks || !info_.capabilities.selects_rows)
    count_waiting_tokens(decision, step);
  // What a pause gives back counts fully once it has happened. Without a step in flight nothing
  // else would bring a plan about.
  const bool again = plan.rows.empty() && !decision.paused.empty() && steps_.empty();
  return again ? Filled::kPlanAgain : Filled::kDone;
}

// TGI's counter: 1 after prompts, and one more with each step that decodes. Those who decode get a step between two of
// prompts that interrupt them.
void EngineCore::count_waiting_tokens(const Decision& decision, const Step& step) {
  const bool decodes = !std::ranges::all_of(step.rows, &StepRow::prefill);
  const auto n_joined = std::ranges::count_if(decision.rows, &PlannedRow::admitted);
  if (n_joined > 0) {
    waiting_tokens_ = decodes ? 2 : 1;
    decode_is_due_ = !decodes && running_.size() > static_cast<std::size_t>(n_joined);
  } else if (decodes) {
    ++waiting_tokens_;
    decode_is_due_ = false;
  }
}

void EngineCore::commit_pauses(const Decision& decision, TimePoint now) {
  for (Sequence* s : decision.paused) pause(*s, now);
  forecast_.paused(static_cast<std::uint32_t>(decision.paused.size()));
}

// All prefixes are pinned before any block is taken, so that taking one cannot evict another's prefix.
void EngineCore::commit_admissions(const Decision& decision, Step& step, TimePoint now) {
  std::uint32_t n_admitted = 0;
  for (const PlannedRow& row : decision.rows) {
    // Whom a later admission of the same plan has paused has nothing to share.
    if (!row.admitted || (row.fork_of != nullptr && !row.fork_of->lease)) continue;
    ++n_admitted;
    admit(row, step, now);
  }
  if (n_admitted > 0) observer_.on_admissions(n_admitted);
}

void EngineCore::admit(const PlannedRow& row, Step& step, TimePoint now) {
  Sequence& s = *row.sequence;
  const bool first_time = s.state == SequenceState::kWaiting;
  leave_lists(s);
  waiting_.note_admission(s.arrival);
  s.state = SequenceState::kRunning;
  if (row.fork_of != nullptr) {
    s.prefix_memo = {};
    s.lease = cache_->fork(row.fork_of->lease, row.first_position);
    if (s.wants_prompt && !s.prompt_complete()) {
      s.prompt_tokens = s.siblings->prompt;
      s.context_outputs = s.siblings->context;
      s.n_context_outputs = s.n_prompt;
    }
  } else {
    const bool use_prefix = !s.wants_prompt || s.prompt_complete();
    const bool use_partial = row.first_position % cache_->block_tokens() != 0;
    s.lease = cache_->open(s.identity,
                           s.tokens,
                           use_prefix,
                           std::exchange(s.prefix_memo, {}),
                           use_partial,
                           s.retention_rule());
  }
  transfers_->close(std::exchange(s.request.adopted_hold, 0));
  s.n_found = s.lease.n_blocks() * cache_->block_tokens() + s.lease.n_partial();
  s.planned = s.computed = s.n_found;
  const std::uint32_t n_reused = s.lease.n_blocks();
  for (BlockUse* use : {&s.block_use, &block_use_}) {
    use->reused += n_reused;
    use->missed += cache_->blocks_for(s.context_end()) - n_reused;
  }
  insert_running(s);
  if (!first_time) return;
  s.scheduled_at = now;
  ++step.stats.n_new_active;
  step.stats.new_active_queue_time += now - s.queued_at;
  s.n_cached_prompt_tokens = std::min(s.planned, s.n_prompt);
  stats_.prompt_tokens += s.n_prompt;
  stats_.cached_prompt_tokens += s.n_cached_prompt_tokens;
  note_prefix(s, s.lease.n_partial());
}

bool EngineCore::grow(Sequence& s, kvcache::KvLease& lease, std::uint32_t n_blocks) {
  const std::uint32_t n_held = lease.n_blocks();
  if (n_blocks <= n_held) return true;
  const std::uint32_t n_free = cache_->n_groups() > 0 ? cache_->counts(0).free : 0;
  if (!cache_->grow(lease, n_blocks).ok()) return false;
  const std::uint32_t n_new = cache_->n_groups() > 0 ? n_free - cache_->counts(0).free : 0;
  for (BlockUse* use : {&s.block_use, &block_use_}) {
    use->allocated += n_blocks - n_held;
    use->allocated_new += n_new;
  }
  return true;
}

// A request is admitted for the first time: what of its prompt was there.
void EngineCore::note_prefix(const Sequence& s, std::uint32_t n_copied) {
  const std::uint32_t block = cache_->block_tokens();
  const std::uint32_t n_most = (s.n_prompt - 1) / block * block;
  RequestAdmitted out{.request = s.request.id,
                      .n_prompt_tokens = s.n_prompt,
                      .n_cached_tokens = s.n_cached_prompt_tokens,
                      .n_copied_tokens = n_copied};
  if (out.n_cached_tokens > 0)
    out.hit = out.n_cached_tokens >= n_most ? PrefixHit::kHit : PrefixHit::kPartial;
  stats_.copied_prompt_tokens += n_copied;
  ++(out.hit == PrefixHit::kHit       ? stats_.prefix_hits
     : out.hit == PrefixHit::kPartial ? stats_.prefix_partial_hits
                                      : stats_.prefix_misses);
  observer_.on_request_admitted(out);
}

// Of a lease whose row begins at first_position; the runner has `sent` entries of its tables.
std::vector<BlockTableChange> EngineCore::table_changes(kvcache::KvLease& lease,
                                                        std::vector<std::uint32_t>& sent,
                                                        std::uint32_t first_position,
                                                        std::uint32_t computed) {
  bool window_moved = false;
  if (has_windows_) {
    first_changed_ = sent;
    for (std::size_t g = 0; g < cache_->n_groups(); ++g)
      first_changed_[g] = std::min(first_changed_[g], lease.released_end(g));
    window_moved = cache_->release_before(lease, first_position, computed);
  }
  std::vector<BlockTableChange> out;
  for (std::size_t g = 0; g < cache_->n_groups(); ++g) {
    const auto table = lease.table(g);
    const bool released = window_moved && lease.released_end(g) > first_changed_[g];
    const std::uint32_t first = released ? first_changed_[g] : sent[g];
    if (first == table.size()) continue;
    out.push_back({.kv_group = static_cast<std::uint32_t>(g),
                   .first_index = first,
                   .blocks = {table.begin() + first, table.end()}});
    sent[g] = static_cast<std::uint32_t>(table.size());
  }
  return out;
}

void EngineCore::take_copies(kvcache::KvLease& lease, StepPlan& plan) {
  for (const kvcache::BlockCopy& copy : cache_->take_copies(lease, plan.step))
    plan.moves.push_back(
        {.kv_group = copy.group, .from = {.id = copy.from}, .to = {.id = copy.to}});
}

SequenceSpec EngineCore::make_spec(const Sequence& s) {
  return {.id = s.id,
          .prompt = {s.tokens.begin(), s.tokens.begin() + s.n_prompt},
          .produced = {s.tokens.begin() + s.n_prompt, s.tokens.end()},
          .draft = s.request.draft,
          .sampling = s.request.sampling,
          .stopping = s.request.stopping,
          .prompt_logprobs = s.request.prompt_logprobs,
          .outputs = s.request.outputs,
          .rope_length = s.n_prompt + s.request.stopping.max_new_tokens,
          .adapter_digest = s.request.adapter_digest,
          .cache_salt = s.request.cache_salt};
}

void EngineCore::build_row(const PlannedRow& planned, StepPlan& plan, Step& step) {
  Sequence& s = *planned.sequence;
  if (s.beams != nullptr && s.beams->has_begun()) return build_beam_rows(planned, plan, step);
  // The counters are an upper bound where a paused sequence's blocks stay pinned by what another
  // one has published behind them: a row that finds no block waits for the next plan.
  if (planned.first_position != s.planned || !grow(s, s.lease, planned.n_blocks)) return;
  const std::size_t new_bytes = s.known_to_runner ? 0 : spec_bytes_max(s.request, s.tokens.size());
  if (new_bytes > 0 && step.new_bytes > 0 &&
      step.new_bytes + new_bytes > options_.plan_new_bytes_max) {
    return;  // its spec travels with the next plan, and it keeps the blocks
  }
  Row& row = plan.rows.emplace_back();
  row.sequence = s.id;
  row.first_position = s.planned;
  row.n_tokens = planned.n_tokens;
  row.table_changes = table_changes(s.lease, s.table_sent, planned.first_position, s.computed);
  row.emit = planned.sample ? Emit::kSample : Emit::kNone;
  if (planned.sample && s.beams != nullptr) {
    row.emit = Emit::kCandidates;
    row.n_candidates = s.beams->search.n_candidates();
  }
  if (s.wants_prompt && s.planned < s.n_prompt && !s.prompt_complete()) {
    row.prompt_logprobs = s.request.prompt_logprobs;
    row.context_outputs = s.request.outputs.any_context();
  }
  // The ids of a prompt are the runner's; those behind it are compared there.
  if (s.n_pending > 0) {
    row.continues = true;
  } else if (s.planned >= s.n_prompt) {
    const auto first = s.tokens.begin() + s.planned;
    row.tokens.assign(first, first + planned.n_tokens);
  }
  if (planned.sample && !planned.prefill)
    row.n_draft_max = s.draft_tokens(info_.capabilities, cache_->block_tokens());
  const std::size_t row_bytes = row_bytes_max(row);
  if (step.rows_bytes > 0 && step.rows_bytes + row_bytes > options_.plan_rows_bytes_max) {
    for (const BlockTableChange& change : row.table_changes)
      s.table_sent[change.kv_group] = change.first_index;
    plan.rows.pop_back();
    return;  // it travels with the next plan
  }
  step.rows_bytes += row_bytes;
  take_copies(s.lease, plan);
  // A search that begins again.
  if (s.beams != nullptr && std::exchange(s.beams->runner_has_output, false) && s.known_to_runner)
    plan.edits.push_back({.sequence = s.id, .source = s.id, .n_output = 0, .append = {}});
  if (!s.known_to_runner) {
    s.known_to_runner = true;
    step.new_bytes += new_bytes;
    plan.new_sequences.push_back(make_spec(s));
  }
  step.rows.push_back({.sequence = &s,
                       .id = s.id,
                       .first_position = s.planned,
                       .n_tokens = planned.n_tokens,
                       .n_draft_max = row.n_draft_max,
                       .sample = planned.sample,
                       .prefill = planned.prefill});
  step.prefill |= planned.prefill;
  step.blocks_pass |= s.request.on_blocks_ahead && !planned.sample;
  s.planned += planned.n_tokens;
  s.lease.mark_used(plan.step);
  ++s.n_in_flight;
  if (!planned.sample) return;
  ++s.n_pending;
  s.n_pending_extra += step.rows.back().n_draft_max;
}

// A plan that the runner refuses still takes its place in the order, so that its blocks retire
// behind earlier steps.
void EngineCore::send(StepPlan plan, Step step) {
  last_step_ = plan.step;
  observer_.on_step_submitted(kind_of(step));
  step.ticket = {plan.step};
  auto ticket = runner_->submit(std::move(plan));
  if (ticket.ok()) {
    step.ticket = ticket.value();
  } else {
    step.refused = ticket.status();
  }
  steps_.push_back(std::move(step));
}

}  // namespace coxswain::batch
