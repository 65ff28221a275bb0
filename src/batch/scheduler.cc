#include "batch/scheduler.h"

#include <algorithm>

#include "base/numbers.h"
#include "batch/step_cost.h"

namespace coxswain::batch {

const Decision& Scheduler::plan(const SchedulerInput& in) {
  reset(in);
  if (!in_.capabilities.selects_rows) {
    plan_lockstep();
  } else if (rules_.closes_batches || options_.prompts_first) {
    plan_prompts_first();
  } else {
    plan_running(Rows::kAll);
    admit_beside_running();
    if (!in_.capabilities.plans_chunks && !enough_to_interrupt()) drop_admissions();
  }
  if (options_.chunking == ChunkingPolicy::kEqualProgress) share_rest();
  const bool idle = in_.running.empty() && out_.rows.empty() && !in_.steps_in_flight;
  if (idle && !in_.waiting->empty() && !in_.waiting->front().stalled)
    out_.impossible = &in_.waiting->front();
  return out_;
}

void Scheduler::reset(const SchedulerInput& in) {
  in_ = in;
  rules_ = capacity_rules(options_.policy, in.capabilities);
  out_.paused.clear();
  out_.rows.clear();
  out_.impossible = nullptr;
  out_.wait = WaitReason::kNone;
  foreseen_ = false;
  promised_.reset();
  const std::size_t n_groups = in_.cache->n_groups();
  available_.assign(n_groups, 0);
  incoming_.assign(n_groups, 0);
  outstanding_.assign(n_groups, 0);
  paused_.assign(in_.running.size(), 0);
  blocks_after_.resize(in_.running.size());
  computing_.clear();
  adapters_.clear();
  n_adapter_pages_ = 0;
  n_prefills_ = 0;
  n_running_ = 0;
  short_of_blocks_ = false;
  n_stalled_ = 0;
  for (std::size_t g = 0; g < n_groups; ++g) {
    available_[g] = in_.cache->available(g);
    incoming_[g] = in_.cache->counts(g).retiring + on_loan(g);
  }
  std::uint32_t n_decodes = 0;
  const bool mixes =
      in_.capabilities.selects_rows && !rules_.closes_batches && !options_.prompts_first;
  for (std::size_t i = 0; i < in_.running.size(); ++i) {
    const Sequence& s = *in_.running[i];
    blocks_after_[i] = s.n_blocks();
    n_running_ += s.n_places();
    n_stalled_ += s.stalled ? 1 : 0;
    if (s.wants_row()) n_decodes += mixes && s.decoding() && !s.stalled ? s.n_places() : 0;
    if (s.goes_on()) continue;
    // Its last token is in flight.
    for (std::size_t g = 0; g < n_groups; ++g) incoming_[g] += reclaimable(s, g);
  }
  const std::uint32_t block = in_.cache->block_tokens();
  // Decodes come out of the same budget, but for a share that is the prompts' own, so that these move on.
  const std::uint32_t budget = base::round_up(options_.prefill_tokens_max, block);
  const std::uint32_t floor = base::round_up(options_.prefill_tokens_min, block);
  prefill_budget_ = std::max(base::sub_sat(budget, n_decodes), std::clamp(floor, block, budget));
  step_max_ = std::min(budget, std::max(in_.prompt_tokens_max, 1U));
  prefill_budget_ = std::min(prefill_budget_, step_max_);
  out_.prompt_tokens_max = prefill_budget_;
  chunk_min_ = in_.divides_blocks ? std::min(StepCost::least_of(block), step_max_) : block;
  chunk_unit_ = std::min(base::round_up(std::max(options_.chunk_tokens_unit, 1U), block),
                         std::max(prefill_budget_ / block * block, block));
}

// One of the batch goes on behind its first token.
bool Scheduler::batch_is_closed() const {
  return std::ranges::any_of(in_.running,
                             [](const Sequence* s) { return s->n_produced() + s->n_pending > 1; });
}

bool Scheduler::fits_now(std::uint32_t n_new) const {
  return std::ranges::all_of(available_, [&](std::uint32_t n) { return n_new <= n; });
}

void Scheduler::add_row(Sequence& s, std::uint32_t n_tokens, bool prefill, std::uint32_t n_blocks) {
  out_.rows.push_back({.sequence = &s,
                       .first_position = s.planned,
                       .n_tokens = n_tokens,
                       .n_blocks = n_blocks,
                       .prefill = prefill,
                       .sample = s.n_pending > 0 || n_tokens == s.remaining()});
  if (!prefill) return;
  prefill_budget_ = base::sub_sat(prefill_budget_, n_tokens);
  ++n_prefills_;
}

// Prompts alone while there are any, then the batch decodes. Nobody is let in on blocks that the next decodes take:
// what was paused for them would take them again and again.
void Scheduler::plan_prompts_first() {
  plan_running(Rows::kPrompts);
  for (std::size_t i = 0; i < in_.running.size() && !rules_.reserves_answers; ++i) {
    const Sequence& s = *in_.running[i];
    if (is_paused(i) || s.stalled || !s.wants_row() || !s.decoding()) continue;
    // Drafts may go beyond what is promised to it.
    const std::uint32_t n_new = new_blocks(i, 1);
    for (std::size_t g = 0; g < outstanding_.size(); ++g)
      outstanding_[g] += base::sub_sat(n_new, reserved_running(i, g));
  }
  admit_beside_running();
  if (out_.rows.empty()) plan_running(Rows::kDecodes);
}

// That running[index] takes for `n_tokens` more.
std::uint32_t Scheduler::new_blocks(std::size_t index, std::uint32_t n_tokens) const {
  const Sequence& s = *in_.running[index];
  return base::sub_sat(s.n_blocks_at(in_.cache->blocks_for(end_max(s, n_tokens))),
                       blocks_after_[index]);
}

void Scheduler::plan_running(Rows which) {
  for (std::size_t i = 0; i < in_.running.size(); ++i) {
    Sequence& s = *in_.running[i];
    if (is_paused(i) || s.stalled || !s.wants_row()) continue;
    const bool prefill = !s.decoding();
    if (which != Rows::kAll && prefill != (which == Rows::kPrompts)) continue;
    std::uint32_t n_tokens = prefill ? prefill_chunk(s, s.planned, n_prefills_) : 1;
    if (n_tokens == 0) continue;
    const std::uint32_t held = blocks_after_[i];
    std::uint32_t n_new = new_blocks(i, n_tokens);
    if (prefill && in_.capabilities.plans_chunks && !fits_now(n_new)) {
      const std::uint32_t block = in_.cache->block_tokens();
      const std::uint32_t room_end = (held + std::ranges::min(available_)) * block;
      const std::uint32_t block_end = (s.planned / block + 1) * block;
      n_tokens = std::min(n_tokens, std::max(room_end, block_end) - s.planned);
      n_new = new_blocks(i, n_tokens);
    }
    if (n_new > 0 && !make_room(i, n_new)) continue;
    add_row(s, n_tokens, prefill, held + n_new);
    for (std::uint32_t& n : available_) n -= n_new;
    blocks_after_[i] = held + n_new;
  }
}

// True if n_new blocks are there now, pausing sequences behind running[index] if that helps.
bool Scheduler::make_room(std::size_t index, std::uint32_t n_new) {
  while (!fits_now(n_new)) {
    bool comes_back = true;
    for (std::size_t g = 0; g < available_.size(); ++g)
      comes_back &= n_new <= available_[g] + incoming_[g];
    if (comes_back || rules_.reserves_answers) {
      short_of_blocks_ = true;
      return false;  // no row in this step; it keeps what it has
    }
    if (pick_victim(index) != nullptr) continue;
    pause(index);  // the last of all waits itself
    return false;
  }
  return true;
}

// Pauses the sequence that can best wait: one whose client does not read, else the last behind
// `index`.
Sequence* Scheduler::pick_victim(std::size_t index) {
  for (const bool stalled : {true, false}) {
    for (std::size_t j = in_.running.size(); j-- > (stalled ? 0 : index + 1);) {
      Sequence& s = *in_.running[j];
      if (j == index || is_paused(j) || !s.goes_on() || (stalled && !s.stalled)) continue;
      pause(j);
      return &s;
    }
  }
  return nullptr;
}

void Scheduler::pause(std::size_t index) {
  Sequence& s = *in_.running[index];
  paused_[index] = 1;
  n_running_ -= s.n_places();
  short_of_blocks_ = true;
  foreseen_ = false;
  promised_.reset();
  out_.paused.push_back(&s);
  for (std::size_t g = 0; g < available_.size(); ++g) {
    (s.n_in_flight > 0 ? incoming_ : available_)[g] += reclaimable(s, g);
  }
}

// Blocks that come back if `s` is paused or ends.
std::uint32_t Scheduler::reclaimable(const Sequence& s, std::size_t group) const {
  if (s.beams == nullptr) return in_.cache->reclaimable(s.lease, group);
  std::vector<const kvcache::KvLease*> leases{&s.lease};
  for (const BeamSlot& slot : s.beams->more) leases.push_back(&slot.lease);
  return in_.cache->reclaimable(leases, group);
}

void Scheduler::unplan(Sequence& s) {
  const auto it = std::ranges::find(out_.rows, &s, &PlannedRow::sequence);
  if (it == out_.rows.end()) return;
  for (std::uint32_t& n : available_) n += it->n_blocks - s.n_blocks();
  if (it->prefill) prefill_budget_ += it->n_tokens;
  out_.rows.erase(it);
}

// A runner that cannot choose rows: a step computes either new prompts alone or the next token of every sequence.
void Scheduler::plan_lockstep() {
  // A static batch that is not complete yet waits for nobody who decodes.
  const bool may_interrupt = rules_.closes_batches || in_.running.empty();
  if (may_interrupt || !in_.decode_is_due) {
    admit_waiting();
  } else if (!in_.waiting->empty()) {
    note_wait(WaitReason::kPolicy);
  }
  const bool asks_rule = !may_interrupt && !in_.capabilities.plans_chunks;
  if (!out_.rows.empty() && (!asks_rule || enough_to_interrupt())) return;
  drop_admissions();
  for (Sequence* s : in_.running) {
    if (!s->wants_row()) continue;
    const std::uint32_t n_tokens = s->remaining();
    const std::uint32_t n_blocks = in_.cache->blocks_for(end_max(*s, n_tokens));
    add_row(*s, n_tokens, false, std::max(s->lease.n_blocks(), n_blocks));
  }
}

}  // namespace coxswain::batch
