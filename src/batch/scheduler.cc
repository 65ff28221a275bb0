#include "batch/scheduler.h"

#include <algorithm>
#include <cassert>
#include <cmath>
#include <utility>

#include <coxswain/kv_layout.h>

#include "base/numbers.h"

namespace coxswain::batch {
namespace {

// How many waiting requests that do not fit may be looked past in one plan; each costs a walk
// through the prefix index.
constexpr std::uint32_t kBlockedMax = 8;

std::uint32_t minus(std::uint32_t a, std::uint32_t b) {
  return a > b ? a - b : 0;
}

// Blocks of a group that a sequence of n_tokens positions can hold at once; window groups give blocks back.
std::uint32_t peak_blocks(std::uint32_t block_tokens,
                          std::uint32_t window_tokens,
                          std::uint32_t n_tokens,
                          std::uint32_t row_tokens) {
  return window_tokens == 0 ? base::ceil_div(n_tokens, block_tokens)
                            : window_blocks_max(window_tokens, block_tokens, n_tokens, row_tokens);
}

// The longest row of a sequence of n_tokens positions, so that its peak in a window group is not above n_blocks: such
// a group may be made for shorter rows than the engine's budget allows.
std::uint32_t row_for_window(std::uint32_t row,
                             std::uint32_t block_tokens,
                             const kvcache::KvGroupOptions& group,
                             std::uint32_t n_tokens) {
  if (group.window_tokens == 0 ||
      peak_blocks(block_tokens, group.window_tokens, n_tokens, row) <= group.n_blocks)
    return row;
  const std::uint64_t room = std::uint64_t{minus(group.n_blocks, 1)} * block_tokens;
  const std::uint64_t beside = room > group.window_tokens ? (room - group.window_tokens) / 2 : 0;
  const std::uint64_t fits = std::min(beside, room / 3) / block_tokens * block_tokens;
  return static_cast<std::uint32_t>(
      std::min<std::uint64_t>(row, std::max<std::uint64_t>(fits, block_tokens)));
}

// The longest row by budget.
std::uint32_t row_tokens_max(const Capabilities& capabilities,
                             const EngineOptions& options,
                             std::uint32_t block_tokens) {
  if (!capabilities.plans_chunks || !capabilities.grows_blocks) return 0xFFFFFFFFU;
  std::uint32_t chunk = base::round_up(options.prefill_tokens_max, block_tokens);
  if (options.chunk_tokens_max > 0) chunk = std::min(chunk, options.chunk_tokens_max);
  return std::max({block_tokens, chunk, 1 + capabilities.draft_tokens_max});
}

}  // namespace

bool Scheduler::fits_alone(const kvcache::KvCacheOptions& cache,
                           const kvcache::KvGroupOptions& group,
                           const Capabilities& capabilities,
                           const EngineOptions& options,
                           std::uint32_t n_tokens) {
  std::uint32_t row = row_tokens_max(capabilities, options, cache.block_tokens);
  if (capabilities.plans_chunks && capabilities.grows_blocks)
    row = row_for_window(row, cache.block_tokens, group, n_tokens);
  return peak_blocks(cache.block_tokens, group.window_tokens, n_tokens, row) <= group.n_blocks;
}

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
  n_prefills_ = 0;
  n_running_ = static_cast<std::uint32_t>(in_.running.size());
  short_of_blocks_ = false;
  n_stalled_ = 0;
  for (std::size_t g = 0; g < n_groups; ++g) {
    available_[g] = in_.cache->available(g);
    incoming_[g] = in_.cache->counts(g).retiring;
  }
  std::uint32_t n_decodes = 0;
  const bool mixes =
      in_.capabilities.selects_rows && !rules_.closes_batches && !options_.prompts_first;
  for (std::size_t i = 0; i < in_.running.size(); ++i) {
    const Sequence& s = *in_.running[i];
    blocks_after_[i] = s.lease.n_blocks();
    n_stalled_ += s.stalled ? 1 : 0;
    if (s.wants_row()) {
      n_decodes += mixes && s.decoding() && !s.stalled ? 1 : 0;
      continue;
    }
    // Its last token is in flight.
    for (std::size_t g = 0; g < n_groups; ++g) incoming_[g] += in_.cache->reclaimable(s.lease, g);
  }
  const std::uint32_t block = in_.cache->block_tokens();
  // Decodes come out of the same budget, but for a share that is the prompts' own, so that these move on.
  const std::uint32_t budget = base::round_up(options_.prefill_tokens_max, block);
  const std::uint32_t floor = base::round_up(options_.prefill_tokens_min, block);
  prefill_budget_ = std::max(minus(budget, n_decodes), std::clamp(floor, block, budget));
  prefill_budget_ = std::min(prefill_budget_, std::max(in_.prompt_tokens_max, block));
  out_.prompt_tokens_max = prefill_budget_;
  chunk_unit_ = std::min(base::round_up(std::max(options_.chunk_tokens_unit, 1U), block),
                         prefill_budget_ / block * block);
}

// One of the batch goes on behind its first token.
bool Scheduler::batch_is_closed() const {
  return std::ranges::any_of(in_.running,
                             [](const Sequence* s) { return s->n_produced() + s->n_pending > 1; });
}

bool Scheduler::fits_now(std::uint32_t n_new) const {
  return std::ranges::all_of(available_, [&](std::uint32_t n) { return n_new <= n; });
}

// The most positions that are held once a row of n_tokens has run: what is in flight may yield more than one token
// each, and so may the row itself.
std::uint32_t Scheduler::end_max(const Sequence& s, std::uint32_t n_tokens) const {
  const std::uint32_t end = s.planned + n_tokens;
  if (in_.capabilities.draft_tokens_max == 0) return end;
  const std::uint32_t extra =
      s.n_pending_extra + (s.decoding() ? s.draft_tokens(in_.capabilities.draft_tokens_max) : 0);
  return extra == 0 ? end : std::max(end, std::min(end + extra, s.tokens_max()));
}

void Scheduler::add_row(Sequence& s, std::uint32_t n_tokens, bool prefill, std::uint32_t n_blocks) {
  out_.rows.push_back({.sequence = &s,
                       .first_position = s.planned,
                       .n_tokens = n_tokens,
                       .n_blocks = n_blocks,
                       .prefill = prefill,
                       .sample = s.n_pending > 0 || n_tokens == s.remaining()});
  if (!prefill) return;
  prefill_budget_ = minus(prefill_budget_, n_tokens);
  ++n_prefills_;
}

// The longest row of `s`.
std::uint32_t Scheduler::row_tokens_max_of(const Sequence& s) const {
  const std::uint32_t block = in_.cache->block_tokens();
  std::uint32_t row = row_tokens_max(in_.capabilities, options_, block);
  if (!in_.capabilities.plans_chunks || !in_.capabilities.grows_blocks) return row;
  for (std::size_t g = 0; g < in_.cache->n_groups(); ++g) {
    if (in_.cache->window_tokens(g) == 0) continue;
    row = row_for_window(row, block, in_.cache->group_options(g), s.tokens_max());
  }
  return row;
}

// A chunk that does not end its prompt is a multiple of it, where a row has room for so many tokens.
std::uint32_t Scheduler::chunk_unit(std::uint32_t row_tokens) const {
  const std::uint32_t block = in_.cache->block_tokens();
  return std::clamp(row_tokens / block * block, block, chunk_unit_);
}

// Tokens of a prompt that the budget allows from position `first` on: whole units up to the end of a block, unless it
// is the rest. Where all prompts advance alike it is one unit, and share_rest() gives more.
std::uint32_t Scheduler::prefill_chunk(const Sequence& s,
                                       std::uint32_t first,
                                       std::uint32_t n_planned_prefills) const {
  const std::uint32_t remaining = s.context_end() - first;
  const std::uint32_t row = row_tokens_max_of(s);
  const std::uint32_t unit = chunk_unit(row);
  std::uint32_t budget = std::min(prefill_budget_, row);
  if (options_.chunking == ChunkingPolicy::kEqualProgress && in_.capabilities.plans_chunks)
    budget = std::min(budget, unit);
  if (remaining <= budget) return remaining;
  // A long one goes alone.
  if (!in_.capabilities.plans_chunks) return n_planned_prefills == 0 ? remaining : 0;
  const std::uint32_t begin = first / in_.cache->block_tokens() * in_.cache->block_tokens();
  return minus(begin + (first - begin + budget) / unit * unit, first);
}

// What the prompts of the step leave of it goes to them, a unit each in turn.
void Scheduler::share_rest() {
  if (!in_.capabilities.plans_chunks) return;
  bool any = true;
  while (any && prefill_budget_ > 0) {
    any = false;
    for (PlannedRow& row : out_.rows) any |= row.prefill && extend(row);
  }
}

bool Scheduler::extend(PlannedRow& row) {
  const std::uint32_t end = row.first_position + row.n_tokens;
  const std::uint32_t remaining = row.sequence->context_end() - end;
  const std::uint32_t row_max = row_tokens_max_of(*row.sequence);
  const std::uint32_t more = std::min(chunk_unit(row_max), remaining);
  if (more == 0 || more > prefill_budget_ || row.n_tokens + more > row_max) return false;
  const std::uint32_t n_blocks = std::max(row.n_blocks, in_.cache->blocks_for(end + more));
  const std::uint32_t n_new = n_blocks - row.n_blocks;
  if (!fits_now(n_new)) return false;
  for (std::size_t g = 0; g < available_.size(); ++g) {
    available_[g] -= n_new;
    outstanding_[g] = minus(outstanding_[g], n_new);
  }
  row.n_tokens += more;
  row.n_blocks = n_blocks;
  row.sample = more == remaining;
  prefill_budget_ -= more;
  return true;
}

// Prompts alone while there are any, then the batch decodes.
void Scheduler::plan_prompts_first() {
  plan_running(Rows::kPrompts);
  admit_beside_running();
  if (out_.rows.empty()) plan_running(Rows::kDecodes);
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
    const auto new_blocks = [&](std::uint32_t n) {
      return minus(in_.cache->blocks_for(end_max(s, n)), held);
    };
    std::uint32_t n_new = new_blocks(n_tokens);
    if (prefill && in_.capabilities.plans_chunks && !fits_now(n_new)) {
      const std::uint32_t room = std::ranges::min(available_) * in_.cache->block_tokens();
      const std::uint32_t held_room = minus(held * in_.cache->block_tokens(), s.planned);
      n_tokens = std::min(n_tokens, std::max(room + held_room, in_.cache->block_tokens()));
      n_new = new_blocks(n_tokens);
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
      if (j == index || is_paused(j) || !s.wants_row() || (stalled && !s.stalled)) continue;
      pause(j);
      return &s;
    }
  }
  return nullptr;
}

void Scheduler::pause(std::size_t index) {
  Sequence& s = *in_.running[index];
  paused_[index] = 1;
  --n_running_;
  short_of_blocks_ = true;
  foreseen_ = false;
  promised_.reset();
  out_.paused.push_back(&s);
  for (std::size_t g = 0; g < available_.size(); ++g) {
    (s.n_in_flight > 0 ? incoming_ : available_)[g] += in_.cache->reclaimable(s.lease, g);
  }
}

void Scheduler::unplan(Sequence& s) {
  const auto it = std::ranges::find(out_.rows, &s, &PlannedRow::sequence);
  if (it == out_.rows.end()) return;
  for (std::uint32_t& n : available_) n += it->n_blocks - s.lease.n_blocks();
  if (it->prefill) prefill_budget_ += it->n_tokens;
  out_.rows.erase(it);
}

// What `s` may still ask for: its whole future under a reserving policy, else the rest of its known context. In a
// window group the rows to come, and those in flight, decide how much it has in use at once.
std::uint32_t Scheduler::reserved_blocks(const Sequence& s,
                                         std::size_t group,
                                         std::uint32_t computed,
                                         Held held) const {
  const std::uint32_t block = in_.cache->block_tokens();
  const std::uint32_t window = in_.cache->window_tokens(group);
  std::uint32_t n_tokens = s.context_end();
  if (rules_.reserves_answers) n_tokens = std::max(s.tokens_max(), n_tokens);
  if (rules_.foresees_lengths && window > 0) n_tokens = std::max(expected_end(s), n_tokens);
  const std::uint32_t to_come = minus(in_.cache->blocks_for(n_tokens), held.n_entries);
  if (window == 0 || to_come == 0) return to_come;
  const std::uint32_t row = std::max(minus(s.context_end(), computed) + s.n_pending_extra,
                                     1 + in_.capabilities.draft_tokens_max);
  const std::uint32_t peak =
      peak_blocks(block, window, n_tokens, std::min(row, row_tokens_max_of(s)));
  return std::min(minus(peak, held.n_blocks), to_come);
}

// After this plan's row of running[index].
std::uint32_t Scheduler::reserved_running(std::size_t index, std::size_t group) const {
  const Sequence& s = *in_.running[index];
  const std::uint32_t n_entries = blocks_after_[index];
  return reserved_blocks(
      s,
      group,
      s.computed,
      {.n_entries = n_entries, .n_blocks = n_entries - s.lease.n_released(group)});
}

void Scheduler::count_for_admissions() {
  if (in_.cache->prefix_caching() && rules_.waits_for_equal_blocks) note_keys_being_computed();
  for (std::size_t i = 0; i < in_.running.size(); ++i) {
    if (is_paused(i)) continue;
    for (std::size_t g = 0; g < outstanding_.size(); ++g) outstanding_[g] += reserved_running(i, g);
  }
}

// A prompt that shares its next block with one being computed waits a step and takes it from the cache.
void Scheduler::note_keys_being_computed() {
  const std::uint32_t block = in_.cache->block_tokens();
  const auto note = [&](const Sequence& s, std::uint32_t end) {
    const std::uint32_t next_end = (s.lease.n_published() + 1) * block;
    if (next_end > end || next_end > s.tokens.size() || next_end <= s.computed) return;
    if (next_end > s.publish_end()) return;
    computing_.push_back(in_.cache->next_key(s.lease, s.tokens));
  };
  for (const Sequence* s : in_.running) {
    if (s->n_in_flight > 0) note(*s, s->planned);
  }
  for (const PlannedRow& row : out_.rows) note(*row.sequence, row.first_position + row.n_tokens);
}

std::uint32_t Scheduler::overtakes_left(const Sequence& s) const {
  const auto overtook = std::ranges::count_if(
      admitted_arrivals_, [&](std::uint64_t arrival) { return arrival > s.arrival; });
  return minus(options_.overtakes_max,
               in_.waiting->overtaken(s) + static_cast<std::uint32_t>(overtook));
}

// Of those that wait the first one counts.
void Scheduler::note_wait(WaitReason why) {
  if (out_.wait == WaitReason::kNone) out_.wait = why;
}

bool Scheduler::refuse(WaitReason why) {
  refusal_ = why;
  return false;
}

void Scheduler::admit_beside_running() {
  if (!short_of_blocks_) return admit_waiting();
  if (!in_.waiting->empty() || !out_.paused.empty()) note_wait(WaitReason::kNoBlocks);
}

void Scheduler::admit_waiting() {
  if (in_.waiting->empty()) return;
  if (rules_.closes_batches && batch_is_closed()) return note_wait(WaitReason::kPolicy);
  blocked_.clear();
  admitted_arrivals_.clear();
  bool counted = false;  // what only an admission asks for: a full batch has none
  for (const auto& [rank, s] : in_.waiting->in_order()) {
    if (prefill_budget_ < in_.cache->block_tokens()) return note_wait(WaitReason::kTokenBudget);
    if (!has_slot() && !outranks_running(*s)) return note_wait(WaitReason::kBatchFull);
    if (s->stalled || s->n_in_flight > 0) {
      note_wait(s->stalled ? WaitReason::kStalled : WaitReason::kInFlight);
      continue;
    }
    if (waits_for_sibling(*s)) {
      note_wait(WaitReason::kSharedPrefix);
      continue;
    }
    if (std::ranges::any_of(blocked_, [&](const Sequence* b) { return overtakes_left(*b) == 0; }))
      return;
    if (!std::exchange(counted, true)) count_for_admissions();
    if (admit(*s)) {
      admitted_arrivals_.push_back(s->arrival);
      continue;
    }
    note_wait(refusal_);
    if (short_of_blocks_ || blocked_.size() == kBlockedMax) return;
    blocked_.push_back(s);
  }
}

// Whether another sequence of the request computes their prompt, or will be the first to. It passes nobody's turn.
bool Scheduler::waits_for_sibling(const Sequence& s) const {
  if (s.siblings == nullptr || !in_.capabilities.moves || !rules_.waits_for_equal_blocks)
    return false;
  bool waits = false;
  for (const Sequence* r : s.siblings->open) {
    if (r->has_computed_prompt()) return false;
    waits |= r->state == SequenceState::kRunning ||
             (r->state != SequenceState::kEnding && r->index < s.index);
  }
  return waits;
}

// A running sibling that has computed more of the prompt than is found elsewhere.
Sequence* Scheduler::fork_source(const Sequence& s, std::uint32_t n_found) const {
  if (s.siblings == nullptr || !in_.capabilities.moves || s.shared_prompt() <= n_found)
    return nullptr;
  for (Sequence* r : s.siblings->open) {
    if (r->has_computed_prompt() && in_.cache->can_fork(r->lease, s.shared_prompt()) &&
        std::ranges::find(out_.paused, r) == out_.paused.end()) {
      return r;
    }
  }
  return nullptr;
}

// As if the cache had found it: blocks in use.
kvcache::PrefixProbe Scheduler::shared_with(const Sequence& source, std::uint32_t n_tokens) const {
  kvcache::PrefixProbe out{.n_blocks = n_tokens / in_.cache->block_tokens(),
                           .n_partial = n_tokens % in_.cache->block_tokens()};
  for (std::size_t g = 0; g < in_.cache->n_groups(); ++g)
    out.n_held.push_back(out.n_blocks - std::min(out.n_blocks, source.lease.n_released(g)));
  out.n_taken.resize(in_.cache->n_groups());
  out.n_copied.resize(in_.cache->n_groups());
  return out;
}

// Positions that `s` is expected to hold when it ends.
std::uint32_t Scheduler::expected_end(const Sequence& s) const {
  const std::uint32_t n_max = s.n_new_max;
  const std::uint32_t n_produced = s.n_produced() + s.n_pending;
  if (n_produced >= n_max) return s.context_end();
  return s.n_prompt + in_.forecast->total(n_produced, n_max) - 1;
}

FutureBlocks::Use Scheduler::future_of(const Sequence& s,
                                       std::size_t group,
                                       std::uint32_t n_blocks) const {
  const std::uint32_t end = s.wants_row() ? std::max(expected_end(s), s.context_end()) : 0;
  const std::uint32_t freed =
      s.lease ? in_.cache->reclaimable(s.lease, group) + n_blocks - s.lease.n_blocks() : n_blocks;
  return {.n_steps = minus(end, s.context_end()),
          .n_tokens = s.context_end(),
          .n_blocks = n_blocks,
          .n_freed = freed};
}

// Once a plan, and only where somebody could be admitted.
void Scheduler::foresee_running() {
  if (foreseen_) return;
  foreseen_ = true;
  futures_.assign(in_.cache->n_groups(), FutureBlocks(in_.cache->block_tokens()));
  for (std::size_t g = 0; g < futures_.size(); ++g) {
    if (in_.cache->window_tokens(g) > 0) continue;
    for (std::size_t i = 0; i < in_.running.size(); ++i) {
      if (!is_paused(i)) futures_[g].add(future_of(*in_.running[i], g, blocks_after_[i]));
    }
    for (const PlannedRow& row : out_.rows) {
      if (row.admitted) futures_[g].add(future_of(*row.sequence, g, row.n_blocks));
    }
    futures_[g].sort();
  }
}

// Beyond what they hold after this plan, and none of what they give back.
std::uint32_t Scheduler::promised_blocks() {
  if (promised_) return *promised_;
  promised_ = 0;
  const auto add = [&](const Sequence& s, std::uint32_t n_blocks) {
    *promised_ += minus(in_.cache->blocks_for(s.tokens_max()), n_blocks);
  };
  for (std::size_t i = 0; i < in_.running.size(); ++i) {
    if (!is_paused(i)) add(*in_.running[i], blocks_after_[i]);
  }
  for (const PlannedRow& row : out_.rows) {
    if (row.admitted) add(*row.sequence, row.n_blocks);
  }
  return *promised_;
}

// Whether nothing needs to be foreseen: `s` and all that run may take all that they asked for.
bool Scheduler::has_room_for_all(const Sequence& s,
                                 std::uint32_t n_blocks,
                                 const std::vector<std::uint32_t>& taken) {
  const std::uint32_t n =
      promised_blocks() + minus(in_.cache->blocks_for(s.tokens_max()), n_blocks);
  for (std::size_t g = 0; g < taken.size(); ++g) {
    if (in_.cache->window_tokens(g) == 0 && n > available_[g] - taken[g]) return false;
  }
  return true;
}

// Whether all that run, and `s`, find the blocks that they are expected to take until they end. Adds `s`. Alone it may
// begin in any case.
bool Scheduler::foresees_room(const Sequence& s,
                              std::uint32_t n_blocks,
                              const std::vector<std::uint32_t>& taken) {
  foresee_running();
  bool fits = true;
  for (std::size_t g = 0; g < futures_.size(); ++g) {
    if (in_.cache->window_tokens(g) > 0) continue;
    const FutureBlocks::Use use = future_of(s, g, n_blocks);
    const bool alone = futures_[g].empty();
    futures_[g].insert(use);
    if (alone || futures_[g].peak() <= available_[g] - taken[g]) continue;
    fits = false;
  }
  if (fits) return true;
  for (std::size_t g = 0; g < futures_.size(); ++g) {
    if (in_.cache->window_tokens(g) == 0) futures_[g].erase(future_of(s, g, n_blocks));
  }
  return false;
}

// Plans the first row of `s` if everything it needs is there. A request that only waits for a block
// being computed counts as not fitting, so it is overtaken no more often than any other.
bool Scheduler::admit(Sequence& s) {
  const bool use_prefix = !s.request.prompt_logprobs || s.prompt_complete();
  kvcache::PrefixProbe prefix =
      use_prefix ? in_.cache->probe(s.identity, s.tokens, s.prefix_memo) : kvcache::PrefixProbe{};
  if (prefix.next_key != 0 && std::ranges::find(computing_, prefix.next_key) != computing_.end())
    return refuse(WaitReason::kSharedPrefix);
  const std::uint32_t n_found = prefix.n_blocks * in_.cache->block_tokens() + prefix.n_partial;
  if (Sequence* source = fork_source(s, n_found); source != nullptr) {
    if (!admit_behind(s, shared_with(*source, s.shared_prompt()))) return false;
    out_.rows.back().fork_of = source;
    return true;
  }
  if (prefix.n_partial > 0 && admit_behind(s, prefix)) return true;
  prefix.n_partial = 0;  // the block and what is copied into it may not fit at once
  prefix.n_copied.clear();
  return admit_behind(s, prefix);
}

// `prefix` is what the cache gives, or less.
bool Scheduler::admit_behind(Sequence& s, const kvcache::PrefixProbe& prefix) {
  const std::uint32_t block = in_.cache->block_tokens();
  const std::uint32_t first = prefix.n_blocks * block + prefix.n_partial;
  const std::uint32_t n_tokens = prefill_chunk(s, first, n_prefills_);
  if (n_tokens == 0) return refuse(WaitReason::kTokenBudget);
  const std::uint32_t end = first + n_tokens;
  const std::uint32_t n_blocks = in_.capabilities.grows_blocks
                                     ? in_.cache->blocks_for(end)
                                     : in_.cache->blocks_for(s.tokens_max());
  std::vector<std::uint32_t> need(available_.size());   // beyond what is in use: now and later
  std::vector<std::uint32_t> taken(available_.size());  // of these, now
  for (std::size_t g = 0; g < need.size(); ++g) {
    const bool hit = prefix.n_blocks > 0;
    const std::uint32_t pinned =
        (hit ? prefix.n_taken[g] : 0) + (prefix.n_partial > 0 ? prefix.n_copied[g] : 0);
    taken[g] = n_blocks - prefix.n_blocks + pinned;
    need[g] =
        pinned +
        reserved_blocks(
            s, g, first, {.n_entries = prefix.n_blocks, .n_blocks = hit ? prefix.n_held[g] : 0});
  }
  const auto fits = [&] {
    for (std::size_t g = 0; g < need.size(); ++g) {
      if (need[g] + outstanding_[g] > available_[g]) return false;
    }
    return has_slot();
  };
  if (!fits() && prefix.n_partial > 0) return false;
  const bool goes_first = rules_.foresees_lengths && outranks_running(s);
  if (!fits() && !(preempt_for(s, need) && fits()))
    return refuse(has_slot() ? WaitReason::kNoBlocks : WaitReason::kBatchFull);

  if (rules_.foresees_lengths) {
    const bool room = has_room_for_all(s, n_blocks, taken);
    const bool foreseen = !room && foresees_room(s, n_blocks, taken);
    if (!room && !foreseen && !goes_first) return refuse(WaitReason::kPolicy);
    foreseen_ &= foreseen;  // who is let in without is looked at with the others, if anybody is
    promised_.reset();
  }

  for (std::size_t g = 0; g < need.size(); ++g) {
    available_[g] -= taken[g];
    outstanding_[g] += minus(need[g], taken[g]);
  }
  out_.rows.push_back({.sequence = &s,
                       .first_position = first,
                       .n_tokens = n_tokens,
                       .n_blocks = n_blocks,
                       .prefill = true,
                       .admitted = true,
                       .sample = end == s.context_end()});
  prefill_budget_ = minus(prefill_budget_, n_tokens);
  ++n_prefills_;
  ++n_running_;
  const std::uint32_t next_end = (prefix.n_blocks + 1) * block;
  if (prefix.next_key != 0 && rules_.waits_for_equal_blocks && end >= next_end &&
      next_end <= s.publish_end())
    computing_.push_back(prefix.next_key);
  return true;
}

// Whether running[index] may be paused in favour of `s`: its client does not read, or its priority is lower.
bool Scheduler::gives_way(std::size_t index, const Sequence& s) const {
  const Sequence& r = *in_.running[index];
  if (is_paused(index) || !r.wants_row()) return false;
  return r.stalled ||
         (r.request.priority < s.request.priority && r.overtaken < options_.overtakes_max);
}

bool Scheduler::outranks_running(const Sequence& s) const {
  if (rules_.reserves_answers || in_.running.empty()) return false;
  // In order of priority: the last ones are the first to give way.
  if (n_stalled_ == 0 && in_.running.back()->request.priority >= s.request.priority) return false;
  for (std::size_t j = in_.running.size(); j-- > 0;) {
    if (gives_way(j, s)) return true;
  }
  return false;
}

// Pauses running sequences if that makes room for `s`, those whose clients do not read first. True if any was paused.
bool Scheduler::preempt_for(const Sequence& s, const std::vector<std::uint32_t>& need) {
  if (!outranks_running(s)) return false;
  std::vector<std::size_t> victims;
  std::vector<std::uint32_t> room = available_;
  const auto enough = [&] {
    for (std::size_t g = 0; g < need.size(); ++g) {
      if (need[g] + outstanding_[g] > room[g]) return false;
    }
    return n_running_ < batch_size_max() + victims.size();
  };
  for (const bool stalled : {true, false}) {
    for (std::size_t j = in_.running.size(); j-- > 0 && !enough();) {
      const Sequence& r = *in_.running[j];
      if (r.stalled != stalled || !gives_way(j, s)) continue;
      for (std::size_t g = 0; g < room.size(); ++g) {
        room[g] += in_.cache->reclaimable(r.lease, g) + blocks_after_[j] - r.lease.n_blocks();
      }
      victims.push_back(j);
    }
  }
  if (victims.empty() || !enough()) return false;
  for (const std::size_t j : victims) {
    Sequence& r = *in_.running[j];
    unplan(r);
    for (std::size_t g = 0; g < outstanding_.size(); ++g) outstanding_[g] -= reserved_running(j, g);
    pause(j);
  }
  return true;
}

// TGI's rule for runners that cannot plan chunks: prompts that hold up every running request come together, until too
// many tokens were computed without any.
bool Scheduler::enough_to_interrupt() const {
  if (in_.running.empty() || in_.waiting_tokens >= options_.waiting_tokens_max) return true;
  const auto n_admitted =
      std::ranges::count_if(out_.rows, [](const PlannedRow& row) { return row.admitted; });
  const float n_wanted = static_cast<float>(in_.running.size()) * options_.waiting_served_ratio;
  return static_cast<float>(n_admitted) >= std::trunc(n_wanted);
}

void Scheduler::drop_admissions() {
  if (std::erase_if(out_.rows, [](const PlannedRow& row) { return row.admitted; }) > 0)
    out_.wait = WaitReason::kPolicy;
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
